#include "tests/support/stand_in_kernel.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/stand_in_calls.h"

namespace sinter {

Result<StandInKernel> StandInKernel::make(DeviceDriver& driver, const NvrtcCompiler& compiler,
                                          const DeviceLimits& limits, const std::string& entry) {
  KernelSource source;
  source.entry = entry;
  source.text = stand_in_source(entry);
  auto architecture = Architecture::parse(architecture_of(limits));
  if (!architecture) return fail(architecture.error());
  auto compiled = compiler.compile(source, *architecture);
  if (!compiled) return fail(compiled.error());
  auto loaded = LoadedKernel::load(driver, *compiled, 0);
  if (!loaded) return fail(loaded.error());
  return StandInKernel(std::move(*loaded));
}

Result<void> StandInKernel::run(const ExternalRequest& request) const {
  for (size_t r = 0; r < request.outputs.size(); ++r) {
    if (auto launched = launch(request, r); !launched) return launched;
  }
  return {};
}

Result<void> StandInKernel::launch(const ExternalRequest& request, size_t r) const {
  constexpr unsigned int kThreads = 256;
  constexpr int64_t kMostBlocks = 4096;
  const ExternalTensor& result = request.outputs[r];
  DevicePointer address = result.address;
  int type = stand_in_type(result.type);
  int64_t count = element_count(result.sizes);
  int shift = static_cast<int>(7 * r);
  auto operands = static_cast<int>(request.inputs.size());
  struct Operand {
    DevicePointer address = 0;
    int type = 0;
    int64_t count = 1;
  };
  std::array<Operand, kMostStandInOperands> all;
  if (request.inputs.size() > all.size() || type < 0)
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("no stand-in for the call '{}'", request.op->name),
                 .remedy = "raise kMostStandInOperands, or pass f32 or bf16"});
  std::vector<void*> arguments = {&address, &type, &count, &shift, &operands};
  for (size_t k = 0; k < all.size(); ++k) {
    if (k < request.inputs.size())
      all[k] = {request.inputs[k].address, stand_in_type(request.inputs[k].type),
                element_count(request.inputs[k].sizes)};
    arguments.insert(arguments.end(), {&all[k].address, &all[k].type, &all[k].count});
  }
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned int>(std::max<int64_t>(blocks, 1));
  config.block_x = kThreads;
  config.stream = request.stream;
  return check(kernel_.driver(), DriverCall::kLaunch,
               kernel_.driver().launch(&config, kernel_.function(), arguments.data(), nullptr),
               "launching a stand-in");
}

}  // namespace sinter
