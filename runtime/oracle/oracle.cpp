#include "runtime/oracle/oracle.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstring>

#include "fusion_ir/error.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/element_runs.h"
#include "runtime/oracle/element_writer.h"
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

/// Decodes elements of a dense tensor of a type that Eigen knows, a vector of them at a time.
template <class T>
void decode_dense(const HostTensor& tensor, int64_t begin, int64_t end, double* out) {
  constexpr int64_t kBlock = 1024;
  // The address may be misaligned for T; copying the bytes first keeps the map's reads defined.
  Eigen::Array<T, kBlock, 1> stored;
  for (; begin < end; begin += kBlock) {
    const int64_t count = std::min(kBlock, end - begin);
    std::memcpy(stored.data(), tensor.data() + static_cast<size_t>(begin) * sizeof(T),
                static_cast<size_t>(count) * sizeof(T));
    Eigen::Map<Eigen::ArrayXd>(out + begin, count) =
        stored.head(count).template cast<float>().template cast<double>();
  }
}

void decode_reals(const HostTensor& tensor, int64_t begin, int64_t end, double* out) {
  const bool dense = tensor.strides() == dense_strides(tensor.sizes());
  if (dense && tensor.type() == DType::kF32) {
    decode_dense<float>(tensor, begin, end, out);
  } else if (dense && tensor.type() == DType::kBF16) {
    decode_dense<Eigen::bfloat16>(tensor, begin, end, out);
  } else if (dense && tensor.type() == DType::kF16) {
    decode_dense<Eigen::half>(tensor, begin, end, out);
  } else {
    for (int64_t i = begin; i < end; ++i) out[i] = tensor.get(i);
  }
}

TensorView view_of_input(const HostTensor& tensor, int threads) {
  ElementWriter elements(tensor.type(), tensor.sizes());
  elements.fill(threads, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
    if (is_float(tensor.type())) {
      decode_reals(tensor, begin, end, sink.reals());
    } else {
      for (int64_t i = begin; i < end; ++i) sink.put(i, BoundedInteger{tensor.get_integer(i), 0.0});
    }
  });
  return elements.finish();
}

/// What the stored output must hold. Storing rounds to the output's type, which moves the bound
/// only where the ends of the interval round differently.
OracleOutput bounded_output(ValueId value, const TensorView& view, int threads) {
  OracleOutput output{.value = value, .type = view.type, .sizes = view.sizes};
  const ElementRuns<1> runs(view.sizes, {&view});
  const auto count = static_cast<size_t>(runs.count());
  const bool real = is_float(view.type);
  output.bound.resize(count);
  output.real.resize(real ? count : 0);
  output.integer.resize(real ? 0 : count);
  for_each_range(runs.count(), kElementsPerRange, threads, [&](int64_t begin, int64_t end) {
    runs.for_each(begin, end, [&](const ElementRun<1>& run) {
      int64_t position = run.position[0];
      for (int64_t i = run.first; i < run.first + run.count; ++i, position += run.step[0]) {
        const auto element = static_cast<size_t>(i);
        if (real) {
          const BoundedReal stored = cast_to_real(view.type, view.real(position));
          output.real[element] = stored.value;
          output.bound[element] = stored.bound;
        } else {
          const BoundedInteger stored = view.integer(position);
          output.integer[element] = stored.value;
          output.bound[element] = stored.bound;
        }
      }
    });
  });
  return output;
}

[[noreturn]] void reject_call(const Fusion& fusion, OpId id, std::string_view what,
                              std::string remedy) {
  const Op& op = fusion.ops[id];
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("external call '{}' of {} {}",
                                      std::get<ExternalOp>(op.kind).name, id, what),
               .remedy = std::move(remedy),
               .values = op.results,
               .ops = {id}});
}

