#include "scheduler/analysis/iteration_space.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::iteration_space_test {

using testing::ElementsAre;
using testing::HasSubstr;

IterationSpace space_of(const Fusion& fusion, const ExtentValues& extents = {}) {
  return facts_of(fusion, extents).space;
}

IterationSpace canned_space(std::string_view name, const ExtentValues& extents) {
  return space_of(find_canned_fusion(name)->build(), extents);
}

/// The rule by which a fusion is rejected, as text; "walkable" if it is not.
std::string rejection_of(const Fusion& fusion) {
  const auto space = iteration_space(fusion);
  return space ? "walkable" : text_of(space.error());
}

TEST(IterationSpaceTest, LayerNormHasRowsAndColumns) {
  const Fusion fusion = find_canned_fusion("layer_norm")->build();
  const SegmentFacts facts = facts_of(fusion, {{"rows", 6}, {"cols", 10}});
  const IterationSpace& space = facts.space;
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{6, false}, Dimension{10, true}));
  EXPECT_EQ(space.row_dimensions, 1);
  EXPECT_EQ(space.rows, 6);
  EXPECT_EQ(space.columns, 10);
  ASSERT_EQ(space.inputs.size(), 3);
  EXPECT_THAT(space.find_input(named_value(facts.fusion, "x"))->strides, ElementsAre(10, 1));
  ASSERT_EQ(space.outputs.size(), 3);
  EXPECT_THAT(space.outputs[0].strides, ElementsAre(10, 1));
  EXPECT_THAT(space.outputs[1].strides, ElementsAre(1, 0));
  EXPECT_THAT(space.output_coverage, ElementsAre(Dependence{true, true}, Dependence{true, false},
                                                 Dependence{true, false}));
  EXPECT_EQ(space.dependence[named_value(facts.fusion, "x")], (Dependence{true, true}));
  EXPECT_EQ(space.dependence[named_value(facts.fusion, "mean")], (Dependence{true, false}));
}

TEST(IterationSpaceTest, WhatNoLoopWalksIsRejectedByItsValue) {
  const auto rejection = [](const std::function<ValueId(FusionBuilder&, ValueId)>& make) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {4, 8}, "x");
    b.output(b.neg(make(b, x)));
    const auto space = iteration_space(b.build());
    return space ? Rejection{} : space.error();
  };
  const Rejection joined = rejection([](auto& b, ValueId x) { return b.concatenate({x, x}, 1); });
  EXPECT_EQ(joined.rule, "a concatenate joins tensors along an axis");
  EXPECT_EQ(joined.at, ValueId{1});
  EXPECT_FALSE(joined.remedy.empty());
  const Rejection padded = rejection([](auto& b, ValueId x) { return b.pad(x, {0, 1}, {0, 0}); });
  EXPECT_EQ(padded.rule, "a pad adds elements around a tensor");
  const Rejection called = rejection([](auto& b, ValueId x) {
    return b.external("f", {x}, {{DType::kF32, {4, 8}}})[0];
  });
  EXPECT_EQ(called.rule, "an external call runs outside of any kernel");
  EXPECT_EQ(called.at, ValueId{1});
}

TEST(IterationSpaceTest, VectorsOverTheColumnsDoNotVaryAlongRows) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  const ValueId w = b.input(DType::kF32, {8}, "w");
  b.output(b.mul(b.sum(b.mul(x, w), {1}), b.constant(2.0)), "y");
  const SegmentFacts facts = facts_of(b.build());
  for (const TensorAccess& access : facts.space.inputs) {
    const bool is_weight = access.tensor == named_value(facts.fusion, "w");
    EXPECT_THAT(access.strides, is_weight ? ElementsAre(0, 1) : ElementsAre(8, 1));
    EXPECT_EQ(facts.space.dependence[access.value], (Dependence{!is_weight, true}));
  }
}

