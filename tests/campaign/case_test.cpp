#include "tests/campaign/case.h"

#include <gmock/gmock.h>

#include <set>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/verifier.h"
#include "tests/campaign/minimise.h"

namespace sinter::case_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(DrawnCases, AreValidAndDependOnTheSeedAlone) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case drawn = draw_case(seed);
    EXPECT_THAT(verify(drawn.fusion), IsEmpty()) << seed;
    EXPECT_TRUE(bind_extents(drawn.fusion, drawn.extents)) << seed;
    EXPECT_EQ(print_case(drawn), print_case(draw_case(seed)));
  }
}

TEST(DrawnCases, AreReadAsTheyWereWritten) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string text = print_case(draw_case(seed));
    const auto parsed = parse_case(text);
    ASSERT_TRUE(parsed) << parsed.error().text();
    EXPECT_EQ(print_case(*parsed), text);
  }
}

TEST(DrawnCases, OfTextThatIsNoneAreRefused) {
  EXPECT_FALSE(parse_case("no graph"));
  std::string text = print_case(draw_case(1));
  text.replace(text.find("data="), 6, "data=?");
  const auto parsed = parse_case(text);
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().text(), HasSubstr("there are no data"));
}

// Every op, type and kind of graph is drawn, and each of the shapes of its own that once went
// wrong.
TEST(DrawnCases, CoverWhatGraphsHave) {
  std::set<std::string> ops;
  std::set<DType> types;
  std::set<size_t> ranks;
  std::set<GraphKind> kinds;
  std::set<DrawnKind> data;
  bool has_empty = false;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Case drawn = draw_case(seed);
    kinds.insert(drawn.kind);
    data.insert(drawn.data);
    const Binding binding = bind_extents(drawn.fusion, drawn.extents).value();
    for (const Op& op : drawn.fusion.ops) ops.emplace(text_of(op.kind));
    for (const Value& value : drawn.fusion.values) {
      types.insert(value.type);
      ranks.insert(value.shape.size());
      has_empty = has_empty || element_count(binding.sizes_of(value.shape)) == 0;
    }
  }
  for (const std::string_view op :
       {"input", "constant", "cast", "broadcast", "welford", "logsumexp", "take", "extent", "iota",
        "permute", "reshape", "slice", "concatenate", "pad", "external", "contract.sum",
        "contract.max", "contract.logsumexp"})
    EXPECT_TRUE(ops.contains(std::string(op))) << op;
#define SINTER_POINTWISE(enumerator, text, ...) EXPECT_TRUE(ops.contains(text)) << text;
#define SINTER_REDUCE(enumerator, text) EXPECT_TRUE(ops.contains("reduce." text)) << text;
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
#undef SINTER_REDUCE
  EXPECT_THAT(types, SizeIs(kAllDTypes.size()));
  for (size_t rank = 0; rank <= 5; ++rank) EXPECT_TRUE(ranks.contains(rank)) << rank;
  EXPECT_THAT(kinds, SizeIs(7));
  EXPECT_THAT(data, SizeIs(kDataKinds));
  EXPECT_TRUE(has_empty);
}

// Each family, and what only some of its schedules have, comes about a hundred times among 10,000
// seeds, most of it much more often.
TEST(DrawnCases, CoverWhatFamiliesDo) {
  constexpr uint64_t kSeeds = 650;
  constexpr int64_t kLeast = 2;
  Outcome all;
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    all.merge(check_case(draw_case(seed), {.executes = false}));
  EXPECT_THAT(all.findings, IsEmpty());
  for (const Family& family : scheduling_families())
    EXPECT_GE(all.families[family.name], 8 * kLeast) << family.name;
  for (const char* option : {"pinned cuts planned",
                             "pinned joins planned",
                             "rows in parts",
                             "columns in parts",
                             "schedules drawn for parts and finishes",
                             "finishing kernels",
                             "lists of tensors",
                             "split into rows and columns",
                             "pointwise: in place",
                             "column: clusters",
                             "column: last block",
                             "column: persistent grids",
                             "column: parts",
                             "column: finishes",
                             "looped: clusters",
                             "looped: two passes",
                             "looped: prefetched rows",
                             "looped: parts",
                             "looped: in place",
                             "looped: values kept: reload",
                             "multi_wave: clusters",
                             "multi_wave: last block",
                             "multi_wave: parts",
                             "multi_wave: in place",
                             "multi_wave: prefetched rows",
                             "multi_wave: accumulators in shared memory",
                             "multi_wave: values kept: register",
                             "multi_wave: values kept: shared",
                             "multi_wave: values kept: reload",
                             "warp_specialised: pipelines",
                             "warp_specialised: last block",
                             "warp_specialised: clusters",
                             "warp_specialised: in place",
                             "warp_specialised: rows per iteration",
                             "warp_specialised: registers of the producer's"})
    EXPECT_GE(all.features[option], kLeast) << option;
  // Few pins are refused.
  int64_t refused = 0;
  for (const auto& [wording, times] : all.refusals) {
    if (wording.starts_with("plan with pins")) refused += times;
  }
  EXPECT_LT(10 * refused, all.features["pinned cuts planned"]);
}

