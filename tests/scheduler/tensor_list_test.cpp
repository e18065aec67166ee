// Lists of tensors: what is one, what is none, what its kernels need (tensor_list.h,
// families/multi_tensor.h).

#include "scheduler/analysis/tensor_list.h"
#include "scheduler/analysis/cuda_units.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/training_composites.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/families/multi_tensor.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"
#include "tests/support/training_layers.h"

namespace sinter::tensor_list_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Fusion simplified(const Fusion& fusion) {
  return simplify(specialize(fusion, bind_extents(fusion, {}).value()));
}

std::vector<Sizes> shapes_of(std::initializer_list<int64_t> lengths) {
  std::vector<Sizes> out;
  for (const int64_t length : lengths) out.push_back({length});
  return out;
}

Fusion adam_of(std::initializer_list<int64_t> lengths) {
  return simplified(adam_over(shapes_of(lengths)));
}

/// Two members that `make` gives: y = x + scale for both, unless it does something else.
Fusion pair_of(const std::function<void(FusionBuilder&, ValueId scale)>& make) {
  FusionBuilder b("pair");
  const ValueId scale = b.input(DType::kF32, {}, "scale");
  make(b, scale);
  return simplified(b.build());
}

void add_scaled(FusionBuilder& b, ValueId scale, const Shape& shape, std::string_view name) {
  const ValueId x = b.input(DType::kF32, shape, fmt::format("x{}", name));
  b.output(b.mul(x, scale), fmt::format("y{}", name));
}

std::string why_none(const Fusion& fusion) {
  const auto facts = analyse_list(fusion);
  return facts ? "it is a list" : text_of(facts.error());
}

TEST(TensorList, HasAMemberForEachTensor) {
  const Fusion fusion = adam_of({1000, 7, 64});
  const auto facts = analyse_list(fusion);
  ASSERT_TRUE(facts) << text_of(facts.error());
  ASSERT_TRUE(facts->list);
  const TensorList& list = *facts->list;
  ASSERT_EQ(list.members.size(), 3U);
  EXPECT_EQ(list.members[0].elements, 1000);
  EXPECT_EQ(list.members[1].elements, 7);
  EXPECT_EQ(list.members[2].elements, 64);
  EXPECT_EQ(list.elements(), 1071);
  // p, g, m, v and three outputs; learning rate and two corrections.
  EXPECT_EQ(list.slots.size(), 7U);
  EXPECT_EQ(list.shared.size(), 3U);
  EXPECT_EQ(list.member.space.columns, 1000);
  const auto slot_names = [&](const ListMember& member) {
    std::vector<std::string> out;
    for (const ValueId value : member.tensors) out.push_back(fusion.values[value].name);
    std::ranges::sort(out);
    return out;
  };
  EXPECT_THAT(slot_names(list.members[1]),
              ElementsAre("g1", "m1", "next_m1", "next_p1", "next_v1", "p1", "v1"));
  // bf16 p and g, f32 m and v are read; p, m and v written.
  EXPECT_EQ(facts->bytes_read, 1071 * 12 + 12);
  EXPECT_EQ(facts->bytes_written, 1071 * 10);
}

TEST(TensorList, CountsBlocksOfEachMember) {
  const auto facts = analyse_list(adam_of({1000, 0, 1024, 1}));
  ASSERT_TRUE(facts) << text_of(facts.error());
  EXPECT_EQ(facts->list->blocks(512), 2 + 0 + 2 + 1);
  EXPECT_FALSE(facts->list->divides(8));
  EXPECT_TRUE(analyse_list(adam_of({1000, 0, 1024}))->list->divides(8));
}

TEST(TensorList, KnowsTensorsOfOneElementFromScalars) {
  const auto facts = analyse_list(adam_of({1, 5, 1}));
  ASSERT_TRUE(facts) << text_of(facts.error());
  EXPECT_THAT(facts->list->members, SizeIs(3));
}