TEST(IterationSpaceTest, ContiguousElementwiseIsOneRun) {
  const IterationSpace space = canned_space("swiglu", {{"rows", 6}, {"cols", 10}});
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{60, false}));
  EXPECT_EQ(space.row_dimensions, 0);
  EXPECT_EQ(space.columns, 60);
  EXPECT_EQ(space.rows, 1);
}

TEST(IterationSpaceTest, KeptAxesThatMergeBecomeOne) {
  const IterationSpace space =
      canned_space("three_d_layer_norm", {{"batch", 2}, {"rows", 3}, {"cols", 8}});
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{6, false}, Dimension{8, true}));
}

TEST(IterationSpaceTest, TransposeFollowsTheOutputAndStridesTheInput) {
  const IterationSpace space = canned_space("transpose_2d", {{"rows", 6}, {"cols", 10}});
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{10, false}, Dimension{6, false}));
  ASSERT_EQ(space.inputs.size(), 1);
  EXPECT_THAT(space.inputs[0].strides, ElementsAre(1, 10));
  EXPECT_THAT(space.outputs[0].strides, ElementsAre(6, 1));
}

TEST(IterationSpaceTest, PermutationMergesOnlyAxesThatStayNeighbours) {
  const IterationSpace space =
      canned_space("permute_4d", {{"batch", 2}, {"heads", 3}, {"rows", 5}, {"cols", 8}});
  // Output order batch, rows, heads, cols.
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{2, false}, Dimension{5, false},
                                            Dimension{3, false}, Dimension{8, false}));
  EXPECT_THAT(space.inputs[0].strides, ElementsAre(120, 8, 40, 1));
  EXPECT_THAT(space.outputs[0].strides, ElementsAre(120, 24, 8, 1));
}

TEST(IterationSpaceTest, GroupNormReducesWhatAReshapeSplits) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("group_norm")->build(), {{"batch", 2}, {"pixels", 25}});
  const IterationSpace& space = facts.space;
  EXPECT_EQ(space.rows, 2 * 8);
  EXPECT_EQ(space.columns, 8 * 25);
  // Groups keep apart from batches because the weight only varies along them; so do the channels of
  // a group from the pixels.
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{2, false}, Dimension{8, false},
                                            Dimension{8, true}, Dimension{25, true}));
  for (const TensorAccess& access : space.inputs) {
    const bool is_weight = access.tensor == named_value(facts.fusion, "weight");
    EXPECT_THAT(access.strides,
                is_weight ? ElementsAre(0, 8, 1, 0) : ElementsAre(1600, 200, 25, 1));
  }
  EXPECT_THAT(space.outputs[0].strides, ElementsAre(1600, 200, 25, 1));
}

TEST(IterationSpaceTest, BroadcastInputsHaveZeroStrides) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("outer_product")->build(), {{"rows", 6}, {"cols", 10}});
  EXPECT_THAT(facts.space.dimensions, ElementsAre(Dimension{6, false}, Dimension{10, false}));
  std::vector<std::vector<int64_t>> strides;
  for (const TensorAccess& access : facts.space.inputs) strides.push_back(access.strides);
  EXPECT_THAT(strides, testing::UnorderedElementsAre(ElementsAre(1, 0), ElementsAre(0, 1)));
}

TEST(IterationSpaceTest, PaddedRowsKeepTheirStride) {
  const IterationSpace space =
      canned_space("strided_input", {{"rows", 5}, {"cols", 100}, {"ld", 112}});
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{5, false}, Dimension{100, false}));
  EXPECT_THAT(space.inputs[0].strides, ElementsAre(112, 1));
  EXPECT_THAT(space.outputs[0].strides, ElementsAre(100, 1));
}

TEST(IterationSpaceTest, SlicesAreOffsetsAndStrides) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {10, 8}, "x");
  b.output(b.neg(b.slice(x, {1, 2}, {9, 6}, {3, 1})), "y");
  const IterationSpace space = space_of(b.build());
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{3, false}, Dimension{4, false}));
  ASSERT_EQ(space.inputs.size(), 1);
  EXPECT_EQ(space.inputs[0].offset, 1 * 8 + 2);
  EXPECT_THAT(space.inputs[0].strides, ElementsAre(24, 1));
}