// A sum over an axis without elements, of as many elements as the generator draws: 83,521 rows for
// each of which a block may be drawn, or that each of 300 blocks leaves as partial results.
TEST(DrawnCases, TakeTheInterpreterLittleTime) {
  FusionBuilder b("empty");
  const ValueId x = b.input(DType::kF64, {0, 17, 17, 17, 17}, "x");
  b.output(b.sum(b.mul(x, x), {0}));
  int64_t again = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Case empty{.seed = seed, .fusion = b.fusion(), .drawn_schedules = 4};
    Outcome outcome = check_case(
        empty, {.see_plan =
                    [](const Plan& plan) {
                      for (const KernelPlan& kernel : plan.kernels)
                        EXPECT_LE(threads_run(kernel.facts, kernel.chosen()), kMostThreadsRun);
                    },
                .executes = false});
    again += outcome.features["schedules too large to interpret drawn again"];
  }
  EXPECT_GT(again, 0);
}

// ---- What is wrong is found

/// y = x + 1 over 8 x 64.
Case small_case() {
  FusionBuilder b("small");
  const ValueId x = b.input(DType::kF32, {8, 64}, "x");
  b.output(b.add(x, b.constant(1.0)));
  return {.fusion = b.build(), .drawn_schedules = 0};
}

TEST(CheckedCases, OfRightKernelsHaveNoFindings) {
  const Outcome outcome = check_case(small_case());
  EXPECT_THAT(outcome.findings, IsEmpty());
  EXPECT_EQ(outcome.runs, 1);
  EXPECT_EQ(outcome.elements, 512);
  EXPECT_EQ(outcome.open_elements, 0);
}

TEST(CheckedCases, OfAWrongElementHaveAFinding) {
  const Case wrong = small_case();
  const Outcome outcome = check_case(
      wrong, {.spoil_run = [](std::vector<HostTensor>& outputs) { outputs[0].set(9, 1e9); }});
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].what, "kernels against the oracle");
  EXPECT_EQ(outcome.findings[0].where, "chosen schedules");
  EXPECT_THAT(outcome.findings[0].text, HasSubstr("1 of 512 elements"));
  EXPECT_THAT(outcome.findings[0].schedules, HasSubstr("schedule "));
}

TEST(CheckedCases, OfDisagreeingEvaluatorsHaveAFinding) {
  const Outcome outcome = check_case(
      small_case(),
      {.spoil_plain = [](std::vector<PlainTensor>& outputs) { outputs[0].real[9] += 0.1; }});
  ASSERT_THAT(outcome.findings, SizeIs(1));
  EXPECT_EQ(outcome.findings[0].what, "plain evaluator against the oracle");
  EXPECT_THAT(outcome.findings[0].text, HasSubstr("1 of 512 elements differ"));
}

TEST(CheckedCases, OfUnknownDevicesAndExtentsHaveAFinding) {
  Case unknown = small_case();
  unknown.device = "abacus";
  EXPECT_THAT(check_case(unknown).findings, Not(IsEmpty()));
  Case unbound = small_case();
  unbound.extents["rows"] = 3;
  EXPECT_THAT(check_case(unbound).findings, SizeIs(1));
}

// ---- Smaller cases

TEST(Minimised, CasesKeepWhatFailsAndLittleElse) {
  const auto has_exp = [](const Case& candidate) {
    return std::ranges::any_of(candidate.fusion.ops,
                               [](const Op& op) { return text_of(op.kind) == "exp"; });
  };
  int found = 0;
  for (uint64_t seed = 0; found < 5; ++seed) {
    const Case drawn = draw_case(seed);
    if (!has_exp(drawn)) continue;
    ++found;
    const Case small = minimise(drawn, has_exp, [] { return false; });
    EXPECT_TRUE(has_exp(small));
    EXPECT_THAT(verify(small.fusion), IsEmpty());
    EXPECT_TRUE(bind_extents(small.fusion, small.extents));
    EXPECT_LE(small.fusion.ops.size(), 3U) << print_case(small);
    EXPECT_THAT(small.fusion.outputs, SizeIs(1));
    EXPECT_EQ(small.drawn_schedules, 0);
  }
}

TEST(Minimised, CasesStopWhenTimeIsOver) {
  const Case drawn = draw_case(3);
  const Case same = minimise(
      drawn, [](const Case&) { return true; }, [] { return true; });
  EXPECT_EQ(print_case(same), print_case(drawn));
}

}  // namespace sinter::case_test
