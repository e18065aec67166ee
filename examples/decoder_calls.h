#pragma once

#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/execute/external_call.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter::examples {

/// What an embedder has of its own: kernels for the calls of decoder_layer.cpp, all of bf16 with
/// sums in f32. They show how calls are embedded; a product of matrices that is to be fast comes
/// from a library made for it.
///
///   matmul_nt (a [M, K], b [N, K]) -> [M, N], sum of a[m, k] * b[n, k];
///   attention (q [tokens, heads, 64], k, v [tokens, kv_heads, 64]) -> (o like q, f32 lse [heads,
///       tokens]): causal, grouped queries; keys may lie with strides.
class DecoderCalls {
 public:
  struct Compiled {
    CompiledKernel matmul, attention;
  };
  /// Needs no device. Errors: those of NVRTC.
  static Result<Compiled> compile(const NvrtcCompiler& compiler, const DeviceLimits& limits);
  /// Loads the kernels in the current context. Errors: those of the driver.
  static Result<DecoderCalls> load(DeviceDriver& driver, const Compiled& kernels);

  /// Enqueues a call on its stream: an ExternalCallback. It allocates nothing and waits for
  /// nothing, so it may be captured. Unsupported for a call of another name or head size.
  [[nodiscard]] Result<void> run(const ExternalRequest& request) const;

 private:
  DecoderCalls(LoadedKernel matmul, LoadedKernel attention)
      : matmul_(std::move(matmul)), attention_(std::move(attention)) {}
  [[nodiscard]] Result<void> matmul(const ExternalRequest& request) const;
  [[nodiscard]] Result<void> attention(const ExternalRequest& request) const;

  LoadedKernel matmul_;
  LoadedKernel attention_;
};

}  // namespace sinter::examples
