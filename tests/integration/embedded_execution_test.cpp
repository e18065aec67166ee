// One executable of kernels and calls as a framework uses it: from many threads at once, each on a
// stream of its own, and captured into a graph that is replayed with other inputs. On the fake
// driver, and on a GPU where there is one.

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/reference_calls.h"
#include "tests/support/stand_in_calls.h"
#include "tests/support/stand_in_kernel.h"
#include "tests/support/training_layers.h"

namespace sinter::embedded_execution_test {

constexpr size_t kThreads = 16;

/// A problem with what is right for it. Seeds give other inputs.
struct Problem {
  Problem(Fusion graph, const Executable& executable, const ExternalFunction& calls, uint64_t seed)
      : fusion(std::move(graph)),
        binding(executable.compiled().plan.binding),
        inputs(sample_inputs(fusion, binding, seed)),
        expected(evaluate(fusion, binding, inputs, {.external = calls})) {}

  Fusion fusion;
  Binding binding;
  std::vector<HostTensor> inputs;
  OracleResult expected;
};

/// Tensors, workspace and stream of one execution at a time.
class Lane {
 public:
  Lane(DeviceDriver& driver, const Problem& problem, const Executable& executable)
      : driver_(driver),
        executable_(executable),
        stream_(OwnStream::create(driver, "testing").value()),
        outputs_(poisoned_outputs(problem.fusion, problem.binding)),
        workspace_(allocate(static_cast<size_t>(executable.workspace_bytes()))) {
    for (const HostTensor& input : problem.inputs) add(input, input_tensors_);
    for (const HostTensor& output : outputs_) add(output, output_tensors_);
    load(problem);
  }

  /// Uploads a problem's inputs and poisons the outputs.
  void load(const Problem& problem) {
    const size_t count = problem.inputs.size();
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(memory_[i].upload(problem.inputs[i].storage()));
    outputs_ = poisoned_outputs(problem.fusion, problem.binding);
    for (size_t i = 0; i < outputs_.size(); ++i)
      ASSERT_TRUE(memory_[count + i].upload(outputs_[i].storage()));
  }
  [[nodiscard]] Result<void> execute(StreamHandle stream) const {
    return executable_.execute(input_tensors_, output_tensors_, workspace_.pointer(),
                               executable_.workspace_bytes(), stream);
  }
  [[nodiscard]] StreamHandle stream() const { return stream_.handle(); }
  void wait() const { ASSERT_EQ(driver_.stream_synchronize(stream()), DriverStatus::kSuccess); }
  /// What the outputs hold is the problem's result.
  void expect_right(const Problem& problem) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      ASSERT_TRUE(memory_[problem.inputs.size() + i].download(outputs_[i].storage()));
      const auto mismatch = compare(problem.expected, i, outputs_[i]);
      EXPECT_FALSE(mismatch) << mismatch->text();
    }
  }

 private:
  DeviceBuffer allocate(size_t bytes) const {
    return DeviceBuffer::allocate(driver_, bytes).value();
  }
  void add(const HostTensor& tensor, std::vector<Tensor>& tensors) {
    memory_.push_back(allocate(tensor.storage().size()));
    tensors.push_back({.address = memory_.back().pointer(),
                       .type = tensor.type(),
                       .sizes = tensor.sizes(),
                       .strides = tensor.strides()});
  }

  DeviceDriver& driver_;
  const Executable& executable_;
  OwnStream stream_;
  std::vector<HostTensor> outputs_;
  DeviceBuffer workspace_;
  std::vector<DeviceBuffer> memory_;  ///< Of inputs, then of outputs.
  std::vector<Tensor> input_tensors_;
  std::vector<Tensor> output_tensors_;
};

