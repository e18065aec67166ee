// Kernels whose warps have different work: what the interpreter makes of mbarriers, bulk copies and
// group barriers, and which mistakes in their use it finds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/specialised_kernel.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::mbarrier_test {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kRows = 20;
constexpr int64_t kColumns = 512;

/// The row sums of tests/codegen/specialised_kernel.h, or of what a test has made of it.
struct RowSums {
  explicit RowSums(std::string_view text) : x(kRows * kColumns), sums(kRows, -1.0F) {
    auto built = parse_kernel(text);
    EXPECT_TRUE(built.has_value()) << (built ? "" : built.error().text());
    if (built) kernel = run_kernel_passes(*std::move(built));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 101);
  }

  InterpreterReport run(uint64_t seed) {
    const std::vector<LaunchMemory> memory = {
        {.bytes = std::as_writable_bytes(std::span(x)), .origin = 0},
        {.bytes = std::as_writable_bytes(std::span(sums)), .origin = 0}};
    const std::vector<int64_t> params = {kRows};
    const auto report = interpret(kernel, memory, params, {.seed = seed});
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
    return report ? *report : InterpreterReport{};
  }

  kir::Kernel kernel;
  std::vector<float> x, sums;
};

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kSpecialisedKernel);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(MbarrierTest, WarpsWithDifferentWorkGiveTheSameForEverySeed) {
  RowSums problem(kSpecialisedKernel);
  std::optional<InterpreterReport> first;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const InterpreterReport report = problem.run(seed);
    EXPECT_TRUE(report.clean()) << report.text(problem.kernel);
    if (!first) first = report;
    EXPECT_EQ(report.work, first->work);
    EXPECT_EQ(report.total_traffic(), first->total_traffic());
    for (size_t row = 0; row < problem.sums.size(); ++row) {
      const auto begin = problem.x.begin() + static_cast<std::ptrdiff_t>(row) * kColumns;
      EXPECT_EQ(problem.sums[row], std::accumulate(begin, begin + kColumns, 0.0F)) << row;
    }
  }
  EXPECT_EQ(first->total_traffic().bytes_read, kRows * kColumns * 4);
  EXPECT_EQ(first->total_traffic().async_sectors, kRows * kColumns * 4 / 32);
}

struct Mistake {
  std::string_view from, to;
  std::optional<FindingKind> kind;  ///< Found in every order; none: what is found depends on it.
  std::string_view message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.from; }

class MbarrierMistakeTest : public testing::TestWithParam<Mistake> {};

