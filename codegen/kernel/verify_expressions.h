#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel_verifier.h"

namespace sinter {

/// The part of verify_kernel that concerns the types of expressions. Ids are in range.
void verify_expressions(const kir::Kernel& kernel, std::vector<KernelViolation>* violations);

/// Values that a tile index takes while the unrolled loops around it run.
struct TileIndexRange {
  bool constant = true;  ///< False: the index depends on more than unrolled loops.
  int64_t low = 0, high = 0;
  uint64_t common_divisor = 0;  ///< Greatest common divisor of all values; 0 if all are 0.
  /// `width` is positive.
  [[nodiscard]] bool is_multiple_of(int64_t width) const {
    return common_divisor % static_cast<uint64_t>(width) == 0;
  }
};

/// Finds those ranges by trying every iteration, up to 65536 of them per index.
class TileIndexRanges {
 public:
  explicit TileIndexRanges(const kir::Kernel& kernel) : kernel_(kernel) {}

  /// Records an unrolled loop; false if its bounds and step are not constants.
  bool enter(const kir::For& loop);
  [[nodiscard]] TileIndexRange of(kir::ExprId index) const;

 private:
  struct Iterations {
    int64_t begin = 0, end = 0, step = 0;  ///< Step 0: not an unrolled loop's index.
  };
  /// A loop that an index depends on, and its variable's value in the current iteration. An index
  /// depends on few loops, so they are searched linearly; a table by variable would be as long as
  /// the kernel.
  struct LoopValue {
    kir::VarId variable;
    int64_t value = 0;
  };
  [[nodiscard]] bool collect(kir::ExprId id, std::vector<LoopValue>* loops) const;
  [[nodiscard]] int64_t value(kir::ExprId id, std::span<const LoopValue> loops) const;

  const kir::Kernel& kernel_;
  IdMap<kir::VarId, Iterations> loops_;
};

}  // namespace sinter
