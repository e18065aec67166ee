#include "runtime/compile/architecture.h"

#include <charconv>

namespace sinter {

Result<Architecture> Architecture::parse(std::string_view name) {
  constexpr std::string_view kPrefix = "sm_";
  const Error malformed = {.kind = ErrorKind::kInvalidArgument,
                           .message = fmt::format("'{}' is not an architecture", name),
                           .remedy = "name one like sm_80, sm_90a or sm_120a"};
  if (!name.starts_with(kPrefix)) return fail(malformed);
  std::string_view digits = name.substr(kPrefix.size());
  const bool specific = digits.ends_with('a');
  if (specific) digits.remove_suffix(1);

  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < 10) {
    return fail(malformed);
  }
  // The last digit is the minor revision: sm_103 is 10.3.
  if (number < 80) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("architecture {} is older than sm_80", name),
                 .remedy = "use a device of compute capability 8.0 or later"});
  }
  return Architecture{.major = number / 10, .minor = number % 10, .specific = specific};
}

std::string Architecture::name() const {
  return fmt::format("sm_{}{}{}", major, minor, specific ? "a" : "");
}

}  // namespace sinter
