// Outputs that take over the memory of an input: which segments may write there.

#include "scheduler/analysis/in_place.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::in_place_test {

using testing::HasSubstr;

/// What the elements of an input are needed for elsewhere keeps it from being overwritten here.
TEST(InPlaceTest, ReadsOfOtherElementsAreRefused) {
  const auto refusal_of = [](const std::function<ValueId(FusionBuilder&, ValueId)>& make) {
    FusionBuilder b("other_elements");
    const ValueId x = b.input(DType::kF32, {64, 64}, "x");
    b.output(make(b, x), "y", {.alias = x});
    const auto facts = analyse(simplify(specialize(b.build(), {})));
    return facts ? std::string() : text_of(facts.error());
  };
  EXPECT_EQ(refusal_of([](FusionBuilder& b, ValueId x) { return b.exp(x); }), "");
  EXPECT_THAT(refusal_of([](FusionBuilder& b, ValueId x) {
                return b.exp(b.permute(x, {1, 0}));
              }),
              HasSubstr("at other elements than an output overwrites"));
  EXPECT_THAT(
      refusal_of([](FusionBuilder& b, ValueId x) {
        const ValueId index = b.input(DType::kI64, {64, 64}, "index");
        const ValueId row = b.slice(index, {0, 0}, {-1, 1});
        return b.add(b.exp(x), b.broadcast(b.take(x, b.reshape(row, {64}), 1), {64, 64}, {0}));
      }),
      HasSubstr("in place"));
}

}  // namespace sinter::in_place_test
