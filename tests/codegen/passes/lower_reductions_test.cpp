#include "codegen/passes/lower_reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "codegen/kernel/combine.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/passes/kernel_passes.h"
#include "tests/codegen/cluster_kernel.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::lower_reductions_test {

using kir::Combiner;
using kir::ExprId;
using kir::VarId;
using testing::HasSubstr;
using testing::Not;

int count_of(std::string_view text, std::string_view word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

struct Shape {
  int64_t block = 32, group = 32;
};

class LowerReductionsTest : public testing::TestWithParam<Shape> {};

/// Every thread brings one value; after the reduction it writes what it holds.
TEST_P(LowerReductionsTest, EveryThreadHoldsTheResultOfItsGroup) {
  const auto [block, group] = GetParam();
  KernelRun run(block);
  std::vector<float> x(static_cast<size_t>(2 * block));
  std::mt19937 random(7);
  // Small whole numbers: sums are exact in any order.
  for (float& value : x) value = static_cast<float>(std::uniform_int_distribution(-40, 40)(random));
  const kir::BufferId in = run.global("x", DType::kF32, x);
  const kir::BufferId sums = run.output("sums", DType::kF32, 2 * block);
  const kir::BufferId indices = run.output("indices", DType::kI64, 2 * block);
  const kir::BufferId flags = run.output("flags", DType::kBool, 2 * block);
  const VarId value = run.loaded("value", in, run.thread_of_launch());
  const VarId sum = run.b.declare("sum", run.b.ref(value));
  const VarId index = run.b.declare("index", run.thread_of_launch());
  const VarId any =
      run.b.declare("any", run.b.apply(PointwiseFn::kGt, {run.b.ref(value), run.b.real(39.0)}));
  run.b.append(kir::AllReduce{.parts = {{Combiner::kSum, {sum}},
                                        {Combiner::kArgMax, {value, index}},
                                        {Combiner::kAny, {any}}},
                              .threads = group,
                              .name = "stats"});
  run.store(sums, run.thread_of_launch(), sum);
  run.store(indices, run.thread_of_launch(), index);
  run.store(flags, run.thread_of_launch(), any);
  run.kernel = run_kernel_passes(run.kernel, {.verify = true});
  EXPECT_EQ(count_of(print(run.kernel), "barrier"), group > 32 ? 1 : 0) << print(run.kernel);
  run.run_clean(2);

  for (int64_t first = 0; first < 2 * block; first += group) {
    float expected = 0.0F;
    int64_t best = first;
    for (int64_t i = first; i < first + group; ++i) {
      expected += x[static_cast<size_t>(i)];
      if (x[static_cast<size_t>(i)] > x[static_cast<size_t>(best)]) best = i;
    }
    for (int64_t i = first; i < first + group; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(run.contents<float>(1)[at], expected) << i;
      EXPECT_EQ(run.contents<int64_t>(2)[at], best) << i;
      EXPECT_EQ(run.contents<uint8_t>(3)[at], x[static_cast<size_t>(best)] > 39.0F ? 1 : 0) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LowerReductionsTest,
                         testing::Values(Shape{32, 1}, Shape{32, 2}, Shape{64, 8}, Shape{64, 32},
                                         Shape{64, 64}, Shape{128, 64}, Shape{96, 32},
                                         Shape{1024, 1024}, Shape{512, 128}));

struct ClusterShape {
  int64_t cluster = 2, block = 64, group = 64;
  int64_t rounds = 1;  ///< In turns by two copies where there are several.
};

class ClusterReductionsTest : public testing::TestWithParam<ClusterShape> {};

/// Groups of equal number in the blocks of a cluster combine what all their threads bring, in every
/// round. Groups of fewer threads than a warp share the mbarrier of their warp.
TEST_P(ClusterReductionsTest, EveryThreadOfTheClusterHoldsTheResult) {
  const auto [cluster, block, group, rounds] = GetParam();
  KernelRun run(block);
  run.kernel.cluster = cluster;
  const int64_t threads = cluster * block;
  const int64_t clusters = threads > 4096 ? 1 : 3;  // One of the largest takes seconds.
  const int64_t of_round = clusters * threads;
  std::vector<float> x(static_cast<size_t>(rounds * of_round));
  std::mt19937 random(5);
  for (float& value : x) value = static_cast<float>(std::uniform_int_distribution(-40, 40)(random));
  const kir::BufferId in = run.global("x", DType::kF32, x);
  const kir::BufferId sums = run.output("sums", DType::kF32, rounds * of_round);
  const kir::BufferId indices = run.output("indices", DType::kI64, rounds * of_round);
  const kir::BufferId flags = run.output("flags", DType::kBool, rounds * of_round);
  const int64_t sharing = std::max<int64_t>(group, 32);
  const int64_t groups = block / sharing;
  const int64_t phases = rounds > 1 ? 2 : 1;
  const kir::MbarrierId arrived = run.b.add_mbarriers("arrived", groups * phases, 1);
  run.b.append(kir::InitMbarriers{});
  run.b.append(kir::ClusterBarrier{});
  const auto in_round = [&](ExprId round) {
    const ExprId at =
        run.b.add(run.b.mul(run.b.cast(round, DType::kI64), run.b.integer(of_round, DType::kI64)),
                  run.thread_of_launch());
    const VarId value = run.loaded("value", in, at);
    const VarId sum = run.b.declare("sum", run.b.ref(value));
    const VarId index = run.b.declare("index", at);
    const VarId any =
        run.b.declare("any", run.b.apply(PointwiseFn::kGt, {run.b.ref(value), run.b.real(39.0)}));
    const ExprId two = run.b.integer(2);
    run.b.append(kir::AllReduce{.parts = {{Combiner::kSum, {sum}},
                                          {Combiner::kArgMax, {value, index}},
                                          {Combiner::kAny, {any}}},
                                .threads = group,
                                .name = "stats",
                                .phase = rounds > 1 ? run.b.rem(round, two) : ExprId{},
                                .group = run.b.div(run.thread(), run.b.integer(sharing)),
                                .groups = groups,
                                .arrived = arrived,
                                .parity = run.b.rem(run.b.div(round, run.b.integer(phases)), two)});
    run.store(sums, at, sum);
    run.store(indices, at, index);
    run.store(flags, at, any);
  };
  if (rounds > 1) {
    run.b.loop("round", run.b.integer(0), run.b.integer(rounds), run.b.integer(1), false, in_round);
  } else {
    in_round(run.b.integer(0));
  }
  run.kernel = run_kernel_passes(run.kernel, {.verify = true});

  const auto group_of = [&](int64_t i) { return std::pair(i / threads, i % block / group); };
  const auto count = static_cast<int64_t>(x.size());
  std::map<std::pair<int64_t, int64_t>, std::pair<float, int64_t>> expected;
  for (int64_t i = 0; i < count; ++i) {
    const auto [at, is_first] = expected.try_emplace(group_of(i), 0.0F, i);
    at->second.first += x[static_cast<size_t>(i)];
    if (x[static_cast<size_t>(i)] > x[static_cast<size_t>(at->second.second)])
      at->second.second = i;
  }
  for (uint64_t seed = 0; seed < (rounds > 1 ? 4U : 1U); ++seed) {
    run.run_clean(clusters, {.seed = seed});
    const std::vector<float> total_of = run.contents<float>(1);
    const std::vector<int64_t> best_of = run.contents<int64_t>(2);
    const std::vector<uint8_t> any_of = run.contents<uint8_t>(3);
    for (int64_t i = 0; i < count; ++i) {
      const auto& [total, best] = expected.at(group_of(i));
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(total_of[at], total) << i;
      ASSERT_EQ(best_of[at], best) << i;
      ASSERT_EQ(any_of[at], x[static_cast<size_t>(best)] > 39.0F ? 1 : 0) << i;
    }
  }
}

// 8 x 32 warps send more tuples than a warp has lanes.
INSTANTIATE_TEST_SUITE_P(Shapes, ClusterReductionsTest,
                         testing::Values(ClusterShape{2, 64, 64}, ClusterShape{4, 128, 64},
                                         ClusterShape{8, 32, 32}, ClusterShape{8, 256, 256},
                                         ClusterShape{2, 96, 32}, ClusterShape{8, 1024, 1024},
                                         ClusterShape{4, 128, 64, 5}, ClusterShape{2, 64, 32, 5}));

std::vector<ClusterShape> shapes_within_warps() {
  std::vector<ClusterShape> out;
  for (const int64_t cluster : {2, 4, 8, 16}) {
    for (const int64_t group : {2, 4, 8, 16}) {
      for (const int64_t rounds : {1, 5}) out.push_back({cluster, 96, group, rounds});
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(WithinWarps, ClusterReductionsTest,
                         testing::ValuesIn(shapes_within_warps()));

/// How the blocks of TuplesOfCluster exchange: in a cluster, or in a team by one statement or two.
enum class Way : uint8_t { kCluster, kTeam, kTeamInHalves };

/// Groups of 8 threads over four blocks: mean and m2 of 32 values, where the largest is, and
/// whether one is larger than 14.
struct TuplesOfCluster {
  explicit TuplesOfCluster(Way way = Way::kCluster) : run(64), x(4 * 64) {
    const bool is_team = way != Way::kCluster;
    (is_team ? run.kernel.team : run.kernel.cluster) = 4;
    std::mt19937 random(3);
    for (float& value : x) value = std::normal_distribution<float>(10.0F, 2.0F)(random);
    const auto count = static_cast<int64_t>(x.size());
    const kir::BufferId in = run.global("x", DType::kF32, x);
    const kir::BufferId means = run.output("means", DType::kF32, count);
    const kir::BufferId squares = run.output("squares", DType::kF32, count);
    const kir::BufferId places = run.output("places", DType::kI32, count);
    const kir::BufferId flags = run.output("flags", DType::kBool, count);
    // A place for each tuple: 8 groups of 4 blocks, with 4, 2 and 1 places.
    if (is_team) run.kernel.message_places = int64_t{8} * 4 * (4 + 2 + 1);
    const kir::BufferId mail =
        run.global("mail", DType::kI32,
                   std::vector<int32_t>(static_cast<size_t>(8 * run.kernel.message_places), 0),
                   kir::Access::kReadWrite);
    kir::MbarrierId arrived;
    if (is_team) {
      run.b.append(kir::Barrier{});
    } else {
      arrived = run.b.add_mbarriers("arrived", 2, 1);
      run.b.append(kir::InitMbarriers{});
      run.b.append(kir::ClusterBarrier{});
    }
    const VarId mean = run.loaded("mean", in, run.thread_of_launch());
    const VarId number = run.b.declare("number", run.b.real(1.0));
    const VarId m2 = run.b.declare("m2", run.b.real(0.0));
    const VarId largest = run.b.declare("largest", run.b.ref(mean));
    const VarId place = run.b.declare("place", run.b.cast(run.thread_of_launch(), DType::kI32));
    const VarId any =
        run.b.declare("any", run.b.apply(PointwiseFn::kGt, {run.b.ref(mean), run.b.real(14.0)}));
    kir::AllReduce all{.parts = {{Combiner::kWelford, {number, mean, m2}},
                                 {Combiner::kArgMax, {largest, place}},
                                 {Combiner::kAny, {any}}},
                       .threads = 8,
                       .name = "stats",
                       .group = run.b.div(run.thread(), run.b.integer(32)),
                       .groups = 2};
    if (is_team) {
      all.mail = mail;
      all.number = run.b.integer(1);
      EXPECT_EQ(kir::message_places(all, 4), run.kernel.message_places);
    } else {
      all.arrived = arrived;
      all.parity = run.b.integer(0);
    }
    if (way != Way::kTeamInHalves) {
      run.b.append(all);
    } else {
      all.half = kir::ReduceHalf::kSend;
      run.b.append(all);
      // What the variables hold in between does not matter.
      run.b.assign(mean, run.b.real(std::nan("")));
      run.b.assign(largest, run.b.real(1e9));
      all.half = kir::ReduceHalf::kReceive;
      run.b.append(all);
    }
    run.store(flags, run.thread_of_launch(), any);
    run.store(means, run.thread_of_launch(), mean);
    run.store(squares, run.thread_of_launch(), m2);
    run.store(places, run.thread_of_launch(), place);
    if (is_team) {
      const VarId empty = run.b.declare("empty", run.b.integer(0));
      run.b.append(kir::Barrier{});
      run.b.loop("place", run.thread(), run.b.integer(run.kernel.message_places), run.b.integer(64),
                 false, [&](ExprId at) {
                   run.b.append(kir::MessageStore{.mail = mail,
                                                  .block = run.b.rem(run.block(), run.b.integer(4)),
                                                  .place = at,
                                                  .values = {empty},
                                                  .number = run.b.integer(0)});
                 });
    }
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
  }

  KernelRun run;
  std::vector<float> x;
};

void expect_right(TuplesOfCluster& tuples) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    tuples.run.run_clean(1, {.seed = seed});
    const auto means = tuples.run.contents<float>(1);
    const auto squares = tuples.run.contents<float>(2);
    const auto places = tuples.run.contents<int32_t>(3);
    const auto flags = tuples.run.contents<uint8_t>(4);
    for (size_t group = 0; group < 8; ++group) {
      std::vector<size_t> members;
      for (size_t block = 0; block < 4; ++block) {
        for (size_t lane = 0; lane < 8; ++lane) members.push_back(block * 64 + group * 8 + lane);
      }
      double mean = 0.0;
      double m2 = 0.0;
      size_t best = members.front();
      for (const size_t i : members) {
        mean += tuples.x[i] / 32.0;
        if (tuples.x[i] > tuples.x[best]) best = i;
      }
      for (const size_t i : members) m2 += std::pow(tuples.x[i] - mean, 2);
      for (const size_t i : members) {
        EXPECT_NEAR(means[i], mean, 1e-5 * std::abs(mean)) << i;
        EXPECT_NEAR(squares[i], m2, 1e-4 * m2) << i;
        EXPECT_EQ(squares[i], squares[members.front()]) << "the same bits in all blocks";
        EXPECT_EQ(places[i], static_cast<int32_t>(best)) << i;
        EXPECT_EQ(flags[i], tuples.x[best] > 14.0F ? 1 : 0) << i;
      }
    }
  }
}

/// Components of one type share a store, others have one each.
TEST(LowerReductionsTest, ATupleOfFloatsIsSentByOneStore) {
  TuplesOfCluster tuples;
  const std::string text = print(tuples.run.kernel);
  EXPECT_EQ(count_of(text, "cluster_store"), 1 + 2 + 1) << text;
  expect_right(tuples);
}

// A message has all components of a tuple.
TEST(LowerReductionsTest, TeamsExchangeByMessages) {
  for (const Way way : {Way::kTeam, Way::kTeamInHalves}) {
    TuplesOfCluster tuples(way);
    const std::string text = print(tuples.run.kernel);
    EXPECT_EQ(count_of(text, "message_store"), 3 + 1) << text;
    EXPECT_EQ(count_of(text, "message_wait"), 3) << text;
    EXPECT_EQ(kir::shared_bytes(tuples.run.kernel), 0);
    expect_right(tuples);
  }
}

TEST(LowerReductionsTest, AnMbarrierThatExpectsLessThanTheTuplesIsFound) {
  TuplesOfCluster tuples;
  std::string text = print(tuples.run.kernel);
  const size_t at = text.find(" 448");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 4, " 384");
  tuples.run.kernel = parse_kernel(text).value();
  int found = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    found += tuples.run.run(1, {.seed = seed}).clean() ? 0 : 1;
  EXPECT_EQ(found, 8);
}

/// A lane sends for its whole warp, into the place of two rounds ago: all lanes must have read that
/// before. A warp barrier stands between, and without it some order of lanes is a race.
TEST(LowerReductionsTest, AWarpHasReadBeforeOneOfItsLanesSends) {
  constexpr int64_t kRows = 21;
  constexpr int64_t kColumns = 128;
  const kir::Kernel lowered =
      run_kernel_passes(parse_kernel(kClusterKernel).value(), {.verify = true});
  const auto races_of = [&](const kir::Kernel& kernel) {
    std::vector<float> x(kRows * kColumns, 1.0F);
    std::vector<float> sums(kRows, -1.0F);
    int races = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const std::vector<LaunchMemory> memory = {
          {.bytes = std::as_writable_bytes(std::span(x)), .origin = 0},
          {.bytes = std::as_writable_bytes(std::span(sums)), .origin = 0}};
      const auto report =
          interpret(kernel, memory, std::vector<int64_t>{kRows, 3}, {.seed = seed}).value();
      races += static_cast<int>(
          std::ranges::count(report.findings, FindingKind::kSharedRace, &Finding::kind));
      EXPECT_THAT(sums, testing::Each(static_cast<float>(kColumns)));
    }
    return races;
  };
  EXPECT_EQ(races_of(lowered), 0);
  std::string text = print(lowered);
  const size_t barrier = text.find("warp_barrier");
  ASSERT_LT(barrier, text.find("cluster_store")) << text;
  text.erase(barrier, std::string_view("warp_barrier").size());
  EXPECT_GT(races_of(parse_kernel(text).value()), 0);
}

/// Threads of a group may not differ in the last bit, or control that depends on the result could
/// part them.
/// `elements`: how many each thread is known to have; 0: not known.
void expect_welford_of_equal_counts(int64_t elements) {
  KernelRun run(128);
  std::vector<float> x(128);
  std::mt19937 random(11);
  for (float& value : x) value = std::normal_distribution<float>(100.0F, 3.0F)(random);
  const kir::BufferId in = run.global("x", DType::kF32, x);
  const kir::BufferId out = run.output("m2", DType::kF32, 128);
  const kir::BufferId means = run.output("means", DType::kF32, 128);
  const VarId count = run.b.declare("count", run.b.real(1.0));
  const VarId mean = run.loaded("mean", in, run.thread());
  const VarId m2 = run.b.declare("m2", run.b.real(0.0));
  run.b.append(kir::AllReduce{
      .parts = {{.combiner = Combiner::kWelford, .vars = {count, mean, m2}, .elements = elements}},
      .threads = 128,
      .name = "stats"});
  run.store(out, run.thread(), m2);
  run.store(means, run.thread(), mean);
  run.kernel = run_kernel_passes(run.kernel, {.verify = true});
  run.run_clean(1);
  const std::vector<float> result = run.contents<float>(1);
  EXPECT_THAT(result, testing::Each(result[0]));
  const std::vector<float> mean_of = run.contents<float>(2);
  EXPECT_THAT(mean_of, testing::Each(mean_of[0]));
  double exact_mean = 0.0;
  for (const float value : x) exact_mean += value / 128.0;
  double exact = 0.0;
  for (const float value : x) exact += (value - exact_mean) * (value - exact_mean);
  // Chan, Golub, LeVeque 1983, table 1: the pairwise algorithm's relative error is below
  // u * log2(n) * kappa, with condition number kappa = sqrt(1 + mean^2 / variance).
  const double kappa = std::sqrt(1.0 + exact_mean * exact_mean * 128.0 / exact);
  EXPECT_NEAR(result[0], exact, exact * 0x1p-24 * 7.0 * kappa);
  EXPECT_NEAR(mean_of[0], exact_mean, exact_mean * 0x1p-24 * 7.0);
}

TEST(LowerReductionsTest, WelfordGivesAllThreadsTheSameBits) {
  for (const int64_t elements : {0, 1}) {
    SCOPED_TRACE(elements);
    expect_welford_of_equal_counts(elements);
  }
}

/// The same where threads bring tuples of different counts and means of any sign, whose merge
/// rounds otherwise in the other order. Groups of one warp keep what each lane holds.
TEST(LowerReductionsTest, WelfordOfDifferentCountsGivesAllThreadsTheSameBits) {
  for (const int64_t group : {32, 128}) {
    KernelRun run(128);
    std::vector<float> x(128);
    std::vector<float> n(128);
    std::mt19937 random(12);
    for (float& value : x) value = std::normal_distribution<float>(0.0F, 100.0F)(random);
    for (float& value : n) value = static_cast<float>(std::uniform_int_distribution(1, 9)(random));
    const kir::BufferId in = run.global("x", DType::kF32, x);
    const kir::BufferId counts = run.global("n", DType::kF32, n);
    const kir::BufferId means = run.output("means", DType::kF32, 128);
    const kir::BufferId squares = run.output("m2", DType::kF32, 128);
    const VarId count = run.loaded("count", counts, run.thread());
    const VarId mean = run.loaded("mean", in, run.thread());
    const VarId m2 = run.b.declare("m2", run.b.real(0.0));
    run.b.append(kir::AllReduce{
        .parts = {{Combiner::kWelford, {count, mean, m2}}}, .threads = group, .name = "stats"});
    run.store(means, run.thread(), mean);
    run.store(squares, run.thread(), m2);
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    run.run_clean(1);
    for (const size_t output : {2U, 3U}) {
      const std::vector<float> held = run.contents<float>(output);
      for (size_t i = 0; i < held.size(); ++i)
        EXPECT_EQ(held[i], held[i / static_cast<size_t>(group) * static_cast<size_t>(group)]) << i;
    }
  }
}

/// In a loop with no other barrier, a fast warp starts the next reduction while a slow one still
/// reads: the interpreter's race check finds it if both use the same scratch.
TEST(LowerReductionsTest, LoopsDoNotRaceOnScratch) {
  for (const bool other_barrier : {false, true}) {
    KernelRun run(128);
    const kir::BufferId out = run.output("sums", DType::kI32, 128);
    const VarId total = run.b.declare("total", run.b.integer(0));
    run.b.loop("i", run.b.integer(0), run.b.cast(run.b.param(run.n), DType::kI32), run.b.integer(1),
               false, [&](ExprId i) {
                 const VarId sum = run.b.declare("sum", run.b.add(run.thread(), i));
                 run.b.append(kir::AllReduce{
                     .parts = {{Combiner::kSum, {sum}}}, .threads = 64, .name = "row"});
                 if (other_barrier) run.barrier();
                 run.b.assign(total, run.b.add(run.b.ref(total), run.b.ref(sum)));
               });
    run.store(out, run.thread(), total);
    // One block does all the work.
    run.kernel.grid.per_block = 1000;
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    if (other_barrier) {
      EXPECT_THAT(print(run.kernel), Not(HasSubstr("row_half")));
    } else {
      EXPECT_THAT(print(run.kernel), HasSubstr("row_half"));
    }
    for (uint64_t seed = 0; seed < 8; ++seed) run.run_clean(5, {.seed = seed});
    for (int32_t thread = 0; thread < 128; ++thread) {
      // Sum over i < 5 of (sum over the group of thread + i).
      const int32_t group_sum = thread < 64 ? 63 * 64 / 2 : 63 * 64 / 2 + 64 * 64;
      EXPECT_EQ(run.contents<int32_t>(0)[static_cast<size_t>(thread)], 5 * group_sum + 64 * 10);
    }
  }
}

/// A phase picks the scratch: with one that alternates a fast warp never meets a slow one, and with
/// one that stays it does, which shows that nothing but the phase keeps them apart.
TEST(LowerReductionsTest, PhasesThatAlternateNeedNoSecondBarrier) {
  for (const bool alternates : {true, false}) {
    KernelRun run(128);
    const kir::BufferId out = run.output("sums", DType::kI32, 128);
    const VarId total = run.b.declare("total", run.b.integer(0));
    run.b.loop("i", run.b.integer(0), run.b.cast(run.b.param(run.n), DType::kI32), run.b.integer(1),
               false, [&](ExprId i) {
                 const VarId sum = run.b.declare("sum", run.b.add(run.thread(), i));
                 run.b.append(kir::AllReduce{
                     .parts = {{Combiner::kSum, {sum}}},
                     .threads = 128,
                     .name = "row",
                     .phase = alternates ? run.b.rem(i, run.b.integer(2)) : run.b.integer(1)});
                 run.b.assign(total, run.b.add(run.b.ref(total), run.b.ref(sum)));
               });
    run.store(out, run.thread(), total);
    run.kernel.grid.per_block = 1000;  // One block does all the work.
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    EXPECT_THAT(print(run.kernel), Not(HasSubstr("row_half")));
    EXPECT_EQ(run.kernel.buffers[kir::BufferId{1}].count, 8);
    bool has_raced = false;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      if (alternates) {
        run.run_clean(5, {.seed = seed});
        EXPECT_THAT(run.contents<int32_t>(0), testing::Each(5 * (127 * 64) + 128 * 10));
      } else {
        for (const Finding& finding : run.run(5, {.seed = seed}).findings) {
          has_raced |= finding.kind == FindingKind::kSharedRace;
        }
      }
    }
    EXPECT_EQ(has_raced, !alternates);
  }
}

/// Groups that run through a loop a different number of times, beside warps that do something else:
/// each waits at a barrier of its own.
TEST(LowerReductionsTest, GroupsWithBarriersOfTheirOwnDoNotMeet) {
  for (const bool has_own_scratch : {false, true}) {
    KernelRun run(192);
    const kir::BufferId out = run.output("sums", DType::kI32, 128);
    run.b.when(run.b.less(run.thread(), run.b.integer(128)), [&] {
      const ExprId group =
          run.b.ref(run.b.declare("group", run.b.div(run.thread(), run.b.integer(64))));
      const VarId total = run.b.declare("total", run.b.integer(0));
      run.b.loop("i", run.b.integer(0), run.b.add(run.b.integer(4), group), run.b.integer(1), false,
                 [&](ExprId i) {
                   const VarId sum = run.b.declare("sum", run.b.add(run.thread(), i));
                   run.b.append(kir::AllReduce{.parts = {{Combiner::kSum, {sum}}},
                                               .threads = 64,
                                               .name = "row",
                                               .phase = run.b.rem(i, run.b.integer(2)),
                                               .barrier = run.b.add(group, run.b.integer(1)),
                                               .group = has_own_scratch ? group : ExprId{},
                                               .groups = has_own_scratch ? 2 : 1});
                   run.b.assign(total, run.b.add(run.b.ref(total), run.b.ref(sum)));
                 });
      run.store(out, run.thread(), total);
    });
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    EXPECT_EQ(run.kernel.buffers[kir::BufferId{1}].count, has_own_scratch ? 8 : 12);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      run.run_clean(1, {.seed = seed});
      for (int32_t thread = 0; thread < 128; ++thread) {
        // Sum over the rounds of (sum over the group of thread + round).
        const int32_t group = thread / 64;
        const int32_t rounds = 4 + group;
        const int32_t of_threads = 63 * 64 / 2 + group * 64 * 64;
        EXPECT_EQ(run.contents<int32_t>(0)[static_cast<size_t>(thread)],
                  rounds * of_threads + 64 * (rounds * (rounds - 1) / 2));
      }
    }
  }
}

TEST(LowerReductionsTest, AllPartsShareOneBarrier) {
  KernelRun run(256);
  const VarId a = run.b.declare("a", run.b.real(1.0));
  const VarId b = run.b.declare("b", run.b.real(2.0));
  run.b.append(kir::AllReduce{
      .parts = {{Combiner::kSum, {a}}, {Combiner::kMax, {b}}}, .threads = 256, .name = "both"});
  const kir::Kernel lowered = lower_reductions(run.kernel);
  EXPECT_EQ(count_of(print(lowered), "barrier"), 1);
  EXPECT_EQ(lowered.buffers.size(), 2U);
}

}  // namespace sinter::lower_reductions_test
