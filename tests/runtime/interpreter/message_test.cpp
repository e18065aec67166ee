// Blocks of a team that exchange by messages: what the interpreter makes of them, and which
// mistakes it finds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/team_kernel.h"

namespace sinter::message_test {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kRows = 21;
constexpr int64_t kColumns = 64;
constexpr int64_t kTeams = 3;
constexpr size_t kMailWords = size_t{kTeams} * 2 * 4 * 2;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// The row sums of tests/codegen/team_kernel.h by three teams.
struct RowSums {
  explicit RowSums(const std::string& built = std::string(kTeamKernel))
      : x(kRows * kColumns), sums(kRows, -1.0F), mail(kMailWords, 0) {
    auto parsed = parse_kernel(built);
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().text());
    if (parsed) kernel = run_kernel_passes(*std::move(parsed), {.verify = true});
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 101);
  }

  InterpreterReport run(uint64_t seed, std::string_view from = "", std::string_view to = "",
                        int threads = 1) {
    const auto changed = parse_kernel(replaced(print(kernel), from, to));
    EXPECT_TRUE(changed.has_value()) << (changed ? "" : changed.error().text());
    if (!changed) return {};
    const std::vector<LaunchMemory> memory = {
        {.bytes = std::as_writable_bytes(std::span(x)), .origin = 0},
        {.bytes = std::as_writable_bytes(std::span(sums)), .origin = 0},
        {.bytes = std::as_writable_bytes(std::span(mail)), .origin = 0}};
    const std::vector<int64_t> params = {kRows, kTeams};
    const auto report = interpret(*changed, memory, params, {.seed = seed, .threads = threads});
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
    return report ? *report : InterpreterReport{};
  }

  void expect_right() const {
    for (size_t row = 0; row < sums.size(); ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row) * kColumns;
      EXPECT_EQ(sums[row], std::accumulate(begin, begin + kColumns, 0.0F)) << row;
    }
    EXPECT_THAT(mail, testing::Each(0)) << "the next launch would find messages";
  }

  kir::Kernel kernel;
  std::vector<float> x, sums;
  std::vector<int32_t> mail;
};

TEST(MessageTest, BlocksLearnTheSumOfTheirRowForEverySeed) {
  RowSums problem;
  std::optional<InterpreterReport> first;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const InterpreterReport report = problem.run(seed);
    EXPECT_TRUE(report.clean()) << report.text(problem.kernel);
    EXPECT_EQ(report.blocks, 2 * kTeams);
    if (!first) first = report;
    EXPECT_EQ(report.work, first->work);
    EXPECT_EQ(report.buffers, first->buffers) << "a wait that goes on has no traffic";
    problem.expect_right();
  }
}

TEST(MessageTest, SharesOfSeveralHostThreadsAreWholeTeams) {
  RowSums problem;
  EXPECT_TRUE(problem.run(1, "", "", 4).clean());
  problem.expect_right();
}

constexpr std::string_view kWhole =
    "all_reduce sum threads 32 phase rem(%r1, 2) team %b2 from 0 number add(%r1, 1) sum(%r4)";

std::string half(std::string_view word) {
  return replaced(std::string(kWhole), " sum(%r4)", fmt::format(" {} sum(%r4)", word));
}

TEST(MessageTest, OtherStatementsMayStandBetweenTheHalves) {
  RowSums problem(
      replaced(std::string(kTeamKernel), kWhole, half("send") + " %r4 = 7.0 " + half("receive")));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_TRUE(problem.run(seed).clean());
    problem.expect_right();
  }
}

TEST(MessageTest, APlaceThatIsUsedInEveryTurnLosesMessages) {
  RowSums problem(
      replaced(std::string(kTeamKernel), "phase rem(%r1, 2)", "phase mul(rem(%r1, 2), 0)"));
  int found = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    problem.mail.assign(kMailWords, 0);
    const InterpreterReport report = problem.run(seed);
    for (const Finding& finding : report.findings) {
      EXPECT_THAT(finding.kind, AnyOf(FindingKind::kMessageLost, FindingKind::kDeadlock));
      found += finding.kind == FindingKind::kMessageLost ? 1 : 0;
    }
  }
  EXPECT_GT(found, 0);
}

struct Mistake {
  std::string_view from, to;
  FindingKind kind;
  std::string_view message;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.from; }

class MessageMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MessageMistakeTest, IsFoundWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RowSums problem;
    const InterpreterReport report = problem.run(seed, GetParam().from, GetParam().to);
    const auto found = std::ranges::find(report.findings, GetParam().kind, &Finding::kind);
    ASSERT_NE(found, report.findings.end()) << "seed " << seed << report.text(problem.kernel);
    EXPECT_THAT(found->message, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, MessageMistakeTest,
    testing::Values(
        // The next launch would take what this one has left.
        Mistake{"message_store %b2[thread_index] of rem(block_index, 2) = (%r5) number 0", "",
                FindingKind::kMessageLost, "when the team has ended"},
        Mistake{"lt(thread_index, 4)", "lt(thread_index, 3)", FindingKind::kMessageLost,
                "place 3 holds message 6 when the team has ended"},
        // Nobody sends what is waited for.
        Mistake{"] number add(%r1, 1)", "] number add(%r1, 2)", FindingKind::kDeadlock,
                "waits for what never happens"},
        // A block sends only to itself.
        Mistake{"of rem(thread_index, 32) =", "of rem(block_index, 2) =", FindingKind::kDeadlock,
                "wait for message"},
        Mistake{"of rem(thread_index, 32) =", "of add(rem(thread_index, 32), 1) =",
                FindingKind::kGlobalOutOfBounds, "of block 2, where 2 blocks have 4 places"},
        Mistake{"= (%r5) number 0", "= (%r5, %r5) number 0", FindingKind::kMisaligned,
                "from place 1 on"},
        Mistake{"message_store %b2[thread_index] of", "message_store %b2[add(thread_index, 1)] of",
                FindingKind::kGlobalOutOfBounds, "place 4 of block"}));

TEST(MessageTest, MailThatIsTooSmallIsReported) {
  RowSums problem;
  problem.mail.resize(kMailWords - 4);
  const InterpreterReport report = problem.run(1);
  EXPECT_NE(std::ranges::find(report.findings, FindingKind::kGlobalOutOfBounds, &Finding::kind),
            report.findings.end())
      << report.text(problem.kernel);
}

}  // namespace sinter::message_test
