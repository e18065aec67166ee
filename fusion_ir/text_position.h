#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fusion_ir/error.h"

namespace sinter {

// Where in a text a mistake is. The message of such an error begins with it, in the form that
// compilers use ("norm.fir:3:12: ", without a file "3:12: "), and Error::json() repeats it as
// "file", "line" and "column". What writes the form and what reads it stand in one file.

struct TextPosition {
  std::string_view file{};  ///< As the caller named it; empty for text that came from no file.
  size_t line = 0;          ///< From 1.
  size_t column = 0;        ///< In bytes, from 1.
  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

/// A message about a place in a text.
std::string message_at(size_t line, size_t column, std::string_view message);

/// Where in a text the error is; nothing of errors about something else. The view is of the
/// error's message.
std::optional<TextPosition> position_of(const Error& error);

/// The error of a text that was read from a file. Errors about something else, and those that name
/// a file already, stay as they are.
Error in_file(Error error, std::string_view file);

}  // namespace sinter
