#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/axis_linking.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// Strides by axis class. A missing class has stride 0.
using ClassStrides =
    boost::container::flat_map<uint32_t, int64_t, std::less<>,
                               boost::container::small_vector<std::pair<uint32_t, int64_t>, 3>>;

/// The memory layout of a value: where its elements lie in the tensor that holds them.
struct View {
  ValueId tensor;
  int64_t offset = 0;
  ClassStrides strides;

  [[nodiscard]] int64_t stride_of(uint32_t node) const;
};

/// The stride from one element of an axis to the next, where the axis, as resolved classes, has a
/// single one; 0 for an axis of one element. No value if a reshape split the axis in memory.
std::optional<int64_t> stride_along(const View& view, const AxisList& axis,
                                    const AxisClasses& classes);

/// Values that are addresses into an input rather than computed: the inputs, and what permutes,
/// reshapes, broadcasts and slices make of them.
using TensorViews = std::map<ValueId, View>;

/// Finds the views of a fusion. The failing side names a slice that is no view: one of a computed
/// value, or of an axis that a reshape split.
tl::expected<TensorViews, Rejection> find_views(const Fusion& fusion, const LinkedAxes& linked);

/// The layout of outputs[index], which is dense unless the fusion declares another one.
View output_view(const Fusion& fusion, const LinkedAxes& linked, size_t index);

}  // namespace sinter
