// Host time of Executable::execute beside a bare cuLaunchKernelEx of the same kernel with the same
// arguments, in one process and in turns. Exit status: 1 where the difference is over the limit, or
// something failed.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/event_timer.h"
#include "runtime/execute/executable.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace {

using sinter::check;
using sinter::DriverCall;
using sinter::fail;
using sinter::Result;

constexpr double kLimitUs = 1.5;
// Small, so that the device keeps up and the launches never wait for room in its queue.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 1024;
constexpr int kLaunchesPerSample = 64;
constexpr int kWarmups = 20;

struct Overhead {
  double execute_us = 0.0;
  double bare_us = 0.0;
  [[nodiscard]] double difference_us() const { return execute_us - bare_us; }
};

/// A stream of its own, so that nothing else in the process orders itself against the launches.
class Stream {
 public:
  static Result<Stream> create(sinter::DeviceDriver& driver) {
    constexpr unsigned int kNonBlocking = 1;
    sinter::StreamHandle handle = nullptr;
    return check(driver, DriverCall::kStreamCreate, driver.stream_create(&handle, kNonBlocking),
                 "making a stream")
        .map([&] { return Stream(driver, handle); });
  }
  Stream(Stream&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (handle_ != nullptr) (void)driver_->stream_destroy(handle_);
  }
  [[nodiscard]] sinter::StreamHandle handle() const { return handle_; }
  [[nodiscard]] Result<void> drain() const {
    return check(*driver_, DriverCall::kStreamSynchronize, driver_->stream_synchronize(handle_),
                 "draining a stream");
  }

 private:
  Stream(sinter::DeviceDriver& driver, sinter::StreamHandle handle)
      : driver_(&driver), handle_(handle) {}

  sinter::DeviceDriver* driver_;
  sinter::StreamHandle handle_;
};

/// Zeroed tensors for a fusion's inputs or outputs: every one of them is a legal value.
Result<std::vector<sinter::Tensor>> make_tensors(sinter::DeviceDriver& driver,
                                                 const sinter::Fusion& fusion,
                                                 const std::vector<sinter::ValueId>& values,
                                                 std::vector<sinter::DeviceBuffer>& buffers) {
  std::vector<sinter::Tensor> out;
  for (const sinter::ValueId id : values) {
    const sinter::Value& value = fusion.values[id];
    sinter::Tensor tensor{.type = value.type, .sizes = sinter::Binding{}.sizes_of(value.shape)};
    const int64_t bytes = sinter::element_count(tensor.sizes) * sinter::bytes_of(value.type);
    auto buffer = sinter::DeviceBuffer::allocate(driver, static_cast<size_t>(bytes));
    if (!buffer) return fail(buffer.error());
    if (auto filled = check(driver, DriverCall::kFillAsync,
                            driver.fill_async(buffer->pointer(), 0, buffer->bytes(), nullptr),
                            "clearing a tensor");
        !filled)
      return fail(filled.error());
    tensor.address = buffer->pointer();
    buffers.push_back(std::move(*buffer));
    out.push_back(std::move(tensor));
  }
  return out;
}

/// Microseconds per launch over one run of launches; the stream is empty before and after.
template <typename Launch>
Result<double> time_run(const Stream& stream, const Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (int i = 0; i < kLaunchesPerSample; ++i) {
    if (auto done = launch(); !done) return fail(done.error());
  }
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
  if (auto drained = stream.drain(); !drained) return fail(drained.error());
  return elapsed.count() / kLaunchesPerSample;
}

class OverheadTimer {
 public:
  OverheadTimer(sinter::DeviceDriver& driver, sinter::DeviceLimits limits,
                sinter::NvrtcCompiler compiler, int samples)
      : driver_(driver),
        limits_(std::move(limits)),
        compiler_(std::move(compiler)),
        cache_({}),
        samples_(samples) {}

  Result<Overhead> run(const std::string& name) {
    const sinter::CannedFusion* canned = sinter::find_canned_fusion(name);
    if (canned == nullptr) {
      return fail({.kind = sinter::ErrorKind::kInvalidArgument,
                   .message = fmt::format("there is no canned fusion '{}'", name),
                   .remedy = "`sinter list` shows them"});
    }
    auto plan = sinter::plan(canned->build(), {{"rows", kRows}, {"cols", kColumns}}, limits_);
    if (!plan) return fail(plan.error());
    auto compiled = sinter::compile_plan(std::move(*plan), compiler_, cache_);
    if (!compiled) return fail(compiled.error());
    auto executable = sinter::Executable::prepare(std::move(*compiled), driver_);
    if (!executable) return fail(executable.error());
    return time(*executable);
  }

