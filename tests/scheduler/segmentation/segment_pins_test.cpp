#include "scheduler/segmentation/segment_pins.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_graph.h"
#include "tests/support/training_layers.h"

namespace sinter::segment_pins_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

PlanOptions cut_at(std::vector<std::string> values) {
  PlanOptions out;
  for (std::string& value : values) out.cuts.push_back({std::move(value)});
  return out;
}

PlanOptions joined(std::vector<std::vector<std::string>> groups) {
  PlanOptions out;
  for (std::vector<std::string>& values : groups) out.joins.push_back({std::move(values)});
  return out;
}

/// exp, then sums over rows, then a quotient: one kernel, if left alone.
Fusion softmax_like() {
  FusionBuilder b("softmax_like");
  const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
  const ValueId e = b.named(b.exp(x), "e");
  const ValueId total = b.named(b.sum(e, {1}), "total");
  const ValueId wide = b.named(b.broadcast(total, {512, 1024}, {0}), "wide");
  b.output(b.div(e, wide), "y");
  return b.build();
}

/// Two chains of three ops that share nothing, with a call behind one of them.
Fusion two_chains() {
  FusionBuilder b("two_chains");
  ValueId p = b.input(DType::kF32, {512, 1024}, "x");
  ValueId q = b.input(DType::kF32, {64, 4096}, "z");
  for (int i = 0; i < 3; ++i) {
    p = b.named(b.exp(p), fmt::format("p{}", i));
    q = b.named(b.pointwise(PointwiseFn::kTanh, {q}), fmt::format("q{}", i));
  }
  b.output(b.named(b.neg(b.external("f", {p}, {{DType::kF32, {512, 1024}}}, {"called"})[0]), "n"));
  b.output(q);
  return b.build();
}

/// Kernels that compute a value, and those that read it from memory.
struct Places {
  std::vector<KernelId> makes, reads;
};
Places places_of(const Plan& plan, ValueId value) {
  Places out;
  for (const KernelId id : plan.kernels.ids()) {
    const KernelPlan& kernel = plan.kernels[id];
    for (const auto& [mine, in_plan] : kernel.in_plan) {
      if (in_plan != value) continue;
      const bool is_read = kernel.facts.fusion.def_as<InputOp>(mine) != nullptr;
      std::vector<KernelId>& into = is_read ? out.reads : out.makes;
      if (into.empty() || into.back() != id) into.push_back(id);
    }
  }
  return out;
}

/// True if one kernel computes both values, or the two kernels of one segment do, or if no kernel
/// says that it has one of them inside, as those of rows in parts.
bool meet(const Plan& plan, ValueId a, ValueId b) {
  const std::vector<KernelId> first = places_of(plan, a).makes;
  const std::vector<KernelId> second = places_of(plan, b).makes;
  if (first.empty() || second.empty()) return true;
  return std::ranges::any_of(first, [&](KernelId i) {
    return std::ranges::any_of(second, [&](KernelId j) {
      const KernelPlan& later = plan.kernels[std::max(i, j)];
      const bool is_second = later.finishes || later.is_part;
      return i == j || (is_second && std::max(i, j) == kernel_after(std::min(i, j)));
    });
  });
}