TEST(TensorList, TakesScalarsOfOneAxis) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId) {
    const ValueId rate = b.input(DType::kF32, {1}, "rate");
    for (const int64_t length : {3, 8, 1}) {
      const ValueId x = b.input(DType::kF32, {length}, fmt::format("x{}", length));
      b.output(b.mul(x, length == 1 ? rate : b.broadcast(rate, {length}, {0})),
               fmt::format("y{}", length));
    }
  });
  const auto facts = analyse_list(fusion);
  ASSERT_TRUE(facts) << text_of(facts.error());
  EXPECT_THAT(facts->list->members, SizeIs(3));
  EXPECT_THAT(facts->list->shared, SizeIs(1));
}

TEST(TensorList, HasSlotsForScalarsOfMembers) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId) {
    for (const int64_t length : {3, 8}) {
      const ValueId own = b.input(DType::kF32, {}, fmt::format("own{}", length));
      add_scaled(b, own, {length}, fmt::format("{}", length));
    }
  });
  const auto facts = analyse_list(fusion);
  ASSERT_TRUE(facts) << text_of(facts.error());
  EXPECT_THAT(facts->list->shared, IsEmpty());
  EXPECT_THAT(facts->list->slots, SizeIs(3));
}

TEST(TensorList, WalksDenseTensorsOfAnyRank) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId scale) {
    add_scaled(b, scale, {4, 6}, "a");
    const ValueId x = b.input(DType::kF32, {2, 3, 5}, "x");
    b.output(b.mul(b.reshape(x, {6, 5}), scale), "y");
  });
  const auto facts = analyse_list(fusion);
  ASSERT_TRUE(facts) << text_of(facts.error());
  EXPECT_EQ(facts->list->members[1].elements, 30);
}

TEST(TensorList, IsNoneOfOneMember) {
  EXPECT_THAT(why_none(adam_of({9})), HasSubstr("a list has two members at least"));
}

TEST(TensorList, IsNoneWhereMembersDiffer) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {9}, "x");
                b.output(b.add(x, scale), "y");
              })),
              HasSubstr("members differ in more than their sizes"));
  // Types, constants and promised alignment are more than sizes too.
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {9}, "x", {.alignment = 4});
                b.output(b.mul(x, scale), "y");
              })),
              HasSubstr("members differ in more than their sizes"));
}

TEST(TensorList, IsNoneWhereMembersShareATensor) {
  // Both then are one part, whose outputs are two: it is alone.
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                const ValueId x = b.input(DType::kF32, {8}, "x");
                b.output(b.mul(x, scale), "a");
                b.output(b.mul(x, b.mul(x, scale)), "b");
              })),
              HasSubstr("a list has two members at least"));
}

TEST(TensorList, IsNoneOfStridedTensors) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {3, 4}, "x", {.strides = {8, 1}});
                b.output(b.mul(x, scale), "y");
              })),
              HasSubstr("a tensor is not dense"));
}

TEST(TensorList, IsNoneOfTensorsThatDeclareHowTheyLie) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {9}, "x");
                b.output(b.mul(x, scale), "y", {.strides = {2}});
              })),
              HasSubstr("declares how it lies in memory"));
  // What a call writes into an output is read where it lies.
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.external("f", {}, {{DType::kF32, {9}}})[0];
                b.output(b.mul(x, scale), "y");
                b.output(x, "x", {.alignment = 4});
              })),
              HasSubstr("declares how it lies in memory"));
}

TEST(TensorList, IsNoneOfOutputsThatAreInputs) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId) {
                b.output(b.reshape(b.input(DType::kF32, {4, 6}), {24}));
                b.output(b.reshape(b.input(DType::kF32, {8, 8}), {64}));
              })),
              HasSubstr("or an input"));
}

TEST(TensorList, IsNoneOfRowsAndTheirVectors) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {3, 4}, "x");
                const ValueId bias = b.input(DType::kF32, {4}, "bias");
                b.output(b.mul(x, bias), "y");
              })),
              HasSubstr("neither an input nor computed element by element"));
}

TEST(TensorList, IsNoneWhereSomethingReduces) {
  EXPECT_THAT(why_none(pair_of([](FusionBuilder& b, ValueId scale) {
                add_scaled(b, scale, {4}, "a");
                const ValueId x = b.input(DType::kF32, {9}, "x");
                const ValueId y = b.mul(x, scale);
                b.output(y, "y");
                b.output(b.reduce(ReduceFn::kSum, y, {0}), "sum");
              })),
              HasSubstr("something else reads what a member makes"));
}

