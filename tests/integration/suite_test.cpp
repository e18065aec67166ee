// The kernels of benchmarks/suite: held to the oracle at small extents, and planned at all that are
// measured.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "fusion_ir/parser.h"
#include "runtime/compile/compile_plan.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/offers.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/suite_cases.h"
#include "tests/support/effort.h"
#include "tests/support/h200.h"

namespace sinter::suite_test {

std::vector<SuiteCase> quantisation_cases() {
  std::vector<SuiteCase> out = suite_cases();
  std::erase_if(out, [](const SuiteCase& item) { return item.group != "quantisation"; });
  return out;
}

constexpr int64_t kSpecialRows = 10;

/// Element i of one of the rows in which quantisation has something to decide.
double special(int64_t row, int64_t i) {
  const auto number = static_cast<double>(i % 7 - 3);
  const bool is_odd = i % 2 != 0;
  switch (row) {
    case 0:  // Nothing to scale by, of both signs.
      return is_odd ? -0.0 : 0.0;
    case 1:
      return i == 1 ? std::numeric_limits<double>::infinity() : number;
    case 2:
      return i % 5 == 3 ? -std::numeric_limits<double>::infinity() : number;
    case 3:
      return i == 2 ? std::numeric_limits<double>::quiet_NaN() : number;
    case 4:  // Subnormal.
      return number * 0x1p-133;
    case 5:  // Ties of i8, at a scale of 1.
      return i == 0 ? 127.0 : number + 0.5;
    case 6:  // Ties of f8e4m3, and those of its subnormals.
      return i == 0 ? 448.0 : is_odd ? 1.0625 + number * 0.125 : number * 0x1p-10;
    case 7:  // Likewise of f8e5m2.
      return i == 0 ? -57344.0 : is_odd ? 1.125 + number * 0.25 : number * 0x1p-17;
    case 8:  // Just about the end of the range.
      return i % 3 == 0 ? 448.0 : i % 3 == 1 ? 450.0 : -446.0;
    default:  // Beyond what a scale of 1 takes.
      return number * 0x1p60;
  }
}

/// Random inputs whose matrices have the special rows.
std::vector<HostTensor> special_inputs(const Fusion& fusion, const Binding& binding) {
  std::vector<HostTensor> out = sample_inputs(fusion, binding, 1);
  for (HostTensor& input : out) {
    if (input.sizes().size() < 2) continue;
    const int64_t columns = input.count() / kSpecialRows;
    for (int64_t row = 0; row < kSpecialRows; ++row) {
      for (int64_t i = 0; i < columns; ++i) input.set(row * columns + i, special(row, i));
    }
  }
  return out;
}

/// Bytes of the machine code in a cubin, a 64-bit ELF image: the sections .text.*.
uint64_t text_bytes(const std::string& cubin) {
  const auto number = [&]<class T>(size_t at, T value) {
    std::memcpy(&value, cubin.data() + at, sizeof value);
    return value;
  };
  const uint64_t sections = number(0x28, uint64_t{});
  const uint16_t section_size = number(0x3A, uint16_t{});
  const uint16_t count = number(0x3C, uint16_t{});
  const uint64_t names =
      number(sections + number(0x3E, uint16_t{}) * size_t{section_size} + 0x18, uint64_t{});
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t section = sections + i * section_size;
    const char* name = cubin.data() + names + number(section, uint32_t{});
    if (std::string_view(name).starts_with(".text.")) bytes += number(section + 0x20, uint64_t{});
  }
  return bytes;
}

class Suite : public ::testing::TestWithParam<SuiteCase> {};

TEST_P(Suite, IsRightAtSmallExtents) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  const FamilySet families = builtin_families();
  for (const int64_t columns : {1, 2, 96, 131, 1000}) {
    SCOPED_TRACE(columns);
    const auto planned =
        plan(fusion, item.small(5, columns), *find_device("H200"), {.families = families});
    ASSERT_TRUE(planned) << planned.error().text();
    const std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
    const auto check = check_on_host(fusion, planned->binding, *planned, inputs, families);
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

TEST_P(Suite, HasAPlanAtEveryListedSize) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  for (const std::vector<int64_t>& shape : item.shapes) {
    const auto planned = plan(fusion, item.values(shape), *find_device("H200"));
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_LE(planned->leading_kernels().size(), 2U) << "a kernel, and one that ends it";
  }
}

/// What NVRTC makes of the kernels chosen for an H200, re-planned where one spilled.
TEST_P(Suite, SpillsNothingAtListedSizes) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  KernelCache cache({});
  Slice slice(5, std::ssize(item.name));
  for (const std::vector<int64_t>& shape : item.shapes) {
    if (!slice.takes()) continue;
    SCOPED_TRACE(testing::PrintToString(shape));
    const auto compiled =
        plan(fusion, item.values(shape), *find_device("H200"), {.families = builtin_families()})
            .and_then(
                [&](Plan planned) { return compile_plan(std::move(planned), *compiler, cache); });
    ASSERT_TRUE(compiled) << compiled.error().text();
    for (const KernelBuild& kernel : compiled->kernels)
      EXPECT_EQ(kernel.kernel->resources.spill_store_bytes, 0) << print(kernel.chosen.schedule);
  }
}

