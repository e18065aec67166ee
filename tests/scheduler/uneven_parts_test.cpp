// Long axes that no number of parts divides: which are found, what becomes of the graph, and what
// plans come of it. That the results are the oracle's is tested in
// tests/integration/row_parts_test.

#include "scheduler/segmentation/uneven_parts.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/verifier.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"

namespace sinter::uneven_parts_test {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kPrime = 199'999'991;

DeviceLimits h100() { return *find_device("H100"); }

Fusion reduced(ReduceFn fn, const Shape& shape, int axis) {
  FusionBuilder b("reduced");
  b.output(b.reduce(fn, b.input(DType::kF32, shape, "x"), {axis}), "y");
  return b.build();
}

TEST(UnevenParts, AreFoundWhereNoNumberOfPartsDividesAnAxis) {
  const auto found = [](const Shape& shape, int axis) {
    return find_uneven_axes(reduced(ReduceFn::kSum, shape, axis), h100());
  };
  const auto row = found({Extent(3), Extent(kPrime)}, 1);
  ASSERT_THAT(row, SizeIs(1));
  EXPECT_EQ(row[0].axis, 1);
  EXPECT_EQ(row[0].parts, 2 * 132 / 3);
  EXPECT_EQ(row[0].part_length % 16, 0);
  const int64_t rest = kPrime - row[0].parts * row[0].part_length;
  EXPECT_GT(rest, 0);
  EXPECT_LT(rest, 16 * row[0].parts + row[0].parts);
  EXPECT_THAT(found({Extent(kPrime), Extent(2)}, 0), SizeIs(1));
  EXPECT_THAT(found({Extent(1), Extent(200'000'000)}, 1), IsEmpty()) << "divides";
  EXPECT_THAT(found({Extent(1), Extent(2003)}, 1), IsEmpty()) << "short";
  EXPECT_THAT(found({Extent(1000), Extent(kPrime)}, 1), IsEmpty()) << "rows fill the device";
  EXPECT_THAT(found({Extent(0), Extent(kPrime)}, 1), IsEmpty());
  EXPECT_THAT(found({Extent(kPrime), Extent(0)}, 0), IsEmpty());
}

// Odd rows, and even ones that neither a cluster nor equal parts of tiles have. A take is a row's
// reduction too.
TEST(UnevenParts, AreFoundInColumnsOfContractions) {
  const auto found = [](int64_t vocabulary) {
    FusionBuilder b("loss");
    const ValueId x = b.input(DType::kBF16, {64, 32});
    const ValueId logits = b.linear(x, b.input(DType::kBF16, {vocabulary, 32}));
    b.output(cross_entropy(b, logits, b.input(DType::kI64, {64})), "loss");
    return find_uneven_axes(simplify(b.build()), h100());
  };
  const auto odd = found(50257);
  ASSERT_THAT(odd, SizeIs(2)) << "the logsumexp and the take";
  for (const UnevenAxis& axis : odd) {
    EXPECT_TRUE(axis.of_contraction);
    EXPECT_EQ(axis.axis, 1);
    EXPECT_EQ(axis.parts, 50257 / 256);
    EXPECT_EQ(axis.part_length, 256);
  }
  EXPECT_THAT(found(2 * 5003), SizeIs(2)) << "twice a prime number";
  EXPECT_THAT(found(301), SizeIs(2));
  EXPECT_THAT(found(2 * 1009), IsEmpty()) << "a cluster has it";
  EXPECT_THAT(found(50304), IsEmpty()) << "equal parts of 192";
  EXPECT_THAT(found(255), IsEmpty());
}

TEST(UnevenParts, KeepInputsAndOutputsAsTheyAre) {
  FusionBuilder b("norm");
  const ValueId x = b.input(DType::kF32, {Extent(2), Extent(53)}, "x");
  const ValueId unused = b.input(DType::kF32, {Extent(2)}, "unused");
  const ValueId most = b.amax(x, {1});
  b.output(most, "most");
  b.output(b.sub(x, b.broadcast_over(most, x, {1})), "less", {.alias = x});
  const Fusion fusion = b.build();
  const Fusion made = with_axes_in_parts(fusion, {{.reduction = fusion.values[most].def,
                                                   .axis = 1,
                                                   .length = 53,
                                                   .parts = 3,
                                                   .part_length = 16}});
  EXPECT_THAT(verify(made), IsEmpty());
  ASSERT_THAT(made.inputs, SizeIs(2));
  EXPECT_EQ(made.values[made.inputs[1]].name, fusion.values[unused].name);
  ASSERT_THAT(made.outputs, SizeIs(2));
  EXPECT_EQ(made.values[made.outputs[0]].name, "most");
  EXPECT_EQ(made.layout_of(made.outputs[1]).alias, made.inputs[0]);
  EXPECT_EQ(with_axes_in_parts(fusion, {}), fusion);
}

/// As fast as rows that divide, but for what two launches more take.
TEST(UnevenParts, TakeLittleLongerThanEvenOnes) {
  const double launches_us = 20.0;
  const auto predicted_us = [](const Fusion& fusion) {
    return plan(fusion, {}, h100()).value().predicted_us();
  };
  for (const ReduceFn fn : {ReduceFn::kSum, ReduceFn::kArgMax}) {
    EXPECT_LT(predicted_us(reduced(fn, {Extent(3), Extent(kPrime)}, 1)),
              predicted_us(reduced(fn, {Extent(3), Extent(200'000'000)}, 1)) * 1.05 + launches_us);
    EXPECT_LT(predicted_us(reduced(fn, {Extent(kPrime), Extent(2)}, 0)),
              predicted_us(reduced(fn, {Extent(200'000'000), Extent(2)}, 0)) * 1.05 + launches_us);
  }
}

TEST(UnevenParts, AreADecisionAndAreFollowed) {
  const Fusion fusion = [] {
    FusionBuilder b("total");
    const Extent n = b.symbol("n");
    b.output(b.amax(b.input(DType::kF32, {n}, "x"), {0}), "y");
    return b.build();
  }();
  const auto planned = std::make_shared<const Plan>(plan(fusion, {{"n", kPrime}}, h100()).value());
  EXPECT_THAT(planned->decisions,
              Contains(Field(&Decision::chosen, "in parts, of which the last is shorter")));
  // Another prime.
  const auto followed = plan(fusion, {{"n", 199'999'949}}, h100(), {.like = planned});
  ASSERT_TRUE(followed) << followed.error().text();
  EXPECT_EQ(followed->kernels.size(), planned->kernels.size());
}

TEST(UnevenParts, OfAPinnedScheduleStayWhole) {
  const Fusion fusion = reduced(ReduceFn::kSum, {Extent(3), Extent(kPrime)}, 1);
  const auto planned = plan(fusion, {}, h100(), {.pin = {.family = "looped"}});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(planned->kernels.size(), 1U);
}

}  // namespace sinter::uneven_parts_test
