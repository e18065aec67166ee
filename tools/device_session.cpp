#include "tools/device_session.h"

#include "runtime/driver_api.h"

namespace sinter::tool {

Result<void> find_device_tools() {
  if (auto driver = cuda_driver(); !driver) return fail(driver.error());
  if (auto compiler = NvrtcCompiler::open(); !compiler) return fail(compiler.error());
  return {};
}

Result<DeviceSession> open_session(Plan plan, const FamilySet& families) {
  auto driver = cuda_driver();
  if (!driver) return fail(driver.error());
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  KernelCache cache(KernelCacheOptions::from_environment());
  auto compiled = compile_plan(std::move(plan), *compiler, cache, {.families = families});
  if (!compiled) return fail(compiled.error());
  auto executable = Executable::prepare(std::move(*compiled), **driver);
  if (!executable) return fail(executable.error());
  return DeviceSession{*driver, std::move(*executable)};
}

}  // namespace sinter::tool
