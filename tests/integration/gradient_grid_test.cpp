// Gradients of norms over a grid of rows, columns and types, in every kind of schedule that may run
// them: those that keep rows (multi_wave), pipelines (warp_specialised), both with their
// accumulators in shared memory too, rows that are read twice in turns (looped), and what is
// chosen. Every cell is computed right, or refused with the reason that it must be refused for.
//
// A GPU runs all cells, the interpreter those that are small enough; refusals need neither. One
// width and type is one test, so that CTest runs them beside each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>

#include "fusion_ir/pipeline.h"
#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/error_model.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/pipeline.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/canned_groups.h"
#include "tests/support/effort.h"
#include "tests/support/plan_matchers.h"

namespace sinter::gradient_grid_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::array<int64_t, 10> kRows = {0, 1, 2, 17, 131, 132, 133, 512, 2048, 16384};
constexpr std::array<int64_t, 17> kColumns = {8,     64,    96,    768,   1000, 1024,
                                              1543,  2048,  4096,  5120,  8191, 8192,
                                              12288, 16384, 24576, 32768, 65536};

/// A family that is insisted on, or none.
constexpr std::string_view kChosen;
constexpr std::array<std::string_view, 4> kKinds = {"multi_wave", "warp_specialised", "looped",
                                                    kChosen};

/// One column of the grid: all rows of it share kernels, and wide ones their inputs.
struct Width {
  std::string gradient;
  DType type = DType::kF32;
  int64_t columns = 0;
};

std::string text_of(const Width& width) {
  return fmt::format("{}_{}_{}", width.gradient, name_of(width.type), width.columns);
}
void PrintTo(const Width& width, std::ostream* out) { *out << text_of(width); }

std::vector<Width> all_widths() {
  std::vector<Width> out;
  for (const char* gradient : {"layer_norm_backward", "rms_norm_backward"}) {
    for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const int64_t columns : kColumns) out.push_back({gradient, type, columns});
    }
  }
  return out;
}

/// Both gradients with a weight. `parameters` is the type of the column sums.
Fusion build(const std::string& gradient, DType type, DType parameters) {
  const bool centred = gradient == "layer_norm_backward";
  MatrixBuilder m(gradient);
  const ValueId x = m.matrix(type, "x");
  const ValueId dy = m.matrix(type, "dy");
  const NormBackwardOptions options{.output = type,
                                    .parameter_output = parameters,
                                    .weight = m.row(type, "weight"),
                                    .bias = centred};
  const ValueId mean = centred ? m.column(DType::kF32, "mean") : ValueId{};
  const ValueId rstd = m.column(DType::kF32, "rstd");
  const NormBackward norm = centred ? layer_norm_backward(m.b, dy, x, mean, rstd, options)
                                    : rms_norm_backward(m.b, dy, x, rstd, options);
  m.b.output(norm.dx, "dx");
  m.b.output(norm.dweight.value(), "dweight");
  if (norm.dbias) m.b.output(*norm.dbias, "dbias");
  return m.b.build();
}

Fusion build(const Width& width) { return build(width.gradient, width.type, width.type); }

ExtentValues extents_of(int64_t rows, int64_t columns) {
  return {{"rows", rows}, {"cols", columns}};
}

/// A rule of the family, in the words of its rejection, that a cell breaks; empty if it breaks none
/// and must be taken.
std::string_view broken_rule(std::string_view family, const DeviceLimits& limits,
                             const Width& width, int64_t rows) {
  if (family != "warp_specialised") return {};
  if (!limits.has_bulk_copy) return "no bulk copies";
  // The sums of one row are the row.
  if (rows == 1) return "without outer reductions";
  constexpr int64_t kCopyBytes = 16;
  if (width.columns * bytes_of(width.type) % kCopyBytes != 0) return "whole, aligned 16 bytes";
  return {};
}

