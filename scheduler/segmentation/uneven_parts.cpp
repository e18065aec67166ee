#include "scheduler/segmentation/uneven_parts.h"

#include <algorithm>
#include <optional>
#include <span>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/partial_results.h"
#include "scheduler/segmentation/row_parts.h"

namespace sinter {
namespace {

bool divides(int64_t length, const PartRange& wanted) {
  for (int64_t parts = wanted.fewest; parts <= wanted.most; ++parts) {
    if (length % parts == 0) return true;
  }
  return false;
}

std::optional<UnevenAxis> uneven_axis(const Fusion& fusion, OpId id, const DeviceLimits& limits) {
  const Op& op = fusion.ops[id];
  if (!is_reduction(op.kind) || reduced_axes(op.kind).size() != 1) return std::nullopt;
  const int axis = reduced_axes(op.kind).front();
  const Sizes sizes = Binding{}.sizes_of(fusion.values[op.operands[0]].shape);
  const auto at = std::span(sizes).subspan(static_cast<size_t>(axis));
  const int64_t behind = element_count(Sizes(at.begin() + 1, at.end()));
  const int64_t before = element_count(Sizes(sizes.begin(), sizes.begin() + axis));
  UnevenAxis out{.reduction = id, .axis = axis, .length = at.front()};
  const PartRange wanted = wanted_parts(before, out.length, behind, limits);
  if (wanted.fewest < 2 || divides(out.length, wanted)) return std::nullopt;
  // The remainder is shorter than one vector per part, so fewer parts leave less of it.
  out.parts = wanted.fewest;
  out.part_length = out.length / out.parts / kWholeVector * kWholeVector;
  return out;
}

/// Elements `from` to `to` of an axis.
ValueId part_of(FusionBuilder& b, ValueId x, int axis, int64_t from, int64_t to) {
  const size_t rank = b.fusion().values[x].shape.size();
  std::vector<int64_t> start(rank, 0);
  std::vector<int64_t> stop(rank, -1);  // Whole axes stay what they are, Extent::bound() too.
  start[static_cast<size_t>(axis)] = from;
  stop[static_cast<size_t>(axis)] = to;
  return b.slice(x, std::move(start), std::move(stop));
}

/// Moves the axis of the parts to the end, along which elements can be gathered.
ValueId with_parts_last(FusionBuilder& b, ValueId x, int axis) {
  std::vector<int> order;
  for (int i = 0; i < std::ssize(b.fusion().values[x].shape); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return std::ranges::is_sorted(order) ? x : b.permute(x, std::move(order));
}

/// The results of the reduction over the parts of its operand.
std::vector<ValueId> in_parts(FusionBuilder& b, const OpKind& kind, ValueId x,
                              const UnevenAxis& uneven) {
  const int axis = uneven.axis;
  const int64_t even = uneven.parts * uneven.part_length;
  Shape in_even_parts = b.fusion().values[x].shape;
  in_even_parts[static_cast<size_t>(axis)] = uneven.part_length;
  in_even_parts.insert(in_even_parts.begin() + axis, Extent(uneven.parts));
  std::vector<ValueId> partials =
      reduce_part(b, kind, b.reshape(part_of(b, x, axis, 0, even), in_even_parts), axis + 1);
  const std::vector<ValueId> rest =
      reduce_part(b, kind, part_of(b, x, axis, even, uneven.length), axis);
  if (traits_of(kind).tuple == TupleKind::kMoments) {
    const std::vector<ValueId> all = combine_parts(b, kind, partials, axis, uneven.part_length);
    const Moments merged =
        merge_moments(b, {.mean = all[0], .m2 = all[1], .elements = even},
                      {.mean = rest[0], .m2 = rest[1], .elements = uneven.length - even});
    return {merged.mean, merged.m2};
  }
  for (size_t i = 0; i < partials.size(); ++i) {
    Shape one_part = b.fusion().values[rest[i]].shape;
    one_part.insert(one_part.begin() + axis, Extent(1));
    partials[i] = b.concatenate({partials[i], b.reshape(rest[i], one_part)}, axis);
  }
  if (!is_index_reduction(kind)) return combine_parts(b, kind, partials, axis, uneven.part_length);
  for (ValueId& partial : partials) partial = with_parts_last(b, partial, axis);
  const auto last = static_cast<int>(b.fusion().values[partials[0]].shape.size()) - 1;
  return combine_parts(b, kind, partials, last, uneven.part_length);
}

}  // namespace

std::vector<UnevenAxis> find_uneven_axes(const Fusion& fusion, const DeviceLimits& limits) {
  std::vector<UnevenAxis> out;
  for (const OpId id : fusion.op_ids()) {
    if (const auto axis = uneven_axis(fusion, id, limits)) out.push_back(*axis);
  }
  return out;
}

Fusion with_axes_in_parts(const Fusion& fusion, const std::vector<UnevenAxis>& axes) {
  if (axes.empty()) return fusion;
  FusionBuilder b(fusion.name);
  IdMap<ValueId, ValueId> made(fusion.values.size());
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    const auto found = std::ranges::find(axes, id, &UnevenAxis::reduction);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(made[operand]);
    std::vector<ValueId> results;
    if (found != axes.end()) {
      results = in_parts(b, op.kind, operands[0], *found);
      for (size_t i = 0; i < results.size(); ++i)
        results[i] = b.named(results[i], fusion.values[op.results[i]].name);
    } else {
      const Value& like = fusion.values[op.results.front()];
      std::vector<std::string> names;
      for (const ValueId result : op.results) names.push_back(fusion.values[result].name);
      results = b.append(op.kind, std::move(operands), like.type, like.shape, std::move(names));
    }
    for (size_t i = 0; i < results.size(); ++i) made[op.results[i]] = results[i];
  }
  for (const ValueId output : fusion.outputs) {
    OutputLayout layout = fusion.layout_of(output);
    if (layout.alias.valid()) layout.alias = made[layout.alias];
    b.output(made[output], "", std::move(layout));
  }
  return b.build();
}

}  // namespace sinter
