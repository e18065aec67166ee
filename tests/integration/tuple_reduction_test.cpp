// Reductions that no part of Sinter knows, described by rows of traits in this file: from the
// builder to compiled kernels, by the path that every reduction takes. Expected values are computed
// here, in double, from the bytes of the inputs.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/verifier.h"
#include "runtime/compile/compile_kernel.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/uneven_parts.h"
#include "tests/campaign/plain_evaluator.h"
#include "tests/integration/canned_case.h"

namespace sinter::tuple_reduction_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- The rows: all that is written to add a reduction

constexpr std::array kSumAndSquare = {
    ReductionComponent{.name = "sum", .identity = Identity::kZero, .combine = PointwiseFn::kAdd},
    ReductionComponent{.name = "squares",
                       .identity = Identity::kZero,
                       .element = PointwiseFn::kMul,
                       .combine = PointwiseFn::kAdd}};
constexpr std::array kMagnitudes = {ReductionComponent{.name = "least",
                                                       .identity = Identity::kHighest,
                                                       .element = PointwiseFn::kAbs,
                                                       .combine = PointwiseFn::kMin},
                                    ReductionComponent{.name = "most",
                                                       .identity = Identity::kLowest,
                                                       .element = PointwiseFn::kAbs,
                                                       .combine = PointwiseFn::kMax},
                                    ReductionComponent{.name = "total",
                                                       .identity = Identity::kZero,
                                                       .element = PointwiseFn::kAbs,
                                                       .combine = PointwiseFn::kAdd}};
constexpr std::array kEnergy = {ReductionComponent{.name = "energy",
                                                   .identity = Identity::kZero,
                                                   .element = PointwiseFn::kMul,
                                                   .combine = PointwiseFn::kAdd}};

constexpr std::array kRows = {ReductionTraits{.text = "sum_and_square",
                                              .components = kSumAndSquare,
                                              .results = 2,
                                              .accumulate_instructions = 2.0,
                                              .exchange_instructions = 4.0},
                              ReductionTraits{.text = "magnitudes",
                                              .components = kMagnitudes,
                                              .results = 3,
                                              .accumulate_instructions = 3.0,
                                              .exchange_instructions = 6.0},
                              ReductionTraits{.text = "energy", .components = kEnergy}};

// ---- What they are, once more

/// A number in double, and how far a kernel's may lie from it.
struct Expected {
  double value = 0.0;
  double error = 0.0;
};

/// The sum of `terms`, each of which is rounded once in `unit` before. Of n terms, in any order of
/// additions: n roundings, each of at most the sum of all magnitudes (Higham 2002, section 4.2).
Expected sum_of(const std::vector<Expected>& terms, double unit) {
  Expected sum;
  double magnitudes = 0.0;
  for (const Expected& term : terms) {
    sum.value += term.value;
    sum.error += term.error;
    magnitudes += std::fabs(term.value) + term.error;
  }
  sum.error += 1.01 * static_cast<double>(terms.size() + 1) * unit * magnitudes;
  return sum;
}

std::vector<Expected> evaluate_here(std::string_view reduction, const std::vector<double>& x,
                                    double unit) {
  std::vector<Expected> elements;
  std::vector<Expected> squares;
  std::vector<Expected> magnitudes;
  Expected least{.value = std::numeric_limits<double>::infinity()};
  Expected most{.value = -std::numeric_limits<double>::infinity()};
  for (const double element : x) {
    elements.push_back({element, 0.0});
    squares.push_back({element * element, 0.0});
    magnitudes.push_back({std::fabs(element), 0.0});
    least.value = std::min(least.value, std::fabs(element));
    most.value = std::max(most.value, std::fabs(element));
  }
  if (reduction == "sum_and_square") return {sum_of(elements, unit), sum_of(squares, unit)};
  if (reduction == "energy") return {sum_of(squares, unit)};
  return {least, most, sum_of(magnitudes, unit)};
}

/// A dense tensor of f32 or i32, read from its bytes.
std::vector<double> numbers_of(const HostTensor& tensor) {
  std::vector<double> out;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const std::byte* at = tensor.data() + 4 * i;
    float real = 0.0F;
    int32_t integer = 0;
    std::memcpy(&real, at, 4);
    std::memcpy(&integer, at, 4);
    out.push_back(tensor.type() == DType::kF32 ? static_cast<double>(real)
                                               : static_cast<double>(integer));
  }
  return out;
}

double unit_of(DType type) { return type == DType::kF32 ? 0x1p-24 : 0.0; }

void expect_near(double actual, const Expected& expected, std::string_view what) {
  if (actual == expected.value) return;
  EXPECT_LE(std::fabs(actual - expected.value), expected.error) << what;
}

