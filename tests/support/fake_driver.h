#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/driver/device_driver.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// What FakeDriver encodes: the arguments of the call. std::bit_cast converts.
struct FakeTensorMap {
  DevicePointer address = 0;
  std::array<uint64_t, 5> sizes{};
  std::array<uint64_t, 4> strides{};
  std::array<uint32_t, 5> boxes{};
  TensorMapType type = TensorMapType::kU8;
  TensorMapInterleave interleave = TensorMapInterleave::kNone;
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  TensorMapPromotion promotion = TensorMapPromotion::kNone;
  TensorMapFill fill = TensorMapFill::kZeros;
  std::array<uint8_t, 5> element_strides{};
  uint8_t rank = 0;
};
static_assert(sizeof(FakeTensorMap) == sizeof(EncodedTensorMap));

/// A driver in host memory, for tests of everything that talks to a device: it counts calls, fails
/// on request, keeps a clock of its own, and refuses what a real driver refuses (foreign addresses,
/// no current context, forbidden calls during stream capture). Launches run at once, on the calling
/// thread, as host functions; addresses of "device" memory are host addresses. Thread-safe.
class FakeDriver final : public DeviceDriver {
 public:
  /// What a kernel does. Gets eight bytes for every argument: an address, or a scalar as
  /// PreparedLaunch lays it out; behind them, where it has a table, the address of a copy of it,
  /// and that of a FakeTensorMap for every tensor map.
  using Kernel = std::function<void(const LaunchConfig&, std::span<const uint64_t> arguments)>;

  /// A machine with `device_count` devices of one kind; memory_bytes is what each can allocate.
  explicit FakeDriver(const DeviceLimits& limits = *find_device("H200"), int device_count = 1,
                      int64_t memory_bytes = int64_t{1} << 30);
  ~FakeDriver() override;

  /// Gives a kernel a body, for all modules. Kernels without one do nothing when launched.
  void set_kernel(const std::string& name, size_t argument_count, Kernel body,
                  size_t table_bytes = 0, size_t tensor_maps = 0);
  /// Lets the call after the next `skip` ones fail, once.
  void fail_next(DriverCall call, DriverStatus status, int64_t skip = 0);
  /// Takes one of the optional calls away.
  void remove(DriverCall call);
  /// Overrides what a device reports; a status other than success makes the query fail.
  void set_attribute(DeviceProperty property, int value,
                     DriverStatus status = DriverStatus::kSuccess);
  /// Microseconds that the n-th launch takes on the driver's clock.
  void set_launch_us(std::function<double(int64_t launch)> launch_us);

  /// From now on work never ends, as far as event queries say.
  void set_hanging(bool hanging);

  [[nodiscard]] int64_t calls(DriverCall call) const;
  /// From now on the order of calls is kept, which allocates.
  void keep_order();
  /// Those of the calls named that were made since then, in their order.
  [[nodiscard]] std::vector<DriverCall> order_of(std::initializer_list<DriverCall> calls) const;
  /// Calls made during stream capture that may not be made there. They failed.
  [[nodiscard]] int64_t capture_violations() const { return capture_violations_; }
  [[nodiscard]] int64_t allocated_bytes() const;
  /// Modules, events, streams, graphs and context shares not given back.
  [[nodiscard]] int64_t live_objects() const;
  [[nodiscard]] int function_property(const std::string& kernel, FunctionProperty property) const;

#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  [[nodiscard]] DriverStatus snake parameters override;
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
  [[nodiscard]] bool has(DriverCall call) const override;
  [[nodiscard]] std::string describe(DriverStatus status) const override;

 private:
  struct Function;
  struct Node;
  struct Graph;
  struct Allocation;
  struct Attribute {
    int value = 0;
    DriverStatus status = DriverStatus::kSuccess;
  };
  struct Fault {
    DriverStatus status = DriverStatus::kSuccess;
    int64_t skip = 0;
  };

  // Counts a call and says whether it may go on.
  DriverStatus enter(DriverCall call);
  DriverStatus need_context() const;
  // The bytes [pointer, pointer + bytes) if they lie in one allocation, else null.
  std::byte* memory_at(DevicePointer pointer, size_t bytes);
  void run(const Node& node);

  DeviceLimits limits_;
  int device_count_;
  int64_t memory_bytes_;
  std::array<std::atomic<int64_t>, kDriverCallCount> calls_{};
  std::optional<std::vector<DriverCall>> history_;
  std::atomic<int64_t> capture_violations_ = 0;
  std::atomic<bool> hanging_ = false;

  mutable std::recursive_mutex mutex_;  // Guards all below. Recursive: kernels may call the driver.
  std::map<DriverCall, Fault> faults_;
  std::set<DriverCall> removed_;
  std::map<DeviceProperty, Attribute> attributes_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
  std::map<DevicePointer, Allocation> allocations_;
  std::map<std::thread::id, ContextHandle> current_;
  std::vector<int> context_shares_;
  std::map<EventHandle, double> events_;  // Time of the last record, in microseconds.
  std::map<GraphHandle, std::unique_ptr<Graph>> graphs_;
  std::map<GraphExecHandle, std::unique_ptr<Graph>> executables_;
  std::vector<StreamHandle> streams_;
  int64_t modules_ = 0;
  uint64_t next_handle_ = 1;
  std::unique_ptr<Graph> capture_;  // Null when no capture is in flight.
  StreamHandle capturing_ = nullptr;
  std::function<double(int64_t)> launch_us_;
  int64_t launches_ = 0;
  double clock_us_ = 0.0;
};

}  // namespace sinter
