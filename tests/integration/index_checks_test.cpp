// Plans that check indices: whatever the schedule, what kernels leave says which indices of a take
// were outside of its axis, and nothing else changes.

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <map>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "runtime/execute/ranged_executable.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kFarBelow = std::numeric_limits<int64_t>::min();
constexpr int64_t kFarAbove = std::numeric_limits<int64_t>::max();

Result<Plan> checked_plan(const Fusion& fusion, const ExtentValues& extents, SchedulePin pin = {}) {
  return plan(fusion, extents, *find_device("H200"),
              {.families = builtin_families(), .pin = std::move(pin), .check_indices = true});
}

/// Row losses of logits and labels, the ids of which are %v0 and %v1.
Fusion cross_entropy_fusion(DType labels = DType::kI64) {
  return find_canned_fusion(labels == DType::kI64 ? "cross_entropy" : "cross_entropy_i32")->build();
}

/// The value of a fusion's only take, or of its `nth`.
ValueId take_of(const Fusion& fusion, size_t nth = 0) {
  for (const Op& op : fusion.ops) {
    if (std::holds_alternative<TakeOp>(op.kind) && nth-- == 0) return op.results.front();
  }
  return {};
}

/// A pick along the last axis, beside a reduction over it, without which it has no kernel.
ValueId picked(FusionBuilder& b, ValueId x, ValueId index) {
  const ValueId pick = b.take(x, index, -1);
  return b.add(pick, b.reduce(ReduceFn::kSum, x, {-1}));
}

/// Random inputs with these labels, by element.
std::vector<HostTensor> inputs_with(const Fusion& fusion, const Binding& binding,
                                    const std::map<int64_t, int64_t>& labels, size_t input = 1,
                                    uint64_t seed = 1) {
  std::vector<HostTensor> out = sample_inputs(fusion, binding, seed);
  for (const auto& [element, label] : labels) out[input].set_integer(element, label);
  return out;
}

/// What a graph of one take must report, found without the library's help.
std::vector<OutsideIndices> expected_of(const Fusion& fusion, const HostTensor& labels,
                                        int64_t limit, size_t input = 1) {
  const ValueId index = fusion.inputs[input];
  OutsideIndices found{.take = take_of(fusion),
                       .index = index,
                       .name = fusion.values[index].name,
                       .limit = limit,
                       .looked_at = labels.count()};
  for (int64_t i = labels.count(); i-- > 0;) {
    const int64_t label = labels.get_integer(i);
    if (label >= 0 && label < limit) continue;
    ++found.outside;
    found.first = label;
    found.position = labels.index_of(i);
  }
  return found.outside > 0 ? std::vector{found} : std::vector<OutsideIndices>{};
}

/// Row losses beside the rows' probabilities, for which rows stay where they are.
Fusion losses_and_probabilities(DType labels_type = DType::kI64) {
  FusionBuilder b("losses_and_probabilities");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(labels_type, {rows}, "labels");
  b.output(cross_entropy(b, logits, labels), "loss");
  b.output(softmax(b, logits, -1, DType::kBF16), "p");
  return b.build();
}

/// Row losses beside what all rows add up to, for which blocks keep sums from row to row.
Fusion losses_and_column_sums() {
  FusionBuilder b("losses_and_columns");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(DType::kI64, {rows}, "labels");
  b.output(cross_entropy(b, logits, labels), "loss");
  b.output(b.reduce(ReduceFn::kSum, logits, {0}), "sums");
  return b.build();
}

struct FamilyCase {
  std::string name;
  Fusion fusion;
  std::string family;
  std::function<bool(const Schedule&)> is_meant = [](const Schedule&) { return true; };
  friend void PrintTo(const FamilyCase& test, std::ostream* out) { *out << test.name; }
};