ValueId named(const Fusion& fusion, const std::string& name) {
  for (const ValueId value : fusion.value_ids()) {
    if (fusion.values[value].name == name) return value;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

void expect_cut(const Plan& plan, ValueId value) {
  const Places places = places_of(plan, value);
  EXPECT_FALSE(places.makes.empty());
  for (const KernelId kernel : places.makes)
    EXPECT_EQ(std::ranges::count(places.reads, kernel), 0) << fmt::format("{}", kernel);
  for (const Cut& cut : plan.cuts) {
    EXPECT_TRUE(cut.value != value || cut.rule == Cut::Rule::kPinned);
  }
}

// ---- What pins do

TEST(SegmentPins, AGraphOfOneKernelIsCutWhereItIsPinned) {
  const Fusion fusion = softmax_like();
  ASSERT_EQ(plan(fusion, {}, kLimits)->kernels.size(), 1U);
  const Plan cut = plan(fusion, {}, kLimits, cut_at({"e"})).value();
  EXPECT_EQ(cut.kernels.size(), 2U);
  expect_cut(cut, named(cut.fusion, "e"));
  ASSERT_THAT(cut.cuts, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(cut.workspace.size(), 1U);
  // By its id too.
  EXPECT_EQ(plan(fusion, {}, kLimits, cut_at({fmt::format("{}", named(cut.fusion, "e"))}))
                ->kernels.size(),
            2U);
}

TEST(SegmentPins, ExplainNamesPins) {
  PlanOptions options = cut_at({"e"});
  options.joins.push_back({{"total", "y"}});
  const Plan cut = plan(softmax_like(), {}, kLimits, options).value();
  EXPECT_THAT(explain(cut), AllOf(HasSubstr("because\n"), HasSubstr("pinned to go through memory"),
                                  HasSubstr("how does %v1 e reach its readers: through memory\n"
                                            "  because it is pinned; made by kernel 0, read by "
                                            "kernel 1"),
                                  HasSubstr("what makes %v2 total, %v4 y: kernel 1")));
}

TEST(SegmentPins, WhatRunsFasterApartIsJoined) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    RandomGraphOptions graph{.ops = 12, .calls = true};
    graph.rows = 1024;
    graph.columns = 2048;
    const Fusion fusion = simplify(random_graph(seed, graph));
    const Plan free = plan(fusion, {}, kLimits, {.simplify = false}).value();
    const auto slower = std::ranges::find(free.cuts, Cut::Rule::kSlower, &Cut::rule);
    if (slower == free.cuts.end()) continue;
    ++found;
    const ValueId reader = fusion.ops[slower->consumer].results.front();
    PlanOptions options = joined({{fmt::format("{}", slower->value), fmt::format("{}", reader)}});
    options.simplify = false;
    const auto together = plan(fusion, {}, kLimits, options);
    ASSERT_TRUE(together) << together.error().text();
    // Kernels of rows in parts do not say which of their values are whose.
    EXPECT_TRUE(std::ranges::none_of(together->cuts, [&](const Cut& cut) {
      return cut.value == slower->value && cut.consumer == slower->consumer;
    })) << fusion.name;
  }
  EXPECT_GT(found, 1U);
}

TEST(SegmentPins, JoinsThatShareAValueAreOne) {
  const Plan together =
      plan(two_chains(), {}, kLimits, joined({{"p0", "p1"}, {"p1", "p2"}, {"q2", "q0"}})).value();
  const Fusion& fusion = together.fusion;
  EXPECT_EQ(places_of(together, named(fusion, "p0")).makes,
            places_of(together, named(fusion, "p2")).makes);
  EXPECT_EQ(places_of(together, named(fusion, "q0")).makes,
            places_of(together, named(fusion, "q2")).makes);
}

TEST(SegmentPins, AJoinTakesAllBetweenIts) {
  FusionBuilder b("between");
  const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
  const ValueId first = b.named(b.sum(b.exp(x), {1}), "first");
  const ValueId middle = b.named(b.exp(first), "middle");
  b.output(b.mul(x, b.broadcast(middle, {512, 1024}, {0})), "last");
  const Plan together = plan(b.build(), {}, kLimits, joined({{"first", "last"}})).value();
  const Fusion& fusion = together.fusion;
  EXPECT_EQ(places_of(together, named(fusion, "middle")).makes,
            places_of(together, named(fusion, "last")).makes);
}

TEST(SegmentPins, LayersOfATransformerObeyThem) {
  const Fusion layer = gpt2_layer_forward(kGpt2);
  const Plan free = plan(layer, {}, kLimits).value();
  // The sum that a norm reads right away.
  ASSERT_FALSE(places_of(free, named(free.fusion, "h")).makes.empty());
  const Plan cut = plan(layer, {}, kLimits, cut_at({"h"})).value();
  expect_cut(cut, named(cut.fusion, "h"));
  EXPECT_EQ(cut.kernels.size(), free.kernels.size() + 1);
}

// ---- Laws

/// Values of a graph that a kernel owns and another op reads, in the order of ids.
std::vector<ValueId> owned_values(const Fusion& fusion) {
  const WorkGraph work(fusion, kLimits);
  std::vector<ValueId> out;
  for (const WorkNode& node : work.nodes()) {
    const ValueId value = fusion.ops[node.op].results.front();
    if (!node.is_external && !work.is_free(value)) out.push_back(value);
  }
  return out;
}

TEST(SegmentPins, RandomPinsAreObeyedOrRefused) {
  size_t obeyed = 0;
  size_t refused = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Fusion fusion = simplify(random_graph(seed, {.ops = 14, .calls = seed % 3 == 0}));
    const std::vector<ValueId> values = owned_values(fusion);
    if (values.size() < 3) continue;
    const auto pick = [&](uint64_t i) { return values[(seed * 7 + i * 5) % values.size()]; };
    PlanOptions options{.simplify = false};
    options.cuts.push_back({fmt::format("{}", pick(0))});
    options.joins.push_back({{fmt::format("{}", pick(1)), fmt::format("{}", pick(2))}});
    SCOPED_TRACE(fmt::format("{} seed {}: cut {}, join {} {}", fusion.name, seed, pick(0), pick(1),
                             pick(2)));
    const auto planned = plan(fusion, {}, kLimits, options);
    if (!planned) {
      ++refused;
      EXPECT_THAT(planned.error().kind,
                  testing::AnyOf(ErrorKind::kInvalidArgument, ErrorKind::kUnsupported))
          << planned.error().text();
      EXPECT_NE(planned.error().remedy, "");
      continue;
    }
    ++obeyed;
    expect_cut(*planned, pick(0));
    EXPECT_TRUE(meet(*planned, pick(1), pick(2)));
  }
  EXPECT_GT(obeyed, 10U);
  EXPECT_GT(refused, 2U);
}

