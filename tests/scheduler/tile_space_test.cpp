// Tiles of two dimensions: which two tensors are fastest along, what passes through shared memory,
// and how the threads of a block walk a tile.

#include "scheduler/schedule/tile_space.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::tile_space_test {

/// 64 x 64 elements, a vector of 4 for each thread and line.
Schedule tile_of_64() {
  return {.family = std::string(kTranspose),
          .threads_per_row = 16,
          .rows_per_block = 16,
          .vector_width = 4,
          .unroll = 4};
}

TEST(TileAxesTest, AreTheTwoThatTensorsAreFastestAlong) {
  EXPECT_EQ(tile_axes(canned_facts("transpose_2d", 64, 96)), (TileAxes{.along = 1, .across = 0}));
  EXPECT_EQ(tile_axes(canned_facts("copy", 64, 96)), std::nullopt);
  const SegmentFacts facts = facts_of(find_canned_fusion("permute_reversed")->build(),
                                      {{"batch", 3}, {"heads", 4}, {"rows", 5}, {"cols", 6}});
  EXPECT_EQ(tile_axes(facts), (TileAxes{.along = 3, .across = 0}));
}

TEST(TileAxesTest, LeaveMostBytesWhereTheyAre) {
  // f32 is read along the columns, bf16 stored along the rows: the latter passes through.
  const SegmentFacts facts = canned_facts("transpose_cast", 64, 96);
  const TileAxes axes = *tile_axes(facts);
  const std::vector<StagedTensor> staged = staged_tensors(facts, axes, tile_of_64());
  ASSERT_EQ(staged.size(), 1U);
  EXPECT_TRUE(staged.front().is_output);
}

TEST(TileAxesTest, OneVectorAlongAnotherDimensionIsNoReason) {
  // A vector over the rows is fastest along them, and no tile makes it faster.
  EXPECT_EQ(tile_axes(canned_facts("bias_gelu", 64, 96)), std::nullopt);
}

TEST(WalkedAlongTest, KeepsWhatVaries) {
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

TEST(TileWalkTest, ReachesEveryVectorOnce) {
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

TEST(StagedTensorTest, HasNoConflictsInEitherOrder) {
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

/// x[70, 100] transposed: the loops are those of y[100, 70].
constexpr std::string_view kTransposed = R"(fusion @t {
  %v0 x : bf16[70, 100] = input
  %v1 y : bf16[100, 70] = permute %v0 order(1, 0)
  return %v1
})";

TEST(TileGridTest, TilesCoverShortEdgesAndOtherDimensions) {
  const SegmentFacts facts = facts_of(kTransposed);
  const TileGrid grid = tile_grid(facts, *tile_axes(facts), tile_of_64());
  EXPECT_EQ(grid.along, 2) << "70 of 64";
  EXPECT_EQ(grid.across, 2) << "100 of 64";
  EXPECT_EQ(grid.others, 1);
  EXPECT_EQ(grid.blocks(), 4);
  const SegmentFacts batches = facts_of(R"(fusion @t {
  %v0 x : bf16[3, 64, 65] = input
  %v1 y : bf16[3, 65, 64] = permute %v0 order(0, 2, 1)
  return %v1
})");
  EXPECT_EQ(tile_grid(batches, *tile_axes(batches), tile_of_64()).blocks(), 1 * 2 * 3);
}

/// A line of 64 elements is padded to whole banks of 128 bytes, and by one bank of 4 bytes more.
TEST(StagedTensorTest, LinesAreOneBankApart) {
  for (const auto& [type, pitch] :
       {std::pair<const char*, int64_t>{"bf16", 66}, {"f32", 65}, {"f64", 65}, {"i8", 132}}) {
    const SegmentFacts facts = facts_of(fmt::format(R"(fusion @t {{
  %v0 x : {0}[70, 128] = input
  %v1 y : {0}[128, 70] = permute %v0 order(1, 0)
  return %v1
}})",
                                                    type));
    const std::vector<StagedTensor> staged = staged_tensors(facts, *tile_axes(facts), tile_of_64());
    ASSERT_EQ(staged.size(), 1U) << type;
    EXPECT_FALSE(staged[0].is_output) << "elements are evaluated in the order of the output";
    EXPECT_EQ(staged[0].pitch, pitch) << type;
    EXPECT_EQ(staged[0].bytes, 64 * pitch * bytes_of(facts.fusion.values[staged[0].value].type));
  }
}

TEST(FastestDimensionTest, DimensionsOfOneElementAndRepetitionsAreNone) {
  const SegmentFacts facts = facts_of(kTransposed);
  const auto fastest = [&](std::vector<int64_t> strides) {
    TensorAccess access = facts.space.inputs.front();
    access.strides = std::move(strides);
    return fastest_dimension(facts.space, access);
  };
  EXPECT_EQ(fastest({1, 100}), 0U);
  EXPECT_EQ(fastest({100, 1}), 1U);
  EXPECT_EQ(fastest({0, 100}), 1U);
  EXPECT_EQ(fastest({0, 0}), std::nullopt) << "one element in all";
  EXPECT_EQ(fastest({7, 7}), 1U) << "of equals the later";
}

}  // namespace sinter::tile_space_test
