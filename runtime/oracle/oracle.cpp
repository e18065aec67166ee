#include "runtime/oracle/oracle.h"

#include <Eigen/Core>
#include <cstring>

#include "fusion_ir/error.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/evaluator.h"

namespace sinter {
namespace {

void check_inputs(const Fusion& fusion, const Binding& binding,
                  std::span<const HostTensor> inputs) {
  if (inputs.size() != fusion.inputs.size()) {
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("the fusion has {} inputs, but {} tensors were passed",
                                        fusion.inputs.size(), inputs.size()),
                 .remedy = "pass one tensor per input, in the order of the fusion's list",
                 .measured = static_cast<int64_t>(inputs.size()),
                 .limit = static_cast<int64_t>(fusion.inputs.size())});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& expected = fusion.values[fusion.inputs[i]];
    const Sizes sizes = binding.sizes_of(expected.shape);
    if (inputs[i].type() == expected.type && inputs[i].sizes() == sizes) continue;
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("input {} is {}[{}], but the tensor passed is {}[{}]", i,
                                        expected.type, fmt::join(sizes, ", "), inputs[i].type(),
                                        fmt::join(inputs[i].sizes(), ", ")),
                 .remedy = "pass a tensor of the input's type and bound sizes",
                 .values = {fusion.inputs[i]}});
  }
}

/// Decodes a dense tensor of a type that Eigen knows, a vector of elements at a time.
template <class T>
void decode_dense(const HostTensor& tensor, std::vector<double>& out) {
  // The address may be misaligned for T; copying the bytes first keeps the map's reads defined.
  Eigen::Array<T, Eigen::Dynamic, 1> stored(tensor.count());
  std::memcpy(stored.data(), tensor.data(), static_cast<size_t>(tensor.count()) * sizeof(T));
  Eigen::Map<Eigen::ArrayXd>(out.data(), tensor.count()) =
      stored.template cast<float>().template cast<double>();
}

TensorView view_of_input(const HostTensor& tensor) {
  BoundedElements elements;
  const bool dense = tensor.count() > 0 && tensor.strides() == dense_strides(tensor.sizes());
  if (is_float(tensor.type())) {
    elements.real.resize(static_cast<size_t>(tensor.count()));
    if (dense && tensor.type() == DType::kF32) {
      decode_dense<float>(tensor, elements.real);
    } else if (dense && tensor.type() == DType::kBF16) {
      decode_dense<Eigen::bfloat16>(tensor, elements.real);
    } else if (dense && tensor.type() == DType::kF16) {
      decode_dense<Eigen::half>(tensor, elements.real);
    } else {
      for (size_t i = 0; i < elements.real.size(); ++i) {
        elements.real[i] = tensor.get(static_cast<int64_t>(i));
      }
    }
  } else {
    elements.integer.resize(static_cast<size_t>(tensor.count()));
    for (size_t i = 0; i < elements.integer.size(); ++i) {
      elements.integer[i] = tensor.get_integer(static_cast<int64_t>(i));
    }
  }
  return dense_view(tensor.type(), tensor.sizes(), std::move(elements));
}

/// What the stored output must hold. Storing rounds to the output's type, which moves the bound
/// only where the ends of the interval round differently.
OracleOutput bounded_output(ValueId value, const TensorView& view) {
  OracleOutput output{.value = value, .type = view.type, .sizes = view.sizes};
  const auto count = static_cast<size_t>(element_count(view.sizes));
  output.bound.reserve(count);
  (is_float(view.type) ? output.real.reserve(count) : output.integer.reserve(count));
  for_each_element<1>(view.sizes, {&view}, [&](const auto& at) {
    if (is_float(view.type)) {
      const BoundedReal stored = cast_to_real(view.type, view.real(at[0]));
      output.real.push_back(stored.value);
      output.bound.push_back(stored.bound);
    } else {
      const BoundedInteger stored = view.integer(at[0]);
      output.integer.push_back(stored.value);
      output.bound.push_back(stored.bound);
    }
  });
  return output;
}

/// For every value, the last op that reads it; outputs are kept to the end.
IdMap<ValueId, OpId> last_readers(const Fusion& fusion) {
  IdMap<ValueId, OpId> last(fusion.values.size());
  for (const OpId op : fusion.op_ids()) {
    for (const ValueId operand : fusion.ops[op].operands) last[operand] = op;
  }
  for (const ValueId output : fusion.outputs) last[output] = OpId{};
  return last;
}

}  // namespace

OracleResult evaluate(const Fusion& fusion, const Binding& binding,
                      std::span<const HostTensor> inputs) {
  check_inputs(fusion, binding, inputs);
  IdMap<ValueId, TensorView> views(fusion.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) views[fusion.inputs[i]] = view_of_input(inputs[i]);

  const IdMap<ValueId, OpId> last = last_readers(fusion);
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    if (std::holds_alternative<InputOp>(op.kind)) continue;
    std::vector<TensorView> operands;
    for (const ValueId operand : op.operands) operands.push_back(views[operand]);
    std::vector<TensorView> results = evaluate_op(fusion, binding, id, operands);
    for (size_t i = 0; i < results.size(); ++i) views[op.results[i]] = std::move(results[i]);
    for (const ValueId operand : op.operands) {
      if (last[operand] == id) views[operand] = {};
    }
  }

  OracleResult result;
  for (const ValueId output : fusion.outputs) {
    result.outputs.push_back(bounded_output(output, views[output]));
  }
  return result;
}

}  // namespace sinter
