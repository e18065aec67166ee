// Sinter inside a compiler or framework: a decoder layer like Llama's is handed over whole, comes
// back as kernels or with the reasons why not, and runs on the embedder's stream between the
// embedder's own products of matrices and attention. With a GPU the layer is held against the
// oracle; without one its plan and kernels are shown, and the interpreter runs it.

#include <fmt/format.h>

#include "examples/decoder_calls.h"
#include "fusion_ir/training_composites.h"
#include "runtime/check/host_execution.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/execute/executable.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"
#include "tests/support/reference_calls.h"

namespace sinter::examples {
namespace {

// A small layer: the kernels that stand in for a library's are slow.
constexpr int64_t kTokens = 192;
constexpr int64_t kHidden = 512;
constexpr int64_t kHeads = 8;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadSize = 64;
constexpr int64_t kFfn = 1024;

/// h = x + attention(rms_norm(x)), y = h + down(swiglu(gate, up)) of rms_norm(h), from bf16
/// activations and weights; cos and sin are f32. Beside y it leaves the rotated keys, which go
/// straight into a cache that keeps each token's keys and values side by side.
Fusion decoder_layer() {
  FusionBuilder b("decoder_layer");
  const Extent tokens = b.symbol("tokens", kTokens);
  const auto weight = [&](int64_t out, int64_t in, const char* name) {
    return b.input(DType::kBF16, {out, in}, name);
  };
  const ValueId x = b.input(DType::kBF16, {tokens, kHidden}, "x");
  const ValueId cos = b.input(DType::kF32, {tokens, kHeadSize / 2}, "cos");
  const ValueId sin = b.input(DType::kF32, {tokens, kHeadSize / 2}, "sin");
  const ValueId attention_scale = b.input(DType::kBF16, {kHidden}, "attention_scale");
  const ValueId ffn_scale = b.input(DType::kBF16, {kHidden}, "ffn_scale");
  const auto norm = [&](ValueId of, ValueId scale) {
    return rms_norm(b, of, {.output = DType::kBF16, .weight = scale}).y;
  };

  // What Sinter is not to compute is a call: a name, operands, and the results it declares.
  const auto matmul = [&](ValueId rows, ValueId by, int64_t columns) {
    return b.external("matmul_nt", {rows, by}, {{DType::kBF16, {tokens, columns}}})[0];
  };
  const auto heads = [&](ValueId normal, int64_t count, const char* name) {
    const ValueId rows =
        matmul(normal, weight(count * kHeadSize, kHidden, name), count * kHeadSize);
    return b.reshape(rows, {tokens, count, kHeadSize});
  };

  const ValueId normal = norm(x, attention_scale);
  const ValueId q_plain = heads(normal, kHeads, "q_weight");
  const ValueId k_plain = heads(normal, kKvHeads, "k_weight");
  const ValueId v = heads(normal, kKvHeads, "v_weight");
  const ValueId q = b.named(rotary_embedding(b, q_plain, cos, sin, DType::kBF16), "q");
  const ValueId k = rotary_embedding(b, k_plain, cos, sin, DType::kBF16);
  // Rows of the cache hold keys, then values: keys alone lie with gaps.
  b.output(b.named(k, "k"), "k",
           {.strides = {2 * kKvHeads * kHeadSize, kHeadSize, 1}, .alignment = 16});

  const ValueId attended =
      b.external("attention", {q, k, v},
                 {{DType::kBF16, {tokens, kHeads, kHeadSize}}, {DType::kF32, {kHeads, tokens}}})[0];
  const ValueId rows = b.reshape(attended, {tokens, kHeads * kHeadSize});
  const ValueId projected = matmul(rows, weight(kHidden, kHeads * kHeadSize, "o_weight"), kHidden);
  const ValueId h = b.named(residual_add(b, projected, x, DType::kBF16), "h");
  const ValueId ffn_normal = b.named(norm(h, ffn_scale), "ffn_normal");
  const ValueId gate = matmul(ffn_normal, weight(kFfn, kHidden, "gate_weight"), kFfn);
  const ValueId up = matmul(ffn_normal, weight(kFfn, kHidden, "up_weight"), kFfn);
  const ValueId gated = b.named(swiglu(b, gate, up, DType::kBF16), "gated");
  const ValueId down = matmul(gated, weight(kHidden, kFfn, "down_weight"), kHidden);
  b.output(residual_add(b, down, h, DType::kBF16), "y");
  return b.build();
}

/// A partition goes in; kernels come out, or an error with the reasons.
Result<CompiledPlan> kernels_of(const Fusion& partition, const DeviceLimits& limits,
                                const NvrtcCompiler& compiler, KernelCache& cache) {
  PlanOptions options{.families = builtin_families()};
  options.cuts = {{"gated"}};               // It goes through memory, whatever is faster ...
  options.joins = {{{"h", "ffn_normal"}}};  // ... and one kernel makes both of these.
  auto planned = plan(partition, {{"tokens", kTokens}}, limits, options);
  if (!planned) return fail(planned.error());  // Its kind, and every refusal with its numbers.
  fmt::print("{}\n", explain(*planned));       // Which kernels and calls there are, and why.
  return compile_plan(std::move(*planned), compiler, cache, {.threads = 2});
}

/// A tensor on the device, and how its bytes lie on the host.
struct Placed {
  DeviceBuffer memory;
  HostTensor host;
  [[nodiscard]] Tensor tensor() const {
    return {memory.pointer(), host.type(), host.sizes(), host.strides()};
  }
};

Result<Placed> place(DeviceDriver& driver, HostTensor host) {
  auto memory = DeviceBuffer::allocate(driver, host.storage().size());
  if (!memory) return fail(memory.error());
  if (auto copied = memory->upload(host.storage()); !copied) return fail(copied.error());
  return Placed{std::move(*memory), std::move(host)};
}

/// Inputs, and outputs full of poison.
Result<std::vector<Placed>> place_all(DeviceDriver& driver, std::vector<HostTensor> tensors) {
  std::vector<Placed> out;
  for (HostTensor& tensor : tensors) {
    auto placed = place(driver, std::move(tensor));
    if (!placed) return fail(placed.error());
    out.push_back(std::move(*placed));
  }
  return out;
}

std::vector<Tensor> tensors_of(const std::vector<Placed>& placed) {
  std::vector<Tensor> out;
  for (const Placed& one : placed) out.push_back(one.tensor());
  return out;
}

std::vector<HostTensor> outputs_of(const Fusion& layer, const Binding& binding) {
  std::vector<HostTensor> out;
  for (const ValueId id : layer.outputs) {
    const Value& value = layer.values[id];
    out.push_back(HostTensor::poisoned(value.type, binding.sizes_of(value.shape),
                                       {.strides = output_strides(layer, binding, id)}));
  }
  return out;
}

/// Prepares the layer and executes it once on a stream.
Result<void> run_layer(DeviceDriver& driver, CompiledPlan compiled, const DecoderCalls& calls,
                       const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  auto ready = Executable::prepare(
      std::move(compiled), driver,
      {.external = [&](const ExternalRequest& call) { return calls.run(call); }});
  if (!ready) return fail(ready.error());
  auto workspace = DeviceBuffer::allocate(driver, static_cast<size_t>(ready->workspace_bytes()));
  if (!workspace) return fail(workspace.error());
  auto stream = OwnStream::create(driver, "running the layer");
  if (!stream) return fail(stream.error());
  auto enqueued = ready->execute(inputs, outputs, workspace->pointer(), ready->workspace_bytes(),
                                 stream->handle());
  const auto status = driver.stream_synchronize(stream->handle());
  if (!enqueued) return enqueued;
  return check(driver, DriverCall::kStreamSynchronize, status, "waiting for the layer");
}

Result<void> compare(const Fusion& layer, const Binding& binding,
                     const std::vector<HostTensor>& inputs, std::vector<Placed>& outputs) {
  const OracleResult expected = evaluate(layer, binding, inputs, {.external = reference_call});
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto copied = outputs[i].memory.download(outputs[i].host.storage());
    if (!copied) return copied;
    const auto [ratio, mismatch] = judge(expected, i, outputs[i].host);
    if (mismatch) {
      return fail({.kind = ErrorKind::kInternalError,
                   .message = "the layer computes wrong values",
                   .log = mismatch->text()});
    }
    fmt::print("{} is right: worst error {:.3g} of its bound\n",
               layer.values[layer.outputs[i]].name, ratio);
  }
  return {};
}

Result<void> run_on_gpu(DeviceDriver& driver, const DecoderCalls::Compiled& kernels,
                        const Fusion& layer, CompiledPlan compiled) {
  auto context = DeviceContext::retain(driver, 0);
  if (!context) return fail(context.error());
  auto current = CurrentContext::enter(driver, *context);
  if (!current) return fail(current.error());
  auto calls = DecoderCalls::load(driver, kernels);
  if (!calls) return fail(calls.error());

  const Binding binding = compiled.plan.binding;
  const std::vector<HostTensor> values = sample_inputs(layer, binding, 1);
  auto inputs = place_all(driver, values);
  if (!inputs) return fail(inputs.error());
  auto outputs = place_all(driver, outputs_of(layer, binding));
  if (!outputs) return fail(outputs.error());
  auto done =
      run_layer(driver, std::move(compiled), *calls, tensors_of(*inputs), tensors_of(*outputs));
  if (!done) return done;
  return compare(layer, binding, values, *outputs);
}

/// Runs the same plan in the interpreter, with the test kit's calls.
Result<void> run_in_interpreter(const Fusion& layer, const Plan& plan) {
  const auto check = check_on_host(layer, plan.binding, plan, sample_inputs(layer, plan.binding, 1),
                                   builtin_families(), {},
                                   {.run = run_reference_call, .evaluate = reference_call});
  if (!check) return fail(check.error());
  fmt::print("in the interpreter: worst error {:.3g} of its bound\n", check->worst_ratio);
  if (check->passed()) return {};
  return fail({.kind = ErrorKind::kInternalError,
               .message = "the layer computes wrong values",
               .log = check->text()});
}

Result<void> show() {
  const auto driver = cuda_driver();
  DeviceLimits limits = *find_device("H200");
  if (driver) {
    auto found = query_device(**driver, 0);
    if (!found) return fail(found.error());
    limits = std::move(*found);
  }
  const Fusion layer = decoder_layer();
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) {
    fmt::print("not compiled: {}\n", compiler.error().message);
    auto planned = plan(layer, {{"tokens", kTokens}}, limits, {.families = builtin_families()});
    if (!planned) return fail(planned.error());
    fmt::print("{}\n", explain(*planned));
    return {};
  }
  KernelCache cache(KernelCacheOptions::from_environment());
  auto compiled = kernels_of(layer, limits, *compiler, cache);
  if (!compiled) return fail(compiled.error());
  const auto calls = DecoderCalls::compile(*compiler, limits);
  if (!calls) return fail(calls.error());
  for (const KernelBuild& kernel : compiled->kernels) {
    fmt::print("{}: {} registers, {} bytes spilled\n", kernel.kernel->entry,
               kernel.kernel->resources.registers, kernel.kernel->resources.spill_store_bytes);
  }
  if (driver) return run_on_gpu(**driver, *calls, layer, std::move(*compiled));
  fmt::print("planned and compiled for {}, not run: {}\n", limits.name, driver.error().message);
  return run_in_interpreter(layer, compiled->plan);
}

}  // namespace
}  // namespace sinter::examples

int main() {
  try {
    if (const auto done = sinter::examples::show(); !done) {
      fmt::print(stderr, "{}\n", done.error().text());
      return 1;
    }
  } catch (const sinter::SinterException& exception) {
    fmt::print(stderr, "{}\n", exception.what());
    return 1;
  }
  return 0;
}
