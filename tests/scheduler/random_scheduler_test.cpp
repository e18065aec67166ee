#include "scheduler/families/random_scheduler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/schedule_verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::random_scheduler_test {

constexpr uint64_t kSeeds = 300;

std::vector<Schedule> draws(const SegmentFacts& facts, std::string_view family,
                            const DeviceLimits& limits = *find_device("H200")) {
  std::vector<Schedule> out;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto drawn = random_schedule(facts, limits, scheduling_families(), seed, family);
    if (drawn) out.push_back(drawn->schedule);
  }
  return out;
}

/// Values a field takes over many draws. `member` is a member or a function of Schedule.
template <class Member>
std::set<int64_t> seen(const std::vector<Schedule>& schedules, Member member) {
  std::set<int64_t> values;
  for (const Schedule& schedule : schedules) values.insert(std::invoke(member, schedule));
  return values;
}

TEST(RandomSchedulerTest, EveryDrawIsLegalAndEstimated) {
  const DeviceLimits limits = *find_device("H200");
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = canned.build();
    const auto facts = analyse(simplify(specialize(fusion, *bind_extents(fusion, canned.small))));
    if (!facts) continue;
    const FamilySet families = scheduling_families();
    const bool plannable = std::ranges::any_of(families, [&](const Family& family) {
      return is_for(family, *facts) && !family.propose(*facts, limits).candidates.empty();
    });
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const auto drawn = random_schedule(*facts, limits, families, seed);
      // Tiles of more rows than a product has are drawn, and not offered.
      const bool has_wasteful = facts->space.contraction && facts->has_reduction();
      ASSERT_TRUE(drawn.has_value() == plannable || has_wasteful) << canned.name;
      if (!drawn) continue;
      EXPECT_TRUE(verify_schedule(*facts, drawn->schedule, limits, families).empty());
      const Family& family = *find_family(families, drawn->schedule.family);
      EXPECT_EQ(*family.estimate(*facts, drawn->schedule, limits), drawn->estimate);
    }
  }
}

TEST(RandomSchedulerTest, DependsOnItsArgumentsAlone) {
  const SegmentFacts facts = canned_facts("softmax_backward", 8, 1000);
  const auto first = draws(facts, "multi_wave");
  EXPECT_EQ(first, draws(facts, "multi_wave"));
  EXPECT_EQ(first.size(), kSeeds);
  const std::set<uint64_t> different = [&] {
    std::set<uint64_t> hashes;
    for (const Schedule& schedule : first) hashes.insert(hash_of(schedule));
    return hashes;
  }();
  EXPECT_GT(different.size(), kSeeds * 9 / 10);
}

