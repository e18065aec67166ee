// Outputs that declare strides and an alignment.

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace sinter