TEST(SegmentPins, NothingPinnedChangesNothing) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Fusion fusion = simplify(random_graph(seed, {.ops = 14}));
    const WorkGraph graph(fusion, kLimits);
    const auto pins = SegmentPins::resolve(graph, {});
    ASSERT_TRUE(pins);
    EXPECT_TRUE(pins->empty());
    for (NodeId node = 0; node < graph.size(); ++node)
      EXPECT_FALSE(pins->forbids(std::span(&node, 1)));
  }
}

// ---- Mistakes

TEST(SegmentPins, UnknownNamesAreRefusedWithThoseThatThereAre) {
  for (const char* name : {"nowhere", "", "%v999", "%v", "%vx", "%v1x"}) {
    EXPECT_THAT(plan(softmax_like(), {}, kLimits, cut_at({name})),
                FailsWith(ErrorKind::kInvalidArgument,
                          AllOf(HasSubstr("no value of the simplified graph is named"),
                                HasSubstr("%v1 e"))))
        << name;
  }
  EXPECT_THAT(plan(softmax_like(), {}, kLimits, joined({{}})),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("no values")));
}

TEST(SegmentPins, NamesThatSeveralValuesHaveAreRefusedWithTheirIds) {
  FusionBuilder b("twice");
  const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
  b.output(b.named(b.exp(x), "same"));
  b.output(b.named(b.pointwise(PointwiseFn::kTanh, {x}), "same"));
  EXPECT_THAT(plan(b.build(), {}, kLimits, joined({{"same"}})),
              FailsWith(ErrorKind::kInvalidArgument,
                        AllOf(HasSubstr("2 values"), HasSubstr("%v1 same, %v2 same"))));
}

