#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fusion_ir/result.h"

// The driver's own opaque types, under its own names, so that a handle from code that includes
// cuda.h (or a cudaStream_t) passes without a cast.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace sinter {

using DeviceOrdinal = int;       ///< CUdevice.
using DevicePointer = uint64_t;  ///< CUdeviceptr.
using ContextHandle = CUctx_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;
using StreamHandle = CUstream_st*;  ///< Null: the legacy default stream.
using EventHandle = CUevent_st*;
using GraphHandle = CUgraph_st*;
using GraphExecHandle = CUgraphExec_st*;

/// CUresult. Only the codes that Sinter tells apart are named; every other value is kept as it is.
enum class DriverStatus : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
};

/// CUdevice_attribute.
enum class DeviceProperty : int {
  kMaxThreadsPerBlock = 1,
  kMaxGridX = 5,
  kClockRateKhz = 13,
  kSmCount = 16,
  kMemoryClockRateKhz = 36,
  kMemoryBusWidthBits = 37,
  kL2Bytes = 38,
  kMaxThreadsPerSm = 39,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedBytesPerSm = 81,
  kRegistersPerSm = 82,
  kSharedBytesPerBlockOptIn = 97,
  kMaxBlocksPerSm = 106,
  kSharedBytesReserved = 111,
  kClusterLaunch = 120,
};

/// CUfunction_attribute.
enum class FunctionProperty : int {
  kMaxThreadsPerBlock = 0,
  kStaticSharedBytes = 1,
  kConstBytes = 2,
  kLocalBytes = 3,  ///< Per thread: stack and spills.
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
  kNonPortableClusters = 14,  ///< 1: clusters beyond what every device runs are allowed.
};

/// CUpointer_attribute.
enum class PointerProperty : int {
  kMemoryType = 2,     ///< Writes an unsigned int: 1 host, 2 device, 4 unified.
  kDeviceOrdinal = 9,  ///< Writes an int.
};

/// CUstreamCaptureMode.
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

/// CUstreamCaptureStatus.
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

/// CUlaunchAttribute, field for field, for attributes whose value is an int.
struct LaunchAttribute {
  int32_t id = 0;
  int32_t padding = 0;
  int32_t value = 0;
  std::array<int32_t, 15> unused{};
};
/// CU_LAUNCH_ATTRIBUTE_COOPERATIVE: 1 launches the kernel only if all of its blocks can run at the
/// same time; otherwise the launch fails (CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE).
inline constexpr int32_t kCooperative = 2;
/// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: 1 lets the kernel start before the one
/// ahead of it on the stream has ended.
inline constexpr int32_t kProgrammaticStreamSerialization = 6;

/// CUlaunchConfig, field for field.
struct LaunchConfig {
  uint32_t grid_x = 1;
  uint32_t grid_y = 1;
  uint32_t grid_z = 1;
  uint32_t block_x = 1;
  uint32_t block_y = 1;
  uint32_t block_z = 1;
  uint32_t dynamic_shared_bytes = 0;
  StreamHandle stream = nullptr;
  const void* attributes = nullptr;  ///< CUlaunchAttribute array.
  uint32_t attribute_count = 0;
};

/// CUtensorMap: how a kernel copies boxes of a tensor. What the words mean is the driver's.
struct alignas(64) EncodedTensorMap {
  std::array<uint64_t, 16> words;
};

/// CUtensorMapDataType.
enum class TensorMapType : int {
  kU8 = 0,
  kI32 = 3,
  kI64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBF16 = 9,
  kTf32 = 11,  ///< f32 in memory, rounded to TF32 in shared memory.
};

/// CUtensorMapInterleave.
enum class TensorMapInterleave : int { kNone = 0 };

/// CUtensorMapSwizzle, in bytes of a line.
enum class TensorMapSwizzle : int { kNone = 0, k32 = 1, k64 = 2, k128 = 3 };

/// CUtensorMapL2promotion: bytes that L2 fetches at once.
enum class TensorMapPromotion : int { kNone = 0, k64 = 1, k128 = 2, k256 = 3 };

/// CUtensorMapFloatOOBfill: what elements outside of the tensor become.
enum class TensorMapFill : int { kZeros = 0 };

/// Names each call of driver_calls.def.
enum class DriverCall : uint8_t {
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) k##camel,
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
};

/// How many calls driver_calls.def lists.
inline constexpr size_t kDriverCallCount = 0
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) +1
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
    ;

/// The symbol in libcuda ("cuMemAlloc_v2").
std::string_view name_of(DriverCall call);

/// The CUDA driver as Sinter sees it: one virtual function per driver call, same parameters, same
/// status codes, no policy. Open to tests, which put a fake in its place; DriverApi is the real
/// one. Calls may come from any thread.
class DeviceDriver {
 public:
  DeviceDriver() = default;
  DeviceDriver(const DeviceDriver&) = delete;
  DeviceDriver& operator=(const DeviceDriver&) = delete;
  virtual ~DeviceDriver() = default;

#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  [[nodiscard]] virtual DriverStatus snake parameters = 0;
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL

  /// Whether the driver has the call. One that it lacks answers kNotFound.
  [[nodiscard]] virtual bool has(DriverCall call) const = 0;

  /// The driver's own name and sentence for a status: "CUDA_ERROR_INVALID_VALUE: invalid argument".
  [[nodiscard]] virtual std::string describe(DriverStatus status) const = 0;
};

/// The typed error for a call that failed: kResourceExhausted when memory ran out, else
/// kDeviceError. `doing` says what Sinter was about ("loading kernel layer_norm_0").
Error driver_error(const DeviceDriver& driver, DriverCall call, DriverStatus status,
                   std::string_view doing);

/// Nothing on success, else driver_error.
inline Result<void> check(const DeviceDriver& driver, DriverCall call, DriverStatus status,
                          std::string_view doing) {
  if (status == DriverStatus::kSuccess) [[likely]]
    return {};
  return fail(driver_error(driver, call, status, doing));
}

}  // namespace sinter
