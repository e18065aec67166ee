// Blocks of a cluster that exchange through each other's shared memory: what the interpreter makes
// of them, and which mistakes it finds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/cluster_kernel.h"

namespace sinter::cluster_test {

using testing::HasSubstr;

constexpr int64_t kRows = 21;
constexpr int64_t kColumns = 128;

/// The row sums of tests/codegen/cluster_kernel.h by three clusters.
struct RowSums {
  RowSums() : x(kRows * kColumns), sums(kRows, -1.0F) {
    auto built = parse_kernel(kClusterKernel);
    EXPECT_TRUE(built.has_value()) << (built ? "" : built.error().text());
    if (built) kernel = run_kernel_passes(*std::move(built));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 101);
  }

  /// Runs the lowered kernel with one piece of its text replaced.
  InterpreterReport run(uint64_t seed, std::string_view from = "", std::string_view to = "") {
    std::string text = print(kernel);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    const auto changed = parse_kernel(text);
    EXPECT_TRUE(changed.has_value()) << (changed ? "" : changed.error().text());
    if (!changed) return {};
    const std::vector<LaunchMemory> memory = {
        {.bytes = std::as_writable_bytes(std::span(x)), .origin = 0},
        {.bytes = std::as_writable_bytes(std::span(sums)), .origin = 0}};
    const std::vector<int64_t> params = {kRows, 3};
    const auto report = interpret(*changed, memory, params, {.seed = seed});
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
    return report ? *report : InterpreterReport{};
  }

  kir::Kernel kernel;
  std::vector<float> x, sums;
};

TEST(ClusterTest, BlocksLearnTheSumOfTheirRowForEverySeed) {
  RowSums problem;
  std::optional<InterpreterReport> first;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const InterpreterReport report = problem.run(seed);
    EXPECT_TRUE(report.clean()) << report.text(problem.kernel);
    EXPECT_EQ(report.blocks, 6);
    if (!first) first = report;
    EXPECT_EQ(report.work, first->work);
    for (size_t row = 0; row < problem.sums.size(); ++row) {
      const auto begin = problem.x.begin() + static_cast<std::ptrdiff_t>(row) * kColumns;
      EXPECT_EQ(problem.sums[row], std::accumulate(begin, begin + kColumns, 0.0F)) << row;
    }
  }
}

TEST(ClusterTest, BlocksMeetInTwoHalvesForEverySeed) {
  RowSums problem;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    std::ranges::fill(problem.sums, -1.0F);
    const InterpreterReport report =
        problem.run(seed, "cluster_barrier", "cluster_arrive barrier cluster_wait");
    EXPECT_TRUE(report.clean()) << report.text(problem.kernel);
    for (size_t row = 0; row < problem.sums.size(); ++row) {
      const auto begin = problem.x.begin() + static_cast<std::ptrdiff_t>(row) * kColumns;
      EXPECT_EQ(problem.sums[row], std::accumulate(begin, begin + kColumns, 0.0F)) << row;
    }
  }
}

TEST(ClusterTest, SharesOfSeveralHostThreadsAreWholeClusters) {
  RowSums problem;
  const std::vector<LaunchMemory> memory = {
      {.bytes = std::as_writable_bytes(std::span(problem.x)), .origin = 0},
      {.bytes = std::as_writable_bytes(std::span(problem.sums)), .origin = 0}};
  const std::vector<int64_t> params = {kRows, 3};
  const auto report = interpret(problem.kernel, memory, params, {.threads = 4});
  ASSERT_TRUE(report.has_value()) << report.error().text();
  EXPECT_TRUE(report->clean()) << report->text(problem.kernel);
  EXPECT_EQ(problem.sums[20], std::accumulate(problem.x.end() - kColumns, problem.x.end(), 0.0F));
}

struct Mistake {
  std::string_view from, to;
  std::optional<FindingKind> kind;  ///< Found in every order; none: what is found depends on it.
  std::string_view message;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.from; }

class ClusterMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(ClusterMistakeTest, IsFoundWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RowSums problem;
    const InterpreterReport report = problem.run(seed, GetParam().from, GetParam().to);
    ASSERT_FALSE(report.clean()) << "seed " << seed;
    if (!GetParam().kind) continue;
    const auto found = std::ranges::find(report.findings, *GetParam().kind, &Finding::kind);
    ASSERT_NE(found, report.findings.end()) << "seed " << seed << report.text(problem.kernel);
    EXPECT_THAT(found->message, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, ClusterMistakeTest,
    testing::Values(
        // Blocks may send before the other has made its mbarriers.
        Mistake{"cluster_barrier", "barrier", FindingKind::kMbarrierUninitialised,
                "no barrier follows its initialisation"},
        Mistake{"cluster_barrier", "cluster_arrive", std::nullopt, ""},
        // Nobody arrives.
        Mistake{"cluster_barrier", "cluster_wait", FindingKind::kDeadlock, "wait for the cluster"},
        // What a lane has read, the lane that sends for its warp does not answer for.
        Mistake{"warp_barrier", "", FindingKind::kSharedRace, "reads it, with no barrier between"},
        // With one copy and one parity, a block overwrites what the other still reads.
        Mistake{"%r1 = add(%r1, 1)", "%r1 = add(%r1, 4)", std::nullopt, ""},
        Mistake{"expect_bytes %m0[rem(%r1, 2)] 16", "expect_bytes %m0[rem(%r1, 2)] 20",
                FindingKind::kDeadlock, "lacks 0 arrivals and 4 bytes"},
        Mistake{"expect_bytes %m0[rem(%r1, 2)] 16", "expect_bytes %m0[rem(%r1, 2)] 12",
                FindingKind::kMbarrierBytes, "more than it expects"},
        Mistake{"of rem(thread_index, 32) =", "of add(rem(thread_index, 32), 1) =",
                FindingKind::kSharedOutOfBounds, "to block 2 of a cluster of 2"}));

}  // namespace sinter::cluster_test
