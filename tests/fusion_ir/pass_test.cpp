#include "fusion_ir/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/rewriter.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::pass_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::optional<Fusion> unchanged(const Fusion&) { return std::nullopt; }
/// Makes the same once more.
std::optional<Fusion> equal(const Fusion& fusion) { return fusion; }

/// Drops one negation from the front.
std::optional<Fusion> drop_one_neg(const Fusion& fusion) {
  bool dropped = false;
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   if (dropped || text_of(rewriter.source().ops[id].kind) != "neg") {
                     return std::nullopt;
                   }
                   dropped = true;
                   return std::vector{operands.front()};
                 });
}

std::optional<Fusion> lose_outputs(const Fusion& fusion) {
  Fusion broken = fusion;
  broken.outputs.clear();
  return broken;
}

Fusion negations() {
  return fusion_of([](FusionBuilder& b, ValueId x) { return b.neg(b.neg(b.neg(b.exp(x)))); });
}

std::vector<std::string> names_of(const PassRun& run) {
  std::vector<std::string> names;
  for (const PassRecord& record : run.records) names.emplace_back(record.name);
  return names;
}

TEST(Passes, RunInOrderAndRecordWhatChanged) {
  const std::vector<Pass> passes = {{"keep", unchanged}, {"equal", equal}, {"drop", drop_one_neg}};
  const PassRun run = run_passes(negations(), passes);
  EXPECT_THAT(names_of(run), ElementsAre("keep", "equal", "drop"));
  EXPECT_FALSE(run.records[0].changed);
  EXPECT_FALSE(run.records[1].changed);
  EXPECT_TRUE(run.records[2].changed);
  EXPECT_GE(run.records[2].microseconds, 0.0);
  EXPECT_EQ(count_ops(run.fusion, "neg"), 2);
}

TEST(Passes, RoundsEndWhenNothingChanges) {
  const std::vector<Pass> passes = {{"keep", unchanged}, {"drop", drop_one_neg}};
  const PassRun run = run_passes(negations(), passes, {}, 100);
  EXPECT_EQ(count_ops(run.fusion, "neg"), 0);
  // Three rounds drop one each; then each pass has to be seen idle once.
  EXPECT_EQ(run.records.size(), 8U);
}

TEST(Passes, StopAfterRunsOnlySoMany) {
  const std::vector<Pass> passes = {{"keep", unchanged}, {"drop", drop_one_neg}};
  const PassRun run = run_passes(negations(), passes, {.stop_after = 1}, 100);
  EXPECT_THAT(names_of(run), ElementsAre("keep"));
  EXPECT_EQ(run.fusion, negations());
  EXPECT_TRUE(run_passes(negations(), passes, {.stop_after = 0}).records.empty());
}

TEST(Passes, DumpSeesNamedPassesThatChangedSomething) {
  const std::vector<Pass> passes = {{"keep", unchanged}, {"drop", drop_one_neg}};
  std::vector<std::string> seen;
  const auto sink = [&](std::string_view pass, const Fusion& fusion) {
    seen.push_back(fmt::format("{} {}", pass, count_ops(fusion, "neg")));
  };
  run_passes(negations(), passes, {.dump_after = {"drop", "keep"}, .dump = sink});
  EXPECT_THAT(seen, ElementsAre("drop 2"));
  seen.clear();
  run_passes(negations(), passes, {.dump_after = {"all"}, .dump = sink});
  EXPECT_THAT(seen, ElementsAre("drop 2"));
  seen.clear();
  run_passes(negations(), passes, {.dump_after = {"keep"}, .dump = sink});
  EXPECT_TRUE(seen.empty());
}

TEST(Passes, AnUnknownDumpNameListsTheKnownOnes) {
  try {
    simplify(negations(), {.dump_after = {"fold_constant"}});
    FAIL();
  } catch (const SinterException& e) {
    EXPECT_EQ(e.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(e.error().text(), HasSubstr("no pass 'fold_constant'"));
    EXPECT_THAT(e.error().remedy, HasSubstr("fold_constants"));
  }
}

TEST(Passes, ABrokenGraphNamesThePassThatBrokeIt) {
  const std::vector<Pass> passes = {{"keep", unchanged}, {"lose", lose_outputs}};
  try {
    run_passes(negations(), passes, {.verify = true});
    FAIL();
  } catch (const SinterException& e) {
    EXPECT_EQ(e.error().kind, ErrorKind::kInternalError);
    EXPECT_THAT(e.error().message, HasSubstr("pass lose broke"));
    EXPECT_THAT(e.error().log, HasSubstr("output"));
  }
  EXPECT_NO_THROW(run_passes(negations(), passes, {.verify = false}));
}

TEST(Passes, ThePipelineNamesEachPassOnce) {
  std::vector<std::string_view> names;
  for (const Pass& pass : simplification_pipeline()) names.push_back(pass.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace sinter::pass_test
