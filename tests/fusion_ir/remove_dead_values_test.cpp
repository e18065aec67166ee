#include "fusion_ir/passes/remove_dead_values.h"

#include <gtest/gtest.h>

#include "tests/fusion_ir/op_count.h"

namespace sinter {
namespace {

TEST(RemoveDeadValues, DropsChainsNoOutputNeeds) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    b.exp(b.sum(x, {1}));
    return b.neg(x);
  });
  EXPECT_EQ(remove_dead_values(before),
            fusion_of([](FusionBuilder& b, ValueId x) { return b.neg(x); }));
}

TEST(RemoveDeadValues, KeepsAnOpOfWhichOneResultIsUsed) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) { return b.welford(x, {1}).m2; });
  EXPECT_EQ(remove_dead_values(before), before);
}

}  // namespace
}  // namespace sinter
