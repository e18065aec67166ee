#include "runtime/c_api/runtime_object.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/driver/driver_api.h"
#include "scheduler/planning/planner.h"

namespace sinter::c_api {

RuntimeObject::RuntimeObject(std::string driver_library, std::string nvrtc_library,
                             KernelCacheOptions cache)
    : driver_library_(std::move(driver_library)),
      nvrtc_library_(std::move(nvrtc_library)),
      cache_(std::move(cache)) {}

RuntimeObject::RuntimeObject(DeviceDriver& driver, Compile compile)
    : cache_({}), compile_(std::move(compile)), driver_(&driver) {}

RuntimeObject::~RuntimeObject() {
  destroy_retired();
  // What still cannot be waited for is left to the end of the process, with its driver.
  if (retired_.empty()) return;
  for (Retired& retired : retired_)
    (void)new std::shared_ptr<const void>(std::move(retired.loaded));  // NOLINT: never destroyed
  (void)own_driver_.release();
}

Result<DeviceDriver*> RuntimeObject::driver() {
  const std::lock_guard lock(mutex_);
  if (driver_ != nullptr) return driver_;
  if (driver_library_.empty()) {
    auto shared = cuda_driver();
    if (shared) driver_ = *shared;
    return shared;
  }
  auto opened = open_driver(driver_library_);
  if (!opened) return fail(std::move(opened).error());
  own_driver_ = std::move(*opened);
  driver_ = own_driver_.get();
  return driver_;
}

Result<CompiledPlan> RuntimeObject::compile(Plan plan, const CompilePlanOptions& options) {
  return compile_ ? compile_(std::move(plan), options)
                  : compile_with_nvrtc(std::move(plan), options);
}

Result<NvrtcCompiler> RuntimeObject::compiler() {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    auto opened = NvrtcCompiler::open(nvrtc_library_);
    if (!opened) return opened;
    compiler_.emplace(std::move(*opened));
  }
  return *compiler_;
}

Result<CompiledPlan> RuntimeObject::compile_with_nvrtc(Plan plan,
                                                       const CompilePlanOptions& options) {
  auto with = compiler();
  if (!with) return fail(std::move(with).error());
  return compile_plan(std::move(plan), *with, cache_, options);
}

void RuntimeObject::retire(Retired retired) noexcept {
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(retired));
  }
  destroy_retired();
}

void RuntimeObject::destroy_retired() noexcept {
  std::vector<Retired> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(retired_);
  }
  std::erase_if(gone, [&](Retired& retired) {
    const auto current = CurrentContext::enter(*driver_, retired.context);
    if (!current || driver_->context_synchronize() != DriverStatus::kSuccess) return false;
    retired.loaded.reset();  // While its context is current.
    return true;
  });
  const std::lock_guard lock(mutex_);
  std::ranges::move(gone, std::back_inserter(retired_));
}

namespace {

std::vector<Tensor> planned(const Plan& plan, std::span<const ValueId> values, bool is_input) {
  const Binding binding{};  // The planned graph is specialised.
  std::vector<Tensor> out;
  for (const ValueId id : values) {
    const Value& value = plan.fusion.values[id];
    out.push_back({.address = 0,
                   .type = value.type,
                   .sizes = binding.sizes_of(value.shape),
                   .strides = is_input ? input_strides(plan.fusion, binding, id)
                                       : output_strides(plan.fusion, binding, id)});
  }
  return out;
}

}  // namespace

ExecutableObject::ExecutableObject(std::shared_ptr<RuntimeObject> runtime, DeviceDriver& driver,
                                   DeviceContext context,
                                   std::shared_ptr<const Executable> executable)
    : runtime_(std::move(runtime)),
      driver_(&driver),
      context_(std::move(context)),
      executable_(std::move(executable)) {}

ExecutableObject::~ExecutableObject() {
  runtime_->retire({.context = std::move(context_), .loaded = std::move(executable_)});
}

std::unique_ptr<ExecutableObject::Tensors> ExecutableObject::borrow_tensors() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      auto out = std::move(spare_.back());
      spare_.pop_back();
      return out;
    }
    spare_.reserve(spare_.capacity() + 1);  // For give_back(), which may not fail.
  }
  return std::make_unique<Tensors>(
      Tensors{.inputs = planned(plan(), plan().fusion.inputs, true),
              .outputs = planned(plan(), plan().caller_outputs(), false)});
}

void ExecutableObject::give_back(std::unique_ptr<Tensors> tensors) const noexcept {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(tensors));
}

}  // namespace sinter::c_api
