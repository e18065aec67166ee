#pragma once

#include <cstdint>
#include <string>

#include "fusion_ir/fusion.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// What a measurement is about. Equal keys mean the same kernels on the same kind of device.
struct TuningKey {
  std::string graph{};    ///< Hash of the simplified graph at these extents, names aside.
  std::string extents{};  ///< "cols=4096 rows=8192", by name.
  std::string device{};   ///< Name, compute capability, multiprocessors.
  std::string toolkit{};  ///< NVRTC's version and build.
  int64_t grammar = 0;    ///< kScheduleGrammar when it was measured.
  friend auto operator<=>(const TuningKey&, const TuningKey&) = default;
};

/// The key of a graph that binds these extents. `simplify` as in PlanOptions. Errors: as those of
/// plan() for the extents.
Result<TuningKey> tuning_key(const Fusion& fusion, const ExtentValues& extents,
                             const DeviceLimits& limits, std::string toolkit, bool simplify = true);

/// "H200 sm_90 132 SMs": what does not differ between two devices of a kind, nor between such a
/// device and its preset, so that plans for a preset find what was measured on the device. Clocks
/// and measured rates are not in it; a slice of a device has fewer multiprocessors, and another
/// name.
std::string device_identity(const DeviceLimits& limits);

/// "NVRTC 13.0 <build>": patch releases share a version number but not their code.
std::string toolkit_identity(const NvrtcCompiler& compiler);

}  // namespace sinter
