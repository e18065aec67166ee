#include "fusion_ir/reduction_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "fusion_ir/fusion_builder.h"

namespace sinter::reduction_traits_test {

/// The op that states a reduction over one axis.
OpKind op_of(Reduction reduction) {
  for (const ReduceFn fn : {
#define SINTER_REDUCE(enumerator, text) ReduceFn::enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
       }) {
    if (reduction_of(fn) == reduction) return ReduceOp{.fn = fn, .axes = {1}};
  }
  if (reduction == Reduction::kWelford) return WelfordOp{.axes = {1}};
  return LogSumExpOp{.axes = {1}};
}

TEST(ReductionTraitsTest, EveryReductionIsThatOfItsOp) {
  for (const ReductionTraits& traits : all_reductions()) {
    const OpKind kind = op_of(traits.reduction());
    EXPECT_TRUE(reduction_of(kind) == traits.reduction()) << traits.text;
    EXPECT_TRUE(is_reduction(kind)) << traits.text;
    EXPECT_EQ(is_index_reduction(kind), traits.is_search()) << traits.text;
    EXPECT_EQ(&traits_of(kind), &traits) << traits.text;
  }
  EXPECT_FALSE(reduction_of(OpKind{CastOp{}}).has_value());
}

/// Of f32 elements, or bools.
TEST(ReductionTraitsTest, OpsHaveAsManyResultsAsTheTableSays) {
  for (const ReductionTraits& traits : all_reductions()) {
    FusionBuilder b("of " + std::string(traits.text));
    const DType type = traits.types == ReducedTypes::kLogic ? DType::kBool : DType::kF32;
    const ValueId x = b.input(type, {4, 8}, "x");
    const OpKind kind = op_of(traits.reduction());
    if (const auto* reduce = std::get_if<ReduceOp>(&kind)) {
      b.output(b.reduce(reduce->fn, x, reduce->axes));
    } else if (traits.reduction() == Reduction::kWelford) {
      const auto [mean, m2] = b.welford(x, {1});
      b.output(mean);
      b.output(m2);
    } else {
      const auto [max, sum] = b.logsumexp_pair(x, {1});
      b.output(max);
      b.output(sum);
    }
    const Fusion fusion = b.build();
    EXPECT_EQ(fusion.ops[OpId{1}].results.size(), traits.results) << traits.text;
  }
}

TEST(ReductionTraitsTest, TuplesAreWhatTheirKindSays) {
  for (const ReductionTraits& traits : all_reductions()) {
    const bool is_independent = traits.tuple == TupleKind::kIndependent;
    EXPECT_LE(traits.components.size(), kMostComponents) << traits.text;
    for (const ReductionComponent& component : traits.components) {
      EXPECT_EQ(component.combine.has_value(), is_independent) << traits.text;
      EXPECT_FALSE(component.element.has_value()) << traits.text;
    }
    EXPECT_EQ(traits.components.size() == 1, is_independent) << traits.text;
    EXPECT_FALSE(traits.components.front().is_index) << traits.text;
    EXPECT_EQ(traits.components.back().is_index, traits.is_search()) << traits.text;
    if (!traits.takes_two_passes) {
      EXPECT_FALSE(traits.first_pass.has_value()) << traits.text;
    }
    // A step of an exchange moves every component, and an element takes an instruction at least.
    EXPECT_GE(traits.exchange_instructions, 2.0 * static_cast<double>(traits.components.size()));
    EXPECT_GE(traits.accumulate_instructions, 1.0);
  }
}

// ---- Rows that an embedder writes

constexpr std::array kPair = {
    ReductionComponent{.name = "sum", .identity = Identity::kZero, .combine = PointwiseFn::kAdd},
    ReductionComponent{.name = "most",
                       .identity = Identity::kLowest,
                       .element = PointwiseFn::kAbs,
                       .combine = PointwiseFn::kMax}};
constexpr ReductionTraits kSumAndMost{.text = "sum_and_most", .components = kPair, .results = 2};

TEST(EmbeddersReductionTest, OpsNameTheirRow) {
  EXPECT_EQ(fault_of(kSumAndMost), std::nullopt);
  const OpKind kind = TupleReduceOp{.reduction = &kSumAndMost, .axes = {0, 2}};
  EXPECT_EQ(&traits_of(kind), &kSumAndMost);
  EXPECT_TRUE(reduction_of(kind) == Reduction(kSumAndMost));
  EXPECT_FALSE(reduction_of(kind) == Reduction::kSum);
  EXPECT_EQ(text_of(kind), "sum_and_most");
  EXPECT_EQ(reduced_axes(kind), (std::vector{0, 2}));
}

/// The fault of the row after `damage`, and that the builder refuses it with the same words.
std::string fault_after(const std::function<void(ReductionTraits&)>& damage) {
  ReductionTraits row = kSumAndMost;
  damage(row);
  const auto fault = fault_of(row);
  if (!fault) return "none";
  FusionBuilder b("faulty");
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  try {
    b.reduce_tuple(row, x, {1});
    ADD_FAILURE() << "built: " << *fault;
  } catch (const SinterException& e) {
    EXPECT_NE(e.error().message.find(*fault), std::string::npos) << e.error().message;
  }
  return *fault;
}

TEST(EmbeddersReductionTest, FaultsOfRowsAreNamed) {
  using ::testing::HasSubstr;
  for (const std::string_view text : {"", "Sum", "two words", "x("})
    EXPECT_THAT(fault_after([&](ReductionTraits& row) { row.text = text; }), HasSubstr("letters"));
  for (const std::string_view text : {"sum", "welford", "add", "cast"})
    EXPECT_THAT(fault_after([&](ReductionTraits& row) { row.text = text; }), HasSubstr("taken"));
  EXPECT_THAT(fault_after([](ReductionTraits& row) { row.tuple = TupleKind::kPlace; }),
              HasSubstr("not independent"));
  EXPECT_THAT(fault_after([](ReductionTraits& row) { row.takes_two_passes = true; }),
              HasSubstr("not independent"));
  EXPECT_THAT(fault_after([](ReductionTraits& row) { row.components = {}; }),
              HasSubstr("0 components"));
  EXPECT_THAT(fault_after([](ReductionTraits& row) { row.results = 1; }), HasSubstr("1 results"));
  for (const auto& damage : std::vector<std::function<void(ReductionComponent&)>>{
           [](ReductionComponent& component) { component.combine = std::nullopt; },
           [](ReductionComponent& component) { component.combine = PointwiseFn::kSub; },
           [](ReductionComponent& component) { component.is_index = true; },
           [](ReductionComponent& component) { component.identity = Identity::kOne; }}) {
    auto components = kPair;
    damage(components[1]);
    EXPECT_THAT(fault_after([&](ReductionTraits& row) { row.components = components; }),
                HasSubstr("component most"));
  }
}

}  // namespace sinter::reduction_traits_test