/// A kernel of the suite, planned for an H200 and compiled, whose first choice spills; nothing, and
/// the test is skipped, without NVRTC. `expected_us`: what the first choice is predicted to take.
std::optional<KernelBuild> compiled_after_a_spill(std::string_view name, std::string_view type,
                                                  const std::vector<int64_t>& shape,
                                                  double* expected_us = nullptr) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) return std::nullopt;
  const std::vector<SuiteCase> all = suite_cases();
  const auto item = std::ranges::find_if(
      all, [&](const SuiteCase& one) { return one.name == name && one.type == type; });
  KernelCache cache({});
  auto planned = plan(item->fusion(), item->values(shape), *find_device("H200"),
                      {.families = builtin_families()});
  if (expected_us != nullptr) *expected_us = planned->kernels.front().chosen().predicted.total_us;
  auto compiled = compile_plan(std::move(planned.value()), *compiler, cache).value();
  KernelBuild kernel = std::move(compiled.kernels.front());
  EXPECT_GT(kernel.attempts.front().resources.spill_store_bytes, 0) << "tests nothing";
  EXPECT_EQ(kernel.kernel->resources.spill_store_bytes, 0);
  return kernel;
}

/// A loop that needs far more registers than estimated says nothing of loops with fewer vectors
/// in flight, one of which is predicted as fast.
TEST(SuiteSpills, ALoopThatSpillsIsNotTradedForALoneBlock) {
  double expected_us = 0.0;
  const auto segment =
      compiled_after_a_spill("cross_entropy_ls_zloss", "bf16", {8192, 32000}, &expected_us);
  if (!segment) GTEST_SKIP() << "no NVRTC";
  EXPECT_LE(segment->chosen.predicted.total_us, 1.005 * expected_us)
      << print(segment->chosen.schedule);
}

class QuantisationSuite : public ::testing::TestWithParam<SuiteCase> {};

TEST_P(QuantisationSuite, IsRightForSpecialRows) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  const FamilySet families = builtin_families();
  for (const int64_t columns : {1, 5, 64, 128}) {
    SCOPED_TRACE(columns);
    const auto planned = plan(fusion, item.small(kSpecialRows, columns), *find_device("H200"),
                              {.families = families});
    ASSERT_TRUE(planned) << planned.error().text();
    const std::vector<HostTensor> inputs = special_inputs(fusion, planned->binding);
    const auto check = check_on_host(fusion, planned->binding, *planned, inputs, families);
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

/// True if some reductions remove whole rows of what the fusion reads, and others parts of rows.
bool reduces_parts_of_rows(const Fusion& fusion) {
  std::set<size_t> kept;
  for (const Op& op : fusion.ops) {
    if (is_reduction(op.kind)) kept.insert(fusion.values[op.results.front()].shape.size());
  }
  return kept.size() > 1;
}

// Reductions over rows and over parts of them have no iteration space in common, so that each gets
// a kernel. All other quantisations are one.
TEST_P(QuantisationSuite, IsOneKernelPerKindOfRow) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  for (const std::vector<int64_t>& shape : item.shapes) {
    const auto planned = plan(fusion, item.values(shape), *find_device("H200"));
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_EQ(planned->kernels.size(), reduces_parts_of_rows(fusion) ? 2U : 1U);
  }
}

/// Long rows are kept partly in registers and partly in shared memory, and the text that the stages
/// of a distillation loss are printed as is predicted: what an SM does not keep of it costs.
TEST(SuiteLosses, LongRowsAreKeptInBothMemoriesAndTextsArePredicted) {
  SuiteCase loss;
  loss.name = "fused_linear_jsd";
  loss.extents = {"rows", "cols"};
  const DeviceLimits h200 = *find_device("H200");
  const auto compiler = NvrtcCompiler::open();
  KernelCache cache({});
  for (const std::string type : {"f32", "bf16"}) {
    loss.type = type;
    auto planned =
        plan(loss.fusion(), loss.values({2048, 256000}), h200, {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    const SegmentFacts facts = planned->kernels.front().facts;
    const Schedule chosen = planned->kernels.front().chosen().schedule;
    EXPECT_EQ(chosen.cluster_size(), 16);
    if (type == "f32") {
      EXPECT_NE(chosen.kept[0].residency, chosen.kept[1].residency) << print(chosen);
    }
    if (!compiler) continue;
    const double estimate =
        text_instructions(facts, chosen, distribute(facts, chosen.kept), h200.cost);
    const auto compiled = compile_plan(std::move(*planned), *compiler, cache, {.max_replans = 0});
    ASSERT_TRUE(compiled) << compiled.error().text();
    const double truth = static_cast<double>(text_bytes(compiled->kernels.front().kernel->cubin)) /
                         kConstants.instruction_bytes;
    EXPECT_GT(truth, 2000.0);
    EXPECT_NEAR(estimate / truth, 1.0, 0.15) << type;
  }
}

TEST(SuiteFiles, AreAllListed) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(suite_directory())) {
    if (entry.path().extension() == ".fir") files.insert(entry.path().stem());
  }
  std::set<std::string> listed;
  for (const SuiteCase& item : suite_cases()) listed.insert(item.name);
  EXPECT_EQ(listed, files);
}

std::string case_name(const ::testing::TestParamInfo<SuiteCase>& item) {
  return item.param.name + "_" + item.param.type;
}

INSTANTIATE_TEST_SUITE_P(All, Suite, ::testing::ValuesIn(suite_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(All, QuantisationSuite, ::testing::ValuesIn(quantisation_cases()),
                         case_name);

}  // namespace sinter::suite_test
