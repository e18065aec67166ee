#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "fusion_ir/result.h"

namespace sinter {

/// All a test expects of an error. `text` is a part of the message; the other fields are exact, so
/// that what is left empty must be absent.
struct ExpectedError {
  ErrorKind kind = ErrorKind::kInternalError;
  std::string text{};
  std::vector<ValueId> values{};
  std::vector<OpId> ops{};
  std::optional<int64_t> measured{};
  std::optional<int64_t> limit{};
};

/// Expects the error, a remedy, and a JSON form that parses and keeps every field.
void expect_error(const Error& error, const ExpectedError& expected,
                  std::source_location where = std::source_location::current());

/// The same of a call that returns a Result.
template <class T>
void expect_error(const Result<T>& result, const ExpectedError& expected,
                  std::source_location where = std::source_location::current()) {
  expect_error(result ? Error{.message = "(success)"} : result.error(), expected, where);
}

/// Runs a call that throws a SinterException, and nothing else, and gives back its error.
template <class Call>
Error thrown_by(Call call) {
  try {
    call();
  } catch (const SinterException& exception) {
    return exception.error();
  }
  return {.message = "(nothing was thrown)"};
}

}  // namespace sinter
