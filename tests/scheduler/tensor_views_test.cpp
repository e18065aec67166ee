// Permutes, reshapes, broadcasts and slices of an input are addresses into it: an offset, and a
// stride for each loop.

#include "scheduler/analysis/tensor_views.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::tensor_views_test {

using testing::ElementsAre;

struct Linked {
  Fusion fusion;
  LinkedAxes axes;
};

Linked linked(std::string_view text) {
  Fusion fusion = parsed_fusion(text);
  LinkedAxes axes = link_axes(fusion).value();
  return {std::move(fusion), std::move(axes)};
}

/// The strides of a view along the axes of a value, from the outermost to the innermost class.
std::vector<int64_t> strides_along(const Linked& of, const View& view, uint32_t value) {
  std::vector<int64_t> strides;
  for (const uint32_t node : of.axes.classes.resolve(concatenated(of.axes.axes[ValueId{value}])))
    strides.push_back(view.stride_of(node));
  return strides;
}

View view_of(const Linked& of, uint32_t value) {
  return find_views(of.fusion, of.axes).value().at(ValueId{value});
}

TEST(TensorViewsTest, InputsHaveTheirStridesOrAreDense) {
  const Linked of = linked(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 p : f32[4, 8] = input strides(16, 1)
  %v2 y : f32[4, 8] = add %v0, %v1
  return %v2
})");
  EXPECT_THAT(strides_along(of, view_of(of, 0), 0), ElementsAre(8, 1));
  EXPECT_THAT(strides_along(of, view_of(of, 1), 1), ElementsAre(16, 1));
  EXPECT_EQ(find_views(of.fusion, of.axes)->count(ValueId{2}), 0U) << "a sum is computed";
}

TEST(TensorViewsTest, MovesKeepTheTensor) {
  const Linked of = linked(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[8, 4] = permute %v0 order(1, 0)
  %v2 : f32[3, 8, 4] = broadcast %v1 axes(1, 2)
  %v3 y : f32[3, 8, 4] = exp %v2
  return %v3
})");
  const View view = view_of(of, 2);
  EXPECT_EQ(view.tensor, ValueId{0});
  EXPECT_EQ(view.offset, 0);
  EXPECT_THAT(strides_along(of, view, 2), ElementsAre(0, 1, 8)) << "the same in every repetition";
}

/// Rows 1 and 3, and columns 2, 4 and 6, of a tensor of 8 columns: the first element is 8 + 2.
TEST(TensorViewsTest, SlicesAreAnOffsetAndWiderStrides) {
  const Linked of = linked(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[2, 3] = slice %v0 start(1, 2) stop(4, 7) step(2, 2)
  %v2 : f32[1, 3] = slice %v1 start(1, 0) stop(2, 3) step(1, 1)
  %v3 y : f32[1, 3] = exp %v2
  return %v3
})");
  const View view = view_of(of, 1);
  EXPECT_EQ(view.offset, 10);
  EXPECT_THAT(strides_along(of, view, 1), ElementsAre(16, 2));
  EXPECT_EQ(view_of(of, 2).offset, 10 + 16) << "a slice of a slice";
  EXPECT_EQ(view_of(of, 2).tensor, ValueId{0});
}

TEST(TensorViewsTest, RefusesSlicesThatAreNoView) {
  const auto refused = [](std::string_view text) {
    const Linked of = linked(text);
    const auto views = find_views(of.fusion, of.axes);
    return views ? Rejection{} : views.error();
  };
  const Rejection computed = refused(R"(fusion @f {
  %v0 x : f32[8] = input
  %v1 : f32[8] = exp %v0
  %v2 y : f32[4] = slice %v1 start(0) stop(4) step(1)
  return %v2
})");
  EXPECT_EQ(computed.rule, "a slice takes part of a computed value");
  EXPECT_EQ(computed.at, ValueId{2});
  // Elements 7 and 8 of the reshape are 16 - 7 apart, others 1.
  const Rejection split = refused(R"(fusion @f {
  %v0 x : f32[4, 8] = input strides(16, 1)
  %v1 : f32[32] = reshape %v0
  %v2 : f32[10] = slice %v1 start(3) stop(13) step(1)
  %v3 y : f32[10] = exp %v2
  return %v3
})");
  EXPECT_EQ(split.rule, "a slice cuts an axis that a reshape split");
  EXPECT_EQ(split.at, ValueId{2});
}

TEST(TensorViewsTest, OutputsAreDenseUnlessTheySayOtherwise) {
  const Linked of = linked(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = exp %v0
  %v2 z : f32[4, 8] = neg %v0
  return %v1, %v2 strides(1, 4)
})");
  EXPECT_THAT(strides_along(of, output_view(of.fusion, of.axes, 0), 1), ElementsAre(8, 1));
  EXPECT_THAT(strides_along(of, output_view(of.fusion, of.axes, 1), 2), ElementsAre(1, 4));
  EXPECT_EQ(output_view(of.fusion, of.axes, 1).tensor, ValueId{2});
}

/// Strides of 0 repeat a tensor along an axis, but not one without elements.
TEST(TensorViewsTest, StridesOfNoElementsAreThoseOfDenseOnes) {
  const Linked of = linked(R"(fusion @f {
  %v0 x : f32[0, 8] = input strides(0, 0)
  %v1 y : f32[0, 8] = exp %v0
  return %v1
})");
  EXPECT_THAT(strides_along(of, view_of(of, 0), 0), ElementsAre(8, 1));
}

}  // namespace sinter::tensor_views_test
