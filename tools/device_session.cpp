#include "tools/device_session.h"
#include "tools/standard_error.h"

#include <memory>
#include <mutex>
#include <set>

#include "runtime/driver/driver_api.h"

namespace sinter::tool {

Result<void> find_device_tools() {
  if (auto driver = cuda_driver(); !driver) return fail(driver.error());
  if (auto compiler = NvrtcCompiler::open(); !compiler) return fail(compiler.error());
  return {};
}

KernelCacheOptions cache_options() {
  auto out = KernelCacheOptions::from_environment();
  // What is the same for every kernel is told once.
  struct Told {
    std::mutex mutex;
    std::set<std::string> texts;
  };
  out.on_trouble = [told = std::make_shared<Told>()](const Error& trouble) {
    const std::string text = trouble.text();
    const std::lock_guard lock(told->mutex);
    if (told->texts.insert(text).second) tell(fmt::format("sinter: {}\n", text));
  };
  return out;
}

Result<DeviceSession> open_session(Plan plan, const FamilySet& families) {
  auto driver = cuda_driver();
  if (!driver) return fail(driver.error());
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  KernelCache cache(cache_options());
  auto compiled = compile_plan(std::move(plan), *compiler, cache, {.families = families});
  if (!compiled) return fail(compiled.error());
  auto executable = Executable::prepare(std::move(*compiled), **driver);
  if (!executable) return fail(executable.error());
  return DeviceSession{*driver, std::move(*executable)};
}

}  // namespace sinter::tool