std::vector<FamilyCase> family_cases() {
  const auto is_cluster = [](const Schedule& schedule) { return schedule.cluster_size > 1; };
  const auto takes_turns = [](const Schedule& schedule) { return schedule.rows_per_tile > 1; };
  const auto has_last_block_finish = [](const Schedule& schedule) {
    return schedule.finish == Finish::kLastBlock;
  };
  return {{"MultiWave", losses_and_probabilities(), "multi_wave"},
          {"MultiWaveOfI32", losses_and_probabilities(DType::kI32), "multi_wave"},
          {"Clusters", losses_and_probabilities(), "multi_wave", is_cluster},
          {"Looped", cross_entropy_fusion(), "looped"},
          {"LoopedOfI32", cross_entropy_fusion(DType::kI32), "looped"},
          {"Rings", losses_and_column_sums(), "warp_specialised"},
          {"MultiWaveWithColumns", losses_and_column_sums(), "multi_wave"},
          {"Turns", losses_and_column_sums(), "looped", takes_turns},
          {"Tickets", losses_and_column_sums(), "multi_wave", has_last_block_finish}};
}

class IndexChecksOfFamilies : public ::testing::TestWithParam<FamilyCase> {};

TEST_P(IndexChecksOfFamilies, AreRightWhateverTheSchedule) {
  constexpr int64_t kRows = 43;
  constexpr int64_t kColumns = 2048;
  const Fusion& fusion = GetParam().fusion;
  const auto planned =
      checked_plan(fusion, {{"rows", kRows}, {"cols", kColumns}}, {.family = GetParam().family});
  ASSERT_TRUE(planned) << planned.error().text();
  const bool wide = fusion.values[fusion.inputs[1]].type == DType::kI64;
  const int64_t most = wide ? kFarAbove : std::numeric_limits<int32_t>::max();
  const auto inputs = inputs_with(fusion, planned->binding,
                                  {{2, kColumns}, {3, -1}, {7, most}, {42, -most - 1}, {9, 0}});
  std::vector<Schedule> schedules;
  for (const ProposedSchedule& candidate : planned->kernels.front().candidates)
    schedules.push_back(candidate.schedule);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto drawn = random_schedule(planned->kernels.front().facts, planned->limits,
                                       builtin_families(), seed, GetParam().family);
    if (drawn) schedules.push_back(drawn->schedule);
  }
  std::erase_if(schedules, [](const Schedule& schedule) { return !GetParam().is_meant(schedule); });
  ASSERT_FALSE(schedules.empty());
  // The best, and others over the whole list.
  const size_t step = std::max<size_t>(schedules.size() / 6, 1);
  for (size_t i = 0; i < schedules.size(); i += step) {
    SCOPED_TRACE(print(schedules[i]));
    const auto run = check_on_host(fusion, planned->binding, *planned, schedules[i], inputs,
                                   builtin_families(), {.seed = i});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], kColumns));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, IndexChecksOfFamilies, ::testing::ValuesIn(family_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(IndexChecks, TheChosenPlanIsRightAtManyWidths) {
  const Fusion fusion = cross_entropy_fusion();
  for (const int64_t columns : {1, 2, 33, 1000, 4096, 40000}) {
    SCOPED_TRACE(columns);
    const auto planned = checked_plan(fusion, {{"rows", 5}, {"cols", columns}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{4, columns}, {1, kFarBelow}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], columns));
  }
}

TEST(IndexChecks, EveryIndexThatIsInsideReportsNothing) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = checked_plan(fusion, {{"rows", 4}, {"cols", 64}}).value();
  const auto inputs = inputs_with(fusion, planned.binding, {{0, 0}, {1, 63}});
  const auto run = execute_on_host(planned, inputs, builtin_families()).value();
  EXPECT_THAT(run.outside, IsEmpty());
  ASSERT_EQ(run.kept_indices.size(), 1U);
  EXPECT_EQ(run.kept_indices[0].get_integer(1), 63);
}

/// Bits that a label must keep on its way to the report.
TEST(IndexChecks, BoundsAreExactAround31And63Bits) {
  FusionBuilder b("picks");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 7}, "x");
  b.output(picked(b, x, b.input(DType::kI64, {rows}, "labels")), "y");
  const Fusion fusion = b.build();
  const int64_t bit31 = int64_t{1} << 31;
  const int64_t bit32 = int64_t{1} << 32;
  for (const int64_t label : {int64_t{7}, int64_t{-1}, bit31 - 1, bit31, -bit31, bit32, bit32 + 3,
                              -bit32 + 3, (int64_t{1} << 53) + 1, kFarAbove, kFarBelow}) {
    SCOPED_TRACE(label);
    const auto planned = checked_plan(fusion, {{"rows", 3}}).value();
    const auto inputs = inputs_with(fusion, planned.binding, {{0, 6}, {1, label}, {2, 0}});
    const auto run = check_on_host(fusion, planned.binding, planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    ASSERT_EQ(run->outside.size(), 1U);
    EXPECT_EQ(run->outside[0].first, label);
    EXPECT_EQ(run->outside[0].position, (Sizes{1}));
    EXPECT_EQ(run->outside[0].outside, 1);
  }
}

