#include "tests/support/fake_driver.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "runtime/driver/prepared_launch.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {
namespace {

// What a real device takes for these is long beside a kernel and of no interest.
constexpr double kFillUs = 100.0;
constexpr double kDefaultLaunchUs = 10.0;

template <class Handle>
Handle handle_from(uint64_t number) {
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(number));
}

// Stream-ordered work and what never reaches the device; everything else breaks a capture.
constexpr std::array kAllowedInCapture = {
    DriverCall::kLaunch,
    DriverCall::kTensorMapEncode,
    DriverCall::kCaptureEnd,
    DriverCall::kEventRecord,
    DriverCall::kFillAsync,
    DriverCall::kCopyOnDeviceAsync,
    DriverCall::kContextGetCurrent,
    DriverCall::kContextSetCurrent,
    DriverCall::kStreamIsCapturing,
};

}  // namespace

struct FakeDriver::Function {
  size_t argument_count = 0;
  size_t table_bytes = 0;  // Of a further argument.
  size_t tensor_maps = 0;  // Arguments behind that one.
  Kernel body;
  std::map<FunctionProperty, int> properties;
};

struct FakeDriver::Node {
  std::span<std::byte> filled;  // Not empty: it fills these bytes, and launches nothing.
  unsigned char byte = 0;
  LaunchConfig config;
  const Function* function = nullptr;
  std::array<uint64_t, kMaxKernelArguments> arguments;
  std::vector<std::byte> table;
  std::vector<EncodedTensorMap> tensor_maps;
};

struct FakeDriver::Graph {
  std::vector<Node> nodes;
};

struct FakeDriver::Allocation {
  size_t bytes = 0;
  DeviceOrdinal device = 0;
  // Aligned as cuMemAlloc aligns.
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{256}); }
  };
  std::unique_ptr<std::byte[], Free> memory;
};

FakeDriver::FakeDriver(const DeviceLimits& limits, int device_count, int64_t memory_bytes)
    : limits_(limits), device_count_(device_count), memory_bytes_(memory_bytes) {
  context_shares_.resize(static_cast<size_t>(device_count));
  launch_us_ = [](int64_t) { return kDefaultLaunchUs; };
  const auto set = [this](DeviceProperty property, int64_t value) {
    set_attribute(property, static_cast<int>(value));
  };
  set(DeviceProperty::kMaxThreadsPerBlock, limits.threads_per_block);
  set(DeviceProperty::kMaxGridX, 2147483647);
  set(DeviceProperty::kClockRateKhz, static_cast<int64_t>(limits.clock_mhz * 1e3));
  set(DeviceProperty::kSmCount, limits.sm_count);
  // A 1,024-bit bus whose clock gives the bandwidth: two transfers of 128 bytes a clock.
  set(DeviceProperty::kMemoryBusWidthBits, 1024);
  set(DeviceProperty::kMemoryClockRateKhz,
      static_cast<int64_t>(limits.memory_bytes_per_us / 256.0 * 1e3));
  set(DeviceProperty::kL2Bytes, limits.l2_bytes);
  set(DeviceProperty::kMaxThreadsPerSm, limits.threads_per_sm);
  set(DeviceProperty::kComputeMajor, limits.compute_major);
  set(DeviceProperty::kComputeMinor, limits.compute_minor);
  set(DeviceProperty::kSharedBytesPerSm, limits.shared_bytes_per_sm);
  set(DeviceProperty::kRegistersPerSm, limits.registers_per_sm);
  set(DeviceProperty::kSharedBytesPerBlockOptIn, limits.shared_bytes_per_block);
  set(DeviceProperty::kMaxBlocksPerSm, limits.blocks_per_sm);
  set(DeviceProperty::kSharedBytesReserved, limits.shared_bytes_reserved);
  set(DeviceProperty::kClusterLaunch, limits.most_cluster_blocks > 1 ? 1 : 0);
}

FakeDriver::~FakeDriver() = default;

void FakeDriver::set_kernel(const std::string& name, size_t argument_count, Kernel body,
                            size_t table_bytes, size_t tensor_maps) {
  const std::lock_guard lock(mutex_);
  auto& function = functions_[name];
  if (!function) function = std::make_unique<Function>();
  function->argument_count = argument_count;
  function->table_bytes = table_bytes;
  function->tensor_maps = tensor_maps;
  function->body = std::move(body);
}

