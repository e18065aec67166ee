#include "scheduler/report/markup.h"

#include <algorithm>

namespace sinter {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the UTF-8 character at the start of a text; 0 if there is no well-formed one.
/// Surrogates and overlong forms are not well-formed (RFC 3629, section 4).
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  const bool is_overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool is_none = (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  return is_overlong || is_none ? 0 : bytes;
}

/// Calls body with each character; those that a document may not contain are replaced.
template <class Body>
void for_each_character(std::string_view text, Body body) {
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(bytes, 1));
    // U+FFFE and U+FFFF are not XML characters.
    const bool is_none = bytes == 0 || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF";
    const auto first = static_cast<unsigned char>(character.front());
    const bool is_control = first < ' ' || first == 0x7F;
    body(is_none ? kReplacement : is_control ? std::string_view(" ") : character);
    text.remove_prefix(character.size());
  }
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view character) {
    if (character == "&") {
      out += "&amp;";
    } else if (character == "<") {
      out += "&lt;";
    } else if (character == ">") {
      out += "&gt;";
    } else if (character == "\"") {
      out += "&quot;";
    } else {
      out += character;
    }
  });
  return out;
}

std::string dot_escaped(std::string_view text) {
  std::string out;
  for_each_character(text, [&](std::string_view character) {
    if (character == "\"" || character == "\\") out += '\\';
    out += character;
  });
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  std::string out;
  std::string head;
  size_t count = 0;
  for_each_character(text, [&](std::string_view character) {
    ++count;
    if (count < most) head += character;
    out += character;
  });
  return count <= most ? out : head + "\xE2\x80\xA6";
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for_each_character(text, [&](std::string_view) { ++count; });
  return count;
}

}  // namespace sinter
