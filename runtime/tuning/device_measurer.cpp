#include "runtime/tuning/device_measurer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/check/device_run.h"
#include "runtime/check/reference_tensors.h"
#include "runtime/check/row_repetition.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_event.h"
#include "runtime/driver/event_timer.h"
#include "runtime/execute/executable.h"

namespace sinter {
namespace {

constexpr std::string_view kDoing = "measuring a candidate";

/// How often a wait looks whether the device is done: short beside a rotation of replays.
constexpr std::chrono::microseconds kPollInterval{50};

/// Replays of each candidate before a rotation, not timed: clocks and instruction caches.
constexpr int kWarmups = 1;

/// What the driver answers about stream capture: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to
/// CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD (cuda.h).
constexpr int kFirstCaptureStatus = 900;
constexpr int kLastCaptureStatus = 908;

Result<void> check_not_capturing(DeviceDriver& driver, StreamHandle stream) {
  CaptureStatus status = CaptureStatus::kNone;
  const DriverStatus asked = driver.stream_is_capturing(stream, &status);
  if (asked == DriverStatus::kSuccess && status == CaptureStatus::kNone) return {};
  // Before a context is current there is no stream to ask about.
  if (asked == DriverStatus::kInvalidContext) return {};
  // The legacy stream may not even be asked while another one is captured.
  const int code = static_cast<int>(asked);
  if (asked != DriverStatus::kSuccess && (code < kFirstCaptureStatus || code > kLastCaptureStatus))
    return check(driver, DriverCall::kStreamIsCapturing, asked, kDoing);
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = "a stream is being captured, and tuning allocates, waits and launches",
               .remedy = "tune before the capture begins, or after it has ended"});
}

int64_t elements_of(const Fusion& fusion, const Binding& binding) {
  int64_t out = 0;
  for (const auto* values : {&fusion.inputs, &fusion.outputs}) {
    for (const ValueId value : *values)
      out += element_count(binding.sizes_of(fusion.values[value].shape));
  }
  return out;
}

