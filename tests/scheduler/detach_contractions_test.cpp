// Contractions that get a kernel apart from what follows them, where two kernels are faster.

#include "scheduler/segmentation/detach_contractions.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"

namespace sinter::detach_contractions_test {

using ::testing::IsEmpty;

/// Products of bf16, rounded and named 'product', and what `behind` makes of them in f32.
Fusion behind_product(int64_t rows, int64_t depth, int64_t columns,
                      const std::function<void(FusionBuilder&, ValueId)>& behind) {
  FusionBuilder b("behind_product");
  const ValueId x = b.input(DType::kBF16, {rows, depth});
  const ValueId w = b.input(DType::kBF16, {columns, depth});
  const ValueId product = b.named(b.cast(b.linear(x, w), DType::kBF16), "product");
  behind(b, b.cast(product, DType::kF32));
  return b.build();
}

Plan planned(const Fusion& fusion, const PlanOptions& options = {}, const char* device = "H200") {
  auto plan = sinter::plan(fusion, {}, *find_device(device), options);
  EXPECT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(plan_violations(*plan), IsEmpty());
  return std::move(*plan);
}

/// The plan is as fast as with a pinned cut behind the product, which is faster than one kernel.
void expect_detached(const Fusion& fusion, const char* device = "H200") {
  const Plan free = planned(fusion, {}, device);
  const Plan cut = planned(fusion, {.cuts = {{"product"}}}, device);
  EXPECT_LE(free.predicted_us(), 1.001 * cut.predicted_us());
  EXPECT_TRUE(free.is_segmented);
}

// The gradient of GELU's layer with that of its bias: sums of columns behind a product store the
// elements in another order.
TEST(DetachContractionsTest, ColumnSumsOfElementsTakeAKernelOfTheirOwn) {
  expect_detached(behind_product(8192, 768, 3072, [](FusionBuilder& b, ValueId product) {
    const ValueId x = b.cast(b.input(DType::kBF16, {8192, 3072}), DType::kF32);
    const ValueId slope =
        b.add(b.pointwise(PointwiseFn::kErf, {x}), b.mul(x, b.exp(b.neg(b.mul(x, x)))));
    const ValueId gradient = b.mul(product, slope);
    b.output(b.cast(gradient, DType::kBF16), "dx");
    b.output(b.sum(gradient, {0}), "dbias");
  }));
}

// A residual and its norm: what is detached joins the kernel of the norm, which reads it.
TEST(DetachContractionsTest, TheRestJoinsWhatReadsIt) {
  const Fusion fusion = behind_product(8192, 4096, 4096, [](FusionBuilder& b, ValueId product) {
    const ValueId x = b.cast(b.input(DType::kBF16, {8192, 4096}), DType::kF32);
    const ValueId h = b.cast(b.add(x, product), DType::kBF16);
    b.output(h, "h");
    b.output(rms_norm(b, h, {.output = DType::kBF16}).y, "normal");
  });
  // Where warp groups multiply, other warps sum parts of the rows meanwhile.
  expect_detached(fusion, "A100");
  const Plan plan = planned(fusion, {}, "A100");
  EXPECT_EQ(plan.leading_kernels().size(), 2U);
  EXPECT_EQ(plan.kernels.front().chosen().schedule.family, kMatmul);
}

// Where one kernel is faster, it stays one.
TEST(DetachContractionsTest, ABiasStaysBehindItsProduct) {
  const Plan plan = planned(behind_product(8192, 4096, 4096, [](FusionBuilder& b, ValueId product) {
    const ValueId bias = b.cast(b.input(DType::kBF16, {4096}), DType::kF32);
    const ValueId whole = b.broadcast(bias, {8192, 4096}, {1});
    b.output(b.cast(b.add(product, whole), DType::kBF16), "y");
  }));
  EXPECT_EQ(plan.kernels.size(), 1U);
}

}  // namespace sinter::detach_contractions_test
