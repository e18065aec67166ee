#include "scheduler/program/operand_map.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/analysis/joined_loops.h"
#include "scheduler/program/shared_layout.h"

namespace sinter::program {
namespace {

/// Alignment of the address and of all strides but the innermost.
constexpr int64_t kMapUnit = 16;
constexpr int64_t kMostStrideBytes = (int64_t{1} << 40) - 1;
/// Coordinates of a copy are i32, and reach one box past the end.
constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max() - kLargestBox;

class MapBuilder {
 public:
  MapBuilder(const SegmentFacts& facts, bool of_rows, std::string_view family)
      : facts_(facts),
        contraction_(*facts.space.contraction),
        operand_(of_rows ? contraction_.rows : contraction_.columns),
        family_(family),
        of_rows_(of_rows),
        sizes_(facts.space.loop_sizes()) {}

  tl::expected<OperandMap, Rejection> run() {
    const size_t batches = contraction_.batch_dimensions;
    const size_t rows = facts_.space.row_dimensions;
    const size_t loops = facts_.space.dimensions.size();
    using enum MapLoop::Of;
    const auto contracted = join(kContracted, loops, loops + contraction_.sizes.size());
    const auto own = of_rows_ ? join(kOwn, batches, rows) : join(kOwn, rows, loops);
    const auto batch = join(kBatch, 0, batches);
    if (!contracted || !own || !batch)
      return refused("loops of an operand do not join to one axis of a tensor map", 0, 0, "");
    OperandMap map;
    if (contracted->size > 1 && contracted->stride == 1) {
      map.axes = {*contracted, *own};
    } else if (own->stride == 1 && operand_.element_bytes == 2) {
      map.axes = {*own, *contracted};
    } else {
      return refused("no axis of an operand has adjacent elements that a product can take",
                     contracted->stride, 1, "elements apart");
    }
    if (batch->size > 1 && batch->stride != 0) map.axes.push_back(*batch);
    if (auto wrong = check_address()) return tl::make_unexpected(std::move(*wrong));
    for (size_t i = 0; i < map.axes.size(); ++i) {
      MapLoop& axis = map.axes[i];
      if (axis.size < 1 || axis.size > kMostSize)
        return refused("an axis of a tensor map is empty or too long", axis.size, kMostSize,
                       "elements");
      if (i == 0) continue;
      // The stride of one index is never walked.
      if (axis.size == 1) axis.stride = kMapUnit / operand_.element_bytes;
      const int64_t bytes = axis.stride * operand_.element_bytes;
      if (axis.stride < 1 || bytes % kMapUnit != 0 || bytes > kMostStrideBytes)
        return refused("a stride of a tensor map is a multiple of 16 bytes", bytes, kMapUnit,
                       "bytes");
    }
    return map;
  }

 private:
  [[nodiscard]] std::optional<MapLoop> join(MapLoop::Of of, size_t begin, size_t end) const {
    const auto joined = join_loops(std::span(sizes_).subspan(begin, end - begin),
                                   std::span(operand_.strides).subspan(begin, end - begin));
    if (!joined) return std::nullopt;
    return MapLoop{.of = of, .size = joined->size, .stride = joined->stride};
  }

  [[nodiscard]] std::optional<Rejection> check_address() const {
    const int64_t start = operand_.offset * operand_.element_bytes;
    if (operand_.alignment % kMapUnit == 0 && start % kMapUnit == 0) return std::nullopt;
    return refused("a tensor map begins at a multiple of 16 bytes",
                   operand_.alignment % kMapUnit == 0 ? start : operand_.alignment, kMapUnit,
                   "bytes")
        .value();
  }

  [[nodiscard]] tl::unexpected<Rejection> refused(std::string rule, int64_t value, int64_t limit,
                                                  std::string unit) const {
    return tl::make_unexpected(
        Rejection{.subject = std::string(family_),
                  .rule = std::move(rule),
                  .value = static_cast<double>(value),
                  .limit = static_cast<double>(limit),
                  .unit = std::move(unit),
                  .at = operand_.value,
                  .remedy = "none needed: products of warps copy the operand otherwise"});
  }

  const SegmentFacts& facts_;
  const ContractedSpace& contraction_;
  const TensorAccess& operand_;
  std::string_view family_;
  bool of_rows_;
  std::vector<int64_t> sizes_;
};

}  // namespace

tl::expected<OperandMap, Rejection> operand_map(const SegmentFacts& facts, bool of_rows,
                                                std::string_view family) {
  return MapBuilder(facts, of_rows, family).run();
}

}  // namespace sinter::program