/// Checks one result of an external call against what the call declares.
void check_external_result(const Fusion& fusion, const Binding& binding, OpId id, size_t i,
                           const OracleOutput& result) {
  const Value& declared = fusion.values[fusion.ops[id].results[i]];
  const Sizes sizes = binding.sizes_of(declared.shape);
  if (result.type != declared.type || result.sizes != sizes) {
    reject_call(
        fusion, id,
        fmt::format("gave {}[{}] as result {}, which is {}[{}]", result.type,
                    fmt::join(result.sizes, ", "), i, declared.type, fmt::join(sizes, ", ")),
        "return results of the declared types and bound sizes");
  }
  const auto count = static_cast<size_t>(element_count(sizes));
  const size_t given = is_float(result.type) ? result.real.size() : result.integer.size();
  if (given != count || result.bound.size() != count) {
    reject_call(fusion, id,
                fmt::format("gave {} elements and {} bounds as result {}, which has {}", given,
                            result.bound.size(), i, count),
                "return one element and one bound for each element");
  }
  if (!std::ranges::all_of(result.bound, [](double bound) { return bound >= 0.0; })) {
    reject_call(fusion, id, fmt::format("gave a bound of result {} that is not >= 0", i),
                "return a bound of 0 for what is exact, infinity for what is unknown");
  }
}

/// An external call's result as a value of the graph: what memory holds of it.
TensorView view_of_result(const OracleOutput& result, int threads) {
  ElementWriter elements(result.type, result.sizes);
  elements.fill(threads, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto element = static_cast<size_t>(i);
      const double bound = result.bound[element];
      if (is_float(result.type)) {
        sink.put(i, cast_to_real(result.type, BoundedReal{result.real[element], bound}));
      } else {
        sink.put(i, cast_to_integer(result.type, BoundedInteger{result.integer[element], bound}));
      }
    }
  });
  return elements.finish();
}

std::vector<TensorView> call_external(const Fusion& fusion, const Binding& binding, OpId id,
                                      std::span<const TensorView> operands,
                                      const OracleOptions& options) {
  const Op& op = fusion.ops[id];
  if (!options.external) {
    reject_call(fusion, id, "has no function that evaluates it",
                "pass one in OracleOptions::external");
  }
  auto call = std::get<ExternalOp>(op.kind);
  for (ResultType& result : call.results) {
    for (Extent& extent : result.shape) extent = binding.size_of(extent);
  }
  std::vector<OracleOutput> passed;
  for (size_t i = 0; i < operands.size(); ++i) {
    passed.push_back(bounded_output(op.operands[i], operands[i], options.threads));
  }
  const std::vector<OracleOutput> results = options.external(call, passed);
  if (results.size() != op.results.size()) {
    reject_call(fusion, id,
                fmt::format("gave {} results, not {}", results.size(), op.results.size()),
                "return as many results as the call declares");
  }
  std::vector<TensorView> views;
  for (size_t i = 0; i < results.size(); ++i) {
    check_external_result(fusion, binding, id, i, results[i]);
    views.push_back(view_of_result(results[i], options.threads));
  }
  return views;
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
                      std::span<const HostTensor> inputs, const OracleOptions& options) {
  check_inputs(fusion, binding, inputs);
  IdMap<ValueId, TensorView> views(fusion.values.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    views[fusion.inputs[i]] = view_of_input(inputs[i], options.threads);

  const IdMap<ValueId, OpId> last = last_readers(fusion);
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    if (std::holds_alternative<InputOp>(op.kind)) continue;
    std::vector<TensorView> operands;
    for (const ValueId operand : op.operands) operands.push_back(views[operand]);
    std::vector<TensorView> results = std::holds_alternative<ExternalOp>(op.kind)
                                          ? call_external(fusion, binding, id, operands, options)
                                          : evaluate_op(fusion, binding, id, operands, options);
    for (size_t i = 0; i < results.size(); ++i) views[op.results[i]] = std::move(results[i]);
    for (const ValueId operand : op.operands) {
      if (last[operand] == id) views[operand] = {};
    }
  }

  OracleResult result;
  for (const ValueId output : fusion.outputs) {
    result.outputs.push_back(bounded_output(output, views[output], options.threads));
  }
  return result;
}

}  // namespace sinter
