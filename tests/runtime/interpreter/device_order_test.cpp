// What blocks tell each other through fences and counters in global memory: right kernels in any
// order of blocks, and each step left out.

#include "runtime/interpreter/device_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "runtime/interpreter/interpreter.h"

namespace sinter::device_order_test {

using testing::HasSubstr;

constexpr int64_t kBlocks = 7;
constexpr int64_t kThreads = 64;

/// Every block leaves a number for each thread; the last one adds up all of them.
constexpr std::string_view kLastBlockSums =
    R"(kernel @last_block_sums threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  buffer %b0 partials : i32 global readwrite align 16
  buffer %b1 counters : i32 global readwrite align 16
  buffer %b2 sums : i32 global write align 16
  buffer %b3 drawn : i32 shared readwrite align 16 count 1 offset 0
  let %r0 own : i32 = add(mul(block_index, 64), thread_index)
  store %b0[%r0] = %r0[0, 0] width 1
  barrier
  if eq(thread_index, 0) {
    var %r1 arrival : i32
    device_fence
    %r1 = atomic_count %b1[0] last sub(cast<i32>(%p0), 1)
    device_fence
    store %b3[0] = %r1[0, 0] width 1
  }
  barrier
  var %r2 last : i32
  %r2[0, 0] = load %b3[0] width 1
  if eq(cast<i64>(%r2), sub(%p0, 1:i64)) {
    let %r3 sum : i32 = 0
    var %r4 partial : i32
    for %r5 block : i32 = 0 to cast<i32>(%p0) step 1 {
      %r4[0, 0] = load %b0[add(mul(%r5, 64), thread_index)] width 1
      %r3 = add(%r3, %r4)
    }
    store %b2[thread_index] = %r3[0, 0] width 1
  }
}
)";

struct Problem {
  std::vector<int32_t> partials = std::vector<int32_t>(kBlocks * kThreads, -1);
  std::vector<int32_t> counters = {0};
  std::vector<int32_t> sums = std::vector<int32_t>(kThreads, -1);
  kir::Kernel kernel;

  /// Runs the kernel with one piece of its text replaced.
  InterpreterReport run(const InterpreterOptions& options, std::string_view from = "",
                        std::string_view to = "") {
    std::string text(kLastBlockSums);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    auto parsed = parse_kernel(text);
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().text());
    if (!parsed) return {};
    kernel = *std::move(parsed);
    EXPECT_TRUE(verify_kernel(kernel, KernelStage::kLowered).empty());
    const auto bytes_of_all = [](std::vector<int32_t>& values) {
      return LaunchMemory{.bytes = std::as_writable_bytes(std::span(values)), .origin = 0};
    };
    const std::vector<LaunchMemory> memory = {bytes_of_all(partials), bytes_of_all(counters),
                                              bytes_of_all(sums)};
    const auto report = interpret(kernel, memory, std::vector<int64_t>{kBlocks}, options);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
    return report ? *report : InterpreterReport{};
  }
};

TEST(DeviceOrderTest, TheLastBlockMayReadWhatAllHaveLeft) {
  std::optional<WorkCounts> work;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    Problem problem;
    const InterpreterReport report = problem.run({.seed = seed, .threads = 3});
    EXPECT_TRUE(report.clean()) << report.text(problem.kernel);
    EXPECT_EQ(problem.counters[0], 0) << "the next launch finds it as this one did";
    for (int64_t thread = 0; thread < kThreads; ++thread) {
      const int64_t expected = kBlocks * thread + kThreads * kBlocks * (kBlocks - 1) / 2;
      EXPECT_EQ(problem.sums[static_cast<size_t>(thread)], expected);
    }
    if (!work) work = report.work;
    EXPECT_EQ(report.work, *work) << "all blocks do the same but for the last";
  }
}

/// Which block is the last differs from seed to seed.
TEST(DeviceOrderTest, EveryBlockIsTheLastForSomeSeed) {
  std::set<int32_t> last;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    Problem problem;
    (void)problem.run({.seed = seed}, "store %b2[thread_index] = %r3[0, 0] width 1",
                      "%r3 = block_index store %b2[thread_index] = %r3[0, 0] width 1");
    last.insert(problem.sums[0]);
  }
  EXPECT_EQ(last.size(), static_cast<size_t>(kBlocks));
}

// Why counters have to be 0 before a launch: with others a block takes itself for the last before
// all have left their numbers, or none does.
TEST(DeviceOrderTest, CountersThatDoNotStartAtZeroFinishTooEarly) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Problem problem;
    problem.counters[0] = 2;
    (void)problem.run({.seed = seed});
    EXPECT_EQ(problem.counters[0], 2);
    EXPECT_NE(problem.sums[0], kThreads * kBlocks * (kBlocks - 1) / 2);
  }
}