/// The order of the warps must not matter: what is wrong is found in every one.
TEST_P(MbarrierMistakeTest, IsFoundWhateverTheOrder) {
  RowSums problem(replaced(GetParam().from, GetParam().to));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const InterpreterReport report = problem.run(seed);
    ASSERT_FALSE(report.clean()) << "seed " << seed;
    if (!GetParam().kind) continue;
    const auto found = std::ranges::find(report.findings, *GetParam().kind, &Finding::kind);
    ASSERT_NE(found, report.findings.end()) << "seed " << seed << report.text(problem.kernel);
    EXPECT_THAT(found->message, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MbarrierMistakeTest,
    testing::Values(
        Mistake{"mbarrier_wait %m0[%r5] parity rem(div(%r3, 3), 2)", "", FindingKind::kAsyncPending,
                "has not awaited the bulk copy to it"},
        Mistake{"parity rem(div(%r3, 3), 2)", "parity rem(add(div(%r3, 3), 1), 2)", std::nullopt,
                ""},
        Mistake{"mbarrier_wait %m1[%r2] parity rem(add(div(%r0, 3), 1), 2)", "",
                FindingKind::kMbarrierArrivals, "arrives at full[0]"},
        Mistake{"mbarrier_arrive %m1[%r5]", "", FindingKind::kDeadlock,
                "empty[0] in phase 0 lacks 1 arrivals and 0 bytes"},
        Mistake{"if eq(thread_index, 0) {\n        mbarrier_arrive",
                "if lt(thread_index, 2) {\n        mbarrier_arrive", FindingKind::kMbarrierArrivals,
                "whose phases expect 1 arrivals"},
        Mistake{"expect_bytes %m0[%r2] 2048", "expect_bytes %m0[%r2] 2064", FindingKind::kDeadlock,
                "full[0] in phase 0 lacks 0 arrivals and 16 bytes"},
        Mistake{"expect_bytes %m0[%r2] 2048", "expect_bytes %m0[%r2] 1024",
                FindingKind::kMbarrierBytes, "more than it expects"},
        Mistake{"expect_bytes %m0[%r2] 2048", "mbarrier_arrive %m0[%r2]",
                FindingKind::kMbarrierBytes, "more than it expects"},
        Mistake{"init_mbarriers\n  barrier", "init_mbarriers", FindingKind::kMbarrierUninitialised,
                "no barrier follows its initialisation"},
        Mistake{"if eq(thread_index, 128) {", "if lt(thread_index, 130) {",
                FindingKind::kMbarrierArrivals, "arrives at full[0]"},
        Mistake{"let %r5 slot_2 : i32 = rem(%r3, 3)", "let %r5 slot_2 : i32 = rem(%r3, 4)",
                FindingKind::kSharedOutOfBounds, "full[3], which is not in the array"},
        Mistake{"elements 512 mbarrier", "elements sub(512, cast<i32>(min(%r1, 1:i64))) mbarrier",
                FindingKind::kMisaligned, "511 elements of 4 bytes in bulk"},
        Mistake{"mul(%r1, 512:i64)]", "add(mul(%r1, 512:i64), 1:i64)]", FindingKind::kMisaligned,
                "must be aligned to 16"},
        Mistake{"mul(%r1, 512:i64)]", "mul(%r1, 640:i64)]", FindingKind::kGlobalOutOfBounds,
                "2048 bytes"},
        Mistake{"%b2[mul(%r2, 512)]", "%b2[mul(%r2, 520)]", FindingKind::kSharedOutOfBounds,
                "2048 bytes"},
        Mistake{"%b2[mul(%r2, 512)]", "%b2[mul(%r2, 508)]", FindingKind::kAsyncPending,
                "writes stage[508], thread 128 has not awaited the bulk copy to it"},
        Mistake{"barrier 1 group", "barrier add(1, div(thread_index, 64)) group",
                FindingKind::kDeadlock, "of 128 threads"},
        Mistake{"    set_max_registers decrease 24\n    if eq(thread_index, 128) {",
                "    if lt(thread_index, 160) { set_max_registers decrease 24 }\n"
                "    if eq(thread_index, 128) {",
                FindingKind::kDivergentLimit, "warp 5 of block 0"}));

TEST(MbarrierTest, FindsScratchThatAFastWarpOverwrites) {
  RowSums problem(replaced("phase rem(%r3, 2)", "phase 0"));
  bool is_found = false;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const Finding& finding : problem.run(seed).findings) {
      EXPECT_EQ(finding.kind, FindingKind::kSharedRace);
      is_found = true;
    }
  }
  EXPECT_TRUE(is_found);
}

constexpr std::string_view kSmall = R"(kernel @small threads 128 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : f32 global write align 16
  buffer %b2 s : f32 shared readwrite align 16 count 128
  mbarrier %m0 full count 1 arrivals 1
  init_mbarriers
  barrier
  {}
}}
)";

InterpreterReport run_small(std::string_view body, uint64_t seed) {
  const auto built = parse_kernel(fmt::format(kSmall, body));
  EXPECT_TRUE(built.has_value()) << (built ? "" : built.error().text());
  if (!built) return {};
  const kir::Kernel kernel = run_kernel_passes(*built);
  std::vector<float> x(128, 2.0F);
  std::vector<float> y(128, 0.0F);
  const std::vector<LaunchMemory> memory = {{.bytes = std::as_writable_bytes(std::span(x))},
                                            {.bytes = std::as_writable_bytes(std::span(y))}};
  const std::vector<int64_t> params = {1};
  const auto report = interpret(kernel, memory, params, {.seed = seed});
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
  return report ? *report : InterpreterReport{};
}

