#include "fusion_ir/rewriter.h"

#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/match.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"
#include "tests/support/canned_fusions.h"

namespace sinter::rewriter_test {

std::optional<std::vector<ValueId>> keep(Rewriter&, OpId, std::span<const ValueId>) {
  return std::nullopt;
}

/// Replaces every exp(x) by x.
std::optional<std::vector<ValueId>> drop_exp(Rewriter& rewriter, OpId id,
                                             std::span<const ValueId> operands) {
  if (text_of(rewriter.source().ops[id].kind) != "exp") return std::nullopt;
  return std::vector{operands.front()};
}

TEST(Rewriter, KeepingEverythingGivesAnEqualGraph) {
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = rewritten(canned.build(), keep);  // Drops what the formula left unused.
    EXPECT_EQ(rewritten(fusion, keep), fusion) << canned.name;
    EXPECT_EQ(verify(fusion).size(), 0U) << canned.name;
  }
}

TEST(Rewriter, DropsDeadOpsAndKeepsUnusedInputsAndSymbols) {
  FusionBuilder b;
  b.symbol("unused");
  const ValueId x = b.input(DType::kF32, {4}, "x");
  const ValueId z = b.input(DType::kF32, {4}, "z");
  b.exp(b.exp(x));
  b.output(b.neg(z), "y");
  const Fusion after = rewritten(b.build(), keep);
  EXPECT_EQ(after.ops.size(), 3U);
  EXPECT_EQ(after.inputs.size(), 2U);
  EXPECT_EQ(after.values[after.inputs[0]].name, "x");
  EXPECT_TRUE(after.find_symbol("unused").valid());
  EXPECT_TRUE(verify(after).empty());
}

TEST(Rewriter, ReplacedValuesReachTheirUsersAndDieThemselves) {
  const Fusion before =
      fusion_of([](FusionBuilder& b, ValueId x) { return b.neg(b.exp(b.abs(x))); });
  const Fusion after = rewritten(before, drop_exp);
  const Fusion expected = fusion_of([](FusionBuilder& b, ValueId x) { return b.neg(b.abs(x)); });
  EXPECT_EQ(after, expected);
}

TEST(Rewriter, AReplacementWithoutANameTakesTheOldOne) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4}, "x");
  b.output(b.neg(b.named(b.exp(b.abs(x)), "weights")), "y");
  const Fusion after = rewritten(b.build(), drop_exp);
  EXPECT_EQ(after.values[after.def_of(after.outputs[0]).operands[0]].name, "weights");
}

TEST(Rewriter, AnOutputThatBecameAnInputIsCopied) {
  const Fusion after =
      rewritten(fusion_of([](FusionBuilder& b, ValueId x) { return b.exp(x); }), drop_exp);
  EXPECT_TRUE(verify(after).empty());
  ASSERT_TRUE(is_copy(after, after.outputs[0]));
  EXPECT_EQ(after.def_of(after.outputs[0]).operands[0], after.inputs[0]);
  EXPECT_EQ(after.values[after.outputs[0]].name, "y");
}

TEST(Rewriter, OutputsThatBecameEqualStayTwo) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4}, "x");
  const ValueId negated = b.neg(x);
  b.output(negated, "a");
  b.output(b.exp(negated), "b");
  const Fusion after = rewritten(b.build(), drop_exp);
  ASSERT_EQ(after.outputs.size(), 2U);
  EXPECT_NE(after.outputs[0], after.outputs[1]);
  EXPECT_TRUE(is_copy(after, after.outputs[1]));
  EXPECT_TRUE(verify(after).empty());
}

TEST(Rewriter, AppendedOpsStandBeforeTheirUsers) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) { return b.exp(b.abs(x)); });
  const Fusion after =
      rewritten(before,
                [](Rewriter& rewriter, OpId id,
                   std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                  if (text_of(rewriter.source().ops[id].kind) != "abs") {
                    return std::nullopt;
                  }
                  const ValueId x = operands.front();
                  return std::vector{rewriter.pointwise(PointwiseFn::kMul, {x, x})};
                });
  EXPECT_EQ(after, fusion_of([](FusionBuilder& b, ValueId x) { return b.exp(b.mul(x, x)); }));
}

TEST(Rewriter, RejectsAReplacementOfAnotherShape) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) { return b.sum(x, {1}); });
  try {
    rewritten(before,
              [](Rewriter& rewriter, OpId id,
                 std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                if (!is_reduction(rewriter.source().ops[id].kind)) return std::nullopt;
                return std::vector{operands.front()};
              });
    FAIL() << "a matrix took the place of a column";
  } catch (const SinterException& e) {
    EXPECT_EQ(e.error().kind, ErrorKind::kInternalError);
  }
}

}  // namespace sinter::rewriter_test