void FakeDriver::fail_next(DriverCall call, DriverStatus status, int64_t skip) {
  const std::lock_guard lock(mutex_);
  faults_[call] = {.status = status, .skip = skip};
}

void FakeDriver::remove(DriverCall call) {
  const std::lock_guard lock(mutex_);
  removed_.insert(call);
}

void FakeDriver::set_attribute(DeviceProperty property, int value, DriverStatus status) {
  const std::lock_guard lock(mutex_);
  attributes_[property] = {.value = value, .status = status};
}

void FakeDriver::set_launch_us(std::function<double(int64_t)> launch_us) {
  const std::lock_guard lock(mutex_);
  launch_us_ = std::move(launch_us);
}

void FakeDriver::set_hanging(bool hanging) { hanging_ = hanging; }

int64_t FakeDriver::calls(DriverCall call) const { return calls_[static_cast<size_t>(call)]; }

void FakeDriver::keep_order() {
  const std::lock_guard lock(mutex_);
  history_.emplace();
}

std::vector<DriverCall> FakeDriver::order_of(std::initializer_list<DriverCall> calls) const {
  const std::lock_guard lock(mutex_);
  std::vector<DriverCall> out;
  std::ranges::copy_if(history_.value(), std::back_inserter(out), [&](DriverCall call) {
    return std::ranges::find(calls, call) != calls.end();
  });
  return out;
}

int64_t FakeDriver::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [pointer, allocation] : allocations_) {
    sum += static_cast<int64_t>(allocation.bytes);
  }
  return sum;
}

int64_t FakeDriver::live_objects() const {
  const std::lock_guard lock(mutex_);
  int64_t shares = 0;
  for (const int count : context_shares_) shares += count;
  return shares + modules_ +
         static_cast<int64_t>(events_.size() + streams_.size() + graphs_.size() +
                              executables_.size());
}

int FakeDriver::function_property(const std::string& kernel, FunctionProperty property) const {
  const std::lock_guard lock(mutex_);
  const auto function = functions_.find(kernel);
  if (function == functions_.end()) return 0;
  const auto value = function->second->properties.find(property);
  return value != function->second->properties.end() ? value->second : 0;
}

bool FakeDriver::has(DriverCall call) const {
  const std::lock_guard lock(mutex_);
  return !removed_.contains(call);
}

std::string FakeDriver::describe(DriverStatus status) const {
  return fmt::format("fake driver status {}", static_cast<int>(status));
}