/// A pin that nothing meets fails, as such or because no family takes the cell in one pass, and the
/// family says why as data: rejections of its own, each with a rule, which the error quotes.
void expect_refusal(const Result<Plan>& planned, const Fusion& fusion, const ExtentValues& extents,
                    const DeviceLimits& limits, const std::string& family, std::string_view rule) {
  EXPECT_THAT(planned, AnyOf(FailsWith(ErrorKind::kResourceExhausted,
                                       HasSubstr("the pinned family " + family)),
                             FailsWith(ErrorKind::kUnsupported, HasSubstr("no schedule family"))));
  EXPECT_THAT(planned, RejectedBy(family, HasSubstr(std::string(rule))));
  const auto facts = analyse(simplify(specialize(fusion, bind_extents(fusion, extents).value())));
  ASSERT_TRUE(facts) << text_of(facts.error());
  const FamilySet families = builtin_families();
  const Proposal proposal = find_family(families, family)->propose(*facts, limits);
  EXPECT_TRUE(proposal.candidates.empty());
  ASSERT_FALSE(proposal.rejections.empty());
  for (const Rejection& rejection : proposal.rejections) {
    EXPECT_EQ(rejection.subject, family);
    EXPECT_FALSE(rejection.rule.empty());
    // The plan's adds the name of the tensor.
    EXPECT_THAT(planned.error().log, HasSubstr(family + ": " + rejection.rule));
  }
}

/// Plans a cell in one kind; nothing if it is refused, and then for the right reason.
std::optional<Plan> plan_cell(const Width& width, const Fusion& fusion, int64_t rows,
                              std::string_view kind, const DeviceLimits& limits) {
  PlanOptions options{.families = builtin_families()};
  if (kind != kChosen) options.pin.family = kind;
  const ExtentValues extents = extents_of(rows, width.columns);
  Result<Plan> planned = plan(fusion, extents, limits, options);
  const std::string_view rule = broken_rule(kind, limits, width, rows);
  if (planned) {
    EXPECT_EQ(rule, "") << "but it was planned";
    return std::move(*planned);
  }
  EXPECT_NE(kind, kChosen) << planned.error().text();
  // Less shared memory than an H200's may hold no two of the widest rows.
  if (rule.empty()) {
    EXPECT_LT(limits.shared_bytes_per_block, find_device("H200")->shared_bytes_per_block);
  }
  expect_refusal(planned, fusion, extents, limits, std::string(kind), rule);
  return std::nullopt;
}

/// The plan of a schedule that verify_schedule() lets pass.
std::optional<Plan> pinned_plan(const Fusion& fusion, const ExtentValues& extents,
                                const DeviceLimits& limits, Schedule schedule) {
  Result<Plan> pinned =
      plan(fusion, extents, limits,
           {.families = builtin_families(), .pin = {.schedule = std::move(schedule)}});
  EXPECT_TRUE(pinned) << pinned.error().text();
  return pinned ? std::optional(std::move(*pinned)) : std::nullopt;
}

/// The plan with its accumulators in shared memory, beside a pipeline of as many stages as then
/// fit. Nothing where it accumulates no columns, its family does so in registers alone, or shared
/// memory does not hold them.
std::optional<Plan> in_shared(const Fusion& fusion, const ExtentValues& extents,
                              const Plan& planned) {
  const KernelPlan& kernel = planned.kernels.front();
  Schedule schedule = kernel.chosen().schedule;
  if (schedule.persistent_blocks == 0 || schedule.accumulators() == Residency::kShared)
    return std::nullopt;
  auto* const ring = std::get_if<WarpSpecialisedParameters>(&schedule.parameters);
  if (ring != nullptr) {
    ring->accumulators = Residency::kShared;
    ring->consumer_registers = 0;
    ring->rows_per_iteration = 1;
  } else if (auto* const own = std::get_if<MultiWaveParameters>(&schedule.parameters)) {
    own->accumulators = Residency::kShared;
  } else {
    return std::nullopt;
  }
  const FamilySet families = builtin_families();
  const auto rejections = [&] {
    return verify_schedule(kernel.facts, schedule, planned.limits, families);
  };
  const int64_t groups = schedule.rows_per_block;
  while (schedule.pipeline_stages() > std::max<int64_t>(groups, 2) && !rejections().empty())
    ring->pipeline_stages -= groups;
  if (const auto said = rejections(); !said.empty()) {
    EXPECT_EQ(said.size(), 1U);
    EXPECT_THAT(said.front().rule, AnyOf(HasSubstr("more shared memory"), HasSubstr("as stages")));
    return std::nullopt;
  }
  return pinned_plan(fusion, extents, planned.limits, std::move(schedule));
}

