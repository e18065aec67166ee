#include "runtime/c_api/tensor_info.h"

#include <algorithm>

#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"

namespace sinter::c_api {

static_assert(kMaxRank == SINTER_MAX_RANK);

ValueId value_of(const Fusion& fusion, TensorRole role) {
  return (role.is_output ? fusion.outputs : fusion.inputs)[role.index];
}

std::string name_of(const Fusion& fusion, TensorRole role) {
  const ValueId id = value_of(fusion, role);
  const std::string& name = fusion.values[id].name;
  return fmt::format("{} {}{} ({})", role.is_output ? "output" : "input", role.index,
                     name.empty() ? "" : fmt::format(" '{}'", name), id);
}

sinter_tensor_info info_of(const Plan& plan, TensorRole role) {
  const Fusion& fusion = plan.fusion;
  require_index(role.index, role.is_output ? plan.caller_outputs().size() : fusion.inputs.size(),
                role.is_output ? "output" : "input");
  const ValueId id = value_of(fusion, role);
  const Value& value = fusion.values[id];
  const Binding binding{};  // The planned graph is specialised.
  sinter_tensor_info out{};
  out.struct_size = sizeof out;
  out.name = value.name.c_str();
  out.type = sinter::name_of(value.type).data();
  out.dtype = dlpack_type(value.type);
  out.value = id.index;
  out.rank = static_cast<int32_t>(value.shape.size());
  out.alias = -1;
  std::ranges::copy(binding.sizes_of(value.shape), out.shape);
  if (!role.is_output) {
    std::ranges::copy(input_strides(fusion, binding, id), out.strides);
    out.alignment = fusion.def_as<InputOp>(id)->alignment;
    return out;
  }
  std::ranges::copy(output_strides(fusion, binding, id), out.strides);
  const OutputLayout layout = fusion.layout_of(id);
  out.alignment = layout.alignment;
  const auto alias = std::ranges::find(fusion.inputs, layout.alias);
  if (alias != fusion.inputs.end()) out.alias = static_cast<int32_t>(alias - fusion.inputs.begin());
  return out;
}

}  // namespace sinter::c_api