struct Mistake {
  std::string_view name, from, to;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class DeviceOrderMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(DeviceOrderMistakeTest, IsARaceWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Problem problem;
    const InterpreterReport report = problem.run({.seed = seed}, GetParam().from, GetParam().to);
    const auto race = std::ranges::find(report.findings, FindingKind::kGlobalRace, &Finding::kind);
    ASSERT_NE(race, report.findings.end()) << "seed " << seed;
    EXPECT_THAT(race->message, HasSubstr("partials"));
    EXPECT_THAT(race->message, HasSubstr("nothing orders them"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, DeviceOrderMistakeTest,
    testing::Values(Mistake{"no_release", "device_fence\n    %r1 =", "%r1 ="},
                    Mistake{"no_acquire", "device_fence\n    store", "store"},
                    Mistake{"no_barrier_before", "width 1\n  barrier\n  if eq(thread_index",
                            "width 1\n  if eq(thread_index"},
                    // What a thread does after its fence does not go with its count.
                    Mistake{"too_early", "%r1 = atomic_count",
                            "store %b0[%r0] = %r0[0, 0] width 1 %r1 = atomic_count"}),
    [](const auto& mistake) { return std::string(mistake.param.name); });

/// Without the second barrier the others read what is not there yet, which is another race; and
/// where one of them sees that its block is the last, it has not learnt what the thread that
/// counted has.
TEST(DeviceOrderTest, AMissingBarrierBehindTheCountIsARaceOfBothMemories) {
  int of_partials = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    Problem problem;
    const InterpreterReport report = problem.run({.seed = seed}, "}\n  barrier", "}");
    EXPECT_FALSE(report.clean());
    of_partials += static_cast<int>(
        std::ranges::count(report.findings, FindingKind::kGlobalRace, &Finding::kind));
  }
  EXPECT_GT(of_partials, 0);
}

/// The last of two blocks counts for both of them: what it has learnt from the other goes along.
TEST(DeviceOrderTest, WhatAThreadHasLearntGoesWithItsNextCount) {
  constexpr std::string_view kTree =
      R"(kernel @tree threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  buffer %b0 partials : i32 global readwrite align 16
  buffer %b1 counters : i32 global readwrite align 16
  buffer %b2 sum_of_all : i32 global write align 16
  if eq(thread_index, 0) {
    let %r0 own : i32 = block_index
    store %b0[block_index] = %r0[0, 0] width 1
    var %r1 of_pair : i32
    device_fence
    %r1 = atomic_count %b1[div(block_index, 2)] last 1
    device_fence
    if eq(%r1, 1) {
      var %r2 of_all : i32
      %r2 = atomic_count %b1[2] last 1
      device_fence
      if eq(%r2, 1) {
        let %r3 sum : i32 = 0
        var %r4 partial : i32
        for %r5 block : i32 = 0 to 4 step 1 {
          %r4[0, 0] = load %b0[%r5] width 1
          %r3 = add(%r3, %r4)
        }
        store %b2[0] = %r3[0, 0] width 1
      }
    }
  }
}
)";
  const kir::Kernel kernel = parse_kernel(kTree).value();
  ASSERT_TRUE(verify_kernel(kernel, KernelStage::kLowered).empty());
  for (uint64_t seed = 0; seed < 16; ++seed) {
    std::vector<int32_t> partials(4, -1);
    std::vector<int32_t> counters(3, 0);
    std::vector<int32_t> sum(1, -1);
    std::vector<LaunchMemory> memory;
    for (std::vector<int32_t>* values : {&partials, &counters, &sum})
      memory.push_back({.bytes = std::as_writable_bytes(std::span(*values)), .origin = 0});
    const auto report = interpret(kernel, memory, std::vector<int64_t>{4}, {.seed = seed}).value();
    EXPECT_TRUE(report.clean()) << report.text(kernel);
    EXPECT_EQ(sum[0], 0 + 1 + 2 + 3) << "seed " << seed;
  }
}

TEST(DeviceOrderTest, ThreadsOfABlockAreOrderedByItsBarriers) {
  constexpr std::string_view kSwap =
      R"(kernel @swap threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  buffer %b0 x : i32 global readwrite align 16
  let %r0 own : i32 = add(mul(block_index, 64), thread_index)
  store %b0[%r0] = %r0[0, 0] width 1
  barrier
  var %r1 other : i32
  %r1[0, 0] = load %b0[sub(add(mul(block_index, 64), 63), thread_index)] width 1
}
)";
  for (const bool with_barrier : {true, false}) {
    std::string text(kSwap);
    if (!with_barrier) text.replace(text.find("  barrier\n"), 10, "");
    const kir::Kernel kernel = parse_kernel(text).value();
    std::vector<int32_t> x(kBlocks * kThreads);
    const std::vector<LaunchMemory> memory = {
        {.bytes = std::as_writable_bytes(std::span(x)), .origin = 0}};
    const auto report = interpret(kernel, memory, std::vector<int64_t>{kBlocks}, {}).value();
    EXPECT_EQ(report.clean(), with_barrier) << report.text(kernel);
  }
}

TEST(DeviceOrderTest, CountersOutOfBoundsAreFound) {
  Problem problem;
  const InterpreterReport report = problem.run({}, "%b1[0]", "%b1[1]");
  ASSERT_FALSE(report.clean());
  EXPECT_EQ(report.findings.front().kind, FindingKind::kGlobalOutOfBounds);
}

}  // namespace sinter::device_order_test
