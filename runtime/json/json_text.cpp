#include "runtime/json/json_text.h"

#include <algorithm>
#include <optional>
#include <string>

#include "fusion_ir/text_position.h"

namespace sinter {
namespace {

/// The byte at which arrays and objects nest too deep, if they do. Text that is no JSON may give
/// any answer.
std::optional<size_t> too_deep_at(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && in_string) {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kDeepestJson) return i;
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, std::string_view remedy) {
  const auto refuse = [&](std::string message) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = std::move(message),
                 .remedy = std::string(remedy)});
  };
  const auto refuse_at = [&](size_t byte, std::string_view how) {
    const std::string_view before = text.substr(0, byte);
    const size_t line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    return refuse(message_at(line, column, fmt::format("{} {}", what, how)));
  };
  if (const auto byte = too_deep_at(text))
    return refuse_at(*byte, fmt::format("nest more than {} levels deep", kDeepestJson));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return refuse_at(error.byte == 0 ? 0 : error.byte - 1, "are no JSON");
  } catch (const Json::exception& error) {
    // A number that no double holds, say.
    return refuse(fmt::format("{} cannot be read: {}", what, error.what()));
  }
}

}  // namespace sinter
