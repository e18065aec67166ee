#include "scheduler/analysis/contraction.h"

#include <gmock/gmock.h>

#include <functional>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"

namespace sinter::contraction_test {

using ::testing::HasSubstr;

/// a[m, k] times b[k, n], as broadcasts, a product and a sum.
Fusion matmul(int64_t m, int64_t n, int64_t k, DType type = DType::kF32) {
  FusionBuilder b("matmul");
  const ValueId left = b.input(type, {m, k}, "a");
  const ValueId right = b.input(type, {k, n}, "b");
  const Shape shape{m, k, n};
  const ValueId x = b.broadcast(b.cast(left, DType::kF32), shape, {0, 1});
  const ValueId y = b.broadcast(b.cast(right, DType::kF32), shape, {1, 2});
  b.output(b.sum(b.mul(x, y), {1}), "c");
  return b.build();
}

TEST(Contraction, IsFoundWithItsSizes) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const auto found = find_contractions(matmul(64, 48, 32, type));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].left, ValueId{0});
    EXPECT_EQ(found[0].right, ValueId{1});
    EXPECT_EQ(found[0].batch, 1);
    EXPECT_EQ(found[0].m, 64);
    EXPECT_EQ(found[0].n, 48);
    EXPECT_EQ(found[0].k, 32);
  }
}

TEST(Contraction, HasBatchAxesAScaleAndAnyOrder) {
  FusionBuilder b("scores");
  const ValueId q = b.input(DType::kBF16, {2, 8, 16, 4}, "q");  // batch, head, row, depth
  const ValueId k = b.input(DType::kBF16, {2, 8, 4, 32}, "k");  // batch, head, depth, column
  const ValueId turned = b.permute(k, {0, 1, 3, 2});
  const Shape shape{2, 8, 16, 32, 4};
  const ValueId x = b.broadcast(b.cast(q, DType::kF32), shape, {0, 1, 2, 4});
  const ValueId y = b.broadcast(b.exp(b.cast(turned, DType::kF32)), shape, {0, 1, 3, 4});
  b.output(b.sum(b.mul(b.mul(x, b.constant(0.5)), y), {4}), "scores");
  const auto found = find_contractions(b.build());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].batch, 16);
  EXPECT_EQ(found[0].m, 16);
  EXPECT_EQ(found[0].n, 32);
  EXPECT_EQ(found[0].k, 4);
}

struct Variant {
  const char* name;
  /// Builds c = a b of 64 x 32 x 48 (M x N x K).
  std::function<void(FusionBuilder&)> build;
};

class ContractionVariant : public ::testing::TestWithParam<Variant> {};