TEST(IndexChecks, SeveralTakesAreToldApart) {
  // Two share an index, the third computes its own, which is an output too, and nothing needs the
  // fourth.
  FusionBuilder b("many");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 9}, "x");
  const ValueId z = b.input(DType::kF32, {rows, 9}, "z");
  const ValueId labels = b.input(DType::kI32, {rows}, "labels");
  const ValueId moved = b.add(labels, b.constant_integer(2, DType::kI32));
  b.output(picked(b, x, labels), "a");
  b.output(picked(b, z, labels), "b");
  b.output(picked(b, x, moved), "c");
  b.take(z, moved, 1);
  b.output(moved, "moved");
  const Fusion fusion = b.build();
  const auto planned = checked_plan(fusion, {{"rows", 6}});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(planned->index_checks.size(), 3U);
  EXPECT_EQ(planned->kept_indices().size(), 2U);
  EXPECT_EQ(planned->caller_outputs().size(), 4U);
  const auto inputs =
      inputs_with(fusion, planned->binding, {{0, 4}, {1, 6}, {2, 7}, {3, 0}, {4, -1}, {5, 8}}, 2);
  const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_TRUE(run->passed()) << run->text();
  const OutsideIndices a{take_of(fusion, 0), labels, "labels", {4}, -1, 9, 1, 6};
  const OutsideIndices second{take_of(fusion, 1), labels, "labels", {4}, -1, 9, 1, 6};
  const OutsideIndices c{take_of(fusion, 2), moved, "moved", {2}, 9, 9, 2, 6};
  EXPECT_THAT(run->outside, ::testing::ElementsAre(a, second, c));
}

TEST(IndexChecks, AxesThatAreOptimisedAwayAreChecked) {
  // Of one element the simplified graph takes nothing any more; and of none there is nothing.
  for (const int64_t columns : {1, 0}) {
    SCOPED_TRACE(columns);
    FusionBuilder b("narrow");
    const ValueId x = b.input(DType::kF32, {4, columns}, "x");
    b.output(picked(b, x, b.input(DType::kI64, {4}, "labels")), "y");
    const Fusion fusion = b.build();
    const auto planned = checked_plan(fusion, {});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{0, 0}, {1, 1}, {2, 0}, {3, -1}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], columns));
  }
}

TEST(IndexChecks, PositionsHaveAllAxes) {
  FusionBuilder b("tokens");
  const ValueId x = b.input(DType::kBF16, {2, 3, 16}, "x");
  b.output(picked(b, x, b.input(DType::kI64, {2, 3}, "labels")), "y");
  const Fusion fusion = b.build();
  const auto planned = checked_plan(fusion, {}).value();
  const auto inputs = inputs_with(fusion, planned.binding, {{4, 16}, {5, -7}});
  const auto run = execute_on_host(planned, inputs, builtin_families()).value();
  ASSERT_EQ(run.outside.size(), 1U);
  EXPECT_EQ(run.outside[0].position, (Sizes{1, 1}));
  const Error error = outside_error(run.outside);
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message,
            "the index 16 at [1, 1] of %v1 'labels' is outside of the 16 elements that %v2 takes "
            "from");
  EXPECT_EQ(error.values, (std::vector{ValueId{2}, ValueId{1}}));
  EXPECT_EQ(error.measured, 16);
  EXPECT_EQ(error.limit, 16);
  EXPECT_THAT(error.remedy, HasSubstr("from 0 to 15"));
  EXPECT_EQ(error.log,
            "of %v2, 2 of 6 indices %v1 'labels' are outside of the 16 elements of the axis, first "
            "16 at [1, 1]");
}

TEST(IndexChecks, AMeanLossInSeveralKernelsIsChecked) {
  FusionBuilder b("mean_loss");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(DType::kI64, {rows}, "labels");
  b.output(b.reduce(ReduceFn::kSum, cross_entropy(b, logits, labels), {0}), "loss");
  const Fusion fusion = b.build();
  for (const int64_t rows_now : {1, 6, 300}) {
    SCOPED_TRACE(rows_now);
    const auto planned = checked_plan(fusion, {{"rows", rows_now}, {"cols", 128}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{rows_now - 1, 128}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], 128));
  }
}

