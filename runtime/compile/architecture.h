#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "fusion_ir/result.h"

namespace sinter {

/// The GPU generation a kernel is compiled for: sm_80, sm_90a. The suffix 'a' opens the
/// instructions of exactly that generation (wgmma, setmaxnreg on 9.0), and code with it runs there
/// only.
struct Architecture {
  int major = 8;
  int minor = 0;
  bool specific = false;  ///< The suffix 'a'.

  /// Reads "sm_80", "sm_103a". kInvalidArgument if it is not of that form, kUnsupported below
  /// sm_80, which lacks bf16 arithmetic and asynchronous copies.
  static Result<Architecture> parse(std::string_view name);

  [[nodiscard]] std::string name() const;

  friend auto operator<=>(const Architecture&, const Architecture&) = default;
};

}  // namespace sinter
