#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_driver.h"
#include "runtime/oracle/host_tensor.h"
#include "runtime/tuning/candidate_measurer.h"

namespace sinter {

struct DeviceMeasurerOptions {
  DeviceOrdinal device = 0;
  /// A stream of the caller's, which check_ready() asks whether it is being captured. Nothing is
  /// enqueued on it: launches go to a stream of the measurer's own.
  StreamHandle stream = nullptr;
  uint64_t seed = 1;  ///< Of the random inputs.
  /// Inputs of a graph that is begun, the caller's own or, of a plan in several kernels, one of its
  /// segments; they are copied. None, or an empty list: random ones. The oracle then evaluates
  /// everything, whatever most_elements says.
  std::function<std::vector<HostTensor>(const Fusion&, const Binding&)> inputs{};
  CompilePlanOptions compile{};
  int compile_threads = 1;  ///< That compile announced plans while others are measured.
  /// Elements the oracle evaluates where the fusion can be cut into slices, as
  /// DeviceRunOptions::oracle_elements: every element of the outputs is compared all the same.
  int64_t oracle_elements = int64_t{1} << 21;
  int64_t total_elements = int64_t{1} << 25;  ///< As DeviceRunOptions::total_elements.
  /// Elements of inputs and outputs beyond which a fusion that cannot be cut into slices is not
  /// measured: the oracle evaluates each of them once for every segment, and holds several doubles
  /// for each.
  int64_t most_elements = int64_t{1} << 29;
  /// What a launch, or a rotation of them, may take until it counts as hanging.
  double launch_limit_seconds = 20.0;
  int64_t scratch_bytes = 0;  ///< As TimingOptions::scratch_bytes.
};

/// Measures candidates on a device: each is compiled through the cache, loaded, executed into
/// poisoned outputs, and held element by element against the oracle. It is then captured into a
/// graph and timed as replays with a cold L2, between two events. Inputs, outputs, workspaces and
/// streams are its own.
///
/// A launch that does not end within the limit is a kDeviceError. The context is of no use then,
/// and everything that would wait for it is left as it is, memory included: end the process.
class DeviceMeasurer final : public CandidateMeasurer {
 public:
  /// Retains the device's context, which is current on this thread until the measurer goes. The
  /// others outlive it. Errors: DeviceError.
  static Result<std::unique_ptr<DeviceMeasurer>> create(DeviceDriver& driver,
                                                        const NvrtcCompiler& compiler,
                                                        KernelCache& cache,
                                                        const DeviceMeasurerOptions& options = {});
  ~DeviceMeasurer() override;

  [[nodiscard]] double seconds() override;
  /// Errors: InvalidArgument if the stream is being captured.
  [[nodiscard]] Result<void> check_ready() override;
  /// Errors: Unsupported (more than most_elements); InvalidArgument where `inputs` do not fit the
  /// graph; those of allocating.
  [[nodiscard]] Result<void> begin(const Fusion& fusion, const Binding& binding) override;
  void announce(std::vector<Plan> plans) override;
  [[nodiscard]] Result<PreparedCandidate> prepare(const Plan& plan) override;
  [[nodiscard]] Result<std::vector<std::vector<double>>> sample(std::span<const size_t> candidates,
                                                                int rounds) override;
  void drop(size_t candidate) override;

  /// True once a launch did not end.
  [[nodiscard]] bool is_hanging() const;

 private:
  class Device;
  explicit DeviceMeasurer(std::unique_ptr<Device> device);
  std::unique_ptr<Device> device_;
};

}  // namespace sinter