/// The pipeline of a plan with that many rows side by side, and stages for them; nothing if it is
/// too large for the device then.
std::optional<Plan> with_unrolled_rows(const Plan& ring, const Width& width, const Fusion& fusion,
                                       int64_t rows, int64_t unrolled_rows,
                                       const DeviceLimits& limits) {
  Schedule schedule = ring.kernels.front().chosen().schedule;
  const int64_t turn = schedule.rows_per_block * unrolled_rows;
  auto& own = std::get<WarpSpecialisedParameters>(schedule.parameters);
  own.rows_per_iteration = unrolled_rows;
  own.pipeline_stages = std::max(own.pipeline_stages / turn, int64_t{1}) * turn;
  const FamilySet families = builtin_families();
  if (!verify_schedule(ring.kernels.front().facts, schedule, limits, families).empty())
    return std::nullopt;
  return pinned_plan(fusion, extents_of(rows, width.columns), limits, std::move(schedule));
}

/// The plan with its partial results reduced by the last block; nothing where they are not reduced
/// by a kernel of their own, or its family counts no arrivals.
std::optional<Plan> with_last_block_finish(const Plan& planned, const Width& width,
                                           const Fusion& fusion, int64_t rows,
                                           const DeviceLimits& limits) {
  Schedule schedule = planned.kernels.front().chosen().schedule;
  if (schedule.finish == Finish::kLastBlock) return std::nullopt;
  schedule.finish = Finish::kLastBlock;
  schedule.dependent_launch = DependentLaunch::kNone;
  const FamilySet families = builtin_families();
  const auto rejections =
      verify_schedule(planned.kernels.front().facts, schedule, limits, families);
  if (!rejections.empty()) {
    EXPECT_THAT(rejections.front().rule,
                AnyOf(HasSubstr("last block"), HasSubstr("more shared memory"),
                      HasSubstr("partial results")));
    return std::nullopt;
  }
  return pinned_plan(fusion, extents_of(rows, width.columns), limits, std::move(schedule));
}

/// Where plans run: a GPU with NVRTC, or the interpreter behind a fake driver.
struct Machine {
  DeviceDriver& driver;
  DeviceLimits limits;
  std::function<Result<CompiledPlan>(Plan)> compile;
};

std::vector<Schedule> schedules_of(const CompiledPlan& compiled) {
  std::vector<Schedule> out;
  for (const KernelBuild& kernel : compiled.kernels) out.push_back(kernel.chosen.schedule);
  return out;
}

/// Runs one plan, with outputs poisoned before, and compares every element of them.
void check_plan(const Machine& machine, const DeviceReference& reference, CompiledPlan compiled) {
  std::string context = fmt::format("{} with extents [{}]\n", reference.fusion.name,
                                    fmt::join(reference.binding.symbol_sizes, ", "));
  for (const Schedule& schedule : schedules_of(compiled)) context += print(schedule);
  const auto executable = Executable::prepare(std::move(compiled), machine.driver);
  ASSERT_TRUE(executable) << context << executable.error().text();
  const auto run = run_on_device(reference, *executable, machine.driver, {.time = false});
  // A kernel that breaks the context would fail all that follow.
  ASSERT_TRUE(run) << context << run.error().text();
  EXPECT_TRUE(run->check.passed()) << context << run->check.text();
}