 private:
  Result<Overhead> time(const sinter::Executable& executable) {
    const sinter::Fusion& fusion = executable.compiled().plan.fusion;
    std::vector<sinter::DeviceBuffer> buffers;
    const auto inputs = make_tensors(driver_, fusion, fusion.inputs, buffers);
    if (!inputs) return fail(inputs.error());
    const auto outputs = make_tensors(driver_, fusion, fusion.outputs, buffers);
    if (!outputs) return fail(outputs.error());

    // The bare launch: the same image, configuration and arguments, laid out beforehand.
    const sinter::KernelBuild& segment = executable.compiled().kernels.front();
    const sinter::KernelSource& source = segment.source;
    const auto kernel = sinter::LoadedKernel::load(driver_, *segment.kernel,
                                                   source.dynamic_shared ? source.shared_bytes : 0,
                                                   source.cluster_size);
    if (!kernel) return fail(kernel.error());
    std::vector<sinter::DevicePointer> addresses;
    for (const sinter::BufferArgument& buffer : source.buffers) {
      const auto& values = buffer.use != sinter::BufferUse::kRead ? fusion.outputs : fusion.inputs;
      const auto& tensors = buffer.use != sinter::BufferUse::kRead ? *outputs : *inputs;
      const auto index = std::ranges::find(values, buffer.value) - values.begin();
      addresses.push_back(tensors[static_cast<size_t>(index)].address);
    }
    std::vector<int64_t> scalars = source.param_values;
    std::vector<void*> arguments;
    for (sinter::DevicePointer& address : addresses) arguments.push_back(&address);
    for (int64_t& scalar : scalars) arguments.push_back(&scalar);

    const auto stream = Stream::create(driver_);
    if (!stream) return fail(stream.error());
    sinter::LaunchConfig config = executable.launch({0}).config();
    config.stream = stream->handle();
    const auto bare = [&]() -> Result<void> {
      return check(driver_, DriverCall::kLaunch,
                   driver_.launch(&config, kernel->function(), arguments.data(), nullptr),
                   "launching the bare kernel");
    };
    const auto execute = [&] {
      return executable.execute(*inputs, *outputs, 0, 0, stream->handle());
    };
    std::vector<double> bare_us;
    std::vector<double> execute_us;
    for (int sample = 0; sample < kWarmups + samples_; ++sample) {
      // In turns, so that a clock that drifts moves both.
      auto first = sample % 2 == 0 ? time_run(*stream, bare) : time_run(*stream, execute);
      if (!first) return fail(first.error());
      auto second = sample % 2 == 0 ? time_run(*stream, execute) : time_run(*stream, bare);
      if (!second) return fail(second.error());
      if (sample < kWarmups) continue;
      bare_us.push_back(sample % 2 == 0 ? *first : *second);
      execute_us.push_back(sample % 2 == 0 ? *second : *first);
    }
    return Overhead{.execute_us = sinter::median(std::move(execute_us)),
                    .bare_us = sinter::median(std::move(bare_us))};
  }

  sinter::DeviceDriver& driver_;
  sinter::DeviceLimits limits_;
  sinter::NvrtcCompiler compiler_;
  sinter::KernelCache cache_;
  int samples_;
};

int report(const sinter::Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times execute() on the host beside a bare cuLaunchKernelEx of the same kernel");
  std::vector<std::string> fusions = {"rms_norm", "layer_norm", "softmax", "cross_entropy"};
  int samples = 301;
  std::string json_path;
  app.add_option("fusions", fusions, "canned fusions over rows and cols");
  app.add_option("--samples", samples, "runs of 64 launches each")->check(CLI::Range(15, 1000000));
  app.add_option("--json", json_path, "write results here");
  CLI11_PARSE(app, argc, argv);

  auto driver = sinter::cuda_driver();
  if (!driver) return report(driver.error());
  auto limits = sinter::query_device(**driver, 0);
  if (!limits) return report(limits.error());
  auto compiler = sinter::NvrtcCompiler::open();
  if (!compiler) return report(compiler.error());
  auto context = sinter::DeviceContext::retain(**driver, 0);
  if (!context) return report(context.error());
  auto current = sinter::CurrentContext::enter(**driver, *context);
  if (!current) return report(current.error());

  nlohmann::json out = {
      {"device", limits->name},
      {"nvrtc", fmt::format("{}.{}", compiler->version_major(), compiler->version_minor())},
      {"rows", kRows},
      {"cols", kColumns},
      {"limit_us", kLimitUs},
      {"results", nlohmann::json::array()}};
  OverheadTimer timer(**driver, *limits, std::move(*compiler), samples);
  int exit_code = 0;
  for (const std::string& name : fusions) {
    const auto overhead = timer.run(name);
    if (!overhead) {
      exit_code = report(overhead.error());
      continue;
    }
    const bool over = overhead->difference_us() > kLimitUs;
    if (over) exit_code = 1;
    fmt::print("{:16} execute {:6.3f} us, bare launch {:6.3f} us, difference {:6.3f} us{}\n", name,
               overhead->execute_us, overhead->bare_us, overhead->difference_us(),
               over ? fmt::format(", over the limit of {} us", kLimitUs) : "");
    out["results"].push_back({{"fusion", name},
                              {"execute_us", overhead->execute_us},
                              {"bare_us", overhead->bare_us},
                              {"difference_us", overhead->difference_us()}});
  }
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << out.dump(1) << "\n";
    if (!file.flush()) {
      exit_code = report({.kind = sinter::ErrorKind::kInvalidArgument,
                          .message = fmt::format("cannot write {}", json_path)});
    }
  }
  return exit_code;
}
