#include "fusion_ir/passes/recognize_welford.h"

#include <utility>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

const ReduceOp* as_sum(const Fusion& fusion, ValueId value) {
  const auto* reduce = fusion.def_as<ReduceOp>(value);
  return reduce != nullptr && reduce->fn == ReduceFn::kSum ? reduce : nullptr;
}

/// Number of elements along the axes, if it is known and not 0.
std::optional<int64_t> known_count(const Shape& shape, std::span<const int> axes) {
  Sizes sizes;
  for (const int axis : axes) {
    const Extent& extent = shape[static_cast<size_t>(axis)];
    if (!extent.is_constant() || extent.constant() == 0) return std::nullopt;
    sizes.push_back(extent.constant());
  }
  return element_count(sizes);
}

/// The sum that `mean` divides by its own number of elements.
std::optional<ValueId> match_mean(const Fusion& fusion, ValueId mean) {
  // The mean of one element is its sum; algebra has dropped the division by 1.
  if (const auto* sum = as_sum(fusion, mean)) {
    const Shape& shape = fusion.values[fusion.def_of(mean).operands.front()].shape;
    const auto is_one = [&](int axis) { return shape[static_cast<size_t>(axis)].is_one(); };
    if (std::ranges::all_of(sum->axes, is_one)) return mean;
  }
  const auto quotient = operands_of(fusion, mean, PointwiseFn::kDiv);
  const auto product = operands_of(fusion, mean, PointwiseFn::kMul);
  if (quotient.empty() && product.empty()) return std::nullopt;
  const bool divides = !quotient.empty();
  const auto operands = divides ? quotient : product;
  const DType type = fusion.values[mean].type;
  for (size_t i = 0; i < (divides ? 1U : 2U); ++i) {
    const auto* sum = as_sum(fusion, operands[i]);
    if (sum == nullptr || !is_float(type)) continue;
    const ValueId x = fusion.def_of(operands[i]).operands.front();
    const auto count = known_count(fusion.values[x].shape, sum->axes);
    if (!count) continue;
    const auto n = static_cast<double>(*count);
    const double factor = round_to(type, divides ? n : 1.0 / n);
    if (is_splat_of(fusion, operands[1 - i], factor)) return operands[i];
  }
  return std::nullopt;
}

struct Deviations {
  ValueId mean;
  ValueId m2;
};

/// `m2` is sum(d * d) with d = x - broadcast(mean), or its negative, and mean is that of x over the
/// same axes.
std::optional<Deviations> match_deviations(const Fusion& fusion, ValueId m2) {
  const auto* reduce = as_sum(fusion, m2);
  if (reduce == nullptr) return std::nullopt;
  const auto square = operands_of(fusion, fusion.def_of(m2).operands.front(), PointwiseFn::kMul);
  if (square.empty() || square[0] != square[1]) return std::nullopt;
  const auto difference = operands_of(fusion, square[0], PointwiseFn::kSub);
  if (difference.empty()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = difference[1 - i];
    if (fusion.def_as<BroadcastOp>(difference[i]) == nullptr) continue;
    const ValueId mean = fusion.def_of(difference[i]).operands.front();
    const auto sum = match_mean(fusion, mean);
    if (!sum || fusion.def_of(*sum).operands.front() != x) continue;
    if (reduced_axes(fusion.def_of(*sum).kind) != reduce->axes) continue;
    if (!broadcasts_over(fusion, difference[i], mean, reduce->axes)) continue;
    return Deviations{.mean = mean, .m2 = m2};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fusion> recognize_welford(const Fusion& fusion) {
  // By mean: the sum it divides. By m2: its mean. The pair stands where the mean stood, before m2.
  IdMap<ValueId, ValueId> sum_of(fusion.values.size());
  IdMap<ValueId, ValueId> mean_of(fusion.values.size());
  for (const ValueId value : fusion.value_ids()) {
    if (const auto found = match_deviations(fusion, value)) {
      sum_of[found->mean] = *match_mean(fusion, found->mean);
      mean_of[found->m2] = found->mean;
    }
  }
  IdMap<ValueId, ValueId> m2_of_pair(fusion.values.size());  // By mean; ids of the new graph.
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId>) -> std::optional<std::vector<ValueId>> {
                   const ValueId result = fusion.ops[id].results.front();
                   if (const ValueId sum = std::as_const(sum_of)[result]; sum.valid()) {
                     const Op& sum_op = fusion.def_of(sum);
                     const ValueId x = rewriter.mapped(sum_op.operands.front());
                     const auto pair = rewriter.append(WelfordOp{reduced_axes(sum_op.kind)}, {x});
                     m2_of_pair[result] = pair[1];
                     return std::vector{pair[0]};
                   }
                   const ValueId mean = std::as_const(mean_of)[result];
                   if (!mean.valid()) return std::nullopt;
                   return std::vector{std::as_const(m2_of_pair)[mean]};
                 });
}

}  // namespace sinter