TEST(IndexChecks, WithoutTheOptionNothingChanges) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = plan(fusion, {{"rows", 64}, {"cols", 1024}}, *find_device("H200"),
                            {.families = builtin_families()})
                           .value();
  EXPECT_FALSE(planned.checks_indices);
  EXPECT_THAT(planned.index_checks, IsEmpty());
  EXPECT_EQ(planned.fusion.outputs.size(), 1U);
  const auto checked = checked_plan(fusion, {{"rows", 64}, {"cols", 1024}}).value();
  EXPECT_EQ(checked.workspace_bytes - planned.workspace_bytes, 64 * 8);
  EXPECT_EQ(checked.fusion.outputs.size(), 2U);
  ASSERT_EQ(checked.kernels.size(), 1U) << "labels cost no further kernel";
}

TEST(IndexChecks, TheEmittedKernelStoresWhatItTakesWith) {
  const Fusion fusion = cross_entropy_fusion();
  const ExtentValues extents{{"rows", 64}, {"cols", 1024}};
  const auto source_of = [](const Plan& planned) {
    const KernelPlan& kernel = planned.kernels.front();
    return emit(kernel.facts, kernel.chosen().schedule).value();
  };
  const KernelSource checked = source_of(checked_plan(fusion, extents).value());
  const KernelSource plain = source_of(
      plan(fusion, extents, *find_device("H200"), {.families = builtin_families()}).value());
  ASSERT_EQ(checked.buffers.size(), plain.buffers.size() + 1);
  EXPECT_EQ(checked.buffers.back().type, DType::kI64);
  EXPECT_EQ(checked.buffers.back().use, BufferUse::kWrite);
  for (const char* line :
       {"labels_3 = load_global(labels + row);\n", "long long v10_stored = labels_3;\n",
        "store_global(v10_out + row, v10_stored);\n"})
    EXPECT_THAT(checked.text, HasSubstr(line));
  EXPECT_THAT(plain.text, ::testing::Not(HasSubstr("v10")));
}

TEST(IndexChecks, NvrtcTakesTheKernels) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  for (const Fusion& fusion :
       {cross_entropy_fusion(DType::kI32), losses_and_probabilities(), losses_and_column_sums()}) {
    KernelCache cache({});
    const auto compiled = compile_plan(
        checked_plan(fusion, {{"rows", 4000}, {"cols", 4096}}).value(), *compiler, cache);
    EXPECT_TRUE(compiled) << compiled.error().text();
  }
}

// ---- Executables

/// Executions on the fake driver, in the interpreter.
class IndexCheckExecution : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 6;
  static constexpr int64_t kColumns = 64;

  void prepare(bool checks = true) {
    Plan planned = plan(fusion_, {{"rows", kRows}, {"cols", kColumns}}, *find_device("H200"),
                        {.families = builtin_families(), .check_indices = checks})
                       .value();
    executable_.emplace(
        Executable::prepare(interpreted(driver_, std::move(planned), {}), driver_, {}).value());
    const auto add = [&](const HostTensor& host, std::vector<Tensor>& tensors) {
      memory_.push_back(DeviceBuffer::allocate(driver_, host.storage().size()).value());
      tensors.push_back(
          {.address = memory_.back().pointer(), .type = host.type(), .sizes = host.sizes()});
      ASSERT_TRUE(memory_.back().upload(host.storage()));
    };
    const Binding binding = executable_->compiled().plan.binding;
    for (const HostTensor& input : sample_inputs(fusion_, binding, 1)) add(input, inputs_);
    for (const HostTensor& output : poisoned_outputs(fusion_, binding)) add(output, outputs_);
    bytes_ = executable_->workspace_bytes();
    workspace_.emplace(DeviceBuffer::allocate(driver_, static_cast<size_t>(bytes_) + 256).value());
    poison();
  }
  void poison() {
    ASSERT_TRUE(workspace_->upload(std::vector<std::byte>(workspace_->bytes(), std::byte{0xff})));
  }
  void set_labels(const std::vector<int64_t>& labels) {
    ASSERT_TRUE(memory_[1].upload(std::as_bytes(std::span(labels))));
  }
  Result<void> execute(StreamHandle stream = nullptr) {
    return executable_->execute(inputs_, outputs_, workspace_->pointer(), bytes_, stream);
  }
  Result<void> check_now() { return executable_->check_indices(workspace_->pointer(), bytes_); }

  Fusion fusion_ = cross_entropy_fusion();
  FakeDriver driver_{*find_device("H200")};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  std::optional<Executable> executable_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Tensor> inputs_, outputs_;
  std::optional<DeviceBuffer> workspace_;
  int64_t bytes_ = 0;
};

