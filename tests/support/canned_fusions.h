#pragma once

#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A fusion with a name, for tests, benchmarks, tools and documentation. Two-dimensional ones name
/// their extents `rows` and `cols`, so that a test can bind any widths.
struct CannedFusion {
  std::string name;
  std::function<Fusion()> build;
  ExtentValues small;  ///< A size an interpreter runs in well under a second.
  ExtentValues large;  ///< A size worth measuring on a GPU.
  std::string covers;  ///< What it is there for, in a few words.

  /// Names it in the output of parameterised tests.
  friend void PrintTo(const CannedFusion& fusion, std::ostream* out) { *out << fusion.name; }
};

/// All of them, in a fixed order, smallest first within a group.
std::span<const CannedFusion> canned_fusions();
/// Null if there is none of that name.
const CannedFusion* find_canned_fusion(std::string_view name);

}  // namespace sinter
