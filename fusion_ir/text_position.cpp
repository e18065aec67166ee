#include "fusion_ir/text_position.h"

#include <charconv>

namespace sinter {
namespace {

/// A number from 1 that stands at the beginning of a text with a colon behind it; takes both off.
std::optional<size_t> take_number(std::string_view& text) {
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(end - text.data());
  if (code != std::errc() || value == 0 || length == text.size() || *end != ':')
    return std::nullopt;
  text.remove_prefix(length + 1);
  return value;
}

/// "3:12: " at the beginning of a text.
std::optional<TextPosition> numbers_of(std::string_view text) {
  const auto line = take_number(text);
  if (!line) return std::nullopt;
  const auto column = take_number(text);
  if (!column || !text.starts_with(' ')) return std::nullopt;
  return TextPosition{.line = *line, .column = *column};
}

}  // namespace

std::string message_at(size_t line, size_t column, std::string_view message) {
  return fmt::format("{}:{}: {}", line, column, message);
}

std::optional<TextPosition> position_of(const Error& error) {
  // Logs of compilers and drivers have positions too, which are not in the caller's text.
  if (error.kind != ErrorKind::kInvalidFusion && error.kind != ErrorKind::kInvalidArgument)
    return std::nullopt;
  const std::string_view message = error.message;
  if (auto found = numbers_of(message)) return found;
  for (size_t colon = message.find(':'); colon != std::string_view::npos;
       colon = message.find(':', colon + 1)) {
    // A quoted name ends what can be a file's: it is what a message says.
    const std::string_view file = message.substr(0, colon);
    if (file.empty() || file.find('\'') != std::string_view::npos) return std::nullopt;
    if (auto found = numbers_of(message.substr(colon + 1))) {
      found->file = file;
      return found;
    }
  }
  return std::nullopt;
}

Error in_file(Error error, std::string_view file) {
  const auto position = position_of(error);
  if (position && position->file.empty()) error.message = fmt::format("{}:{}", file, error.message);
  return error;
}

}  // namespace sinter
