#include "fusion_ir/reduction_traits.h"

#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"

namespace sinter {
namespace {

/// The op that states a reduction over one axis.
OpKind op_of(Reduction reduction) {
  for (const ReduceFn fn : {ReduceFn::kSum, ReduceFn::kProd, ReduceFn::kMax, ReduceFn::kMin,
                            ReduceFn::kAny, ReduceFn::kAll, ReduceFn::kArgMax, ReduceFn::kArgMin}) {
    if (reduction_of(fn) == reduction) return ReduceOp{.fn = fn, .axes = {1}};
  }
  if (reduction == Reduction::kWelford) return WelfordOp{.axes = {1}};
  return LogSumExpOp{.axes = {1}};
}

TEST(ReductionTraitsTest, EveryReductionIsThatOfItsOp) {
  for (const ReductionTraits& traits : all_reductions()) {
    const OpKind kind = op_of(traits.reduction);
    EXPECT_EQ(reduction_of(kind), traits.reduction) << traits.text;
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
    const OpKind kind = op_of(traits.reduction);
    if (const auto* reduce = std::get_if<ReduceOp>(&kind)) {
      b.output(b.reduce(reduce->fn, x, reduce->axes));
    } else if (traits.reduction == Reduction::kWelford) {
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
    EXPECT_EQ(traits.combine.has_value(), traits.tuple == TupleKind::kScalar) << traits.text;
    EXPECT_EQ(traits.components.size() == 1, traits.tuple == TupleKind::kScalar) << traits.text;
    EXPECT_FALSE(traits.components.front().is_index) << traits.text;
    EXPECT_EQ(traits.components.back().is_index, traits.is_search()) << traits.text;
    if (!traits.takes_two_passes) {
      EXPECT_EQ(traits.first_pass, traits.reduction) << traits.text;
    }
    // A step of an exchange moves every component, and an element takes an instruction at least.
    EXPECT_GE(traits.exchange_instructions, 2.0 * static_cast<double>(traits.components.size()));
    EXPECT_GE(traits.accumulate_instructions, 1.0);
  }
}

}  // namespace
}  // namespace sinter