TEST(FindLists, LeavesTheRestOfAGraph) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId scale) {
    add_scaled(b, scale, {4}, "a");
    add_scaled(b, scale, {9}, "b");
    const ValueId x = b.input(DType::kF32, {5}, "x");
    b.output(b.reduce(ReduceFn::kSum, x, {0}), "sum");
  });
  const std::vector<ListFound> lists = find_lists(fusion);
  ASSERT_THAT(lists, SizeIs(1));
  EXPECT_THAT(lists[0].members, SizeIs(2));
  EXPECT_EQ(lists[0].slots, 2);
  EXPECT_EQ(lists[0].shared, 1);
  EXPECT_EQ(lists[0].bytes_read, 13 * 4);
  EXPECT_EQ(lists[0].bytes_written, 13 * 4);
  EXPECT_EQ(lists[0].shared_bytes, 0);
}

TEST(FindLists, CountsWhatOthersReadToo) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId) {
    const ValueId x = b.input(DType::kF32, {5}, "x");
    const ValueId norm = b.reduce(ReduceFn::kSum, b.mul(x, x), {0});
    b.output(b.mul(x, norm), "y");
    add_scaled(b, norm, {9}, "b");
  });
  const std::vector<ListFound> lists = find_lists(fusion);
  ASSERT_THAT(lists, SizeIs(1));
  EXPECT_THAT(lists[0].members, SizeIs(2));
  EXPECT_THAT(lists[0].scalars, SizeIs(1));
}

TEST(FindLists, TellsKindsApart) {
  const Fusion fusion = pair_of([](FusionBuilder& b, ValueId scale) {
    for (const int64_t length : {3, 4, 5}) {
      const ValueId x = b.input(DType::kF32, {length}, fmt::format("x{}", length));
      b.output(b.mul(x, scale), fmt::format("y{}", length));
    }
    for (const int64_t length : {6, 7}) {
      const ValueId x = b.input(DType::kF32, {length}, fmt::format("x{}", length));
      b.output(b.add(x, scale), fmt::format("y{}", length));
    }
  });
  const std::vector<ListFound> lists = find_lists(fusion);
  ASSERT_THAT(lists, SizeIs(2));
  EXPECT_THAT(lists[0].members, SizeIs(3));
  EXPECT_THAT(lists[1].members, SizeIs(2));
}

// ---- What a kernel has room for

TEST(ListArguments, FillTheParametersOfAKernel) {
  // Adam: 464 members of 7 tensors, 8 bytes each, with their sizes, 512 first blocks, 3 scalars.
  EXPECT_EQ(most_list_members(7, 3), 464);
  EXPECT_EQ(list_argument_bytes(464, 7, 3), 464 * 64 + 512 * 4 + 4 * 8);
  EXPECT_LE(list_argument_bytes(464, 7, 3), kMostArgumentBytes);
  EXPECT_GT(list_argument_bytes(465, 7, 3), kMostArgumentBytes);
  EXPECT_EQ(kMostArgumentBytes, 32764);
  EXPECT_EQ(most_list_members(5000, 0), 0);
}

TEST(ListArguments, HavePlacesForListsOfAboutTheSameLength) {
  EXPECT_EQ(list_capacity(2), 16);
  EXPECT_EQ(list_capacity(16), 16);
  EXPECT_EQ(list_capacity(300), 304);
  EXPECT_EQ(list_search_places(304), 512);
  EXPECT_EQ(list_search_steps(16), 2);
  EXPECT_EQ(list_search_steps(64), 2);
  EXPECT_EQ(list_search_steps(80), 3);
  EXPECT_EQ(list_search_steps(464), 3);
}

TEST(MultiTensor, RefusesListsBeyondTheArguments) {
  const std::vector<Sizes> shapes(465, Sizes{3});
  const auto facts = analyse_list(simplified(adam_over(shapes)));
  ASSERT_TRUE(facts) << text_of(facts.error());
  const auto refusal = refuse_multi_tensor(*facts);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->value, static_cast<double>(list_argument_bytes(465, 7, 3)));
  EXPECT_EQ(refusal->limit, 32764.0);
  EXPECT_EQ(refusal->unit, "bytes");
}

