#include "scheduler/plan/tensor_slots.h"

#include <algorithm>

namespace sinter {

TensorSlots::TensorSlots(const Plan& plan)
    : plan_(&plan),
      caller_outputs_(plan.caller_outputs().size()),
      input_(plan.fusion.values.size(), kNone),
      output_(plan.fusion.values.size(), kNone) {
  const auto number = [](const std::vector<ValueId>& values, IdMap<ValueId, uint32_t>& places) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (places[values[i]] == kNone) places[values[i]] = i;
    }
  };
  number(plan.fusion.inputs, input_);
  number(plan.fusion.outputs, output_);
  for (size_t i = 0; i < plan.workspace.size(); ++i)
    workspace_.emplace_back(plan.workspace[i].value, i);
  std::ranges::sort(workspace_);
}

TensorSlot TensorSlots::of(ValueId value) const {
  const std::optional<TensorSlot> slot = find(value);
  SINTER_CHECK(slot.has_value(), "{} lies nowhere", value);
  return *slot;
}

TensorSlot TensorSlots::of(KernelId kernel, ValueId value, BufferUse use) const {
  const std::optional<TensorSlot> slot = find(kernel, value, use);
  SINTER_CHECK(slot.has_value(), "{} of {} lies nowhere", value, kernel);
  return *slot;
}

std::optional<TensorSlot> TensorSlots::find(ValueId value) const {
  if (const auto placed = plan_->placements.find(value); placed != plan_->placements.end()) {
    std::optional<TensorSlot> slot = find(placed->second.in);
    if (slot) slot->offset += placed->second.offset;
    return slot;
  }
  const auto whole = [](TensorSlot::Kind kind, size_t index) {
    return TensorSlot{.kind = kind, .index = index};
  };
  if (const uint32_t input = input_[value]; input != kNone)
    return whole(TensorSlot::Kind::kInput, input);
  if (const uint32_t output = output_[value]; output < caller_outputs_)
    return whole(TensorSlot::Kind::kOutput, output);
  const auto tensors =
      std::ranges::equal_range(workspace_, value, {}, &std::pair<ValueId, size_t>::first);
  const auto found = std::ranges::find_if(tensors, [&](const auto& entry) {
    return plan_->workspace[entry.second].holds == WorkspaceTensor::Holds::kValue;
  });
  if (found == tensors.end()) return std::nullopt;
  return whole(TensorSlot::Kind::kWorkspace, found->second);
}

std::optional<TensorSlot> TensorSlots::find(KernelId kernel, ValueId value, BufferUse use) const {
  using Holds = WorkspaceTensor::Holds;
  const KernelPlan& reader = plan_->kernels[kernel];
  ValueId id = value;
  if (!reader.in_plan.empty() && value.valid()) {
    const auto named = reader.in_plan.find(value);
    if (named == reader.in_plan.end()) return std::nullopt;
    id = named->second;
  }
  // Partial results have the name of the reduction's result: a kernel that reads them may write the
  // finished result under that name.
  const auto is_meant = [&](const auto& entry) {
    const WorkspaceTensor& tensor = plan_->workspace[entry.second];
    const KernelId* writer = std::get_if<KernelId>(&tensor.writer);
    if (writer == nullptr) return false;
    // Blocks that accumulate into their partial results in memory leave them for the next kernel
    // too.
    if (use == BufferUse::kReadWrite) return tensor.holds != Holds::kValue && *writer == kernel;
    if (tensor.holds != Holds::kPartials) return false;
    return (use == BufferUse::kWrite ? *writer : kernel_after(*writer)) == kernel;
  };
  const auto tensors =
      std::ranges::equal_range(workspace_, id, {}, &std::pair<ValueId, size_t>::first);
  const auto special = std::ranges::find_if(tensors, is_meant);
  if (special != tensors.end())
    return TensorSlot{.kind = TensorSlot::Kind::kWorkspace, .index = special->second};
  return find(id);
}

Sizes TensorSlots::strides_of(ValueId value) const {
  if (const auto placed = plan_->placements.find(value); placed != plan_->placements.end())
    return placed->second.strides;
  const Fusion& fusion = plan_->fusion;
  if (fusion.def_as<InputOp>(value) != nullptr) return input_strides(fusion, Binding{}, value);
  const uint32_t output = output_[value];
  if (output != kNone && !fusion.layouts.empty() && !fusion.layouts[output].strides.empty())
    return Binding{}.sizes_of(fusion.layouts[output].strides);
  return dense_strides(Binding{}.sizes_of(fusion.values[value].shape));
}

TensorSlot slot_of(const Plan& plan, KernelId kernel, ValueId value, BufferUse use) {
  return TensorSlots(plan).of(kernel, value, use);
}

TensorSlot slot_of(const Plan& plan, ValueId value) { return TensorSlots(plan).of(value); }

Sizes strides_of(const Plan& plan, ValueId value) { return TensorSlots(plan).strides_of(value); }

ValueId tensor_of(const Plan& plan, ValueId value) {
  const auto placed = plan.placements.find(value);
  return placed == plan.placements.end() ? value : placed->second.in;
}

}  // namespace sinter
