#include "tests/support/stand_in_calls.h"

#include <cmath>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/bounded_cast.h"

namespace sinter {
namespace {

constexpr int64_t kShift = 7;

int64_t source_of(int64_t element, size_t result, int64_t count) {
  return (element + kShift * static_cast<int64_t>(result)) % count;
}

void run_on_host(const ExternalOp&, std::span<const HostTensor> inputs,
                 std::span<HostTensor> outputs) {
  for (size_t r = 0; r < outputs.size(); ++r) {
    for (int64_t i = 0; i < outputs[r].count(); ++i) {
      float sum = 0.0F;
      float weight = 0.5F;
      for (const HostTensor& input : inputs) {
        sum += weight * static_cast<float>(input.get(source_of(i, r, input.count())));
        weight *= 0.5F;
      }
      outputs[r].set(i, static_cast<double>(sum));
    }
  }
}

std::vector<OracleOutput> bounded(const ExternalOp& op, std::span<const OracleOutput> operands) {
  constexpr double kUnit = 0x1p-24;
  std::vector<OracleOutput> out;
  for (size_t r = 0; r < op.results.size(); ++r) {
    const DType type = op.results[r].type;
    OracleOutput result{.type = type, .sizes = Binding{}.sizes_of(op.results[r].shape)};
    const int64_t count = element_count(result.sizes);
    result.real.resize(static_cast<size_t>(count));
    result.bound.resize(static_cast<size_t>(count));
    for_each_range(count, int64_t{1} << 16, 0, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sum = 0.0;
        double size = 0.0;
        double bound = 0.0;
        double weight = 0.5;
        for (const OracleOutput& operand : operands) {
          const auto at =
              static_cast<size_t>(source_of(i, r, static_cast<int64_t>(operand.real.size())));
          sum += weight * operand.real[at];
          size += weight * std::fabs(operand.real[at]);
          bound += weight * operand.bound[at];
          weight *= 0.5;
        }
        // A product by a power of two is exact; each sum rounds once.
        bound += 2.0 * kUnit * static_cast<double>(operands.size()) * (size + bound);
        const auto element = static_cast<size_t>(i);
        const BoundedReal rounded = cast_to_real(type, BoundedReal{sum, bound});
        result.real[element] = rounded.value;
        result.bound[element] = rounded.bound;
      }
    });
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace

HostCalls stand_in_calls() { return {.run = run_on_host, .evaluate = bounded}; }

int stand_in_type(DType type) {
  if (type == DType::kF32) return 0;
  return type == DType::kBF16 ? 1 : -1;
}

std::string stand_in_source(const std::string& entry) {
  std::string parameters;
  std::string sums;
  for (int k = 0; k < kMostStandInOperands; ++k) {
    parameters += fmt::format(", const void* x{0}, int type{0}, long long count{0}", k);
    sums += fmt::format(
        "    if (operands > {0}) sum += {1:a}f * load(x{0}, type{0}, (i + shift) % count{0});\n", k,
        std::ldexp(0.5, -k));
  }
  return fmt::format(R"(
__device__ float load(const void* x, int type, long long i) {{
  if (type == 0) return static_cast<const float*>(x)[i];
  return __uint_as_float(static_cast<unsigned>(static_cast<const unsigned short*>(x)[i]) << 16);
}}
__device__ unsigned short rounded(float x) {{
  unsigned short out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(x));
  return out;
}}
extern "C" __global__ void {}(void* y, int type, long long count, int shift, int operands{}) {{
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  for (; i < count; i += step) {{
    float sum = 0.0f;
{}    if (type == 0) static_cast<float*>(y)[i] = sum;
    if (type == 1) static_cast<unsigned short*>(y)[i] = rounded(sum);
  }}
}}
)",
                     entry, parameters, sums);
}

}  // namespace sinter
