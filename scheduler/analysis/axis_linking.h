#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/axis_classes.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// For each value, one list of classes for each of its axes. Values that are walked alike share
/// their lists: in a graph of pointwise functions, all of them.
class ValueAxes {
 public:
  explicit ValueAxes(size_t values) : places_(values) {}

  [[nodiscard]] const std::vector<AxisList>& operator[](ValueId value) const {
    return lists_[places_[value]];
  }
  void set(ValueId value, std::vector<AxisList> axes) {
    places_[value] = static_cast<uint32_t>(lists_.size());
    same_.push_back(places_[value]);
    lists_.push_back(std::move(axes));
  }
  void share(ValueId value, ValueId with) { places_[value] = places_[with]; }

  /// Records that the axes of two values resolve to the same classes. They then always will,
  /// however these classes are linked or split later.
  void mark_same(ValueId a, ValueId b) { same_[representative(b)] = representative(a); }
  /// Values with equal numbers are known to have the same axes.
  [[nodiscard]] uint32_t representative(ValueId value) const {
    uint32_t place = places_[value];
    while (same_[place] != place) place = same_[place];
    return place;
  }

 private:
  IdMap<ValueId, uint32_t> places_;  ///< In `lists_`; the first is of values without axes.
  std::deque<std::vector<AxisList>> lists_{{}};
  std::vector<uint32_t> same_{0};  ///< By list: another one that is the same, or itself.
};

/// The axes of all values of a fusion in classes that one loop walks.
struct LinkedAxes {
  AxisClasses classes{};
  ValueAxes axes;
  /// Each axis that a reduction removes, with the reduction's first result.
  std::vector<std::pair<ValueId, AxisList>> reduced{};
  /// The contraction of the fusion. Its result has axes of its own: what reads it knows nothing of
  /// the operands' axes, which may even be those of one tensor.
  std::optional<OpId> contraction{};
};

/// Links the axes of each op's operands and results, then those of parts of the graph that share
/// only their shape. The failing side names the first value that no loops can walk: operands or
/// reshapes whose sizes do not divide each other; an op that moves elements between tensors
/// (concatenate, pad) or runs outside of a kernel; a second contraction; a value that meets its own
/// transpose.
tl::expected<LinkedAxes, Rejection> link_axes(const Fusion& fusion);

/// The rejection of a fusion that has no iteration space.
Rejection reject_space(std::string rule, ValueId at, std::string remedy);

}  // namespace sinter