TEST(RandomSchedulerTest, DrawsTheWholeSpaceOfResidentRows) {
  const auto schedules = draws(canned_facts("softmax_backward", 8, 1000), "multi_wave");
  EXPECT_EQ(seen(schedules, &Schedule::threads_per_row),
            (std::set<int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_EQ(seen(schedules, &Schedule::vector_width), (std::set<int64_t>{1, 2, 4, 8, 16}));
  EXPECT_GT(seen(schedules, &Schedule::rows_per_block).size(), 20U);
  EXPECT_GT(seen(schedules, &Schedule::unroll).size(), 10U);
  EXPECT_GT(seen(schedules, &Schedule::min_blocks_per_sm).size(), 8U);
  std::set<RowAccess> accesses;
  std::set<Residency> residencies;
  std::set<std::set<Residency>> mixes;
  std::set<std::vector<ValueId>> kept;
  for (const Schedule& schedule : schedules) {
    accesses.insert(schedule.row_access);
    std::set<Residency> mix;
    std::vector<ValueId> values;
    for (const KeptValue& value : schedule.kept) {
      mix.insert(value.residency);
      values.push_back(value.value);
    }
    residencies.insert(mix.begin(), mix.end());
    mixes.insert(mix);
    kept.insert(values);
  }
  EXPECT_EQ(accesses.size(), 3U);
  EXPECT_EQ(residencies.size(), 3U);
  EXPECT_GE(mixes.size(), 5U) << "values of one schedule live in different places";
  EXPECT_GE(kept.size(), 4U) << "not only the minimum cut";
}

TEST(RandomSchedulerTest, DrawsClustersWhereTheDeviceHasThem) {
  for (const char* family : {"multi_wave", "warp_specialised"}) {
    const SegmentFacts facts = canned_facts("layer_norm_backward", 8, 1024);
    EXPECT_EQ(seen(draws(facts, family), &Schedule::cluster_size),
              (std::set<int64_t>{1, 2, 4, 8, 16}))
        << family;
  }
  const SegmentFacts facts = canned_facts("layer_norm_backward", 8, 1024);
  EXPECT_EQ(seen(draws(facts, "multi_wave", *find_device("A100")), &Schedule::cluster_size),
            (std::set<int64_t>{1}));
}

TEST(RandomSchedulerTest, DrawsRowsAheadWhereBlocksWalkThem) {
  for (const char* fusion : {"layer_norm_backward", "softmax"}) {
    const auto schedules = draws(canned_facts(fusion, 8, 1024), "multi_wave");
    EXPECT_EQ(seen(schedules, &Schedule::prefetch_rows), (std::set<int64_t>{0, 1})) << fusion;
  }
  EXPECT_EQ(seen(draws(canned_facts("softmax", 8, 1024), "looped"), &Schedule::prefetch_rows),
            (std::set<int64_t>{0}));
}

TEST(RandomSchedulerTest, DrawsAccumulatorsInSharedMemoryWhereColumnsAccumulate) {
  const auto in_shared = [](const std::vector<Schedule>& schedules) {
    return std::ranges::count(schedules, Residency::kShared, &Schedule::accumulators);
  };
  for (const char* family : {"multi_wave", "warp_specialised"}) {
    const auto drawn = draws(canned_facts("layer_norm_backward", 8, 1024), family);
    EXPECT_GT(in_shared(drawn), 0) << family;
    EXPECT_LT(in_shared(drawn), std::ssize(drawn)) << family;
  }
  EXPECT_EQ(in_shared(draws(canned_facts("softmax", 8, 1024), "multi_wave")), 0);
  EXPECT_EQ(in_shared(draws(canned_facts("bias_gradient", 8, 1024), "column")), 0);
}

TEST(RandomSchedulerTest, DrawsLastBlocksWherePartialResultsAreLeft) {
  const auto finishes = [](const std::vector<Schedule>& schedules) {
    std::set<Finish> out;
    for (const Schedule& schedule : schedules) out.insert(schedule.finish);
    return out;
  };
  const std::set<Finish> both = {Finish::kKernel, Finish::kLastBlock};
  const SegmentFacts gradient = canned_facts("layer_norm_backward", 8, 1024);
  EXPECT_EQ(finishes(draws(gradient, "multi_wave")), both);
  EXPECT_EQ(finishes(draws(gradient, "warp_specialised")), both);
  EXPECT_EQ(finishes(draws(canned_facts("bias_gradient", 64, 1024), "column")), both);
  EXPECT_EQ(finishes(draws(canned_facts("softmax", 8, 1024), "multi_wave")),
            (std::set<Finish>{Finish::kKernel}));
}

TEST(RandomSchedulerTest, DrawsTilesWhereLoopedBlocksAccumulate) {
  const auto schedules = draws(canned_facts("layer_norm_backward", 8, 1024), "looped");
  EXPECT_EQ(schedules.size(), kSeeds);
  EXPECT_EQ(seen(schedules, &Schedule::rows_per_tile), (std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(seen(schedules, &Schedule::prefetch_rows), (std::set<int64_t>{0, 1}));
  EXPECT_GT(seen(schedules, &Schedule::cluster_size).size(), 3U);
  EXPECT_EQ(seen(draws(canned_facts("layer_norm", 8, 1024), "looped"), &Schedule::rows_per_tile),
            (std::set<int64_t>{0}));
}

TEST(RandomSchedulerTest, DrawsLoopedAndPointwiseSchedules) {
  const auto looped = draws(canned_facts("layer_norm", 8, 1000), "looped");
  EXPECT_EQ(looped.size(), kSeeds);
  EXPECT_EQ(seen(looped, &Schedule::threads_per_row).size(), 11U);
  const auto pointwise = draws(canned_facts("swiglu", 8, 1000), "pointwise");
  EXPECT_EQ(pointwise.size(), kSeeds);
  EXPECT_EQ(seen(pointwise, &Schedule::rows_per_block), (std::set<int64_t>{1}));
  EXPECT_EQ(seen(pointwise, &Schedule::unroll), (std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(RandomSchedulerTest, DrawsTilesOfWarpsAndOfWarpGroups) {
  // Canned contractions have rows of 24 elements, whole accesses of tensor maps.
  const SegmentFacts facts = canned_facts("linear", 500, 1000);
  const auto schedules = draws(facts, "matmul");
  EXPECT_EQ(schedules.size(), kSeeds);
  const auto of_groups = [](const Schedule& schedule) { return schedule.consumer_registers() > 0; };
  const auto groups = std::ranges::count_if(schedules, of_groups);
  EXPECT_GT(groups, std::ssize(schedules) / 4);
  EXPECT_LT(groups, std::ssize(schedules) * 3 / 4);
  std::vector<Schedule> drawn;
  std::ranges::copy_if(schedules, std::back_inserter(drawn), of_groups);
  EXPECT_EQ(seen(drawn, &Schedule::tile_rows), (std::set<int64_t>{64, 128, 256}));
  EXPECT_EQ(seen(drawn, &Schedule::tile_columns), (std::set<int64_t>{32, 64, 96, 128, 192, 256}));
  EXPECT_EQ(seen(drawn, &Schedule::threads_per_row), (std::set<int64_t>{128, 256}));
  EXPECT_EQ(seen(drawn, &Schedule::pipeline_stages), (std::set<int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(seen(drawn, &Schedule::rows_per_block), (std::set<int64_t>{1, 2}));
  EXPECT_EQ(seen(drawn, &Schedule::cluster_size), (std::set<int64_t>{1}));
  EXPECT_GT(seen(drawn, &Schedule::persistent_blocks).size(), 10U);
  for (const Schedule& schedule : draws(facts, "matmul", *find_device("A100")))
    EXPECT_EQ(schedule.consumer_registers(), 0);
}

TEST(RandomSchedulerTest, DrawsClustersOfProductsWhoseRowsAreReduced) {
  const auto clusters = [](int64_t columns, std::string_view device = "H200") {
    return seen(
        draws(canned_facts("linear_rms_norm", 500, columns), "matmul", *find_device(device)),
        &Schedule::cluster_size);
  };
  EXPECT_EQ(clusters(256), (std::set<int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(clusters(1024), (std::set<int64_t>{4, 8, 16}));
  EXPECT_EQ(clusters(4096), (std::set<int64_t>{16}));
  EXPECT_EQ(clusters(256, "A100"), (std::set<int64_t>{1}));
  EXPECT_EQ(random_schedule(canned_facts("linear_rms_norm", 500, 1024), *find_device("A100"),
                            scheduling_families(), 1),
            std::nullopt);
}

TEST(RandomSchedulerTest, FindsTheFewLegalSchedulesOfWideRows) {
  // Two full inputs of 64 KiB a row on a device with 99 KiB of shared memory: registers, or
  // nothing.
  const auto schedules =
      draws(canned_facts("softmax_backward", 8, 32768), "multi_wave", *find_device("L4"));
  EXPECT_EQ(schedules.size(), kSeeds);
}

TEST(RandomSchedulerTest, AnswersNothingWhereNothingIsLegal) {
  const SegmentFacts facts = canned_facts("swiglu", 8, 64);
  const DeviceLimits limits = *find_device("H200");
  EXPECT_EQ(random_schedule(facts, limits, scheduling_families(), 1, "multi_wave"), std::nullopt);
  EXPECT_EQ(random_schedule(facts, limits, scheduling_families(), 1, "no_such"), std::nullopt);
  EXPECT_EQ(random_schedule(facts, limits, {}, 1), std::nullopt);
}

}  // namespace sinter::random_scheduler_test