std::vector<FindingKind> kinds_of(const InterpreterReport& report) {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : report.findings) kinds.push_back(finding.kind);
  return kinds;
}

TEST(MbarrierTest, FindsBulkCopiesThatNobodyWaitsFor) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_THAT(kinds_of(run_small("if eq(thread_index, 5) {\n"
                                   "  expect_bytes %m0[0] 512\n"
                                   "  bulk_copy %b2[0] = %b0[0] elements 128 mbarrier %m0[0]\n"
                                   "}",
                                   seed)),
                testing::ElementsAre(FindingKind::kAsyncNeverAwaited));
  }
}

/// One thread's wait is enough for all that come behind it at a barrier, and for nobody else.
TEST(MbarrierTest, BarriersPassOnWhatAThreadHasWaitedFor) {
  const auto body = [](std::string_view between) {
    return fmt::format(
        "if eq(thread_index, 5) {{\n"
        "  bulk_copy %b2[0] = %b0[0] elements 128 mbarrier %m0[0]\n"
        "  expect_bytes %m0[0] 512\n"
        "  mbarrier_wait %m0[0] parity 0\n"
        "}}\n{}\n"
        "var %r0 v : f32 %r0[0, 0] = load %b2[thread_index] width 1\n"
        "store %b1[thread_index] = %r0[0, 0] width 1",
        between);
  };
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_THAT(kinds_of(run_small(body("barrier"), seed)), IsEmpty());
    EXPECT_THAT(kinds_of(run_small(body("group_barrier 3 threads 128"), seed)), IsEmpty());
    EXPECT_THAT(kinds_of(run_small(body("mbarrier_wait %m0[0] parity 0"), seed)), IsEmpty());
    // Other threads read before the copy begins, or before it has come.
    for (const std::string_view too_little :
         {"", "if lt(thread_index, 64) { group_barrier 3 threads 64 }"}) {
      EXPECT_THAT(kinds_of(run_small(body(too_little), seed)),
                  AllOf(Not(IsEmpty()),
                        Each(AnyOf(FindingKind::kAsyncPending, FindingKind::kUnwrittenShared,
                                   FindingKind::kSharedRace))));
    }
  }
}

TEST(MbarrierTest, FindsStoresThatABulkCopyOverwrites) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const InterpreterReport report = run_small(
        "let %r0 v : f32 = 0x1p+0\n"
        "store %b2[thread_index] = %r0[0, 0] width 1\n"
        "barrier\n"
        "if eq(thread_index, 0) {\n"
        "  expect_bytes %m0[0] 512\n"
        "  bulk_copy %b2[0] = %b0[0] elements 128 mbarrier %m0[0]\n"
        "  mbarrier_wait %m0[0] parity 0\n"
        "}",
        seed);
    EXPECT_THAT(kinds_of(report), testing::ElementsAre(FindingKind::kSharedRace));
    EXPECT_THAT(report.findings[0].message, HasSubstr("barriers do not order before a bulk copy"));
  }
}

/// Two pairs of warps hand values round, each at a barrier of its own.
TEST(MbarrierTest, GroupBarriersOrderTheirGroupOnly) {
  const auto body = [](std::string_view partner) {
    return fmt::format(
        "let %r0 v : f32 = cast<f32>(thread_index)\n"
        "store %b2[thread_index] = %r0[0, 0] width 1\n"
        "group_barrier add(1, div(thread_index, 64)) threads 64\n"
        "%r0[0, 0] = load %b2[xor(thread_index, {})] width 1\n"
        "store %b1[thread_index] = %r0[0, 0] width 1",
        partner);
  };
  bool has_raced = false;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    EXPECT_THAT(kinds_of(run_small(body("32"), seed)), IsEmpty());
    for (const Finding& finding : run_small(body("64"), seed).findings) {
      has_raced |= finding.kind == FindingKind::kSharedRace;
    }
  }
  EXPECT_TRUE(has_raced);
  EXPECT_THAT(kinds_of(run_small("group_barrier add(1, div(thread_index, 96)) threads 96", 0)),
              testing::Contains(FindingKind::kDeadlock));
}

}  // namespace sinter::mbarrier_test
