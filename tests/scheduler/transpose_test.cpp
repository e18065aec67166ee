// Tiles of two dimensions: which segments take them, what passes through shared memory, and how
// their threads walk them.

#include "scheduler/families/transpose.h"

#include <gmock/gmock.h>

#include <set>

#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/tile_space.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/plan_matchers.h"

namespace sinter::transpose_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DeviceLimits h200() { return *find_device("H200"); }

/// 64 x 64 elements, a vector of 4 for each thread and line.
Schedule tile_of_64() {
  return {.family = std::string(kTranspose),
          .threads_per_row = 16,
          .rows_per_block = 16,
          .vector_width = 4,
          .unroll = 4};
}

TEST(TileAxes, AreTheTwoThatTensorsAreFastestAlong) {
  EXPECT_EQ(tile_axes(canned_facts("transpose_2d", 64, 96)), (TileAxes{.along = 1, .across = 0}));
  EXPECT_EQ(tile_axes(canned_facts("copy", 64, 96)), std::nullopt);
  const SegmentFacts facts = facts_of(find_canned_fusion("permute_reversed")->build(),
                                      {{"batch", 3}, {"heads", 4}, {"rows", 5}, {"cols", 6}});
  EXPECT_EQ(tile_axes(facts), (TileAxes{.along = 3, .across = 0}));
}

TEST(TileAxes, LeaveMostBytesWhereTheyAre) {
  // f32 is read along the columns, bf16 stored along the rows: the latter passes through.
  const SegmentFacts facts = canned_facts("transpose_cast", 64, 96);
  const TileAxes axes = *tile_axes(facts);
  const std::vector<StagedTensor> staged = staged_tensors(facts, axes, tile_of_64());
  ASSERT_EQ(staged.size(), 1U);
  EXPECT_TRUE(staged.front().is_output);
}

TEST(TileAxes, OneVectorAlongAnotherDimensionIsNoReason) {
  // A vector over the rows is fastest along them, and no tile makes it faster.
  EXPECT_EQ(tile_axes(canned_facts("bias_gelu", 64, 96)), std::nullopt);
}

TEST(WalkedAlong, KeepsWhatVaries) {
  const SegmentFacts facts = canned_facts("transpose_cast", 64, 96);
  const TileAxes axes = *tile_axes(facts);
  const SegmentFacts along = walked_along(facts, axes.along);
  EXPECT_EQ(along.space.row_dimensions, 1U);
  EXPECT_EQ(along.space.columns, facts.space.dimensions[axes.along].size);
  const ValueId bias = named_value(along.fusion, "bias");
  const auto read = std::ranges::find(along.space.inputs, bias, &TensorAccess::tensor);
  ASSERT_NE(read, along.space.inputs.end());
  EXPECT_EQ(along.space.dependence[read->value], (Dependence{.rows = false, .columns = true}));
  EXPECT_EQ(walked_along(along, along.space.dimensions.size() - 1).space, along.space);
}

/// Elements of a tile that a walk reaches, once each.
std::multiset<std::pair<int64_t, int64_t>> reached(const TileWalk& walk) {
  std::multiset<std::pair<int64_t, int64_t>> out;
  for (int64_t thread = 0; thread < walk.threads; ++thread) {
    for (int64_t turn = 0; turn < walk.vectors_per_thread(); ++turn) {
      const int64_t vector = thread + turn * walk.threads;
      const int64_t lane = vector % walk.lanes;
      const int64_t line = vector / walk.lanes % walk.slow;
      const int64_t chunk = vector / (walk.lanes * walk.slow);
      out.emplace(line, (chunk * walk.lanes + lane) * walk.width);
    }
  }
  return out;
}

TEST(TileWalk, ReachesEveryVectorOnce) {
  const SegmentFacts facts = canned_facts("transpose_2d", 256, 256);
  const TileAxes axes = *tile_axes(facts);
  for (const int64_t across : {2, 4, 16, 32}) {
    for (const int64_t width : {1, 4, 8}) {
      Schedule schedule = tile_of_64();
      schedule.rows_per_block = across;
      schedule.vector_width = width;
      const TileShape shape = tile_shape(schedule);
      std::vector<TileWalk> walks = {walk_along(schedule, 2)};
      for (const StagedTensor& staged : staged_tensors(facts, axes, schedule))
        walks.push_back(staged.walk);
      for (const TileWalk& walk : walks) {
        const auto found = reached(walk);
        EXPECT_EQ(std::ssize(found), shape.along * shape.across / walk.width);
        EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
      }
    }
  }
}