/// One matrix x[rows, cols] and what is reduced of it.
struct Example {
  const ReductionTraits* row = nullptr;
  DType type = DType::kF32;
  int64_t rows = 1;
  int64_t cols = 1;
  std::vector<int> axes;
  /// The first result also scales the rows of x, whose columns are then summed.
  bool scales = false;

  [[nodiscard]] Fusion fusion() const {
    FusionBuilder b("of_" + std::string(row->text));
    const ValueId x = b.input(type, {Extent(rows), Extent(cols)}, "x");
    const std::vector<ValueId> results = b.reduce_tuple(*row, x, axes);
    for (size_t i = 0; i < results.size(); ++i)
      b.output(results[i], std::string(row->components[i].name));
    if (scales) b.output(b.sum(b.mul(x, b.broadcast_over(results[0], x, axes)), {0}), "columns");
    return b.build();
  }

  /// By output, then by element.
  [[nodiscard]] std::vector<std::vector<Expected>> expected(const std::vector<double>& x) const {
    const double unit = unit_of(type);
    const bool keeps_rows = axes.front() != 0;
    const bool keeps_columns = axes.back() != 1;
    const auto results = static_cast<size_t>((keeps_rows ? rows : 1) * (keeps_columns ? cols : 1));
    std::vector<std::vector<double>> groups(results);
    const auto group_of = [&](int64_t r, int64_t c) {
      return static_cast<size_t>(keeps_rows ? r : keeps_columns ? c : 0);
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c)
        groups[group_of(r, c)].push_back(x[static_cast<size_t>(r * cols + c)]);
    }
    std::vector<std::vector<Expected>> out(row->components.size());
    for (const std::vector<double>& group : groups) {
      const std::vector<Expected> tuple = evaluate_here(row->text, group, unit);
      for (size_t i = 0; i < tuple.size(); ++i) out[i].push_back(tuple[i]);
    }
    if (!scales) return out;
    std::vector<Expected> columns;
    for (int64_t c = 0; c < cols; ++c) {
      std::vector<Expected> terms;
      for (int64_t r = 0; r < rows; ++r) {
        const double element = x[static_cast<size_t>(r * cols + c)];
        const Expected& scale = out[0][group_of(r, c)];
        terms.push_back({element * scale.value, std::fabs(element) * scale.error});
      }
      columns.push_back(sum_of(terms, unit));
    }
    out.push_back(std::move(columns));
    return out;
  }
};

std::vector<Example> examples() {
  std::vector<Example> out;
  for (const ReductionTraits& row : kRows) {
    for (const DType type : {DType::kF32, DType::kI32}) {
      for (const std::vector<int>& axes : {std::vector{1}, std::vector{0}, std::vector{0, 1}})
        out.push_back({.row = &row, .type = type, .rows = 37, .cols = 1000, .axes = axes});
    }
    out.push_back({.row = &row, .rows = 5, .cols = 1, .axes = {1}});
    out.push_back({.row = &row, .rows = 40, .cols = 1024, .axes = {1}, .scales = true});
  }
  return out;
}

class TupleReduction : public ::testing::Test {
 protected:
  /// A plan by each family that takes the graph.
  static std::map<std::string, Plan> plans(const Fusion& fusion) {
    std::map<std::string, Plan> out;
    for (const Family& family : builtin_families()) {
      auto planned = plan(fusion, {}, *find_device("H200"),
                          {.families = builtin_families(), .pin = {.family = family.name}});
      if (planned) out.emplace(family.name, std::move(*planned));
    }
    return out;
  }

  static std::vector<HostTensor> inputs(const Fusion& fusion) {
    return sample_inputs(fusion, bind_extents(fusion, {}).value(), 7);
  }

  /// Runs all kernels of a plan in the interpreter.
  static void expect_computes(const Plan& planned, const Example& example) {
    const std::vector<HostTensor> x = inputs(example.fusion());
    const auto run = execute_on_host(planned, x, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_THAT(run->report.findings, IsEmpty());
    const auto expected = example.expected(numbers_of(x[0]));
    ASSERT_EQ(run->outputs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<double> actual = numbers_of(run->outputs[i]);
      ASSERT_EQ(actual.size(), expected[i].size());
      for (size_t e = 0; e < actual.size(); ++e)
        expect_near(actual[e], expected[i][e], fmt::format("output {}, element {}", i, e));
    }
  }

  /// Kernels as lowering makes them verify, and their text is read again.
  static void expect_text(const Plan& planned) {
    const FamilySet families = builtin_families();
    for (const KernelPlan& kernel : planned.kernels) {
      const Schedule& schedule = kernel.chosen().schedule;
      const kir::Kernel built =
          find_family(families, schedule.family)->lower(kernel.facts, schedule).kernel;
      EXPECT_THAT(verify_kernel(built, KernelStage::kBuilt), IsEmpty());
      const auto parsed = parse_kernel(print(built), kRows);
      ASSERT_TRUE(parsed) << parsed.error().text() << "\n" << print(built);
      EXPECT_EQ(print(*parsed), print(built));
    }
  }
};

TEST_F(TupleReduction, HasAResultForEachComponent) {
  FusionBuilder b("typed");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kBF16, {rows, 8, 3}, "x");
  const std::vector<ValueId> results = b.reduce_tuple(kRows[1], x, {0, -1});
  ASSERT_EQ(results.size(), 3U);
  for (const ValueId result : results) {
    EXPECT_EQ(b.value(result).type, DType::kF32);
    EXPECT_THAT(b.value(result).shape, ElementsAre(Extent(8)));
    b.output(result);
  }
  const Fusion fusion = b.build();
  EXPECT_THAT(verify(fusion), IsEmpty());
}