/// All kinds of one cell on the same inputs: with accumulators where they are chosen and in shared
/// memory, with a second kernel and with the last block, pipelines also with several rows side by
/// side. The chosen plan, which most often is one of those before it, does not run again.
void check_cell(const Machine& machine, const Width& width, const DeviceReference& reference,
                int64_t rows) {
  const Fusion fusion = build(width);
  std::vector<std::vector<Schedule>> done;
  const auto check = [&](Plan planned) {
    Result<CompiledPlan> compiled = machine.compile(std::move(planned));
    if (!compiled) {
      ADD_FAILURE() << compiled.error().text();
      return;
    }
    if (std::ranges::count(done, schedules_of(*compiled)) > 0) return;
    done.push_back(schedules_of(*compiled));
    check_plan(machine, reference, std::move(*compiled));
  };
  for (const std::string_view kind : kKinds) {
    SCOPED_TRACE(fmt::format("{} rows, {}", rows, kind == kChosen ? "chosen" : kind));
    std::optional<Plan> planned = plan_cell(width, fusion, rows, kind, machine.limits);
    if (!planned) continue;
    if (kind != kChosen && rows > 1) {
      auto shared = in_shared(fusion, extents_of(rows, width.columns), *planned);
      if (shared) {
        ASSERT_NO_FATAL_FAILURE(check(std::move(*shared)));
      }
      auto last_block = with_last_block_finish(*planned, width, fusion, rows, machine.limits);
      if (last_block) {
        ASSERT_NO_FATAL_FAILURE(check(std::move(*last_block)));
      }
    }
    for (const int64_t unrolled_rows : {2, 4}) {
      if (kind != kWarpSpecialised) break;
      std::optional<Plan> side =
          with_unrolled_rows(*planned, width, fusion, rows, unrolled_rows, machine.limits);
      if (!side) continue;
      ASSERT_NO_FATAL_FAILURE(check(std::move(*side)));
    }
    ASSERT_NO_FATAL_FAILURE(check(std::move(*planned)));
  }
}

/// A sum over rows that come `repeats` times, from the sum over one period of them. With terms x
/// that the device knows to within e, the oracle allows a sum of n of them
///     B(n) = E + a(n) (X + E), where X = sum |x|, E = sum e, a = accumulation_error.
/// Repeated, X and E are `repeats` times as large, and a grows, so that
///     repeats (E + a(repeats n) (X + E)) <= repeats a(repeats n) / a(n) B(n).
/// The model's a bounds sums in any order, so also one in which equal rows round alike.
BoundedReal repeated_sum(BoundedReal of_period, int64_t period, int64_t repeats) {
  if (repeats == 1) return of_period;
  const auto times = static_cast<double>(repeats);
  const double growth =
      accumulation_error(DType::kF32, repeats * period) / accumulation_error(DType::kF32, period);
  return {times * of_period.value, times * growth * of_period.bound};
}

/// Inputs of a period of rows, which problems of several periods repeat, and what the oracle makes
/// of them: dx repeats, and the column sums are as many times as large.
class RepeatedRows {
 public:
  RepeatedRows(const Width& width, int64_t period) : width_(width), period_(period) {
    reference_.fusion = build(width);
    const Fusion& fusion = reference_.fusion;
    reference_.evaluated = bind_extents(fusion, extents_of(period, width.columns)).value();
    reference_.repeated = {fusion.find_symbol("rows")};
    reference_.inputs = sample_inputs(fusion, reference_.evaluated, 1);
    // The sums as f64 lose nothing: they are rounded when it is known how often rows repeat.
    reference_.expected = evaluate(build(width.gradient, width.type, DType::kF64),
                                   reference_.evaluated, reference_.inputs);
    for (size_t i = 0; i < fusion.outputs.size(); ++i) {
      OracleOutput& output = reference_.expected.outputs[i];
      output.value = fusion.outputs[i];
      if (output.sizes.size() > 1) continue;
      sums_.emplace_back(i, output);
      output.type = width.type;
    }
  }

  const DeviceReference& times(int64_t repeats) {
    reference_.binding =
        bind_extents(reference_.fusion, extents_of(repeats * period_, width_.columns)).value();
    for (const auto& [index, sum] : sums_) {
      OracleOutput& output = reference_.expected.outputs[index];
      for (size_t i = 0; i < sum.real.size(); ++i) {
        const BoundedReal stored =
            cast_to_real(width_.type, repeated_sum({sum.real[i], sum.bound[i]}, period_, repeats));
        output.real[i] = stored.value;
        output.bound[i] = stored.bound;
      }
    }
    return reference_;
  }

 private:
  Width width_;
  int64_t period_;
  DeviceReference reference_;
  std::vector<std::pair<size_t, OracleOutput>> sums_;  ///< Of one period, by output.
};

DeviceReference reference_of(const Width& width, int64_t rows) {
  const Fusion fusion = build(width);
  return make_reference(fusion, bind_extents(fusion, extents_of(rows, width.columns)).value());
}

