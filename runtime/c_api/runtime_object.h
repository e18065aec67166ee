#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/c_api/objects.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_context.h"
#include "runtime/execute/executable.h"
#include "scheduler/planning/planner.h"

namespace sinter::c_api {

/// What compiles and runs plans.
class RuntimeObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kRuntime;
  using Handle = sinter_runtime;
  using Compile = std::function<Result<CompiledPlan>(Plan, const CompilePlanOptions&)>;

  /// Opens driver and compiler when first asked for, and again while that fails; empty names are
  /// the default libraries.
  RuntimeObject(std::string driver_library, std::string nvrtc_library, KernelCacheOptions cache);
  /// For tests: with a driver, which must outlive it, and a compiler of theirs; null: NVRTC.
  RuntimeObject(DeviceDriver& driver, Compile compile);
  RuntimeObject(const RuntimeObject&) = delete;
  RuntimeObject& operator=(const RuntimeObject&) = delete;
  ~RuntimeObject();

  Result<DeviceDriver*> driver();
  Result<CompiledPlan> compile(Plan plan, const CompilePlanOptions& options);
  /// A share in NVRTC.
  Result<NvrtcCompiler> compiler();
  [[nodiscard]] KernelCache& cache() { return cache_; }

  /// What has modules loaded and nobody can reach any more.
  struct Retired {
    DeviceContext context;
    std::shared_ptr<const void> loaded;
  };
  /// Destroys it, and all that had to wait, once the device has finished what it runs; keeps them
  /// where the device cannot be waited for now.
  void retire(Retired retired) noexcept;

 private:
  void destroy_retired() noexcept;
  Result<CompiledPlan> compile_with_nvrtc(Plan plan, const CompilePlanOptions& options);

  const std::string driver_library_;
  const std::string nvrtc_library_;
  KernelCache cache_;
  Compile compile_;

  std::mutex mutex_;  // Guards all below.
  std::unique_ptr<DeviceDriver> own_driver_;
  DeviceDriver* driver_ = nullptr;
  std::optional<NvrtcCompiler> compiler_;
  std::vector<Retired> retired_;
};

/// A plan made ready. Its destruction waits for the device.
class ExecutableObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kExecutable;
  using Handle = sinter_executable;

  ExecutableObject(std::shared_ptr<RuntimeObject> runtime, DeviceDriver& driver,
                   DeviceContext context, std::shared_ptr<const Executable> executable);
  ExecutableObject(const ExecutableObject&) = delete;
  ExecutableObject& operator=(const ExecutableObject&) = delete;
  ~ExecutableObject();

  [[nodiscard]] const Executable& executable() const { return *executable_; }
  [[nodiscard]] const DeviceContext& context() const { return context_; }
  [[nodiscard]] DeviceDriver& driver() const { return *driver_; }
  [[nodiscard]] const Plan& plan() const { return executable_->compiled().plan; }

  /// The tensors of one execution: as planned, but for their addresses.
  struct Tensors {
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };
  /// Takes a set that no other execution has, so that executions allocate none again and again.
  std::unique_ptr<Tensors> borrow_tensors() const;
  void give_back(std::unique_ptr<Tensors> tensors) const noexcept;

 private:
  std::shared_ptr<RuntimeObject> runtime_;
  DeviceDriver* driver_;
  DeviceContext context_;
  std::shared_ptr<const Executable> executable_;
  mutable std::mutex mutex_;  // Guards what is spare.
  mutable std::vector<std::unique_ptr<Tensors>> spare_;
};

}  // namespace sinter::c_api