TEST_F(TupleReduction, TextIsReadWithItsRows) {
  for (const Example& example : examples()) {
    const Fusion fusion = example.fusion();
    const auto parsed = parse_fusion(print(fusion), kRows);
    ASSERT_TRUE(parsed) << parsed.error().text() << "\n" << print(fusion);
    EXPECT_EQ(*parsed, fusion);
    EXPECT_EQ(structural_hash(*parsed), structural_hash(fusion));
    const auto unknown = parse_fusion(print(fusion));
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, HasSubstr("unknown op"));
  }
}

// Compiled kernels are found by the hash of their graph.
TEST_F(TupleReduction, RowsOfOneNameHaveHashesOfTheirOwn) {
  ReductionTraits other = kRows[2];
  constexpr std::array kOther = {ReductionComponent{
      .name = "energy", .element = PointwiseFn::kAbs, .combine = PointwiseFn::kAdd}};
  other.components = kOther;
  const Example mine{.row = &kRows[2], .rows = 4, .cols = 8, .axes = {1}};
  Example others = mine;
  others.row = &other;
  EXPECT_NE(structural_hash(mine.fusion()), structural_hash(others.fusion()));
}

TEST_F(TupleReduction, IsRefusedWhereTypesDoNotFit) {
  ReductionTraits logic = kRows[0];
  logic.types = ReducedTypes::kLogic;
  FusionBuilder b("bools");
  const ValueId x = b.input(DType::kBool, {4, 8}, "x");
  EXPECT_THROW(b.reduce_tuple(logic, x, {1}), SinterException);
  constexpr std::array kRoots = {ReductionComponent{
      .name = "roots", .element = PointwiseFn::kSqrt, .combine = PointwiseFn::kAdd}};
  const ReductionTraits roots{.text = "roots", .components = kRoots};
  EXPECT_THROW(b.reduce_tuple(roots, b.input(DType::kI32, {4, 8}), {1}), SinterException);
  EXPECT_NO_THROW(b.reduce_tuple(roots, b.input(DType::kF32, {4, 8}), {1}));
  // What combines its parts, reduce.all, takes booleans alone.
  constexpr std::array kBits = {
      ReductionComponent{.name = "bits", .identity = Identity::kOne, .combine = PointwiseFn::kAnd}};
  const ReductionTraits bits{.text = "bits", .components = kBits};
  EXPECT_THROW(b.reduce_tuple(bits, b.input(DType::kI32, {4, 8}), {1}), SinterException);
}

// Both reference evaluators. The oracle's bound must admit this file's value, and must say
// something.
TEST_F(TupleReduction, IsEvaluatedAlikeByBothReferences) {
  for (const Example& example : examples()) {
    const Fusion fusion = example.fusion();
    SCOPED_TRACE(print(fusion));
    const Binding binding = bind_extents(fusion, {}).value();
    const std::vector<HostTensor> x = inputs(fusion);
    const std::vector<double> numbers = numbers_of(x[0]);
    const auto expected = example.expected(numbers);
    const OracleResult oracle = evaluate(fusion, binding, x);
    PlainTensor plain_x{.type = example.type, .sizes = x[0].sizes()};
    for (const double number : numbers) {
      if (is_float(example.type)) {
        plain_x.real.push_back(number);
      } else {
        plain_x.integer.push_back(static_cast<int64_t>(number));
      }
    }
    const std::vector<PlainTensor> plain = evaluate_plainly(fusion, binding, {{plain_x}});
    ASSERT_EQ(oracle.outputs.size(), expected.size());
    ASSERT_EQ(plain.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t e = 0; e < expected[i].size(); ++e) {
        const Expected& here = expected[i][e];
        expect_near(oracle.outputs[i].expected(e), here, "oracle");
        expect_near(
            is_float(example.type) ? plain[i].real[e] : static_cast<double>(plain[i].integer[e]),
            here, "plain evaluator");
        const double bound = oracle.outputs[i].bound[e];
        EXPECT_LE(std::fabs(oracle.outputs[i].expected(e) - here.value),
                  bound + unit_of(example.type) * std::fabs(here.value));
        EXPECT_LE(bound, 16.0 * here.error + unit_of(example.type) * std::fabs(here.value));
      }
    }
  }
}