/// Every thread executes on a lane of its own, all at once, several times.
void expect_right_from_threads(DeviceDriver& driver, const Fusion& fusion,
                               const Executable& executable, const ExternalFunction& calls,
                               int repeats) {
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  std::vector<Problem> problems;
  for (size_t i = 0; i < kThreads; ++i) problems.emplace_back(fusion, executable, calls, i);
  std::deque<Lane> lanes;
  for (const Problem& problem : problems) lanes.emplace_back(driver, problem, executable);
  std::atomic<int> failures = 0;
  std::barrier start(static_cast<std::ptrdiff_t>(kThreads));
  const auto work = [&](const Lane& lane) {
    const auto own = CurrentContext::enter(driver, context).value();
    start.arrive_and_wait();
    for (int i = 0; i < repeats; ++i) {
      if (!lane.execute(lane.stream())) ++failures;
    }
  };
  std::vector<std::jthread> threads;
  for (const Lane& lane : lanes) threads.emplace_back(work, std::cref(lane));
  threads.clear();
  EXPECT_EQ(failures, 0);
  for (size_t i = 0; i < kThreads; ++i) {
    SCOPED_TRACE(i);
    lanes[i].wait();
    lanes[i].expect_right(problems[i]);
  }
}

/// Captures an execution once and replays it with two sets of inputs.
void expect_right_replays(DeviceDriver& driver, const Fusion& fusion, const Executable& executable,
                          const ExternalFunction& calls) {
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  const Problem first(fusion, executable, calls, 1);
  const Problem second(fusion, executable, calls, 2);
  Lane lane(driver, first, executable);
  const auto graph = CapturedLaunch::capture(
      driver, lane.stream(), [&](StreamHandle stream) { return lane.execute(stream); }, "testing");
  ASSERT_TRUE(graph) << graph.error().text();
  for (const Problem* problem : {&first, &second, &first}) {
    lane.load(*problem);
    ASSERT_TRUE(graph->replay(lane.stream(), "testing"));
    lane.wait();
    lane.expect_right(*problem);
  }
}

// ---- On the fake driver

/// Enqueues calls through the driver, as an embedder does on a device: each is a launch whose
/// kernel runs the call on the host, at once or when a captured graph is replayed.
class LaunchedCalls {
 public:
  LaunchedCalls(FakeDriver& driver, HostCall call)
      : driver_(driver), run_(on_host_memory(std::move(call))) {
    const auto context = DeviceContext::retain(driver, 0).value();
    const auto current = CurrentContext::enter(driver, context).value();
    driver.set_kernel("host_call", 1,
                      [this](const LaunchConfig&, std::span<const uint64_t> arguments) {
                        EXPECT_TRUE(run_(*std::bit_cast<const ExternalRequest*>(arguments[0])));
                      });
    EXPECT_EQ(driver.module_function(&function_, nullptr, "host_call"), DriverStatus::kSuccess);
  }

  [[nodiscard]] Result<void> operator()(const ExternalRequest& request) {
    const ExternalRequest* kept = keep(request);
    auto address = std::bit_cast<uint64_t>(kept);
    void* argument = &address;
    const LaunchConfig config{.stream = request.stream};
    return check(driver_, DriverCall::kLaunch,
                 driver_.launch(&config, function_, &argument, nullptr), "launching a call");
  }

 private:
  /// A request is valid until its callback returns, but a graph is replayed later.
  struct Kept {
    std::vector<ExternalTensor> inputs, outputs;
    ExternalRequest request;
  };
  const ExternalRequest* keep(const ExternalRequest& request) {
    const std::lock_guard lock(mutex_);
    Kept& kept =
        kept_.emplace_back(Kept{.inputs = {request.inputs.begin(), request.inputs.end()},
                                .outputs = {request.outputs.begin(), request.outputs.end()},
                                .request = request});
    kept.request.inputs = kept.inputs;
    kept.request.outputs = kept.outputs;
    return &kept.request;
  }

  FakeDriver& driver_;
  ExternalCallback run_;
  FunctionHandle function_ = nullptr;
  std::mutex mutex_;
  std::deque<Kept> kept_;
};

/// Layers whose calls are launches.
class EmbeddedExecution : public ::testing::Test {
 protected:
  Executable prepare(const Fusion& fusion) {
    Plan planned =
        plan(fusion, {{"tokens", 8}}, *find_device("H200"), {.families = builtin_families()})
            .value();
    EXPECT_TRUE(planned.is_segmented);
    EXPECT_FALSE(planned.externals.empty());
    return Executable::prepare(
               interpreted(driver_, std::move(planned)), driver_,
               {.external = [this](const ExternalRequest& request) { return calls_(request); }})
        .value();
  }

