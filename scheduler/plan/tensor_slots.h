#pragma once

#include <utility>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// Where the tensor of a kernel's buffer comes from at execution.
struct TensorSlot {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace };
  Kind kind = Kind::kInput;
  size_t index = 0;    ///< Among the fusion's inputs or outputs, or the plan's workspace tensors.
  int64_t offset = 0;  ///< Bytes from the tensor's first element.
};

/// What a kernel does with a buffer.
enum class BufferUse : uint8_t {
  kRead,
  kWrite,
  kReadWrite,  ///< Reads what it wrote itself: workspace.
};

/// `value` is the one that the buffer of a kernel of segment `segment` holds; none for counters.
TensorSlot slot_of(const Plan& plan, size_t segment, ValueId value, BufferUse use);

/// Where a value of the plan's graph lies that is an input, an output, or left by a step for
/// others.
TensorSlot slot_of(const Plan& plan, ValueId value);

/// Strides in elements of such a value.
Sizes strides_of(const Plan& plan, ValueId value);

/// The value whose tensor such a value lies in: itself, but for those placed in another one.
ValueId tensor_of(const Plan& plan, ValueId value);

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