TEST_F(IndexCheckExecution, EachExecutionReportsItsOwnIndices) {
  prepare();
  const std::vector<std::vector<int64_t>> labels{
      {0, 1, 2, 3, 4, 63}, {0, 1, 64, 3, -4, 5}, {5, 4, 3, 2, 1, 0}, {0, 0, 0, 0, 0, kFarBelow}};
  const std::vector<std::optional<int64_t>> expected{{}, 64, {}, kFarBelow};
  for (size_t i = 0; i < labels.size(); ++i) {
    SCOPED_TRACE(i);
    set_labels(labels[i]);
    ASSERT_TRUE(execute());
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto checked = check_now();
      ASSERT_EQ(checked.has_value(), !expected[i].has_value());
      if (checked) continue;
      EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_EQ(checked.error().measured, expected[i]);
      EXPECT_EQ(checked.error().limit, kColumns);
      EXPECT_EQ(checked.error().values, (std::vector{take_of(fusion_), fusion_.inputs[1]}));
      EXPECT_THAT(checked.error().message, HasSubstr(i == 1 ? "at [2]" : "at [5]"));
    }
  }
}

// runtime/README.md shows these lines.
TEST_F(IndexCheckExecution, TellsWhatTheReadmeSays) {
  prepare();
  const Fusion& fusion = fusion_;
  const ExtentValues extents{{"rows", kRows}, {"cols", kColumns}};
  const DeviceLimits limits = *find_device("H200");
  auto planned =
      plan(fusion, extents, limits, {.families = builtin_families(), .check_indices = true});
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->kept_indices().size(), 1U);
  set_labels({0, 1, 64, 3, 4, 5});
  const std::span<const Tensor> inputs = inputs_;
  const std::span<const Tensor> outputs = outputs_;
  const DevicePointer workspace = workspace_->pointer();
  const int64_t bytes = bytes_;
  DeviceDriver& driver = driver_;
  const Executable* const executable = &*executable_;
  StreamHandle const stream = nullptr;
  const auto launched = executable->execute(inputs, outputs, workspace, bytes, stream);
  const DriverStatus finished = driver.stream_synchronize(stream);
  // InvalidArgument: the index 64 at [2] of %v1 'labels' ...
  const auto inside = executable->check_indices(workspace, bytes);
  ASSERT_TRUE(launched);
  ASSERT_EQ(finished, DriverStatus::kSuccess);
  ASSERT_FALSE(inside);
  EXPECT_THAT(inside.error().text(),
              ::testing::StartsWith("InvalidArgument: the index 64 at [2] of %v1 'labels' "));
}

TEST_F(IndexCheckExecution, ExecutingOnlyLaunchesAndReplaysAreChecked) {
  prepare();
  set_labels({0, 1, 2, 3, 4, 5});
  const auto stream = OwnStream::create(driver_, "testing").value();
  const auto graph = CapturedLaunch::capture(
      driver_, stream.handle(), [&](StreamHandle on) { return execute(on); }, "testing");
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(driver_.capture_violations(), 0);
  for (const int64_t label : {int64_t{3}, int64_t{64}, int64_t{5}, int64_t{-1}}) {
    set_labels({0, 1, label, 3, 4, 5});
    poison();
    ASSERT_TRUE(graph->replay(stream.handle(), "testing"));
    EXPECT_EQ(check_now().has_value(), label >= 0 && label < kColumns) << label;
  }
}

TEST_F(IndexCheckExecution, TheContextNeedNotBeCurrent) {
  prepare();
  set_labels({0, 1, 2, 3, 4, 64});
  ASSERT_TRUE(execute());
  ASSERT_EQ(driver_.context_set_current(nullptr), DriverStatus::kSuccess);
  const auto checked = check_now();
  ASSERT_EQ(driver_.context_set_current(context_.handle()), DriverStatus::kSuccess);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().measured, 64);
}

