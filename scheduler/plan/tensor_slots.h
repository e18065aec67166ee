#pragma once

#include <optional>
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

/// How a kernel uses a buffer.
enum class BufferUse : uint8_t {
  kRead,
  kWrite,
  kReadWrite,  ///< Reads workspace that it wrote itself.
};

/// The slot of a buffer of a kernel. `value` is the value that the buffer holds; invalid
/// for counters and messages.
TensorSlot slot_of(const Plan& plan, KernelId kernel, ValueId value, BufferUse use);

/// The slot of a value of the plan's graph that is an input, an output, or written by a step for
/// later ones.
TensorSlot slot_of(const Plan& plan, ValueId value);

/// Strides in elements of such a value.
Sizes strides_of(const Plan& plan, ValueId value);

/// The value whose tensor contains such a value: the value itself, unless it is placed in another
/// one.
ValueId tensor_of(const Plan& plan, ValueId value);

/// Where the values of a plan lie. It is built once per plan and answers each question in
/// logarithmic time, whereas slot_of() searches all tensors. The plan outlives it and does not
/// change.
class TensorSlots {
 public:
  explicit TensorSlots(const Plan& plan);

  /// As slot_of(plan, value).
  [[nodiscard]] TensorSlot of(ValueId value) const;
  /// As slot_of(plan, kernel, value, use).
  [[nodiscard]] TensorSlot of(KernelId kernel, ValueId value, BufferUse use) const;
  /// The same for plans that may break this: nothing if the value has no tensor.
  [[nodiscard]] std::optional<TensorSlot> find(ValueId value) const;
  [[nodiscard]] std::optional<TensorSlot> find(KernelId kernel, ValueId value, BufferUse use) const;
  /// As strides_of(plan, value).
  [[nodiscard]] Sizes strides_of(ValueId value) const;

 private:
  static constexpr uint32_t kNone = 0xffff'ffffU;

  const Plan* plan_;
  size_t caller_outputs_;
  IdMap<ValueId, uint32_t> input_;   ///< Index among the inputs.
  IdMap<ValueId, uint32_t> output_;  ///< Index among the outputs.
  /// Values of workspace tensors, and their indices in the workspace; ascending.
  std::vector<std::pair<ValueId, size_t>> workspace_;
};

}  // namespace sinter
