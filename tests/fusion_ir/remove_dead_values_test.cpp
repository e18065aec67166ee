#include "fusion_ir/passes/remove_dead_values.h"

#include <gtest/gtest.h>

#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::remove_dead_values_test {

TEST(RemoveDeadValues, DropsChainsNoOutputNeeds) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    b.exp(b.sum(x, {1}));
    return b.neg(x);
  });
  EXPECT_EQ(applied(remove_dead_values, before),
            fusion_of([](FusionBuilder& b, ValueId x) { return b.neg(x); }));
}

TEST(RemoveDeadValues, DropsACallThatNothingNeeds) {
  const std::vector<ResultType> results = {{DType::kF32, {8, 32}}, {DType::kI64, {}}};
  const Fusion before = fusion_of([&](FusionBuilder& b, ValueId x) {
    b.external("unused", {x}, results);
    return b.external("used", {x}, results)[0];
  });
  EXPECT_EQ(applied(remove_dead_values, before), fusion_of([&](FusionBuilder& b, ValueId x) {
              return b.external("used", {x}, results)[0];
            }));
}

TEST(RemoveDeadValues, KeepsAnOpOfWhichOneResultIsUsed) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) { return b.welford(x, {1}).m2; });
  EXPECT_EQ(applied(remove_dead_values, before), before);
}

}  // namespace sinter::remove_dead_values_test