TEST_F(IndexCheckExecution, AnAllocatorIsRefused) {
  prepare();
  const WorkspaceAllocator allocator{
      .allocate = [&](int64_t, StreamHandle) -> Result<DevicePointer> {
        ADD_FAILURE() << "nothing is asked for";
        return workspace_->pointer();
      },
      .release = [](DevicePointer, StreamHandle) {}};
  const auto done = executable_->execute(inputs_, outputs_, allocator, nullptr);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(done.error().message, HasSubstr("read from the workspace afterwards"));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(IndexCheckExecution, AWrongWorkspaceIsRefused) {
  prepare();
  const auto little = executable_->check_indices(workspace_->pointer(), bytes_ - 1);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(little.error().limit, bytes_);
  const auto null = executable_->check_indices(0, bytes_);
  ASSERT_FALSE(null);
  EXPECT_EQ(null.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(executable_->check_indices(workspace_->pointer() + 8, bytes_));
}

TEST_F(IndexCheckExecution, WhatTheDriverSaysIsPassedOn) {
  prepare();
  ASSERT_TRUE(execute());
  driver_.fail_next(DriverCall::kCopyToHost, DriverStatus::kIllegalAddress);
  const auto checked = check_now();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kDeviceError);
  EXPECT_TRUE(check_now());
}

TEST_F(IndexCheckExecution, APlanThatChecksNothingSaysSo) {
  prepare(false);
  ASSERT_TRUE(execute());
  const auto checked = check_now();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(checked.error().message, "the plan does not check indices");
}

TEST(IndexChecks, AGraphWithoutTakesPasses) {
  const auto planned =
      checked_plan(find_canned_fusion("softmax")->build(), {{"rows", 4}, {"cols", 64}}).value();
  EXPECT_TRUE(planned.checks_indices);
  FakeDriver driver;
  const auto executable = Executable::prepare(interpreted(driver, planned), driver, {}).value();
  EXPECT_EQ(executable.workspace_bytes(), 0);
  EXPECT_TRUE(executable.check_indices(0, 0));
}

TEST(IndexChecks, NoRowsHaveNoIndices) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = checked_plan(fusion, {{"rows", 0}, {"cols", 64}});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto run =
      execute_on_host(*planned, sample_inputs(fusion, planned->binding, 1), builtin_families());
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_THAT(run->outside, IsEmpty());
  FakeDriver driver;
  const auto executable = Executable::prepare(interpreted(driver, *planned), driver, {}).value();
  EXPECT_TRUE(executable.check_indices(0, executable.workspace_bytes()));
}

TEST(IndexChecks, RangesCheckEverySize) {
  FakeDriver driver;
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  const Fusion fusion = cross_entropy_fusion();
  RangedOptions options{.fixed = {{"cols", 64}}};
  options.plan.check_indices = true;
  auto ranged = RangedExecutable::prepare(
      fusion, {{"rows", {1, 40}}}, *find_device("H200"),
      [&](Plan planned) -> Result<CompiledPlan> {
        const std::string sizes = fmt::format("{}", fmt::join(planned.binding.symbol_sizes, "_"));
        for (KernelPlan& kernel : planned.kernels) kernel.facts.fusion.name += "_" + sizes;
        return interpreted(driver, std::move(planned));
      },
      driver, options);
  ASSERT_TRUE(ranged) << ranged.error().text();
  for (const int64_t rows : {1, 17, 40}) {
    SCOPED_TRACE(rows);
    const Binding binding = bind_extents(fusion, {{"rows", rows}, {"cols", 64}}).value();
    const auto inputs = inputs_with(fusion, binding, {{rows - 1, 64}});
    std::vector<DeviceBuffer> memory;
    const auto tensor = [&](const HostTensor& host) {
      memory.push_back(DeviceBuffer::allocate(driver, host.storage().size()).value());
      EXPECT_TRUE(memory.back().upload(host.storage()));
      return Tensor{.address = memory.back().pointer(), .type = host.type(), .sizes = host.sizes()};
    };
    const std::vector<Tensor> in{tensor(inputs[0]), tensor(inputs[1])};
    const std::vector<Tensor> out{tensor(poisoned_outputs(fusion, binding).front())};
    const int64_t bytes = ranged->workspace_bytes({{"rows", rows}}).value();
    const auto workspace = DeviceBuffer::allocate(driver, static_cast<size_t>(bytes)).value();
    const auto done = ranged->execute(in, out, workspace.pointer(), bytes, nullptr);
    ASSERT_TRUE(done) << done.error().text();
    const auto checked =
        ranged->at({{"rows", rows}}).value()->check_indices(workspace.pointer(), bytes);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr(fmt::format("at [{}]", rows - 1)));
  }
  EXPECT_EQ(ranged->report().shared, 2);
}