TEST_P(ContractionVariant, IsFoundAndSaidToBeOne) {
  FusionBuilder b(GetParam().name);
  GetParam().build(b);
  const Fusion fusion = b.build();
  const auto planned = plan(fusion, {}, *find_device("H200"));
  ASSERT_TRUE(planned) << planned.error().text();
  for (const auto& found : {find_contractions(fusion), contractions_of(*planned)}) {
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].m, 64);
    EXPECT_EQ(found[0].n, 32);
    EXPECT_EQ(found[0].k, 48);
  }
  EXPECT_GT(contractions_of(*planned)[0].predicted_us, 0.0);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ContractionVariant,
    ::testing::Values(
        Variant{"transposed_weight",
                [](FusionBuilder& b) {
                  const Shape shape{64, 32, 48};
                  const ValueId x = b.input(DType::kF32, {64, 48}, "x");
                  const ValueId w = b.input(DType::kF32, {32, 48}, "w");
                  b.output(b.sum(
                      b.mul(b.broadcast(x, shape, {0, 2}), b.broadcast(w, shape, {1, 2})), {2}));
                }},
        Variant{
            "both_transposed",
            [](FusionBuilder& b) {
              const Shape shape{48, 64, 32};
              const ValueId x = b.permute(b.input(DType::kBF16, {48, 64}, "x"), {1, 0});
              const ValueId w = b.input(DType::kBF16, {32, 48}, "w");
              const ValueId wide = b.broadcast(b.permute(x, {1, 0}), shape, {0, 1});
              b.output(b.sum(b.mul(wide, b.broadcast(b.permute(w, {1, 0}), shape, {0, 2})), {0}));
            }},
        Variant{
            "numpy",
            [](FusionBuilder& b) {
              const ValueId x = b.input(DType::kF16, {64, 48}, "x");
              const ValueId w = b.input(DType::kF16, {48, 32}, "w");
              const ValueId product = b.mul(b.reshape(x, {64, 48, 1}), b.reshape(w, {1, 48, 32}));
              b.output(b.cast(b.sum(product, {1}), DType::kF16));
            }},
        Variant{"mean",
                [](FusionBuilder& b) {
                  const Shape shape{64, 48, 32};
                  const ValueId x = b.input(DType::kBF16, {64, 48}, "x");
                  const ValueId w = b.input(DType::kBF16, {48, 32}, "w");
                  b.output(mean(
                      b, b.mul(b.broadcast(x, shape, {0, 1}), b.broadcast(w, shape, {1, 2})), {1}));
                }},
        Variant{"cast_product",
                [](FusionBuilder& b) {
                  const Shape shape{64, 48, 32};
                  const ValueId x = b.input(DType::kF32, {64, 48}, "x");
                  const ValueId w = b.input(DType::kF32, {48, 32}, "w");
                  const ValueId product =
                      b.mul(b.broadcast(x, shape, {0, 1}), b.broadcast(w, shape, {1, 2}));
                  b.output(b.sum(b.cast(product, DType::kBF16), {1}));
                }},
        Variant{"moved_product",
                [](FusionBuilder& b) {
                  const Shape shape{64, 48, 32};
                  const ValueId x = b.input(DType::kF32, {64, 48}, "x");
                  const ValueId w = b.input(DType::kF32, {48, 32}, "w");
                  const ValueId product =
                      b.mul(b.broadcast(x, shape, {0, 1}), b.broadcast(w, shape, {1, 2}));
                  b.output(b.sum(b.permute(product, {2, 0, 1}), {2}));
                }},
        Variant{"negated",
                [](FusionBuilder& b) {
                  const Shape shape{64, 48, 32};
                  const ValueId x = b.input(DType::kF32, {64, 48}, "x");
                  const ValueId w = b.input(DType::kF32, {48, 32}, "w");
                  b.output(b.sum(
                      b.neg(b.mul(b.broadcast(x, shape, {0, 1}), b.broadcast(w, shape, {1, 2}))),
                      {1}));
                }},
        Variant{"scaled_before_and_after",
                [](FusionBuilder& b) {
                  const Shape shape{64, 48, 32};
                  const ValueId x = b.input(DType::kF32, {64, 48}, "x");
                  const ValueId w = b.input(DType::kF32, {48, 32}, "w");
                  const ValueId half = b.mul(x, b.constant(0.5));
                  const ValueId product =
                      b.mul(b.broadcast(half, shape, {0, 1}), b.broadcast(w, shape, {1, 2}));
                  b.output(b.mul(b.sum(b.mul(product, b.constant(3.0)), {1}), b.constant(0.25)));
                }}),
    [](const auto& at) { return std::string(at.param.name); });

TEST(Contraction, IsNoProductThatMovesItsOperandsOnce) {
  FusionBuilder b("others");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  const ValueId w = b.input(DType::kF32, {32}, "w");
  const ValueId wide = b.broadcast(w, {64, 32}, {1});
  b.output(b.sum(b.mul(x, wide), {1}), "matrix_times_vector");
  b.output(b.sum(b.mul(x, x), {1}), "squares");
  const ValueId column = b.input(DType::kF32, {64}, "column");
  b.output(b.mul(b.broadcast(column, {64, 32}, {0}), wide), "outer_product");
  b.output(b.amax(b.mul(b.broadcast(column, {64, 32}, {0}), wide), {1}), "no_sum");
  b.output(b.sum(b.mul(b.broadcast(column, {64, 32}, {0}), wide), {1}), "one_has_the_summed_axis");
  EXPECT_TRUE(find_contractions(b.build()).empty());
}

TEST(Contraction, IsADecisionOfThePlanWithItsTime) {
  const auto planned = plan(matmul(256, 192, 64), {}, *find_device("H200"));
  ASSERT_TRUE(planned) << planned.error().text();
  const auto found = contractions_of(*planned);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].predicted_us, 0.0);
  const auto decision = std::ranges::find_if(planned->decisions, [](const Decision& one) {
    return one.question.find("matrix product") != std::string::npos;
  });
  ASSERT_NE(decision, planned->decisions.end());
  EXPECT_THAT(decision->because, HasSubstr("256 x 192 x 64 (M x N x K)"));
  EXPECT_THAT(decision->because, HasSubstr("write it as a contraction"));
}

}  // namespace sinter::contraction_test