// ---- Schedules

TEST(MultiTensor, OffersSchedulesThatAreLegal) {
  const auto facts = analyse_list(adam_of({100'000, 77, 4096}));
  ASSERT_TRUE(facts);
  const Proposal proposal = propose_multi_tensor(*facts, kLimits);
  ASSERT_FALSE(proposal.candidates.empty());
  for (const ProposedSchedule& candidate : proposal.candidates)
    EXPECT_THAT(reasons_against(candidate.schedule, *facts, kLimits), IsEmpty());
}

TEST(MultiTensor, AloneTakesLists) {
  const auto facts = analyse_list(adam_of({100'000, 77, 4096}));
  ASSERT_TRUE(facts);
  for (const Family& family : scheduling_families()) {
    const Proposal proposal = family.propose(*facts, kLimits);
    EXPECT_EQ(proposal.candidates.empty(), family.name != kMultiTensor) << family.name;
    EXPECT_EQ(family.refuses(*facts).has_value(), family.name != kMultiTensor) << family.name;
  }
  const SegmentFacts other = canned_facts("bias_gelu", 64, 64);
  EXPECT_THAT(propose_multi_tensor(other, kLimits).candidates, IsEmpty());
}

TEST(MultiTensor, PredictsItsBytesAndBlocks) {
  const auto facts = analyse_list(adam_of({1 << 20, 77, 1 << 22}));
  ASSERT_TRUE(facts);
  for (const ProposedSchedule& candidate : propose_multi_tensor(*facts, kLimits).candidates) {
    const Schedule& schedule = candidate.schedule;
    EXPECT_EQ(
        candidate.estimate.blocks,
        facts->list->blocks(schedule.threads_per_row * schedule.vector_width * schedule.unroll));
    EXPECT_GE(candidate.predicted.total_us, least_time(*facts, kLimits));
  }
}

TEST(MultiTensor, SearchesLongerListsLonger) {
  // As many elements, in lists of 16 and of 256 members: a step more, and no other change.
  const auto few = analyse_list(simplified(adam_over(std::vector<Sizes>(16, Sizes{65536}))));
  const auto many = analyse_list(simplified(adam_over(std::vector<Sizes>(256, Sizes{4096}))));
  ASSERT_TRUE(few && many);
  const Schedule schedule{.family = std::string(kMultiTensor),
                          .threads_per_row = 128,
                          .vector_width = 4,
                          .min_blocks_per_sm = 1};
  const auto latency = [&](const SegmentFacts& facts) {
    const auto estimate = estimate_multi_tensor(facts, schedule, kLimits);
    EXPECT_TRUE(estimate) << text_of(estimate.error());
    return predict_multi_tensor(facts, schedule, *estimate, kLimits).block_latency_us;
  };
  const CostConstants& constants = kConstants;
  EXPECT_GE(latency(*many) - latency(*few), constants.search_step_ns / 1000.0 * 0.999);
}

TEST(MultiTensor, RefusesWhatItsBlocksDoNot) {
  const auto facts = analyse_list(adam_of({100'000, 77, 4096}));
  ASSERT_TRUE(facts);
  const Schedule good = propose_multi_tensor(*facts, kLimits).candidates.front().schedule;
  const auto refusal_of = [&](const std::function<void(Schedule&)>& change) {
    Schedule bad = good;
    change(bad);
    const auto estimate = estimate_multi_tensor(*facts, bad, kLimits);
    return estimate ? "taken" : text_of(estimate.error());
  };
  EXPECT_THAT(refusal_of([](Schedule& s) { s.persistent_blocks = 4; }), HasSubstr("do not stay"));
  EXPECT_THAT(refusal_of([](Schedule& s) { s.rows_per_block = 2; }), HasSubstr("one row"));
  EXPECT_THAT(refusal_of([](Schedule& s) { s.unroll = 16; }), HasSubstr("too many vectors"));
  EXPECT_THAT(refusal_of([](Schedule& s) { s.vector_width = 3; }), HasSubstr("vector width"));
}

}  // namespace sinter::tensor_list_test