DriverStatus FakeDriver::enter(DriverCall call) {
  ++calls_[static_cast<size_t>(call)];
  if (history_) history_->push_back(call);
  if (removed_.contains(call)) return DriverStatus::kNotFound;
  if (const auto fault = faults_.find(call); fault != faults_.end() && fault->second.skip-- == 0) {
    const DriverStatus status = fault->second.status;
    faults_.erase(fault);
    return status;
  }
  if (capture_ && std::ranges::find(kAllowedInCapture, call) == kAllowedInCapture.end()) {
    ++capture_violations_;
    return DriverStatus::kStreamCaptureUnsupported;
  }
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::need_context() const {
  const auto current = current_.find(std::this_thread::get_id());
  return current != current_.end() && current->second != nullptr ? DriverStatus::kSuccess
                                                                 : DriverStatus::kInvalidContext;
}

std::byte* FakeDriver::memory_at(DevicePointer pointer, size_t bytes) {
  auto after = allocations_.upper_bound(pointer);
  if (after == allocations_.begin()) return nullptr;
  const auto& [base, allocation] = *std::prev(after);
  const size_t offset = pointer - base;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return nullptr;
  return allocation.memory.get() + offset;
}

void FakeDriver::run(const Node& node) {
  if (!node.filled.empty()) {
    std::memset(node.filled.data(), node.byte, node.filled.size());
    clock_us_ += kFillUs;
    return;
  }
  if (node.function->body) {
    std::array<uint64_t, 2 * kMaxKernelArguments + 1> arguments;
    size_t count = node.function->argument_count;
    std::copy_n(node.arguments.begin(), count, arguments.begin());
    if (!node.table.empty()) arguments[count++] = reinterpret_cast<uintptr_t>(node.table.data());
    for (const EncodedTensorMap& map : node.tensor_maps)
      arguments[count++] = reinterpret_cast<uintptr_t>(&map);
    node.function->body(node.config, {arguments.data(), count});
  }
  // Behind the body, which may tell what it takes.
  clock_us_ += launch_us_(launches_++);
}

// Opens the body of a call: takes the lock, counts, and returns early where the call must fail.
#define SINTER_ENTER(call)            \
  const std::lock_guard lock(mutex_); \
  if (const DriverStatus status = enter(call); status != DriverStatus::kSuccess) return status
#define SINTER_ENTER_WITH_CONTEXT(call) \
  SINTER_ENTER(call);                   \
  if (const DriverStatus context = need_context(); context != DriverStatus::kSuccess) return context

DriverStatus FakeDriver::driver_version(int* version) {
  SINTER_ENTER(DriverCall::kDriverVersion);
  *version = 13000;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::device_count(int* count) {
  SINTER_ENTER(DriverCall::kDeviceCount);
  *count = device_count_;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::device_get(DeviceOrdinal* device, int ordinal) {
  SINTER_ENTER(DriverCall::kDeviceGet);
  if (ordinal < 0 || ordinal >= device_count_) return DriverStatus::kInvalidDevice;
  *device = ordinal;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::device_name(char* name, int capacity, DeviceOrdinal) {
  SINTER_ENTER(DriverCall::kDeviceName);
  const std::string text = fmt::format("NVIDIA {}", limits_.name);
  const size_t count = std::min(text.size(), static_cast<size_t>(capacity) - 1);
  std::memcpy(name, text.data(), count);
  name[count] = '\0';
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::device_attribute(int* value, DeviceProperty property, DeviceOrdinal) {
  SINTER_ENTER(DriverCall::kDeviceAttribute);
  const auto attribute = attributes_.find(property);
  if (attribute == attributes_.end()) return DriverStatus::kInvalidValue;
  *value = attribute->second.value;
  return attribute->second.status;
}

DriverStatus FakeDriver::context_retain(ContextHandle* context, DeviceOrdinal device) {
  SINTER_ENTER(DriverCall::kContextRetain);
  if (device < 0 || device >= device_count_) return DriverStatus::kInvalidDevice;
  ++context_shares_[static_cast<size_t>(device)];
  *context = handle_from<ContextHandle>(static_cast<uint64_t>(device) + 1);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::context_release(DeviceOrdinal device) {
  SINTER_ENTER(DriverCall::kContextRelease);
  int& shares = context_shares_.at(static_cast<size_t>(device));
  if (shares == 0) return DriverStatus::kInvalidContext;
  --shares;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::context_get_current(ContextHandle* context) {
  SINTER_ENTER(DriverCall::kContextGetCurrent);
  const auto current = current_.find(std::this_thread::get_id());
  *context = current != current_.end() ? current->second : nullptr;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::context_set_current(ContextHandle context) {
  SINTER_ENTER(DriverCall::kContextSetCurrent);
  current_[std::this_thread::get_id()] = context;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::context_synchronize() {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kContextSynchronize);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::context_reset_persisting_l2() {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kContextResetPersistingL2);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::module_load(ModuleHandle* module, const void* image) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kModuleLoad);
  if (image == nullptr) return DriverStatus::kInvalidValue;
  ++modules_;
  *module = handle_from<ModuleHandle>(next_handle_++);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::module_unload(ModuleHandle) {
  SINTER_ENTER(DriverCall::kModuleUnload);
  --modules_;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::module_function(FunctionHandle* function, ModuleHandle, const char* name) {
  SINTER_ENTER(DriverCall::kModuleFunction);
  auto& slot = functions_[name];
  if (!slot) slot = std::make_unique<Function>();
  *function = reinterpret_cast<FunctionHandle>(slot.get());
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::function_get(int* value, FunctionProperty property,
                                      FunctionHandle function) {
  SINTER_ENTER(DriverCall::kFunctionGet);
  *value = reinterpret_cast<Function*>(function)->properties[property];
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::function_set(FunctionHandle function, FunctionProperty property,
                                      int value) {
  SINTER_ENTER(DriverCall::kFunctionSet);
  if (property == FunctionProperty::kMaxDynamicSharedBytes &&
      value > limits_.shared_bytes_per_block) {
    return DriverStatus::kInvalidValue;
  }
  reinterpret_cast<Function*>(function)->properties[property] = value;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::occupancy_blocks(int* blocks, FunctionHandle, int threads,
                                          size_t dynamic_shared_bytes) {
  SINTER_ENTER(DriverCall::kOccupancyBlocks);
  const int64_t shared = static_cast<int64_t>(dynamic_shared_bytes) + limits_.shared_bytes_reserved;
  *blocks =
      static_cast<int>(std::min({limits_.blocks_per_sm, limits_.threads_per_sm / threads,
                                 limits_.shared_bytes_per_sm / std::max<int64_t>(shared, 1)}));
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::launch(const LaunchConfig* config, FunctionHandle function,
                                void** arguments, void**) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kLaunch);
  Node node;
  node.config = *config;
  node.function = reinterpret_cast<const Function*>(function);
  const bool grid_is_empty = config->grid_x == 0 || config->grid_y == 0 || config->grid_z == 0;
  if (grid_is_empty || config->block_x == 0 ||
      node.function->argument_count > kMaxKernelArguments ||
      node.function->table_bytes > static_cast<size_t>(kMostArgumentBytes) ||
      node.function->tensor_maps > kMaxKernelArguments) {
    return DriverStatus::kInvalidValue;
  }
  for (size_t i = 0; i < node.function->argument_count; ++i) {
    std::memcpy(&node.arguments[i], arguments[i], sizeof(uint64_t));
  }
  void** further = arguments + node.function->argument_count;
  if (node.function->table_bytes > 0) {
    const auto* table = static_cast<const std::byte*>(*further++);
    node.table.assign(table, table + node.function->table_bytes);
  }
  for (size_t i = 0; i < node.function->tensor_maps; ++i)
    node.tensor_maps.push_back(*static_cast<const EncodedTensorMap*>(*further++));
  if (capture_ && config->stream == capturing_) {
    capture_->nodes.push_back(node);
  } else {
    run(node);
  }
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::tensor_map_encode(EncodedTensorMap* map, TensorMapType type, uint32_t rank,
                                           DevicePointer address, const uint64_t* sizes,
                                           const uint64_t* strides, const uint32_t* boxes,
                                           const uint32_t* element_strides,
                                           TensorMapInterleave interleave, TensorMapSwizzle swizzle,
                                           TensorMapPromotion promotion, TensorMapFill fill) {
  SINTER_ENTER(DriverCall::kTensorMapEncode);
  if (rank < 1 || rank > kMostMapAxes || address % kMapUnit != 0 ||
      reinterpret_cast<uintptr_t>(map) % alignof(EncodedTensorMap) != 0)
    return DriverStatus::kInvalidValue;
  FakeTensorMap out{.address = address,
                    .type = type,
                    .interleave = interleave,
                    .swizzle = swizzle,
                    .promotion = promotion,
                    .fill = fill,
                    .rank = static_cast<uint8_t>(rank)};
  for (uint32_t i = 0; i < rank; ++i) {
    if (sizes[i] < 1 || sizes[i] > kMostMapSize || boxes[i] < 1 || boxes[i] > kMostMapBox ||
        element_strides[i] < 1 || element_strides[i] > 8)
      return DriverStatus::kInvalidValue;
    out.sizes[i] = sizes[i];
    out.boxes[i] = boxes[i];
    out.element_strides[i] = static_cast<uint8_t>(element_strides[i]);
    if (i == 0) continue;
    if (strides[i - 1] % kMapUnit != 0 || strides[i - 1] > kMostMapStrideBytes)
      return DriverStatus::kInvalidValue;
    out.strides[i - 1] = strides[i - 1];
  }
  *map = std::bit_cast<EncodedTensorMap>(out);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::memory_allocate(DevicePointer* pointer, size_t bytes) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kMemoryAllocate);
  if (bytes == 0) return DriverStatus::kInvalidValue;
  if (static_cast<int64_t>(bytes) > memory_bytes_ - allocated_bytes()) {
    return DriverStatus::kOutOfMemory;
  }
  auto* memory = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{256}));
  *pointer = reinterpret_cast<uintptr_t>(memory);
  Allocation& allocation = allocations_[*pointer];
  allocation.bytes = bytes;
  // A context's handle is its device's ordinal plus one.
  allocation.device = static_cast<DeviceOrdinal>(
      reinterpret_cast<uintptr_t>(current_.at(std::this_thread::get_id())) - 1);
  allocation.memory.reset(memory);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::memory_free(DevicePointer pointer) {
  SINTER_ENTER(DriverCall::kMemoryFree);
  return allocations_.erase(pointer) == 1 ? DriverStatus::kSuccess : DriverStatus::kInvalidValue;
}

DriverStatus FakeDriver::copy_to_device(DevicePointer to, const void* from, size_t bytes) {
  SINTER_ENTER(DriverCall::kCopyToDevice);
  std::byte* memory = memory_at(to, bytes);
  if (memory == nullptr) return DriverStatus::kInvalidValue;
  std::memcpy(memory, from, bytes);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::copy_to_host(void* to, DevicePointer from, size_t bytes) {
  SINTER_ENTER(DriverCall::kCopyToHost);
  const std::byte* memory = memory_at(from, bytes);
  if (memory == nullptr) return DriverStatus::kInvalidValue;
  std::memcpy(to, memory, bytes);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::copy_to_device_async(DevicePointer to, const void* from, size_t bytes,
                                              StreamHandle) {
  SINTER_ENTER(DriverCall::kCopyToDeviceAsync);
  std::byte* memory = memory_at(to, bytes);
  if (memory == nullptr) return DriverStatus::kInvalidValue;
  std::memcpy(memory, from, bytes);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::copy_to_host_async(void* to, DevicePointer from, size_t bytes,
                                            StreamHandle) {
  SINTER_ENTER(DriverCall::kCopyToHostAsync);
  const std::byte* memory = memory_at(from, bytes);
  if (memory == nullptr) return DriverStatus::kInvalidValue;
  std::memcpy(to, memory, bytes);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::copy_on_device_async(DevicePointer to, DevicePointer from, size_t bytes,
                                              StreamHandle) {
  SINTER_ENTER(DriverCall::kCopyOnDeviceAsync);
  std::byte* target = memory_at(to, bytes);
  const std::byte* source = memory_at(from, bytes);
  if (target == nullptr || source == nullptr) return DriverStatus::kInvalidValue;
  std::memmove(target, source, bytes);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::fill_async(DevicePointer to, unsigned char byte, size_t bytes,
                                    StreamHandle stream) {
  SINTER_ENTER(DriverCall::kFillAsync);
  std::byte* memory = memory_at(to, bytes);
  if (memory == nullptr) return DriverStatus::kInvalidValue;
  Node node;
  node.filled = {memory, bytes};
  node.byte = byte;
  if (capture_ && stream == capturing_) {
    capture_->nodes.push_back(node);
  } else {
    run(node);
  }
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::pointer_attribute(void* value, PointerProperty property,
                                           DevicePointer pointer) {
  SINTER_ENTER(DriverCall::kPointerAttribute);
  if (memory_at(pointer, 1) == nullptr) return DriverStatus::kInvalidValue;
  constexpr unsigned int kDeviceMemory = 2;
  switch (property) {
    case PointerProperty::kMemoryType:
      std::memcpy(value, &kDeviceMemory, sizeof(kDeviceMemory));
      return DriverStatus::kSuccess;
    case PointerProperty::kDeviceOrdinal:
      std::memcpy(value, &std::prev(allocations_.upper_bound(pointer))->second.device, sizeof(int));
      return DriverStatus::kSuccess;
  }
  return DriverStatus::kInvalidValue;
}

DriverStatus FakeDriver::stream_create(StreamHandle* stream, unsigned int) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kStreamCreate);
  *stream = streams_.emplace_back(handle_from<StreamHandle>(next_handle_++));
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::stream_destroy(StreamHandle stream) {
  SINTER_ENTER(DriverCall::kStreamDestroy);
  return std::erase(streams_, stream) == 1 ? DriverStatus::kSuccess : DriverStatus::kInvalidHandle;
}

DriverStatus FakeDriver::stream_synchronize(StreamHandle) {
  SINTER_ENTER(DriverCall::kStreamSynchronize);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::event_create(EventHandle* event, unsigned int) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kEventCreate);
  *event = handle_from<EventHandle>(next_handle_++);
  events_[*event] = -1.0;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::event_destroy(EventHandle event) {
  SINTER_ENTER(DriverCall::kEventDestroy);
  return events_.erase(event) == 1 ? DriverStatus::kSuccess : DriverStatus::kInvalidHandle;
}

DriverStatus FakeDriver::event_record(EventHandle event, StreamHandle) {
  SINTER_ENTER(DriverCall::kEventRecord);
  const auto slot = events_.find(event);
  if (slot == events_.end()) return DriverStatus::kInvalidHandle;
  slot->second = clock_us_;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::event_synchronize(EventHandle) {
  SINTER_ENTER(DriverCall::kEventSynchronize);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::event_query(EventHandle) {
  SINTER_ENTER(DriverCall::kEventQuery);
  return hanging_ ? DriverStatus::kNotReady : DriverStatus::kSuccess;
}

DriverStatus FakeDriver::event_elapsed(float* milliseconds, EventHandle start, EventHandle end) {
  SINTER_ENTER(DriverCall::kEventElapsed);
  const auto from = events_.find(start);
  const auto to = events_.find(end);
  if (from == events_.end() || to == events_.end() || from->second < 0 || to->second < 0) {
    return DriverStatus::kInvalidHandle;
  }
  *milliseconds = static_cast<float>((to->second - from->second) * 1e-3);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::capture_begin(StreamHandle stream, CaptureMode) {
  SINTER_ENTER(DriverCall::kCaptureBegin);
  if (stream == nullptr) return DriverStatus::kStreamCaptureUnsupported;  // As on a real device.
  capture_ = std::make_unique<Graph>();
  capturing_ = stream;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::stream_is_capturing(StreamHandle stream, CaptureStatus* capture) {
  SINTER_ENTER(DriverCall::kStreamIsCapturing);
  *capture = capture_ && stream == capturing_ ? CaptureStatus::kActive : CaptureStatus::kNone;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::capture_end(StreamHandle stream, GraphHandle* graph) {
  SINTER_ENTER(DriverCall::kCaptureEnd);
  if (!capture_ || stream != capturing_) return DriverStatus::kStreamCaptureInvalidated;
  *graph = handle_from<GraphHandle>(next_handle_++);
  graphs_[*graph] = std::move(capture_);
  capturing_ = nullptr;
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::graph_instantiate(GraphExecHandle* executable, GraphHandle graph,
                                           uint64_t) {
  SINTER_ENTER(DriverCall::kGraphInstantiate);
  const auto source = graphs_.find(graph);
  if (source == graphs_.end()) return DriverStatus::kInvalidHandle;
  *executable = handle_from<GraphExecHandle>(next_handle_++);
  executables_[*executable] = std::make_unique<Graph>(*source->second);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::graph_launch(GraphExecHandle executable, StreamHandle) {
  SINTER_ENTER_WITH_CONTEXT(DriverCall::kGraphLaunch);
  const auto graph = executables_.find(executable);
  if (graph == executables_.end()) return DriverStatus::kInvalidHandle;
  for (const Node& node : graph->second->nodes) run(node);
  return DriverStatus::kSuccess;
}

DriverStatus FakeDriver::graph_exec_destroy(GraphExecHandle executable) {
  SINTER_ENTER(DriverCall::kGraphExecDestroy);
  return executables_.erase(executable) == 1 ? DriverStatus::kSuccess
                                             : DriverStatus::kInvalidHandle;
}

DriverStatus FakeDriver::graph_destroy(GraphHandle graph) {
  SINTER_ENTER(DriverCall::kGraphDestroy);
  return graphs_.erase(graph) == 1 ? DriverStatus::kSuccess : DriverStatus::kInvalidHandle;
}

#undef SINTER_ENTER_WITH_CONTEXT
#undef SINTER_ENTER

}  // namespace sinter
