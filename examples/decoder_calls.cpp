#include "examples/decoder_calls.h"

#include <fmt/format.h>

#include <array>

namespace sinter::examples {
namespace {

constexpr uint32_t kTile = 16;      // Rows and columns of the result that a block computes.
constexpr uint32_t kHeadSize = 64;  // Threads of a block of attention, one for each element of o.

/// One thread, one element.
constexpr const char* kMatmul = R"(
#include "types.cuh"
extern "C" __global__ void matmul_nt(const bf16* a, const bf16* b, bf16* y, long long rows,
                                     long long columns, long long depth) {
  const long long column = blockIdx.x * 16LL + threadIdx.x;
  const long long row = blockIdx.y * 16LL + threadIdx.y;
  if (row >= rows || column >= columns) return;
  float sum = 0.0f;
  for (long long k = 0; k < depth; ++k)
    sum += to_f32(a[row * depth + k]) * to_f32(b[column * depth + k]);
  y[row * columns + column] = to_bf16(sum);
}
)";

/// One block for a token and head. The maximum is carried along, so that keys are read once.
constexpr const char* kAttention = R"(
#include "types.cuh"
extern "C" __global__ void attention(const bf16* q, const bf16* k, const bf16* v, bf16* o,
                                     float* lse, long long kv_heads, long long k_row) {
  const long long token = blockIdx.x, head = blockIdx.y;
  const long long tokens = gridDim.x, heads = gridDim.y;
  const long long kv_head = head * kv_heads / heads;
  const long long own = (token * heads + head) * 64;
  float largest = -__int_as_float(0x7f800000), total = 0.0f, sum = 0.0f;
  for (long long j = 0; j <= token; ++j) {
    const bf16* key = k + j * k_row + kv_head * 64;
    float score = 0.0f;
    for (int d = 0; d < 64; ++d) score += to_f32(q[own + d]) * to_f32(key[d]);
    score *= 0.125f;  // 1 / sqrt(64)
    const float next = fmaxf(largest, score);
    const float shrink = expf(largest - next), weight = expf(score - next);
    total = total * shrink + weight;
    sum = sum * shrink + weight * to_f32(v[(j * kv_heads + kv_head) * 64 + threadIdx.x]);
    largest = next;
  }
  o[own + threadIdx.x] = to_bf16(sum / total);
  if (threadIdx.x == 0) lse[head * tokens + token] = largest + logf(total);
}
)";

KernelSource source_of(const char* entry, const char* text) {
  KernelSource source;
  source.entry = entry;
  source.text = text;
  return source;
}

Result<void> launch(const LoadedKernel& kernel, const LaunchConfig& config,
                    std::span<void*> arguments, std::string_view doing) {
  DeviceDriver& driver = kernel.driver();
  return check(driver, DriverCall::kLaunch,
               driver.launch(&config, kernel.function(), arguments.data(), nullptr), doing);
}

}  // namespace

Result<DecoderCalls::Compiled> DecoderCalls::compile(const NvrtcCompiler& compiler,
                                                     const DeviceLimits& limits) {
  auto architecture = Architecture::parse(architecture_of(limits));
  if (!architecture) return fail(architecture.error());
  auto matmul = compiler.compile(source_of("matmul_nt", kMatmul), *architecture);
  if (!matmul) return fail(matmul.error());
  auto attention = compiler.compile(source_of("attention", kAttention), *architecture);
  if (!attention) return fail(attention.error());
  return Compiled{std::move(*matmul), std::move(*attention)};
}

Result<DecoderCalls> DecoderCalls::load(DeviceDriver& driver, const Compiled& kernels) {
  auto matmul = LoadedKernel::load(driver, kernels.matmul, 0);
  if (!matmul) return fail(matmul.error());
  auto attention = LoadedKernel::load(driver, kernels.attention, 0);
  if (!attention) return fail(attention.error());
  return DecoderCalls(std::move(*matmul), std::move(*attention));
}

Result<void> DecoderCalls::run(const ExternalRequest& request) const {
  if (request.op->name == "matmul_nt") return matmul(request);
  if (request.op->name == "attention" && request.inputs[0].sizes[2] == kHeadSize)
    return attention(request);
  return fail(
      {.kind = ErrorKind::kUnsupported,
       .message = fmt::format("the example has no kernel for this call '{}'", request.op->name),
       .remedy = "add one to decoder_calls.cpp"});
}

Result<void> DecoderCalls::matmul(const ExternalRequest& request) const {
  DevicePointer a = request.inputs[0].address;
  DevicePointer b = request.inputs[1].address;
  DevicePointer y = request.outputs[0].address;
  int64_t rows = request.outputs[0].sizes[0];
  int64_t columns = request.outputs[0].sizes[1];
  int64_t depth = request.inputs[0].sizes[1];
  std::array<void*, 6> arguments = {&a, &b, &y, &rows, &columns, &depth};
  const auto tiles = [](int64_t extent) {
    return static_cast<uint32_t>((extent + kTile - 1) / kTile);
  };
  return launch(matmul_,
                {.grid_x = tiles(columns),
                 .grid_y = tiles(rows),
                 .block_x = kTile,
                 .block_y = kTile,
                 .stream = request.stream},
                arguments, "launching a product of matrices");
}

Result<void> DecoderCalls::attention(const ExternalRequest& request) const {
  DevicePointer q = request.inputs[0].address;
  DevicePointer k = request.inputs[1].address;
  DevicePointer v = request.inputs[2].address;
  DevicePointer o = request.outputs[0].address;
  DevicePointer lse = request.outputs[1].address;
  int64_t kv_heads = request.inputs[1].sizes[1];
  int64_t k_row = request.inputs[1].strides[0];
  std::array<void*, 7> arguments = {&q, &k, &v, &o, &lse, &kv_heads, &k_row};
  const std::span<const int64_t> sizes = request.inputs[0].sizes;
  return launch(attention_,
                {.grid_x = static_cast<uint32_t>(sizes[0]),
                 .grid_y = static_cast<uint32_t>(sizes[1]),
                 .block_x = kHeadSize,
                 .stream = request.stream},
                arguments, "launching attention");
}

}  // namespace sinter::examples
