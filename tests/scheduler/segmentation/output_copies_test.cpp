// An output in the memory of an input may be made elsewhere and copied there at the end.

#include "scheduler/segmentation/output_copies.h"

#include <gmock/gmock.h>

#include "fusion_ir/match.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::output_copies_test {

using testing::ElementsAre;
using testing::IsEmpty;

/// A plan whose outputs y and z lie in the memory of the inputs.
Plan overwriting_plan() {
  Plan plan;
  plan.fusion = parsed_fusion(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 w : f32[4, 8] = input
  %v2 y : f32[4, 8] = exp %v1
  %v3 z : f32[4, 8] = exp %v0
  return %v2 alias(%v0), %v3 alias(%v1)
})");
  plan.placements[ValueId{2}] = {.in = ValueId{0}};
  plan.placements[ValueId{3}] = {.in = ValueId{1}};
  return plan;
}

TEST(OutputCopiesTest, TheCopyTakesThePlaceAndTheNameOfTheOutput) {
  Plan plan = overwriting_plan();
  const ValueId copy = copy_output(plan, ValueId{2});
  EXPECT_EQ(copy, ValueId{4});
  EXPECT_TRUE(is_copy(plan.fusion, copy));
  EXPECT_THAT(plan.fusion.def_of(copy).operands, ElementsAre(ValueId{2}));
  EXPECT_THAT(plan.fusion.outputs, ElementsAre(copy, ValueId{3}));
  EXPECT_EQ(plan.placements.at(copy).in, ValueId{0});
  EXPECT_FALSE(plan.placements.contains(ValueId{2})) << "it has a tensor of its own";
  EXPECT_EQ(plan.fusion.values[copy].name, "y");
  EXPECT_EQ(plan.fusion.values[ValueId{2}].name, "");
}

TEST(OutputCopiesTest, CopiesAreFoundInTheirOrder) {
  Plan plan = overwriting_plan();
  const size_t ops = plan.fusion.ops.size();
  EXPECT_THAT(copied_outputs(plan, ops).value(), IsEmpty());
  copy_output(plan, ValueId{3});
  copy_output(plan, ValueId{2});
  EXPECT_THAT(copied_outputs(plan, ops).value(), ElementsAre(ValueId{3}, ValueId{2}));
}

TEST(OutputCopiesTest, OtherOpsAreNoCopies) {
  Plan plan = overwriting_plan();
  EXPECT_EQ(copied_outputs(plan, 3), std::nullopt) << "exp";
  copy_output(plan, ValueId{2});
  plan.placements.erase(ValueId{4});
  EXPECT_EQ(copied_outputs(plan, 4), std::nullopt) << "a broadcast that lies in no input";
}

}  // namespace sinter::output_copies_test