TEST(IterationSpaceTest, TwoSlicesOfOneTensorMeet) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 16}, "x");
  b.output(b.mul(b.slice(x, {0, 0}, {-1, 8}), b.slice(x, {0, 8}, {-1, 16})), "y");
  const SegmentFacts facts = facts_of(b.build());
  ASSERT_EQ(facts.space.inputs.size(), 2);
  EXPECT_EQ(std::abs(facts.space.inputs[0].offset - facts.space.inputs[1].offset), 8);
  EXPECT_EQ(facts.bytes_read, 4 * 16 * 4) << "both halves are read";
}

TEST(IterationSpaceTest, OverlappingSlicesReadNoMoreThanTheTensor) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {100}, "x");
  b.output(b.sub(b.slice(x, {1}, {-1}), b.slice(x, {0}, {99})), "y");
  EXPECT_EQ(facts_of(b.build()).bytes_read, 400);
}

TEST(IterationSpaceTest, AxesOfOneElementDisappear) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {1, 6, 1, 10, 1}, "x");
  b.output(b.exp(x), "y");
  EXPECT_THAT(space_of(b.build()).dimensions, ElementsAre(Dimension{60, false}));
}

TEST(IterationSpaceTest, IotaWeightsCountItsAxis) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 10}, "x");
  const ValueId column = b.iota({6, 10}, 1, DType::kI32);
  b.output(b.mul(x, b.cast(column, DType::kF32)), "y");
  const SegmentFacts facts = facts_of(b.build());
  int iotas = 0;
  for (const ValueId value : facts.fusion.value_ids()) {
    if (facts.fusion.def_as<IotaOp>(value) == nullptr) continue;
    ++iotas;
    EXPECT_THAT(facts.space.iota_weights[value], ElementsAre(0, 1));
    EXPECT_EQ(facts.space.dependence[value], (Dependence{false, true}));
  }
  EXPECT_EQ(iotas, 1);
}

TEST(IterationSpaceTest, TakeAlongTheColumnsHasTheirWeights) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("cross_entropy")->build(), {{"rows", 6}, {"cols", 10}});
  int takes = 0;
  for (const ValueId value : facts.fusion.value_ids()) {
    if (facts.fusion.def_as<TakeOp>(value) == nullptr) continue;
    ++takes;
    EXPECT_THAT(facts.space.take_weights[value], ElementsAre(0, 1));
    EXPECT_EQ(facts.space.dependence[value], (Dependence{true, false}));
  }
  EXPECT_EQ(takes, 1);
}

TEST(IterationSpaceTest, ReductionsMayRemoveRowsAndColumns) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 10}, "x");
  const ValueId columns = b.sum(x, {0});
  const ValueId rows = b.sum(x, {1});
  const ValueId scaled = b.mul(columns, columns);
  b.output(scaled, "columns");
  b.output(rows, "rows");
  const Fusion fusion = b.build();
  const auto space = iteration_space(fusion);
  ASSERT_TRUE(space) << text_of(space.error());
  EXPECT_EQ(space->rows, 6);
  EXPECT_EQ(space->columns, 10);
  EXPECT_EQ(space->dependence[columns], (Dependence{.rows = false, .columns = true}));
  EXPECT_EQ(space->dependence[rows], (Dependence{.rows = true, .columns = false}));
  EXPECT_TRUE(space->after_rows[columns]);
  EXPECT_TRUE(space->after_rows[scaled]);
  EXPECT_FALSE(space->after_rows[rows]);
}