/// Threads that compile plans into the cache, in their order, until they are told to stop. What
/// they fail with, whoever asks for the plan meets again.
class CompileAhead {
 public:
  CompileAhead(std::vector<Plan> plans, int threads, const NvrtcCompiler& compiler,
               KernelCache& cache, const CompilePlanOptions& options)
      : plans_(std::move(plans)) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, &compiler, &cache, &options] {
        for (size_t at = next_++; at < plans_.size(); at = next_++) {
          try {
            (void)compile_plan(plans_[at], compiler, cache, options);
          } catch (const std::exception&) {
            // Whoever asks for the plan meets it on a thread that can report it.
          }
        }
      });
    }
  }
  CompileAhead(const CompileAhead&) = delete;
  CompileAhead& operator=(const CompileAhead&) = delete;
  ~CompileAhead() {
    next_ = plans_.size();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<Plan> plans_;
  std::atomic<size_t> next_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

class DeviceMeasurer::Device {
 public:
  /// What it owns on the device, in the order of its making.
  struct Owned {
    DeviceContext context;
    CurrentContext current;
    OwnStream stream;
    DeviceBuffer scratch;
  };

  Device(DeviceDriver& driver, const NvrtcCompiler& compiler, KernelCache& cache,
         const DeviceMeasurerOptions& options, Owned owned)
      : driver_(driver),
        compiler_(compiler),
        cache_(cache),
        options_(options),
        context_(std::move(owned.context)),
        current_(std::move(owned.current)),
        stream_(std::move(owned.stream)),
        scratch_(std::move(owned.scratch)) {}

  [[nodiscard]] bool is_hanging() const { return hanging_; }
  void stop_compiling() { compile_ahead_.reset(); }

  Result<void> check_ready() { return check_not_capturing(driver_, options_.stream); }

  Result<void> begin(const Fusion& fusion, const Binding& binding) {
    candidates_.clear();
    tensors_.reset();
    reference_.reset();
    const DeviceRunOptions run{.seed = options_.seed,
                               .oracle_elements = options_.oracle_elements,
                               .total_elements = options_.total_elements};
    if (const int64_t elements = elements_of(fusion, binding);
        elements > options_.most_elements && !find_slices(fusion, binding)) {
      return fail({.kind = ErrorKind::kUnsupported,
                   .message = fmt::format(
                       "its results depend on {} elements, more than the oracle is asked to check",
                       elements),
                   .remedy = "tune smaller extents, or raise most_elements",
                   .measured = elements,
                   .limit = options_.most_elements});
    }
    auto given = options_.inputs ? options_.inputs(fusion, binding) : std::vector<HostTensor>{};
    reference_ = std::make_unique<DeviceReference>(
        given.empty() ? make_reference(fusion, binding, run)
                      : make_reference(fusion, binding, std::move(given), run));
    auto tensors = ReferenceTensors::make(*reference_, driver_);
    if (!tensors) return fail(std::move(tensors.error()));
    tensors_.emplace(std::move(*tensors));
    return {};
  }

  void announce(std::vector<Plan> plans) {
    compile_ahead_.reset();
    if (options_.compile_threads <= 1) return;
    compile_ahead_.emplace(std::move(plans), options_.compile_threads, compiler_, cache_,
                           options_.compile);
  }

  Result<PreparedCandidate> prepare(const Plan& plan) {
    PreparedCandidate out{.id = next_id_++};
    auto compiled = compile_plan(plan, compiler_, cache_, options_.compile);
    if (!compiled) return failed(out, compiled.error());
    const KernelBuild& leading = compiled->kernels.front();
    out.schedule = leading.chosen.schedule;
    out.registers = leading.kernel->resources.registers;
    out.spill_bytes = leading.kernel->resources.spill_store_bytes;
    auto executable =
        Executable::prepare(std::move(*compiled), driver_, {.device = options_.device});
    if (!executable) return failed(out, executable.error());
    auto workspace =
        DeviceBuffer::allocate(driver_, static_cast<size_t>(executable->workspace_bytes()));
    if (!workspace) return failed(out, workspace.error());
    // Moved to where it stays before its launches are captured.
    Candidate& candidate =
        candidates_
            .try_emplace(out.id, Candidate{std::move(*executable), std::move(*workspace), {}})
            .first->second;

    if (auto checked = check(candidate, out); !checked) return fail(std::move(checked.error()));
    if (out.failure || !out.wrong.empty()) {
      if (out.failure) candidates_.erase(out.id);
      return out;
    }
    auto captured = CapturedLaunch::capture(
        driver_, stream_.handle(), [&](StreamHandle stream) { return execute(candidate, stream); },
        kDoing);
    if (!captured) {
      candidates_.erase(out.id);
      return failed(out, captured.error());
    }
    candidate.launch.emplace(std::move(*captured));
    return out;
  }

  Result<std::vector<std::vector<double>>> sample(std::span<const size_t> ids, int rounds) {
    struct Run {
      size_t candidate;
      DeviceEvent start;
      DeviceEvent end;
    };
    std::vector<Run> runs;
    unsigned char byte = 0;
    for (int round = -kWarmups; round < rounds; ++round) {
      for (size_t i = 0; i < ids.size(); ++i) {
        // Nobody always follows the same neighbour.
        const size_t at = (i + static_cast<size_t>(round + kWarmups)) % ids.size();
        auto start = DeviceEvent::create(driver_, kDoing);
        if (!start) return fail(std::move(start.error()));
        auto end = DeviceEvent::create(driver_, kDoing);
        if (!end) return fail(std::move(end.error()));
        const CapturedLaunch& launch = *candidates_.at(ids[at]).launch;
        auto done = chill(byte++)
                        .and_then([&] { return start->record(stream_.handle(), kDoing); })
                        .and_then([&] { return launch.replay(stream_.handle(), kDoing); })
                        .and_then([&] { return end->record(stream_.handle(), kDoing); });
        if (!done) return fail(std::move(done.error()));
        if (round >= 0) runs.push_back({at, std::move(*start), std::move(*end)});
      }
    }
    if (auto done = wait("the replays being timed"); !done) return fail(std::move(done.error()));
    std::vector<std::vector<double>> out(ids.size());
    for (const Run& run : runs) {
      auto us = run.end.us_since(run.start, kDoing);
      if (!us) return fail(std::move(us.error()));
      out[run.candidate].push_back(*us);
    }
    return out;
  }

  void drop(size_t id) { candidates_.erase(id); }

 private:
  struct Candidate {
    Executable executable;
    DeviceBuffer workspace;
    std::optional<CapturedLaunch> launch;
  };

  /// What does not compile or load is the candidate's own affair.
  static PreparedCandidate failed(PreparedCandidate out, Error error) {
    out.failure = std::move(error);
    return out;
  }

  Result<void> execute(const Candidate& candidate, StreamHandle stream) const {
    return candidate.executable.execute(tensors_->inputs(), tensors_->outputs(),
                                        candidate.workspace.pointer(),
                                        static_cast<int64_t>(candidate.workspace.bytes()), stream);
  }

  /// Runs it once into poisoned outputs and compares them. An error is the device's.
  Result<void> check(const Candidate& candidate, PreparedCandidate& out) {
    if (auto reset = tensors_->reset(); !reset) return reset;
    // Uploads and poison went to the legacy stream, which this one does not wait for.
    auto arrived = sinter::check(driver_, DriverCall::kContextSynchronize,
                                 driver_.context_synchronize(), kDoing);
    if (!arrived) return arrived;
    if (auto launched = execute(candidate, stream_.handle()); !launched) {
      out.failure = std::move(launched.error());
      return {};
    }
    if (auto done = wait("the candidate being checked"); !done) return done;
    auto compared = tensors_->compare();
    if (!compared) return fail(std::move(compared.error()));
    out.worst_ratio = compared->worst_ratio;
    if (!compared->passed()) out.wrong = compared->text();
    return {};
  }

  Result<void> chill(unsigned char byte) {
    if (scratch_.bytes() == 0) return {};
    return wait("the replay before").and_then([&] {
      return empty_l2(driver_, scratch_, byte, stream_.handle(), kDoing);
    });
  }

  /// Waits for all that was enqueued, but not for ever.
  Result<void> wait(std::string_view what) {
    auto event = DeviceEvent::create(driver_, kDoing);
    if (!event) return fail(std::move(event.error()));
    if (auto recorded = event->record(stream_.handle(), kDoing); !recorded) return recorded;
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double> limit(options_.launch_limit_seconds);
    while (true) {
      const DriverStatus status = driver_.event_query(event->handle());
      if (status != DriverStatus::kNotReady)
        return sinter::check(driver_, DriverCall::kEventQuery, status,
                             fmt::format("waiting for {}", what));
      if (std::chrono::steady_clock::now() - start > limit) break;
      std::this_thread::sleep_for(kPollInterval);
    }
    hanging_ = true;
    return fail({.kind = ErrorKind::kDeviceError,
                 .message = fmt::format("{} did not end within {:g} seconds", what,
                                        options_.launch_limit_seconds),
                 .remedy = "end the process, which ends the kernel; please report the schedule",
                 .measured = static_cast<int64_t>(options_.launch_limit_seconds)});
  }

  DeviceDriver& driver_;
  const NvrtcCompiler& compiler_;
  KernelCache& cache_;
  DeviceMeasurerOptions options_;
  DeviceContext context_;
  CurrentContext current_;
  OwnStream stream_;
  DeviceBuffer scratch_;
  std::unique_ptr<DeviceReference> reference_;  ///< The tensors point at it.
  std::optional<ReferenceTensors> tensors_;
  std::map<size_t, Candidate> candidates_;
  size_t next_id_ = 0;
  bool hanging_ = false;
  std::optional<CompileAhead> compile_ahead_;  ///< Last: it ends first.
};

Result<std::unique_ptr<DeviceMeasurer>> DeviceMeasurer::create(
    DeviceDriver& driver, const NvrtcCompiler& compiler, KernelCache& cache,
    const DeviceMeasurerOptions& options) {
  if (auto ready = check_not_capturing(driver, options.stream); !ready)
    return fail(std::move(ready.error()));
  auto context = DeviceContext::retain(driver, options.device);
  if (!context) return fail(std::move(context.error()));
  auto current = CurrentContext::enter(driver, *context);
  if (!current) return fail(std::move(current.error()));
  if (auto ready = check_not_capturing(driver, options.stream); !ready)
    return fail(std::move(ready.error()));
  auto stream = OwnStream::create(driver, kDoing);
  if (!stream) return fail(std::move(stream.error()));
  const auto bytes =
      scratch_bytes_for(driver, options.device, {.scratch_bytes = options.scratch_bytes});
  if (!bytes) return fail(bytes.error());
  auto scratch = DeviceBuffer::allocate(driver, static_cast<size_t>(*bytes));
  if (!scratch) return fail(std::move(scratch.error()));
  return std::unique_ptr<DeviceMeasurer>(
      new DeviceMeasurer(std::make_unique<Device>(driver, compiler, cache, options,
                                                  Device::Owned{.context = std::move(*context),
                                                                .current = std::move(*current),
                                                                .stream = std::move(*stream),
                                                                .scratch = std::move(*scratch)})));
}

DeviceMeasurer::DeviceMeasurer(std::unique_ptr<Device> device) : device_(std::move(device)) {}

DeviceMeasurer::~DeviceMeasurer() {
  if (!device_->is_hanging()) return;
  device_->stop_compiling();  // Its threads use what outlives this measurer only.
  // Freeing memory and unloading modules would wait for a launch that does not end.
  (void)device_.release();
}

double DeviceMeasurer::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
Result<void> DeviceMeasurer::check_ready() { return device_->check_ready(); }
Result<void> DeviceMeasurer::begin(const Fusion& fusion, const Binding& binding) {
  return as_result([&]() -> Result<void> {
    if (auto ready = device_->check_ready(); !ready) return ready;
    return device_->begin(fusion, binding);
  });
}
void DeviceMeasurer::announce(std::vector<Plan> plans) { device_->announce(std::move(plans)); }
Result<PreparedCandidate> DeviceMeasurer::prepare(const Plan& plan) {
  return as_result([&]() -> Result<PreparedCandidate> {
    return device_->check_ready().and_then([&] { return device_->prepare(plan); });
  });
}
Result<std::vector<std::vector<double>>> DeviceMeasurer::sample(std::span<const size_t> candidates,
                                                                int rounds) {
  return device_->check_ready().and_then([&] { return device_->sample(candidates, rounds); });
}
void DeviceMeasurer::drop(size_t candidate) { device_->drop(candidate); }
bool DeviceMeasurer::is_hanging() const { return device_->is_hanging(); }

}  // namespace sinter
