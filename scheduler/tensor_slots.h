#pragma once

#include <utility>
#include <vector>

#include "scheduler/plan.h"

namespace sinter {

/// Where the values of a plan lie. Made once for a plan, it answers each question in logarithmic
/// time, where slot_of() looks through all tensors. The plan outlives it and does not change.
class TensorSlots {
 public:
  explicit TensorSlots(const Plan& plan);

  /// As slot_of(plan, value).
  [[nodiscard]] TensorSlot of(ValueId value) const;
  /// As slot_of(plan, segment, value, use).
  [[nodiscard]] TensorSlot of(size_t kernel, ValueId value, BufferUse use) const;
  /// As strides_of(plan, value).
  [[nodiscard]] Sizes strides_of(ValueId value) const;

 private:
  static constexpr uint32_t kNone = 0xffff'ffffU;

  const Plan* plan_;
  size_t caller_outputs_;
  IdMap<ValueId, uint32_t> input_;   ///< Place among the inputs.
  IdMap<ValueId, uint32_t> output_;  ///< Likewise.
  /// Values of workspace tensors, and their places in the workspace; ascending.
  std::vector<std::pair<ValueId, size_t>> workspace_;
};

}  // namespace sinter