/// Larger problems repeat rows: the oracle takes its time, and 20 bytes an element for dx alone.
constexpr int64_t kOracleElements = int64_t{1} << 22;
constexpr int64_t kPeriod = 2048;

class GradientsGpu : public LiveDeviceTest<Width> {
 protected:
  [[nodiscard]] Machine machine() {
    return {.driver = *driver_, .limits = limits_, .compile = [this](Plan planned) {
              return compile_plan(std::move(planned), *compiler_, cache_);
            }};
  }

 private:
  KernelCache cache_{{}};
};

class GradientGridGpu : public GradientsGpu {};

TEST_P(GradientGridGpu, IsRightInEveryKind) {
  const Machine machine = this->machine();
  const Width& width = GetParam();
  const bool repeats = kRows.back() * width.columns > kOracleElements;
  std::optional<RepeatedRows> repeated;
  for (const int64_t rows : kRows) {
    if (repeats && rows >= kPeriod) {
      ASSERT_EQ(rows % kPeriod, 0);
      if (!repeated) repeated.emplace(width, kPeriod);
      check_cell(machine, width, repeated->times(rows / kPeriod), rows);
    } else {
      check_cell(machine, width, reference_of(width, rows), rows);
    }
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, GradientGridGpu, ::testing::ValuesIn(all_widths()),
                         [](const auto& param) { return text_of(param.param); });

/// Every kind of kernel in little time, for tools under which a kernel takes a thousand times as
/// long: few rows, and so many narrow ones that every pipeline wraps around.
class SmallGradientsGpu : public GradientsGpu {
 protected:
  void check_rows(int64_t rows) {
    check_cell(machine(), GetParam(), reference_of(GetParam(), rows), rows);
  }
};

TEST_P(SmallGradientsGpu, WithTailsAreRightInEveryKind) {
  for (const int64_t rows : {17, 1701}) check_rows(rows);
}

// All groups of a block take as many rounds of 1, 2 or 4 rows each.
TEST_P(SmallGradientsGpu, InWholeRoundsAreRightInEveryKind) {
  constexpr int64_t kMostGroups = 4;
  constexpr int64_t kMostRowUnroll = 4;
  check_rows(limits_.sm_count * kMostGroups * kMostRowUnroll);
}

INSTANTIATE_TEST_SUITE_P(Norms, SmallGradientsGpu,
                         ::testing::Values(Width{"layer_norm_backward", DType::kBF16, 256},
                                           Width{"layer_norm_backward", DType::kF32, 1000},
                                           Width{"rms_norm_backward", DType::kF16, 1543}),
                         [](const auto& param) { return text_of(param.param); });

/// A fake H200 whose kernels the interpreter runs.
class InterpretedMachine {
 public:
  [[nodiscard]] Machine machine() {
    return {.driver = driver_,
            .limits = query_device(driver_, 0).value(),
            .compile = [this](Plan planned) -> Result<CompiledPlan> {
              return interpreted(driver_, std::move(planned));
            }};
  }

 private:
  FakeDriver driver_;
};

#if defined(SINTER_OPTIMISED_LIBRARIES) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
constexpr bool kFullSpeed = true;
#else
constexpr bool kFullSpeed = false;
#endif

/// Of the largest cells that the interpreter runs. It takes a microsecond for an element and kind,
/// and twenty times as long in a debug or sanitizer build.
const int64_t kInterpretedElements = int64_t{1} << (!kFullSpeed ? 12 : takes_all_cases() ? 17 : 14);

class GradientGridInterpreter : public ::testing::TestWithParam<Width> {};

TEST_P(GradientGridInterpreter, IsRightInEveryKind) {
  InterpretedMachine interpreter;
  const Machine machine = interpreter.machine();
  for (const int64_t rows : kRows) {
    if (rows * GetParam().columns > kInterpretedElements) break;
    check_cell(machine, GetParam(), reference_of(GetParam(), rows), rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, GradientGridInterpreter, ::testing::ValuesIn(all_widths()),
                         [](const auto& param) { return text_of(param.param); });

// Which cells are refused, of the large ones too.
TEST(GradientGridRefusals, AreTheCellsThatBreakARule) {
  const DeviceLimits h200 = *find_device("H200");
  const DeviceLimits a100 = *find_device("A100");
  for (const Width& width : all_widths()) {
    if (width.gradient != "layer_norm_backward") continue;
    SCOPED_TRACE(text_of(width));
    const Fusion fusion = build(width);
    for (const std::string_view kind : kKinds) {
      if (kind == kChosen) continue;
      for (const int64_t rows : {1, 16384}) plan_cell(width, fusion, rows, kind, h200);
    }
    plan_cell(width, fusion, 16384, "warp_specialised", a100);
  }
}

/// Small problems of repeated rows, which the oracle evaluates in full as well.
class GradientGridRepeats : public ::testing::TestWithParam<Width> {
 protected:
  static constexpr int64_t kFew = 17;
  static constexpr int64_t kTimes = 3;
};

HostTensor repeated(const HostTensor& period, int64_t times) {
  if (period.sizes().empty() || times == 1) return period;
  Sizes sizes = period.sizes();
  sizes[0] *= times;
  HostTensor out = HostTensor::zeros(period.type(), sizes);
  for (int64_t i = 0; i < out.count(); ++i) out.set_bits(i, period.bits(i % period.count()));
  return out;
}

TEST_P(GradientGridRepeats, AreWhatTheOracleSaysOfAllRows) {
  const Width& width = GetParam();
  const Fusion unrounded = build(width.gradient, width.type, DType::kF64);
  RepeatedRows rows(width, kFew);
  const DeviceReference& reference = rows.times(kTimes);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < reference.inputs.size(); ++i) {
    const bool has_rows =
        unrounded.values[unrounded.inputs[i]].shape.front() == Extent(reference.repeated.front());
    inputs.push_back(repeated(reference.inputs[i], has_rows ? kTimes : 1));
  }
  const OracleResult stored = evaluate(reference.fusion, reference.binding, inputs);
  const OracleResult all = evaluate(unrounded, reference.binding, inputs);
  const OracleResult one = evaluate(unrounded, reference.evaluated, reference.inputs);
  for (size_t i = 0; i < all.outputs.size(); ++i) {
    const OracleOutput& expected = reference.expected.outputs[i];
    EXPECT_EQ(expected.value, stored.outputs[i].value);
    EXPECT_EQ(expected.type, stored.outputs[i].type);
    for (size_t e = 0; e < stored.outputs[i].real.size(); ++e) {
      const size_t from = e % expected.real.size();
      ASSERT_NEAR(stored.outputs[i].real[e], expected.real[from],
                  2.0 * unit_roundoff(width.type) * std::abs(expected.real[from]));
      if (all.outputs[i].sizes.size() > 1) continue;
      // The oracle counts that equal rows round alike, `sum` that there are more of them.
      const BoundedReal sum =
          repeated_sum({one.outputs[i].real[e], one.outputs[i].bound[e]}, kFew, kTimes);
      EXPECT_NEAR(sum.value, all.outputs[i].real[e], 1e-12 * std::abs(sum.value) + 1e-12);
      const double alike = accumulation_error(DType::kF32, kTimes * kFew, kFew) /
                           accumulation_error(DType::kF32, kFew);
      EXPECT_GE(static_cast<double>(kTimes) * alike * one.outputs[i].bound[e],
                all.outputs[i].bound[e] * (1.0 - 1e-12));
      EXPECT_LE(sum.bound, all.outputs[i].bound[e] *
                               accumulation_error(DType::kF32, kTimes * kFew) /
                               accumulation_error(DType::kF32, kFew) * (1.0 + 1e-12));
    }
  }
}

TEST_P(GradientGridRepeats, AreRightInEveryKind) {
  InterpretedMachine interpreter;
  const Machine machine = interpreter.machine();
  RepeatedRows rows(GetParam(), kFew);
  for (const int64_t times : {int64_t{1}, kTimes})
    check_cell(machine, GetParam(), rows.times(times), times * kFew);
}

INSTANTIATE_TEST_SUITE_P(Norms, GradientGridRepeats,
                         ::testing::Values(Width{"layer_norm_backward", DType::kBF16, 96},
                                           Width{"layer_norm_backward", DType::kF32, 1000},
                                           Width{"rms_norm_backward", DType::kF16, 64}),
                         [](const auto& param) { return text_of(param.param); });

}  // namespace sinter::gradient_grid_test
