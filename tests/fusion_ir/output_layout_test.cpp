// Outputs that declare strides and an alignment.

#include <gmock/gmock.h>

#include <array>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::output_layout_test {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two outputs of [rows, 32], the second of them as `layout` says.
Fusion second_output_as(const OutputLayout& layout) {
  FusionBuilder b("strided");
  const Extent rows = b.symbol("rows", 8);
  const ValueId x = b.input(DType::kF32, {rows, 32}, "x");
  b.output(b.neg(x), "y");
  b.output(b.exp(x), "z", layout);
  return b.build();
}

TEST(OutputLayoutTest, IsPrintedAndRead) {
  const Fusion fusion = second_output_as({.strides = {40, 1}, .alignment = 8});
  EXPECT_THAT(print(fusion), HasSubstr("return %v1, %v2 strides(40, 1) align(8)"));
  EXPECT_EQ(parse_fusion(print(fusion)).value(), fusion);
  const Fusion dense = second_output_as({});
  EXPECT_THAT(dense.layouts, testing::IsEmpty()) << "the usual form";
  EXPECT_EQ(parse_fusion(print(dense)).value(), dense);
}

TEST(OutputLayoutTest, IsPartOfTheStructure) {
  const Fusion dense = second_output_as({});
  const Fusion strided = second_output_as({.strides = {40, 1}});
  const Fusion unaligned = second_output_as({.alignment = 4});
  EXPECT_NE(structural_hash(dense), structural_hash(strided));
  EXPECT_NE(structural_hash(dense), structural_hash(unaligned));
  EXPECT_FALSE(structurally_equal(dense, strided));
  EXPECT_FALSE(structurally_equal(strided, unaligned));
}

TEST(OutputLayoutTest, OutlivesSimplificationAndSpecialisation) {
  FusionBuilder b("strided");
  const Extent rows = b.symbol("rows", 8);
  const Extent pitch = b.symbol("pitch", 48);
  const ValueId x = b.input(DType::kF32, {rows, 32}, "x");
  b.neg(x);  // Dead: values get other numbers.
  b.output(b.mul(x, b.constant(1.0)), "y", {.strides = {pitch, 1}});
  const Fusion fusion = b.build();
  const Fusion simple = simplify(specialize(fusion, bind_extents(fusion, {}).value()));
  ASSERT_EQ(simple.layouts.size(), 1U);
  EXPECT_EQ(simple.layouts.front().strides, (std::vector<Extent>{48, 1}));
}