/// Most words of one bank that a warp touches, of those with the same element of their vectors.
int64_t wavefronts_of_bank(const StagedTensor& staged, const TileWalk& walk, bool vectors_are_lines,
                           int64_t bytes) {
  std::map<int64_t, std::set<int64_t>> words;
  for (int64_t thread = 0; thread < 32; ++thread) {
    const int64_t fast = thread % walk.lanes * walk.width;
    const int64_t slow = thread / walk.lanes;
    const int64_t element =
        vectors_are_lines ? slow * staged.pitch + fast : fast * staged.pitch + slow;
    for (int64_t byte = element * bytes; byte < (element + 1) * bytes; byte += 4)
      words[byte / 4 % 32].insert(byte / 4);
  }
  size_t most = 0;
  for (const auto& [bank, different] : words) most = std::max(most, different.size());
  return static_cast<int64_t>(most);
}

TEST(StagedTensor, HasNoConflictsInEitherOrder) {
  for (const auto& [name, bytes] : {std::pair("transpose_2d", 2), {"add_transposed", 4}}) {
    const SegmentFacts facts = canned_facts(name, 256, 256);
    const TileAxes axes = *tile_axes(facts);
    for (const int64_t width : {1, 2, 4, 8}) {
      Schedule schedule = tile_of_64();
      schedule.vector_width = width;
      schedule.threads_per_row = 128 / width;
      schedule.rows_per_block = 2 * width;
      schedule.unroll = 32 / width;
      for (const StagedTensor& staged : staged_tensors(facts, axes, schedule)) {
        const int64_t element = bytes_of(facts.fusion.values[staged.value].type);
        EXPECT_EQ(wavefronts_of_bank(staged, walk_along(schedule, element), true, element), 1)
            << name << " " << width;
        EXPECT_EQ(wavefronts_of_bank(staged, staged.walk, false, element), 1)
            << name << " " << width;
      }
    }
  }
}

TEST(Transpose, IsPlannedWhereOrdersMeet) {
  for (const char* name : {"transpose_2d", "transpose_cast", "add_transposed"}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{8192, 8192}, {4096, 1024}, {8191, 4097}}) {
      EXPECT_THAT(plan_canned(name, matrix(rows, columns), "H200"), PlansAs("transpose", NoSpill()))
          << name << " " << rows << " x " << columns;
    }
  }
  EXPECT_THAT(plan_canned("copy", matrix(8192, 8192), "H200"),
              AllOf(PlansAs("pointwise"), RejectedBy("transpose", HasSubstr("fastest along one"))));
  EXPECT_THAT(plan_canned("rms_norm", matrix(64, 1024), "H200"),
              RejectedBy("transpose", HasSubstr("reduces")));
}

TEST(Transpose, WithoutElementsIsPointwise) {
  EXPECT_THAT(plan_canned("transpose_2d", matrix(0, 64), "H200"), PlansAs("pointwise"));
}

TEST(Transpose, TilesStayWithinShortDimensions) {
  const auto planned = plan_canned("transpose_2d", matrix(4, 100000), "H200",
                                   {.pin = {.family = std::string(kTranspose)}});
  ASSERT_TRUE(planned);
  const TileShape shape = tile_shape(planned->kernels.front().chosen().schedule);
  EXPECT_EQ(shape.along, 8);  // The fewest that there are.
}

TEST(Transpose, RefusesWithTheNumber) {
  const SegmentFacts facts = canned_facts("transpose_2d", 256, 256);
  const auto reasons = [&](const Schedule& schedule) {
    return reasons_against(schedule, facts, h200());
  };
  EXPECT_THAT(reasons(tile_of_64()), IsEmpty());
  const auto with = [](auto Schedule::*member, auto value) {
    Schedule schedule = tile_of_64();
    schedule.*member = value;
    return schedule;
  };
  EXPECT_THAT(reasons(with(&Schedule::threads_per_row, int64_t{24})), Contains(HasSubstr("24")));
  EXPECT_THAT(reasons(with(&Schedule::rows_per_block, int64_t{1})),
              Contains(HasSubstr("whole warps")));
  EXPECT_THAT(reasons(with(&Schedule::unroll, int64_t{3})), Contains(HasSubstr("value 3")));
  EXPECT_THAT(reasons(with(&Schedule::unroll, int64_t{32})), Contains(HasSubstr("value 32")));
  EXPECT_THAT(reasons(with(&Schedule::persistent_blocks, int64_t{8})),
              Contains(HasSubstr("do not stay")));
  EXPECT_THAT(reasons(with(&Schedule::row_access, RowAccess::kUnaligned)),
              Contains(HasSubstr("vector boundaries")));
  EXPECT_THAT(reasons(with(&Schedule::min_blocks_per_sm, int64_t{9})),
              Contains(HasSubstr("value 9, limit 8")));
}

}  // namespace sinter::transpose_test
