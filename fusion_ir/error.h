#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"

namespace sinter {

/// Whose fault a failure is, and so who can mend it.
enum class ErrorKind : uint8_t {
  kInvalidFusion,      ///< The graph, or text that describes one, is wrong.
  kInvalidArgument,    ///< A call got an argument that contradicts the graph or the plan.
  kUnsupported,        ///< The graph is right, but Sinter does not handle it.
  kResourceExhausted,  ///< A budget is exceeded: registers, shared memory, workspace, disk.
  kDeviceError,        ///< The driver or NVRTC failed, or is missing; carries its log.
  kInternalError,      ///< A defect in Sinter.
  kCancelled,          ///< A function of the caller's ended the work.
};

std::string_view name_of(ErrorKind kind);

/// A failure as data: what is wrong, where, by how much, and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::kInternalError;
  std::string message{};              ///< One sentence, with the measured values in it.
  std::string remedy{};               ///< What the caller can do; empty if nothing is known.
  std::vector<ValueId> values{};      ///< The graph values concerned.
  std::vector<OpId> ops{};            ///< The graph ops concerned.
  std::optional<int64_t> measured{};  ///< The value that broke the limit, in the limit's unit.
  std::optional<int64_t> limit{};     ///< The limit itself.
  std::string log{};                  ///< Text of the compiler or driver, if it had any.

  /// "InvalidFusion: message [%v3] (got 9, limit 8). Remedy: ..." on one line, then the log if
  /// there is one.
  [[nodiscard]] std::string text() const;
  /// The same as a JSON object, for tools and the C ABI.
  [[nodiscard]] std::string json() const;

  friend bool operator==(const Error&, const Error&) = default;
};

/// A failure that no other way mends, and that must not be taken for a refusal: a defect, or the
/// end that a caller's function put to the work.
bool ends_the_work(const Error& error);

/// The exception form of an Error. Thrown by the builder and by entry points whose misuse is a
/// programming mistake; everything that can fail in normal operation returns a Result instead.
class SinterException : public std::exception {
 public:
  explicit SinterException(Error error) : error_(std::move(error)), text_(error_.text()) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
  std::string text_;
};

[[noreturn]] void throw_error(Error error);
/// ResourceExhausted: this process gets no more memory.
Error no_host_memory();
[[noreturn]] void throw_internal(std::string_view condition, std::string_view message,
                                 std::source_location where);

/// Marks a place that exhaustive handling makes unreachable.
[[noreturn]] inline void unreachable(std::source_location where = std::source_location::current()) {
  throw_internal("unreachable", "", where);
}

}  // namespace sinter

/// Checks an invariant of Sinter itself, in every build type. The message is formatted only on
/// failure.
#define SINTER_CHECK(condition, ...)                                      \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::sinter::throw_internal(#condition, ::fmt::format("" __VA_ARGS__), \
                               std::source_location::current());          \
  } while (false)

/// Checks a comparison and shows both operands when it fails.
#define SINTER_CHECK_OP(a, op, b)                                                               \
  do {                                                                                          \
    const auto& sinter_left_ = (a);                                                             \
    const auto& sinter_right_ = (b);                                                            \
    if (!(sinter_left_ op sinter_right_)) [[unlikely]]                                          \
      ::sinter::throw_internal(#a " " #op " " #b,                                               \
                               ::fmt::format("left {}, right {}", sinter_left_, sinter_right_), \
                               std::source_location::current());                                \
  } while (false)
