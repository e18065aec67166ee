#include "fusion_ir/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion_ir/error.h"

namespace sinter::shape_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ShapeTest, ExtentsKnowWhatTheyAre) {
  const Extent constant = 1;
  const Extent symbol = SymbolId{0};
  EXPECT_TRUE(constant.is_constant());
  EXPECT_TRUE(constant.is_one());
  EXPECT_TRUE(symbol.is_symbol());
  EXPECT_FALSE(symbol.is_one());
  EXPECT_NE(constant, symbol);
  EXPECT_NE(symbol, Extent(SymbolId{1}));
  // A symbol never equals the constant of the same number.
  EXPECT_NE(Extent(0), Extent(SymbolId{0}));
}

TEST(ShapeTest, TheOneOfASymbolIsNoConstantOne) {
  for (const int64_t size : {0, 1}) {
    EXPECT_EQ(Extent::bound(size).constant(), size);
    EXPECT_TRUE(Extent::bound(size).is_constant());
    EXPECT_TRUE(Extent::bound(size).is_bound());
    EXPECT_NE(Extent::bound(size), Extent(size));
    EXPECT_EQ(Extent::bound(size), Extent::bound(size));
  }
  EXPECT_FALSE(Extent::bound(1).is_one());
  // Any other size means nothing by itself.
  EXPECT_EQ(Extent::bound(2), Extent(2));
}

TEST(ShapeTest, DenseStridesAreRowMajor) {
  EXPECT_THAT(dense_strides(Sizes{2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_THAT(dense_strides(Sizes{}), IsEmpty());
}

TEST(ShapeTest, ElementCountOfScalarsAndEmptyTensors) {
  EXPECT_EQ(element_count(Sizes{}), 1);
  EXPECT_EQ(element_count(Sizes{3, 5}), 15);
  // A zero wins even where the other sizes alone would overflow.
  EXPECT_EQ(element_count(Sizes{int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
}

TEST(ShapeTest, ElementCountRefusesWhatDoesNotFit) {
  EXPECT_EQ(element_count(Sizes{int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  try {
    element_count(Sizes{int64_t{1} << 32, int64_t{1} << 31});
    FAIL() << "2^63 elements were counted";
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(ShapeTest, Identifiers) {
  for (const char* good : {"a", "_", "rows", "Rows_2"}) EXPECT_TRUE(is_identifier(good)) << good;
  for (const char* bad : {"", "2rows", "a-b", "a.b", "a b", "é"}) {
    EXPECT_FALSE(is_identifier(bad)) << bad;
  }
}

}  // namespace sinter::shape_test
