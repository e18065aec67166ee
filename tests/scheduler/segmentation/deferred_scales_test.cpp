// Scales of rows behind contractions: which move, and when a plan takes them.

#include "scheduler/segmentation/deferred_scales.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/printer.h"
#include "scheduler/planning/planner.h"

namespace sinter::deferred_scales_test {

struct Sizes {
  int64_t rows = 64, depth = 96, columns = 40;
};

/// y = cast(x rsqrt(mean(x^2))) w^T, with weights of the norm if `weighted`.
Fusion normalised_product(DType type, bool weighted, const Sizes& sizes = {}) {
  FusionBuilder b("normalised");
  const ValueId x = b.input(type, {sizes.rows, sizes.depth});
  const ValueId w = b.input(type, {sizes.columns, sizes.depth});
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId of_squares = mean(b, b.mul(wide, wide), {1});
  const ValueId scale = b.pointwise(PointwiseFn::kRsqrt, {of_squares});
  ValueId normal = b.mul(wide, b.broadcast_over(scale, wide, {1}));
  if (weighted) {
    const ValueId weights = b.cast(b.input(type, {sizes.depth}), DType::kF32);
    normal = b.mul(normal, b.broadcast_over(weights, normal, {0}));
  }
  b.output(b.cast(b.linear(b.cast(normal, type), w), type), "y");
  return b.build();
}

/// The operands of the graph's contraction.
std::vector<ValueId> contracted(const Fusion& fusion) {
  for (const Op& op : fusion.ops) {
    if (std::holds_alternative<ContractOp>(op.kind)) return op.operands;
  }
  return {};
}

TEST(DeferredScalesTest, ANormsScaleMovesBehindItsContraction) {
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const Fusion fusion = normalised_product(type, false);
    const auto deferred = with_deferred_scales(fusion);
    ASSERT_TRUE(deferred) << name_of(type);
    for (const ValueId operand : contracted(*deferred))
      EXPECT_NE(deferred->def_as<InputOp>(operand), nullptr) << print(*deferred);
    EXPECT_FALSE(with_deferred_scales(*deferred)) << "it has moved";
  }
}

TEST(DeferredScalesTest, WeightsOfANormStay) {
  EXPECT_FALSE(with_deferred_scales(normalised_product(DType::kBF16, true)));
}

TEST(DeferredScalesTest, ScalesThatOthersReadStay) {
  FusionBuilder b("read_twice");
  const ValueId x = b.input(DType::kF32, {64, 96});
  const ValueId r = b.input(DType::kF32, {64});
  const ValueId scaled = b.mul(x, b.broadcast_over(r, x, {1}));
  b.output(scaled, "scaled");
  b.output(b.linear(scaled, b.input(DType::kF32, {40, 96})), "y");
  EXPECT_FALSE(with_deferred_scales(b.build()));
}

TEST(DeferredScalesTest, NumbersThatWouldBeRoundedUnscaledStay) {
  FusionBuilder b("rounded");
  const ValueId x = b.input(DType::kF32, {64, 96});
  const ValueId r = b.input(DType::kF32, {64});
  const ValueId scaled = b.mul(x, b.broadcast_over(r, x, {1}));
  b.output(b.linear(b.cast(scaled, DType::kF16), b.input(DType::kF16, {40, 96})), "y");
  EXPECT_FALSE(with_deferred_scales(b.build())) << "x may exceed f16";
}

TEST(DeferredScalesTest, ScalesAlongTheContractedAxisAndMaximaStay) {
  FusionBuilder b("columns");
  const ValueId x = b.input(DType::kF32, {64, 96});
  const ValueId of_columns = b.input(DType::kF32, {96});
  b.output(b.linear(b.mul(x, b.broadcast_over(of_columns, x, {0})), b.input(DType::kF32, {40, 96})),
           "y");
  const ValueId z = b.input(DType::kF32, {64, 96});
  const ValueId r = b.input(DType::kF32, {64});
  b.output(b.contract("mk,nk->mn", b.mul(z, b.broadcast_over(r, z, {1})),
                      b.input(DType::kF32, {40, 96}), {.fn = ContractFn::kMax}),
           "max");
  EXPECT_FALSE(with_deferred_scales(b.build()));
}

TEST(DeferredScalesTest, BothOperandsMayBeScaled) {
  FusionBuilder b("both");
  const auto scaled = [&](int64_t rows) {
    const ValueId x = b.input(DType::kF32, {rows, 96});
    return b.mul(b.broadcast_over(b.input(DType::kF32, {rows}), x, {1}), x);
  };
  const ValueId left = scaled(64);
  b.output(b.linear(left, scaled(40)), "y");
  const auto deferred = with_deferred_scales(b.build());
  ASSERT_TRUE(deferred);
  for (const ValueId operand : contracted(*deferred))
    EXPECT_NE(deferred->def_as<InputOp>(operand), nullptr) << print(*deferred);
}

const Decision* decision_about_scales(const Plan& plan) {
  for (const Decision& decision : plan.decisions) {
    if (decision.question.find("scaled before or behind") != std::string::npos) return &decision;
  }
  return nullptr;
}

// 8,192 rows of 4,096: what is normalised need not be written and read again.
TEST(DeferredScalesTest, APlanTakesTheFasterWayWhereTheOptionAllowsIt) {
  const Fusion fusion =
      normalised_product(DType::kBF16, false, {.rows = 131072, .depth = 4096, .columns = 128});
  const DeviceLimits limits = *find_device("H200");
  const auto before = plan(fusion, {}, limits, {});
  ASSERT_TRUE(before) << before.error().text();
  EXPECT_EQ(decision_about_scales(*before), nullptr);
  const auto after = plan(fusion, {}, limits, {.defer_scales = true});
  ASSERT_TRUE(after) << after.error().text();
  const Decision* decision = decision_about_scales(*after);
  ASSERT_NE(decision, nullptr);
  ASSERT_EQ(decision->candidates.size(), 2U);
  EXPECT_EQ(decision->candidates[0].predicted.total_us, before->predicted_us());
  const bool is_faster = after->predicted_us() < before->predicted_us();
  EXPECT_EQ(decision->chosen, is_faster ? "behind" : "before");
  EXPECT_TRUE(is_faster) << decision->because;
}

TEST(DeferredScalesTest, APlanThatFollowsADeferredOneDefersToo) {
  const DeviceLimits limits = *find_device("H200");
  const Sizes large{.rows = 131072, .depth = 4096, .columns = 128};
  auto model =
      plan(normalised_product(DType::kBF16, false, large), {}, limits, {.defer_scales = true});
  ASSERT_TRUE(model) << model.error().text();
  Sizes fewer = large;
  fewer.rows = 65536;
  const auto after = plan(normalised_product(DType::kBF16, false, fewer), {}, limits,
                          {.like = std::make_shared<const Plan>(*model)});
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->kernels.size(), model->kernels.size());
}

}  // namespace sinter::deferred_scales_test