TEST_F(TupleReduction, IsComputedByEveryFamilyThatTakesIt) {
  std::set<std::string> seen;
  bool is_exchanged = false;
  for (const Example& example : examples()) {
    const Fusion fusion = example.fusion();
    for (const auto& [family, planned] : plans(fusion)) {
      SCOPED_TRACE(family + "\n" + print(fusion));
      expect_text(planned);
      expect_computes(planned, example);
      const auto check =
          check_on_host(fusion, planned.binding, planned, inputs(fusion), builtin_families());
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->passed()) << check->text();
      seen.insert(family);
      const KernelPlan& kernel = planned.kernels.front();
      const auto built = find_family(builtin_families(), kernel.chosen().schedule.family)
                             ->lower(kernel.facts, kernel.chosen().schedule);
      is_exchanged =
          is_exchanged ||
          print(built.kernel).find(fmt::format(" {}(", example.row->text)) != std::string::npos;
    }
  }
  EXPECT_THAT(seen, ElementsAre("column", "looped", "multi_wave", "warp_specialised"));
  EXPECT_TRUE(is_exchanged) << "no kernel states the reduction by its name";
}

// All kinds of hard data: infinities, NaN, zeros, numbers whose squares overflow or underflow.
TEST_F(TupleReduction, OfHardDataIsTheOracles) {
  for (const ReductionTraits& row : kRows) {
    for (const std::vector<int>& axes : {std::vector{1}, std::vector{0}}) {
      const Example example{.row = &row, .rows = 37, .cols = 100, .axes = axes};
      const Fusion fusion = example.fusion();
      const Plan planned =
          plan(fusion, {}, *find_device("H200"), {.families = builtin_families()}).value();
      const auto check = check_on_host(fusion, planned.binding, planned, 1, builtin_families());
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->passed()) << row.text << "\n" << check->text();
    }
  }
}

TEST_F(TupleReduction, OfNoElementsIsTheIdentity) {
  for (const ReductionTraits& row : kRows) {
    const Example example{.row = &row, .rows = 5, .cols = 0, .axes = {1}};
    const Plan planned =
        plan(example.fusion(), {}, *find_device("H200"), {.families = builtin_families()}).value();
    expect_computes(planned, example);
  }
}

// One long row for a whole device: one kernel reduces parts of it, another their partial results.
TEST_F(TupleReduction, IsReducedInParts) {
  for (const ReductionTraits& row : kRows) {
    const Example example{.row = &row, .rows = 1, .cols = 524288, .axes = {1}};
    const Plan planned =
        plan(example.fusion(), {}, *find_device("H200"), {.families = builtin_families()}).value();
    ASSERT_EQ(planned.kernels.size(), 2U) << row.text;
    EXPECT_GT(planned.kernels.front().row_parts, 0);
    expect_computes(planned, example);
  }
}

/// 53 elements in three parts of 16 and a rest of 5.
TEST_F(TupleReduction, IsReducedInUnevenParts) {
  for (const ReductionTraits& row : kRows) {
    for (const DType type : {DType::kF32, DType::kI32}) {
      const Example example{.row = &row, .type = type, .rows = 3, .cols = 53, .axes = {1}};
      const Fusion parted = with_axes_in_parts(
          example.fusion(),
          {{.reduction = OpId{1}, .axis = 1, .length = 53, .parts = 3, .part_length = 16}});
      const Plan planned =
          plan(parted, {}, *find_device("H200"), {.families = builtin_families()}).value();
      expect_computes(planned, example);
    }
  }
}

TEST_F(TupleReduction, CompilesForEveryFamily) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  for (const Example& example : examples()) {
    if (example.type != DType::kF32 || example.cols == 1) continue;
    const Fusion fusion = example.fusion();
    for (const auto& [family, planned] : plans(fusion)) {
      SCOPED_TRACE(family + "\n" + print(fusion));
      for (const KernelPlan& kernel : planned.kernels) {
        const auto source = emit(kernel.facts, kernel.chosen().schedule);
        ASSERT_TRUE(source) << source.error().text();
        const auto compiled =
            compile_kernel(*compiler, cache, *source,
                           Architecture::parse(architecture_of(planned.limits)).value());
        ASSERT_TRUE(compiled) << compiled.error().text();
        EXPECT_EQ(compiled->kernel->resources.spill_store_bytes, 0);
      }
    }
  }
}

}  // namespace sinter::tuple_reduction_test