  FakeDriver driver_;
  LaunchedCalls calls_{driver_, run_reference_call};
};

TEST_F(EmbeddedExecution, SixteenThreadsShareAnExecutable) {
  const Fusion fusion = llama_layer_forward();
  const Executable executable = prepare(fusion);
  expect_right_from_threads(driver_, fusion, executable, reference_call, 3);
}

TEST_F(EmbeddedExecution, ACapturedLayerIsReplayedWithOtherInputs) {
  for (const Fusion& fusion : {llama_layer_forward(), gpt2_layer_backward()}) {
    SCOPED_TRACE(fusion.name);
    const Executable executable = prepare(fusion);
    expect_right_replays(driver_, fusion, executable, reference_call);
    EXPECT_EQ(driver_.capture_violations(), 0);
  }
}

TEST_F(EmbeddedExecution, ACaptureOnlyEnqueuesLaunches) {
  const Fusion fusion = llama_layer_forward();
  const Executable executable = prepare(fusion);
  const auto context = DeviceContext::retain(driver_, 0).value();
  const auto current = CurrentContext::enter(driver_, context).value();
  const Problem problem(fusion, executable, reference_call, 1);
  const Lane lane(driver_, problem, executable);
  ASSERT_EQ(driver_.capture_begin(lane.stream(), CaptureMode::kThreadLocal),
            DriverStatus::kSuccess);
  std::array<int64_t, kDriverCallCount> before{};
  for (size_t i = 0; i < before.size(); ++i) before[i] = driver_.calls(static_cast<DriverCall>(i));
  ASSERT_TRUE(lane.execute(lane.stream()));
  before[static_cast<size_t>(DriverCall::kLaunch)] +=
      static_cast<int64_t>(executable.compiled().plan.steps().size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(driver_.calls(static_cast<DriverCall>(i)), before[i])
        << name_of(DriverCall{static_cast<uint8_t>(i)});
  GraphHandle graph = nullptr;
  ASSERT_EQ(driver_.capture_end(lane.stream(), &graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.graph_destroy(graph), DriverStatus::kSuccess);
}

// ---- On a GPU

class EmbeddedExecutionGpu : public LiveDeviceTest<const char*> {
 protected:
  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (driver_ == nullptr || IsSkipped() || HasFatalFailure()) return;
    const auto context = DeviceContext::retain(*driver_, 0).value();
    const auto current = CurrentContext::enter(*driver_, context).value();
    auto stand_in = StandInKernel::make(*driver_, *compiler_, limits_, "embedded_stand_in");
    ASSERT_TRUE(stand_in) << stand_in.error().text();
    stand_in_.emplace(std::move(*stand_in));
    fusion_ =
        GetParam() == std::string_view("llama") ? llama_layer_forward() : gpt2_layer_backward();
    auto planned = plan(fusion_, {{"tokens", 300}}, limits_, {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    KernelCache cache({});
    auto compiled = compile_plan(std::move(*planned), *compiler_, cache, {.threads = 8});
    ASSERT_TRUE(compiled) << compiled.error().text();
    auto executable = Executable::prepare(
        std::move(*compiled), *driver_,
        {.external = [this](const ExternalRequest& request) { return stand_in_->run(request); }});
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  Fusion fusion_;
  std::optional<StandInKernel> stand_in_;
  std::optional<Executable> executable_;
};

TEST_P(EmbeddedExecutionGpu, SixteenThreadsShareAnExecutable) {
  expect_right_from_threads(*driver_, fusion_, *executable_, stand_in_calls().evaluate, 50);
}

TEST_P(EmbeddedExecutionGpu, ACapturedLayerIsReplayedWithOtherInputs) {
  expect_right_replays(*driver_, fusion_, *executable_, stand_in_calls().evaluate);
}

INSTANTIATE_TEST_SUITE_P(Layers, EmbeddedExecutionGpu, ::testing::Values("llama", "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace sinter::embedded_execution_test