// ---- On a GPU

/// Row losses in kernels of one family each.
class IndexChecksGpu : public LiveDeviceTest<std::string> {
 protected:
  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (driver_ == nullptr || IsSkipped() || HasFatalFailure()) return;
    current_.emplace(
        CurrentContext::enter(*driver_, DeviceContext::retain(*driver_, 0).value()).value());
    auto planned = plan(
        fusion_, {{"rows", kRows}, {"cols", kColumns}}, limits_,
        {.families = builtin_families(), .pin = {.family = GetParam()}, .check_indices = true});
    if (!planned && GetParam() == "warp_specialised")
      GTEST_SKIP() << "no rings here: " << planned.error().message;
    ASSERT_TRUE(planned) << planned.error().text();
    KernelCache cache({});
    auto compiled = compile_plan(std::move(*planned), *compiler_, cache);
    ASSERT_TRUE(compiled) << compiled.error().text();
    auto executable = Executable::prepare(std::move(*compiled), *driver_);
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  static constexpr int64_t kRows = 4000;
  static constexpr int64_t kColumns = 8192;
  Fusion fusion_ = GetParam() == "looped"       ? cross_entropy_fusion()
                   : GetParam() == "multi_wave" ? losses_and_probabilities()
                                                : losses_and_column_sums();
  std::optional<CurrentContext> current_;
  std::optional<Executable> executable_;
};

TEST_P(IndexChecksGpu, ReportTheFirstIndexOutside) {
  const Binding binding = executable_->compiled().plan.binding;
  std::vector<DeviceBuffer> memory;
  const auto tensor = [&](const HostTensor& host) {
    memory.push_back(DeviceBuffer::allocate(*driver_, host.storage().size()).value());
    EXPECT_TRUE(memory.back().upload(host.storage()));
    return Tensor{.address = memory.back().pointer(), .type = host.type(), .sizes = host.sizes()};
  };
  const auto inputs = sample_inputs(fusion_, binding, 1);
  std::vector<Tensor> in;
  for (const HostTensor& input : inputs) in.push_back(tensor(input));
  std::vector<Tensor> out;
  for (const HostTensor& output : poisoned_outputs(fusion_, binding)) out.push_back(tensor(output));
  const int64_t bytes = executable_->workspace_bytes();
  const auto workspace = DeviceBuffer::allocate(*driver_, static_cast<size_t>(bytes)).value();
  const auto run = [&](const std::map<int64_t, int64_t>& labels) {
    auto now = inputs[1];
    for (const auto& [row, label] : labels) now.set_integer(row, label);
    EXPECT_TRUE(memory[1].upload(now.storage()));
    const auto done = executable_->execute(in, out, workspace.pointer(), bytes, nullptr);
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(driver_->context_synchronize(), DriverStatus::kSuccess);
    return executable_->check_indices(workspace.pointer(), bytes);
  };
  EXPECT_TRUE(run({}));
  EXPECT_TRUE(run({{0, 0}, {kRows - 1, kColumns - 1}}));
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto found = run({{kRows - 1, -1}, {1234, kColumns}, {2345, kFarBelow}});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().measured, kColumns);
    EXPECT_EQ(found.error().limit, kColumns);
    EXPECT_THAT(found.error().message, HasSubstr("at [1234]"));
    EXPECT_THAT(found.error().log, HasSubstr("3 of 4000"));
  }
  EXPECT_TRUE(run({}));
  const auto far = run({{7, kFarAbove}});
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().measured, kFarAbove);
}

INSTANTIATE_TEST_SUITE_P(Families, IndexChecksGpu,
                         ::testing::Values("multi_wave", "looped", "warp_specialised"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace sinter