TEST(SegmentPins, WhatNoKernelMakesIsRefusedWithWhatToNameInstead) {
  for (const bool cuts : {true, false}) {
    const auto pin = [&](const char* name) {
      return cuts ? cut_at({name}) : joined({{name, "e"}});
    };
    EXPECT_THAT(plan(softmax_like(), {}, kLimits, pin("x")),
                FailsWith(ErrorKind::kInvalidArgument,
                          AllOf(HasSubstr("it is an input"), HasSubstr("%v1 e"))));
    const auto wide = plan(softmax_like(), {}, kLimits, pin("wide"));
    EXPECT_THAT(wide, FailsWith(ErrorKind::kInvalidArgument,
                                AllOf(HasSubstr("computes it again (broadcast)"),
                                      HasSubstr("pin one of %v2 total"), HasSubstr("y instead"))));
    EXPECT_THAT(wide.error().values, SizeIs(1));
    EXPECT_THAT(wide.error().ops, SizeIs(1));
  }
}

TEST(SegmentPins, CallsCannotBeJoined) {
  EXPECT_THAT(plan(two_chains(), {}, kLimits, joined({{"called", "n"}})),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("external call 'f'")));
  EXPECT_THAT(plan(two_chains(), {}, kLimits, joined({{"p2", "n"}})),
              FailsWith(ErrorKind::kInvalidArgument,
                        AllOf(HasSubstr("external call 'f' lies between"), HasSubstr("Remedy"))));
  EXPECT_TRUE(plan(two_chains(), {}, kLimits, cut_at({"called"})))
      << "it goes through memory anyway";
}

TEST(SegmentPins, ContradictionsAreErrors) {
  PlanOptions both = cut_at({"e"});
  both.joins.push_back({{"e", "y"}});
  const auto refused = plan(softmax_like(), {}, kLimits, both);
  EXPECT_THAT(refused,
              FailsWith(ErrorKind::kInvalidArgument,
                        HasSubstr("%v1 e is pinned to go through memory, and to be made")));
  EXPECT_THAT(refused.error().values, Contains(ValueId{1}));
  // Also where the cut lies between what is joined.
  PlanOptions between = cut_at({"total"});
  between.joins.push_back({{"e", "y"}});
  EXPECT_THAT(plan(softmax_like(), {}, kLimits, between),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("%v2 total is pinned")));
}

TEST(SegmentPins, GroupsThatWaitForEachOtherAreRefused) {
  FusionBuilder b("crosswise");
  const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
  const ValueId z = b.input(DType::kF32, {512, 1024}, "z");
  const ValueId a = b.named(b.sum(b.exp(x), {1}), "a");
  const ValueId c = b.named(b.sum(b.exp(z), {1}), "c");
  b.output(b.named(b.mul(x, b.broadcast(c, {512, 1024}, {0})), "uses_c"));
  b.output(b.named(b.mul(z, b.broadcast(a, {512, 1024}, {0})), "uses_a"));
  const Fusion fusion = b.build();
  EXPECT_THAT(plan(fusion, {}, kLimits, joined({{"a", "uses_c"}, {"c", "uses_a"}})),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("wait for each other")));
  EXPECT_TRUE(plan(fusion, {}, kLimits, joined({{"a", "uses_a"}, {"c", "uses_c"}})));
}

TEST(SegmentPins, WhatNoKernelRunsIsRefusedWithTheReason) {
  FusionBuilder b("other_axes");
  const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
  const ValueId rows = b.named(b.sum(x, {1}), "rows");
  const ValueId z = b.input(DType::kF32, {33, 77}, "z");
  const ValueId others = b.named(b.sum(z, {0}), "others");
  b.output(rows);
  b.output(others);
  const auto refused = plan(b.build(), {}, kLimits, joined({{"rows", "others"}}));
  EXPECT_THAT(refused, FailsWith(ErrorKind::kUnsupported,
                                 AllOf(HasSubstr("no kernel makes what is pinned to one"),
                                       HasSubstr("rows"), HasSubstr("others"))));
  EXPECT_NE(refused.error().log, "");
  EXPECT_THAT(refused.error().ops, SizeIs(2));
}

TEST(SegmentPins, SchedulesOfCutGraphsCannotBePinned) {
  PlanOptions options = cut_at({"e"});
  options.pin.unroll = 2;
  EXPECT_THAT(plan(softmax_like(), {}, kLimits, options),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("how it is cut")));
}

}  // namespace sinter::segment_pins_test