TEST(IterationSpaceTest, TotalsAreOuterReductionsBesideOthers) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 10}, "x");
  const ValueId w = b.input(DType::kF32, {6}, "w");
  const ValueId columns = b.sum(x, {0});
  const ValueId everything = b.sum(x, {0, 1});
  const ValueId weights = b.sum(w, {0});
  b.output(columns, "columns");
  b.output(everything, "everything");
  b.output(weights, "weights");
  const auto space = iteration_space(b.build());
  ASSERT_TRUE(space) << text_of(space.error());
  EXPECT_EQ(space->rows, 6);
  EXPECT_EQ(space->columns, 10);
  EXPECT_EQ(space->outer[columns], OuterReduction::kColumns);
  EXPECT_EQ(space->outer[everything], OuterReduction::kElements);
  EXPECT_EQ(space->outer[weights], OuterReduction::kRowValues);
  EXPECT_EQ(space->dependence[everything], (Dependence{}));
  EXPECT_TRUE(space->after_rows[everything]);
}

TEST(IterationSpaceTest, ATotalAloneIsOneRow) {
  FusionBuilder b;
  b.output(b.sum(b.input(DType::kF32, {6, 10}, "x"), {0, 1}), "everything");
  const auto space = iteration_space(b.build());
  ASSERT_TRUE(space) << text_of(space.error());
  EXPECT_EQ(space->rows, 1);
  EXPECT_EQ(space->columns, 60);
}

TEST(IterationSpaceTest, ReductionsOfTheOuterAxisAloneMakeItTheRows) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 4, 10}, "x");
  b.output(b.sum(x, {0}), "sums");
  const auto space = iteration_space(b.build());
  ASSERT_TRUE(space) << text_of(space.error());
  EXPECT_EQ(space->rows, 6);
  EXPECT_EQ(space->columns, 40);
}

TEST(IterationSpaceTest, RejectsReductionsOverPartsOfTheRows) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 6, 10}, "x");
  b.output(b.sum(x, {0}), "first");
  b.output(b.sum(x, {1}), "second");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("neither all rows nor all columns"));
}

TEST(IterationSpaceTest, RejectsRowsThatNeedTheResultOfAllRows) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 10}, "x");
  b.output(b.sub(x, b.broadcast(b.sum(x, {0}), {6, 10}, {1})), "centred");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("needs the result of a reduction over all rows"));
}

TEST(IterationSpaceTest, RejectsReshapesThatDoNotDivide) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 6}, "x");
  b.output(b.neg(b.reshape(x, {3, 8})), "y");
  b.output(b.neg(x), "z");
  EXPECT_EQ(rejection_of(b.build()),
            "iteration space: a reshape regroups axes whose sizes do not divide each other (%v1). "
            "Remedy: split and merge whole axes, or end the fusion before the reshape");
}

TEST(IterationSpaceTest, RejectsSlicesOfComputedValues) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  b.output(b.slice(b.exp(x), {0, 0}, {-1, 4}), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("a slice takes part of a computed value"));
}

TEST(IterationSpaceTest, GathersOfWhatIsReadWalkAnyAxis) {
  FusionBuilder b;
  const ValueId table = b.input(DType::kF32, {50, 8}, "table");
  const ValueId index = b.input(DType::kI32, {8}, "index");
  const ValueId y = b.take(table, index, 0);
  b.output(y, "y");
  const IterationSpace space = space_of(b.build());
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{8, false}));
  const Gather& gather = space.gathers.at(y);
  EXPECT_EQ(gather.access.value, table);
  EXPECT_THAT(gather.access.strides, ElementsAre(1));
  EXPECT_EQ(gather.stride, 8);
  EXPECT_EQ(gather.size, 50);
}

TEST(IterationSpaceTest, GathersBesideReductionsPickFromTheColumns) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {50, 8}, "x");
  const ValueId index = b.input(DType::kI32, {8}, "index");
  b.output(b.add(b.take(x, index, 0), b.sum(x, {0})), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("another axis than that of the columns"));
}

/// A thread of what finishes outer reductions has its own columns, not the one that is picked.
TEST(IterationSpaceTest, RejectsGathersFromWhatAllRowsGive) {
  const auto rejection = [](const std::function<ValueId(FusionBuilder&, ValueId)>& follow) {
    FusionBuilder b;
    const ValueId sums = b.sum(b.input(DType::kF32, {65, 8}, "x"), {0});
    b.output(b.take(follow(b, sums), b.input(DType::kI64, {}, "index"), 0), "y");
    return rejection_of(b.build());
  };
  constexpr const char* kRule = "a take needs the result of a reduction over all rows";
  EXPECT_THAT(rejection([](auto&, ValueId sums) { return sums; }), HasSubstr(kRule));
  EXPECT_THAT(rejection([](auto& b, ValueId sums) { return b.exp(b.neg(sums)); }),
              HasSubstr(kRule));
}

