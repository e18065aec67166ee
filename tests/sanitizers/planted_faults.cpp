// Runs one kernel with the fault that a tool of compute-sanitizer is named after, compiled and
// launched as all kernels are: what the tool must find before its silence about others counts.
// usage: sinter_planted_faults memcheck|racecheck|synccheck|initcheck

#include <map>
#include <string>

#include "runtime/compile/architecture.h"
#include "runtime/compile/compile_kernel.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {
namespace {

constexpr int64_t kThreads = 128;

const std::map<std::string, std::string>& bodies() {
  static const std::map<std::string, std::string> kBodies = {
      {"memcheck", "y[n + threadIdx.x] = 1.0f;"},
      {"racecheck",
       "__shared__ float s[128];\n"
       "  s[threadIdx.x] = float(n);\n"
       "  y[threadIdx.x] = s[127 - threadIdx.x];"},
      {"synccheck",
       "if (threadIdx.x % 2 == 0) __syncthreads();\n"
       "  y[threadIdx.x] = float(n);"},
      {"initcheck", "y[threadIdx.x] += float(n);"},
  };
  return kBodies;
}

Result<void> run(const std::string& tool) {
  auto driver = cuda_driver();
  if (!driver) return fail(driver.error());
  auto context = DeviceContext::retain(**driver, 0);
  if (!context) return fail(context.error());
  auto current = CurrentContext::enter(**driver, *context);
  if (!current) return fail(current.error());
  auto limits = query_device(**driver, 0);
  if (!limits) return fail(limits.error());
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());

  KernelSource source;
  source.entry = tool + "_fault";
  source.text = fmt::format("extern \"C\" __global__ void {}(float* y, int n) {{\n  {}\n}}\n",
                            source.entry, bodies().at(tool));
  source.buffers = {{.value = ValueId{0}, .use = BufferUse::kWrite}};
  source.params = {DType::kI32};
  source.param_values = {kThreads};
  source.work_per_block = kThreads;
  source.threads = kThreads;
  KernelCache cache({});
  auto compiled = Architecture::parse(architecture_of(*limits)).and_then([&](const auto& name) {
    return compile_kernel(*compiler, cache, source, name);
  });
  if (!compiled) return fail(compiled.error());
  auto loaded = LoadedKernel::load(**driver, *compiled->kernel, 0);
  if (!loaded) return fail(loaded.error());
  auto launch = PreparedLaunch::prepare(**driver, loaded->function(), source);
  if (!launch) return fail(launch.error());
  auto y = DeviceBuffer::allocate(**driver, kThreads * sizeof(float));
  if (!y) return fail(y.error());
  const DevicePointer pointers[] = {y->pointer()};
  return launch->launch(nullptr, pointers).and_then([&] {
    return check(**driver, DriverCall::kContextSynchronize, (*driver)->context_synchronize(),
                 "running a planted fault");
  });
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  if (argc != 2 || !sinter::bodies().contains(argv[1])) {
    fmt::print(stderr, "usage: {} memcheck|racecheck|synccheck|initcheck\n", argv[0]);
    return 2;
  }
  const auto done = sinter::run(argv[1]);
  if (!done) fmt::print(stderr, "{}\n", done.error().text());
  return done ? 0 : 1;
}
