// Every value that a plan reads or writes lies in one place: an input, an output, or a tensor of
// the workspace, at an offset where it is a part of another value.

#include "scheduler/plan/tensor_slots.h"

#include <gmock/gmock.h>

#include "scheduler/planning/planner.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::tensor_slots_test {

using testing::ElementsAre;
using Kind = TensorSlot::Kind;

Plan plan_of(std::string_view text) { return plan(parsed_fusion(text), {}, kLimits).value(); }

/// A kernel, a call that reads its result, and a kernel that reads both.
constexpr std::string_view kCall = R"(fusion @f {
  %v0 x : f32[64, 16] = input
  %v1 h : f32[64, 16] = exp %v0
  %v2 m : f32[64, 16] = external matmul %v1
  %v3 y : f32[64, 16] = add %v1, %v2
  return %v3 strides(32, 1)
})";

TEST(TensorSlotsTest, InputsOutputsAndTheRestHaveTheirPlaces) {
  const Plan planned = plan_of(kCall);
  const auto slot = [&](const char* name) {
    return slot_of(planned, named_value(planned.fusion, name));
  };
  EXPECT_EQ(slot("x").kind, Kind::kInput);
  EXPECT_EQ(slot("y").kind, Kind::kOutput);
  for (const char* name : {"h", "m"}) {
    const TensorSlot found = slot(name);
    EXPECT_EQ(found.kind, Kind::kWorkspace) << name;
    EXPECT_EQ(planned.workspace[found.index].value, named_value(planned.fusion, name));
    EXPECT_EQ(found.offset, 0);
  }
}

TEST(TensorSlotsTest, StridesAreThoseOfTheOutputOrDense) {
  const Plan planned = plan_of(kCall);
  EXPECT_THAT(strides_of(planned, named_value(planned.fusion, "y")), ElementsAre(32, 1));
  EXPECT_THAT(strides_of(planned, named_value(planned.fusion, "h")), ElementsAre(16, 1));
}

TEST(TensorSlotsTest, AValueThatNoStepWritesLiesNowhere) {
  const Plan planned = plan_of(R"(fusion @f {
  %v0 x : f32[64, 16] = input
  %v1 h : f32[64, 16] = exp %v0
  %v2 y : f32[64, 16] = neg %v1
  return %v2
})");
  EXPECT_THROW(slot_of(planned, named_value(planned.fusion, "h")), SinterException);
}

/// The call writes its 2 x 8 elements behind the 3 x 8 of the other part.
TEST(TensorSlotsTest, APartOfAnotherValueHasAnOffset) {
  const Plan planned = plan_of(R"(fusion @f {
  %v0 x : f32[3, 8] = input
  %v1 z : f32[2, 8] = input
  %v2 a : f32[3, 8] = exp %v0
  %v3 b : f32[2, 8] = external f %v1
  %v4 y : f32[5, 8] = concatenate %v2, %v3 axis(0)
  return %v4
})");
  const ValueId y = named_value(planned.fusion, "y");
  const ValueId b = named_value(planned.fusion, "b");
  ASSERT_EQ(tensor_of(planned, b), y);
  EXPECT_EQ(slot_of(planned, b).kind, Kind::kOutput);
  EXPECT_EQ(slot_of(planned, b).offset, 3 * 8 * 4);
  EXPECT_THAT(strides_of(planned, b), ElementsAre(8, 1));
  EXPECT_EQ(tensor_of(planned, y), y);
  EXPECT_EQ(slot_of(planned, y).offset, 0);
}

/// The partial results of a reduction have its name. Its first kernel writes them, the second one
/// reads them and writes the result.
TEST(TensorSlotsTest, TheUseTellsPartialResultsFromTheResult) {
  const Plan planned =
      plan(find_canned_fusion("layer_norm_backward")->build(), matrix(8192, 4096), kLimits).value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  const KernelPlan& finish = planned.kernels[KernelId{1}];
  const TensorSlots slots(planned);
  const auto is_partials = [&](const TensorSlot& slot) {
    return slot.kind == Kind::kWorkspace &&
           planned.workspace[slot.index].holds == WorkspaceTensor::Holds::kPartials;
  };
  for (const ValueId output : finish.facts.fusion.outputs) {
    const TensorSlot result = slots.of(KernelId{1}, output, BufferUse::kWrite);
    EXPECT_EQ(result.kind, Kind::kOutput);
  }
  int read = 0;
  for (const ValueId input : finish.facts.fusion.inputs)
    read += is_partials(slots.of(KernelId{1}, input, BufferUse::kRead)) ? 1 : 0;
  EXPECT_EQ(read, 2) << "sums for the weight and for the bias";
}

}  // namespace sinter::tensor_slots_test