TEST(IterationSpaceTest, RejectsGathersAlongColumnsInAnotherOrder) {
  FusionBuilder b;
  // The columns are walked as they lie in memory, [3][2]; the index counts [2][3].
  const ValueId x = b.input(DType::kF32, {4, 3, 2}, "x");
  const ValueId turned = b.reshape(b.permute(x, {0, 2, 1}), {4, 6});
  const ValueId picked = b.take(turned, b.input(DType::kI32, {4}, "index"), 1);
  b.output(b.add(picked, b.sum(turned, {1})), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("another axis than that of the columns"));
}

TEST(IterationSpaceTest, RejectsIndicesThatSplitAnAxisOtherwise) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 3, 8}, "x");
  const ValueId index = b.input(DType::kI32, {3, 2}, "index");
  const ValueId rows = b.reshape(x, {6, 8});
  const ValueId picked = b.take(rows, b.reshape(index, {6}), 1);
  b.output(b.add(b.sum(rows, {1}), picked), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("index splits an axis"));
}

TEST(IterationSpaceTest, RejectsAValueThatMeetsItsTranspose) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {8, 8}, "x");
  b.output(b.add(x, b.permute(x, {1, 0})), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("two axes would have to be walked as one"));

  // The same through a reduction: row sums that meet the columns.
  FusionBuilder c;
  const ValueId z = c.input(DType::kF32, {8, 8}, "z");
  c.output(c.add(z, c.broadcast(c.sum(z, {1}), {8, 8}, {1})), "y");
  EXPECT_THAT(rejection_of(c.build()), HasSubstr("two axes would have to be walked as one"));
}

TEST(IterationSpaceTest, RejectsLoopsTooLongToCount) {
  FusionBuilder b;
  b.output(b.neg(b.input(DType::kBF16, {int64_t{1} << 30, int64_t{1} << 29}, "x")), "y");
  EXPECT_THAT(rejection_of(b.build()), HasSubstr("more elements than a device could hold"));
}

TEST(IterationSpaceTest, AMatrixMayMeetAnotherTransposed) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {8, 8}, "x");
  const ValueId y = b.input(DType::kF32, {8, 8}, "y");
  b.output(b.add(x, b.permute(y, {1, 0})), "z");
  const IterationSpace space = space_of(b.build());
  EXPECT_THAT(space.dimensions, ElementsAre(Dimension{8, false}, Dimension{8, false}));
  EXPECT_THAT(space.inputs[0].strides, ElementsAre(8, 1));
  EXPECT_THAT(space.inputs[1].strides, ElementsAre(1, 8));
}

/// Every element of every output is stored: the space covers it.
TEST(IterationSpaceTest, EveryCannedOutputIsCovered) {
  int walked = 0;
  for (const CannedFusion& canned : canned_fusions()) {
    SCOPED_TRACE(canned.name);
    const Fusion fusion = canned.build();
    const Fusion bound = simplify(specialize(fusion, *bind_extents(fusion, canned.small)));
    const auto facts = analyse(bound);
    if (!facts) continue;
    ++walked;
    for (size_t i = 0; i < bound.outputs.size(); ++i) {
      const TensorAccess& access = facts->space.outputs[i];
      int64_t covered = 1;
      for (size_t d = 0; d < access.strides.size(); ++d) {
        if (access.strides[d] != 0) covered *= facts->space.dimensions[d].size;
      }
      EXPECT_EQ(covered, element_count(bound.values[bound.outputs[i]].shape));
    }
  }
  EXPECT_GT(walked, 30);
}

}  // namespace sinter::iteration_space_test