TEST(OutputLayoutTest, ElementsHaveAddressesOfTheirOwn) {
  const auto binds = [](const OutputLayout& layout) {
    return bind_extents(second_output_as(layout), {}).has_value();
  };
  EXPECT_TRUE(binds({.strides = {1, 8}})) << "turned";
  EXPECT_TRUE(binds({.strides = {33, 1}}));
  EXPECT_FALSE(binds({.strides = {31, 1}}));
  EXPECT_FALSE(binds({.strides = {0, 1}}));
  EXPECT_FALSE(binds({.strides = {1, 1}}));
  EXPECT_FALSE(binds({.strides = {int64_t{1} << 61, 1}})) << "beyond the address space";
  const auto refused = bind_extents(second_output_as({.strides = {31, 1}}), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(refused.error().measured, 31);
  EXPECT_EQ(refused.error().limit, 32);
  EXPECT_TRUE(bind_extents(second_output_as({.strides = {0, 1}}), {{"rows", 1}}))
      << "an axis of one element is not walked";
  EXPECT_TRUE(bind_extents(second_output_as({.strides = {0, 0}}), {{"rows", 0}}));
}

TEST(OutputLayoutTest, TheBuilderRefusesWhatNoTensorHas) {
  for (const OutputLayout& layout :
       {OutputLayout{.strides = {1}}, OutputLayout{.strides = {-32, 1}},
        OutputLayout{.alignment = 2}, OutputLayout{.alignment = 12}}) {
    EXPECT_THROW(second_output_as(layout), SinterException);
  }
}

TEST(OutputLayoutTest, TheVerifierFindsDamage) {
  const auto messages = [](const auto& damage) {
    Fusion fusion = second_output_as({.strides = {40, 1}});
    damage(fusion);
    return verify(fusion);
  };
  EXPECT_THAT(messages([](Fusion& f) { f.layouts.pop_back(); }),
              Contains(Field(&Violation::message, HasSubstr("2 outputs have 1 layouts"))));
  EXPECT_THAT(messages([](Fusion& f) { f.layouts[1].strides.pop_back(); }),
              Contains(Field(&Violation::message, HasSubstr("rank 2 has 1 strides"))));
  EXPECT_THAT(messages([](Fusion& f) { f.layouts[0].alignment = 3; }),
              Contains(Field(&Violation::message, HasSubstr("alignment of 3 bytes"))));
}

/// x + 1, which lies as `options` say; x is [rows, 32] with strides of 48 and 1.
Fusion in_place(OutputOptions options,
                const InputOptions& of_input = {.strides = {48, 1}, .alignment = 8}) {
  FusionBuilder b("in_place");
  const Extent rows = b.symbol("rows", 8);
  const ValueId gain = b.input(DType::kF32, {32}, "gain");
  const ValueId x = b.input(DType::kF32, {rows, 32}, "x", of_input);
  b.neg(x);  // Dead: values get other numbers.
  options.alias = options.alias.valid() ? options.alias : x;
  b.output(b.mul(x, gain), "y", options);
  return b.build();
}

TEST(OutputAliasTest, LiesLikeTheInput) {
  const Fusion fusion = in_place({});
  EXPECT_EQ(fusion.layouts.front(),
            (OutputLayout{.strides = {48, 1}, .alignment = 8, .alias = fusion.inputs[1]}));
  EXPECT_THAT(print(fusion), HasSubstr("strides(48, 1) align(8) alias(%v1)"));
  EXPECT_EQ(parse_fusion(print(fusion)).value(), fusion);
  EXPECT_THAT(print(in_place({}, {})), Not(HasSubstr("strides"))) << "dense like its input";
}

TEST(OutputAliasTest, IsPartOfTheStructure) {
  Fusion apart = in_place({}, {});
  const Fusion fusion = apart;
  apart.layouts.clear();
  EXPECT_NE(structural_hash(fusion), structural_hash(apart));
  EXPECT_FALSE(structurally_equal(fusion, apart));
}

TEST(OutputAliasTest, WhichInputItIsIsPartOfTheStructure) {
  const auto over = [](size_t input) {
    FusionBuilder b("in_place");
    const std::array<ValueId, 2> inputs = {b.input(DType::kF32, {8, 32}, "x"),
                                           b.input(DType::kF32, {8, 32}, "y")};
    b.output(b.mul(inputs[0], inputs[1]), "z", {.alias = inputs[input]});
    return b.build();
  };
  EXPECT_EQ(structural_hash(over(0)), structural_hash(over(0)));
  EXPECT_NE(structural_hash(over(0)), structural_hash(over(1)));
  EXPECT_FALSE(structurally_equal(over(0), over(1)));
}

TEST(OutputAliasTest, OutlivesSimplificationAndSpecialisation) {
  const Fusion fusion = in_place({});
  const Fusion simple = simplify(specialize(fusion, bind_extents(fusion, {}).value()));
  EXPECT_EQ(simple.layouts.at(0).alias, simple.inputs[1]);
  EXPECT_THAT(verify(simple), testing::IsEmpty());
}

TEST(OutputAliasTest, FollowsAnInputThatGetsAnotherNumber) {
  FusionBuilder b("in_place");
  const ValueId gain = b.input(DType::kF32, {32}, "gain");
  const ValueId twice = b.mul(b.mul(gain, b.constant(1.0)), b.constant(1.0));
  const ValueId x = b.input(DType::kF32, {8, 32}, "x");
  b.output(b.mul(x, twice), "y", {.alias = x});
  const Fusion simple = simplify(b.build());
  EXPECT_LT(simple.inputs[1], x) << "ops before it went";
  EXPECT_EQ(simple.layouts.at(0).alias, simple.inputs[1]);
}

TEST(OutputAliasTest, TheBuilderRefusesWhatCannotShareMemory) {
  const auto refused = [](const auto& declare) -> Error {
    FusionBuilder b("in_place");
    const ValueId x = b.input(DType::kF32, {8, 32}, "x");
    const ValueId y = b.neg(x);
    try {
      declare(b, x, y);
    } catch (const SinterException& exception) {
      return exception.error();
    }
    return {};
  };
  const Error computed =
      refused([](FusionBuilder& b, ValueId x, ValueId y) { b.output(b.exp(x), "", {.alias = y}); });
  EXPECT_THAT(computed.message, HasSubstr("which is no input"));
  EXPECT_EQ(computed.values, (std::vector<ValueId>{ValueId{2}, ValueId{1}}));
  EXPECT_THAT(refused([](FusionBuilder& b, ValueId x, ValueId y) {
                b.output(b.cast(y, DType::kBF16), "", {.alias = x});
              }).message,
              HasSubstr("bf16[8, 32], aliases the input %v0, f32[8, 32]"));
  EXPECT_THAT(refused([](FusionBuilder& b, ValueId x, ValueId y) {
                b.output(b.permute(y, {1, 0}), "", {.alias = x});
              }).message,
              HasSubstr("f32[32, 8], aliases"));
  EXPECT_THAT(refused([](FusionBuilder& b, ValueId x, ValueId y) {
                b.output(y, "", {.strides = {64, 1}, .alias = x});
              }).message,
              HasSubstr("other strides"));
  EXPECT_THAT(refused([](FusionBuilder& b, ValueId x, ValueId y) {
                b.output(y, "", {.alias = x});
                b.output(b.exp(x), "", {.alias = x});
              }).message,
              HasSubstr("already"));
}

TEST(OutputAliasTest, TheVerifierFindsDamage) {
  const auto messages = [](const auto& damage) {
    Fusion fusion = in_place({});
    damage(fusion);
    return verify(fusion);
  };
  EXPECT_THAT(messages([](Fusion& f) { f.layouts[0].alias = f.outputs[0]; }),
              Contains(Field(&Violation::message, HasSubstr("no input"))));
  EXPECT_THAT(messages([](Fusion& f) { f.layouts[0].alias = ValueId{99}; }),
              Contains(Field(&Violation::message, HasSubstr("no input"))));
  EXPECT_THAT(messages([](Fusion& f) { f.layouts[0].strides.clear(); }),
              Contains(Field(&Violation::message, HasSubstr("other strides"))));
}

}  // namespace sinter::output_layout_test
