#include "runtime/execute/loaded_kernel.h"

#include <utility>

#include "scheduler/budgets/device_limits.h"

namespace sinter {
namespace {

// Static and dynamic shared bytes a kernel may use without opting in (CUDA C++ Programming Guide,
// "Shared Memory", compute capability 7.0 and later).
constexpr int64_t kSharedBytesWithoutOptIn = 48 * 1024;

}  // namespace

Result<LoadedKernel> LoadedKernel::load(DeviceDriver& driver, const CompiledKernel& kernel,
                                        int64_t dynamic_shared_bytes, int64_t cluster_size) {
  const std::string doing =
      fmt::format("loading kernel {} ({})", kernel.entry, kernel.architecture);
  ModuleHandle module = nullptr;
  if (auto done = check(driver, DriverCall::kModuleLoad,
                        driver.module_load(&module, kernel.cubin.data()), doing);
      !done) {
    return fail(std::move(done.error()));
  }
  LoadedKernel out(driver, module);

  auto found = check(driver, DriverCall::kModuleFunction,
                     driver.module_function(&out.function_, module, kernel.entry.c_str()), doing);
  if (!found) return fail(std::move(found.error()));

  if (dynamic_shared_bytes + kernel.resources.shared_bytes > kSharedBytesWithoutOptIn) {
    auto raised = check(driver, DriverCall::kFunctionSet,
                        driver.function_set(out.function_, FunctionProperty::kMaxDynamicSharedBytes,
                                            static_cast<int>(dynamic_shared_bytes)),
                        fmt::format("allowing kernel {} {} bytes of dynamic shared memory",
                                    kernel.entry, dynamic_shared_bytes));
    if (!raised) return fail(std::move(raised.error()));
  }
  if (cluster_size > kPortableClusterBlocks) {
    auto allowed =
        check(driver, DriverCall::kFunctionSet,
              driver.function_set(out.function_, FunctionProperty::kNonPortableClusters, 1),
              fmt::format("allowing kernel {} clusters of {} blocks", kernel.entry, cluster_size));
    if (!allowed) return fail(std::move(allowed.error()));
  }
  return out;
}

LoadedKernel::LoadedKernel(LoadedKernel&& other) noexcept
    : driver_(other.driver_),
      module_(std::exchange(other.module_, nullptr)),
      function_(std::exchange(other.function_, nullptr)) {}

LoadedKernel& LoadedKernel::operator=(LoadedKernel&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(module_, other.module_);
  std::swap(function_, other.function_);
  return *this;
}

LoadedKernel::~LoadedKernel() {
  if (module_ != nullptr) (void)driver_->module_unload(module_);
}

Result<int64_t> LoadedKernel::blocks_per_sm(int64_t threads, int64_t dynamic_shared_bytes) const {
  int blocks = 0;
  const DriverStatus status = driver_->occupancy_blocks(
      &blocks, function_, static_cast<int>(threads), static_cast<size_t>(dynamic_shared_bytes));
  return check(*driver_, DriverCall::kOccupancyBlocks, status, "asking for the occupancy").map([&] {
    return int64_t{blocks};
  });
}

Result<LoadedKernelPtr> LoadedKernels::load(DeviceDriver& driver, const CompiledKernelPtr& kernel,
                                            int64_t dynamic_shared_bytes, int64_t cluster_size) {
  const std::lock_guard lock(mutex_);
  if (const auto known = entries_.find(kernel.get());
      known != entries_.end() && known->second.kernel.lock() == kernel) {
    if (LoadedKernelPtr loaded = known->second.loaded.lock()) return loaded;
  }
  std::erase_if(entries_, [](const auto& entry) { return entry.second.loaded.expired(); });
  auto made = LoadedKernel::load(driver, *kernel, dynamic_shared_bytes, cluster_size);
  if (!made) return fail(made.error());
  auto loaded = std::make_shared<const LoadedKernel>(std::move(*made));
  entries_[kernel.get()] = {.kernel = kernel, .loaded = loaded};
  return loaded;
}

}  // namespace sinter
