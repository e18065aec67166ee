#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "runtime/execute/tensor.h"

namespace sinter {

/// Sizes of a symbol, both ends among them. Only multiples of what the symbol promises to be
/// divisible by are meant.
struct ExtentRange {
  int64_t least = 0;
  int64_t most = 0;
  [[nodiscard]] bool has(int64_t size) const { return least <= size && size <= most; }
  friend bool operator==(const ExtentRange&, const ExtentRange&) = default;
};

/// Ranges of a fusion's symbols, by name.
using ExtentRanges = std::map<std::string, ExtentRange, std::less<>>;

/// A range for every symbol, indexed by its id: that of `ranges`, or else the one size that `fixed`
/// or the symbol's hint gives it. Errors (InvalidArgument): a name the fusion does not have or that
/// is in both, a range that is empty, negative or ends at a size that breaks a promised
/// divisibility, a symbol with neither range, size nor hint.
Result<std::vector<ExtentRange>> resolve_ranges(const Fusion& fusion, const ExtentRanges& ranges,
                                                const ExtentValues& fixed);

/// The size of every symbol, indexed by its id; one that has a single size may be left out. Errors
/// (InvalidArgument): a name the fusion does not have, a symbol left out, a size outside its range.
Result<Sizes> sizes_in_ranges(const Fusion& fusion, std::span<const ExtentRange> ranges,
                              const ExtentValues& extents);

/// The same read off tensors, in the order of the fusion's inputs and outputs, into `sizes`.
/// Allocates nothing. Errors (InvalidArgument): another number of tensors or axes, a size that
/// contradicts a constant or another axis of the same symbol, one outside its range, a symbol with
/// more than one size that no tensor has along an axis.
Result<void> sizes_of_tensors(const Fusion& fusion, std::span<const ExtentRange> ranges,
                              std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                              std::span<int64_t> sizes);

/// Sizes by the names of their symbols.
ExtentValues named_sizes(const Fusion& fusion, std::span<const int64_t> sizes);
/// "rows=8, cols=64"; "no symbols" for a fusion without them.
std::string text_of_sizes(const Fusion& fusion, std::span<const int64_t> sizes);

}  // namespace sinter
