// The program of a matmul schedule as text, its walks against counts by hand, and every rule that
// it may break.

#include "scheduler/program/program.h"

#include <gmock/gmock.h>

#include <set>

#include "fusion_ir/parser.h"
#include "scheduler/families/column.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/program/shared_layout.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::program_test {

using program::Program;
using ::testing::HasSubstr;

/// y[1000, 520] = x[1000, 200] w[520, 200] transposed.
SegmentFacts linear_facts() {
  return facts_of(parse_fusion(R"(fusion @linear extents(rows) {
  %v0 x : bf16[rows, 200] = input
  %v1 w : bf16[520, 200] = input
  %v2 y : f32[rows, 520] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})")
                      .value(),
                  {{"rows", 1000}});
}

Schedule schedule_of(const MatmulParameters& parameters, int64_t threads) {
  return {
      .family = "matmul", .parameters = parameters, .threads_per_row = threads, .vector_width = 2};
}

Program linear_program() {
  return matmul_program(linear_facts(), schedule_of({.tile_rows = 128,
                                                     .tile_columns = 64,
                                                     .tile_depth = 32,
                                                     .row_warps = 2,
                                                     .pipeline_stages = 4},
                                                    128));
}

/// The rule that a program breaks after a change; nothing if it breaks none.
std::string rule_broken_by(Program program, const std::function<void(Program&)>& change) {
  change(program);
  const auto rejection = check(program, "matmul");
  return rejection ? text_of(*rejection) : "";
}
program::Tile& tile(Program& program, uint32_t index) {
  return program.tiles[program::TileId{index}];
}

TEST(ProgramTest, TextNamesLoopsTilesAndSteps) {
  EXPECT_EQ(print(linear_program()), R"(program linear threads 128 {
  axis batch 1
  axis m 1000 launched
  axis n 520
  axis k 200
  tile %left : bf16 shared [m 128, k 32] stages 4
  tile %right : bf16 shared [n 64, k 32] stages 4
  tile %sum : f32 fragment [m 64, n 32]
  tile %row0 : f32 shared [m 8, n 32] stages 4
  for block batch by 1, m by 128, n by 64 group 8 {
    pipeline k by 32 stages 4 {
      copy async %left = rows width 8
      copy async %right = columns width 8
    } do {
      for warp m by 64, n by 32 {
        contract sum %sum += %left * %right
      }
    }
    for warp m by 64, n by 32 {
      region %v2 = %sum width 2 output 0 through %row0 width 4
    }
  }
}
)");
}

/// y = x z of 1,000 elements.
Program elements_program() {
  const SegmentFacts facts = facts_of(parse_fusion(R"(fusion @product extents(n) {
  %v0 x : f32[n] = input
  %v1 z : f32[n] = input
  %v2 y : f32[n] = mul %v0, %v1
  return %v2
})")
                                          .value(),
                                      {{"n", 1000}});
  return pointwise_program(
      facts, {.family = "pointwise", .threads_per_row = 32, .vector_width = 4, .unroll = 2});
}

TEST(ProgramTest, ElementsGoFromMemoryToMemory) {
  const Program program = elements_program();
  EXPECT_EQ(print(program), R"(program product threads 32 {
  axis elements 1000 launched
  for block elements by 256 {
    elements of elements width 4 vectors 2
  }
}
)");
  EXPECT_EQ(check(program, "pointwise"), std::nullopt);
  EXPECT_EQ(block_count(program), 4);
  EXPECT_EQ(shared_bytes(program), 0);
  EXPECT_EQ(fragment_words(program), 0);
  EXPECT_EQ(step_of<program::Elements>(program)->reach(program.threads), 128);
  EXPECT_EQ(step_of<program::Elements>(linear_program()), nullptr);
  EXPECT_THAT(rule_broken_by(program, [](Program& p) { p.threads = 64; }),
              HasSubstr("a block's tile is not the vectors of its threads (value 256, limit 512 "
                        "elements)"));
}

/// s = the sums of 700 rows of 1,000 columns.
Program column_sums(const Schedule& schedule) {
  return column_program(facts_of(parse_fusion(R"(fusion @sums extents(rows) {
  %v0 x : f32[rows, 1000] = input
  %v1 s : f32[1000] = reduce.sum %v0 over(0)
  return %v1
})")
                                     .value(),
                                 {{"rows", 700}}),
                        schedule);
}

TEST(ProgramTest, RowsOfColumnsAreFolded) {
  Schedule schedule{.family = "column",
                    .parameters = ColumnParameters{.cluster_size = 4},
                    .threads_per_row = 32,
                    .rows_per_block = 8,
                    .vector_width = 4,
                    .unroll = 2};
  const Program of_clusters = column_sums(schedule);
  EXPECT_EQ(print(of_clusters), R"(program sums threads 256 {
  axis rows 700 launched
  axis columns 1000 launched
  for block columns by 128 {
    fold rows of columns width 4 across 32 slots 8 ahead 2 cluster 4
  }
}
)");
  EXPECT_EQ(check(of_clusters, "column"), std::nullopt);
  EXPECT_EQ(block_count(of_clusters), 8 * 4) << "strips of 128 columns, four blocks each";

  schedule.persistent_blocks = 12;
  schedule.finish = Finish::kLastBlock;
  const Program shared = column_sums(schedule);
  EXPECT_THAT(print(shared), AllOf(HasSubstr("axis columns 1000\n"),
                                   HasSubstr("cluster 4 shares 3 last block\n")));
  EXPECT_EQ(block_count(shared), 8 * 12);
  EXPECT_EQ(blocks_of_columns(*step_of<program::Fold>(shared)), 12);
  EXPECT_EQ(step_of<program::Fold>(linear_program()), nullptr);

  const auto fold = [](Program& p) -> program::Fold& {
    return std::get<program::Fold>(p.steps[program::StepId{0}]);
  };
  EXPECT_THAT(rule_broken_by(shared, [&](Program& p) { fold(p).width = 2; }),
              HasSubstr("not the vectors of a group of its threads (value 128, limit 64 columns)"));
  EXPECT_THAT(rule_broken_by(shared, [&](Program& p) { fold(p).slots = 4; }),
              HasSubstr("not whole groups (value 256, limit 128 threads)"));
  EXPECT_THAT(rule_broken_by(shared, [&](Program& p) { fold(p).shares = -1; }),
              HasSubstr("a strip of columns has blocks (value -1, limit 0 blocks)"));
}

Program sliced_program(ReadPriority priority = ReadPriority::kEvictFirst) {
  Schedule schedule = schedule_of({.tile_rows = 8,
                                   .tile_columns = 16,
                                   .tile_depth = 64,
                                   .pipeline_stages = 3,
                                   .slice_warps = 4},
                                  128);
  schedule.read_priority = priority;
  return matmul_program(linear_facts(), schedule);
}

TEST(ProgramTest, TextNamesWarpsThatTakeTurns) {
  EXPECT_EQ(print(sliced_program()), R"(program linear threads 128 {
  axis batch 1
  axis m 1000 launched
  axis n 520
  axis k 200
  tile %left : bf16 lines [m 8, k 64]
  tile %right : bf16 lines [n 16, k 64] stages 3
  tile %slice : f32 slice [m 8, n 16]
  tile %slices : f32 shared [m 8, n 16] stages 4
  tile %sum : f32 fragment [m 8, n 8]
  for block batch by 1, m by 8, n by 16 group 8 {
    pipeline k by 64 stages 3 in turns of 4 warps {
      copy direct %left = rows width 8
      copy direct %right = columns width 8 evict_first
    } do {
      contract sum %slice += %left * %right
    }
    merge %sum = %slice through %slices
    for warp m by 8, n by 8 {
      region %v2 = %sum width 2
    }
  }
}
)");
  EXPECT_THAT(print(sliced_program(ReadPriority::kNormal)), Not(HasSubstr("evict")));
}

TEST(ProgramTest, WalksCountSlices) {
  const Program program = sliced_program();
  EXPECT_EQ(check(program, "matmul"), std::nullopt);
  EXPECT_EQ(slice_warps(program), 4);
  EXPECT_EQ(slice_warps(linear_program()), 0);
  EXPECT_EQ(shared_bytes(program), 4 * 8 * 16 * 4) << "a slice of each warp";
  // Words of a lane: a line of the rows, three of the columns, accumulators of which a quarter
  // counts, and an eighth of the tile.
  EXPECT_EQ(fragment_words(program), 8 + 3 * 16 + 4 * 4 + 2);
  EXPECT_EQ(copy_words(program), 2 * (2 + 4)) << "an address of each load of a line";
  const program::Traffic moved = traffic(program);
  constexpr double kTiles = 125.0 * 33.0;
  constexpr double kLines = 4.0;  // Of 64 elements; 4 warps have one each.
  EXPECT_EQ(moved.copied_bytes, kTiles * kLines * (8 + 16) * 128.0);
  EXPECT_EQ(moved.shared_read_bytes, 0.0);
  EXPECT_EQ(outstanding_bytes(program), 4.0 * (8 + 3 * 16) * 128.0);
  // Eight rows and four columns of 32 elements; half of the products count.
  EXPECT_EQ(moved.matrix_instructions, kTiles * kLines * 4 * 2);
  EXPECT_EQ(moved.products, kTiles * kLines * 2 * (8 * 16 * 64));
}

/// One row of a tile of eight is read, not all of it.
TEST(ProgramTest, RowsBeyondTheEndAreNotRead) {
  Program one = sliced_program();
  for (program::Axis& axis : one.axes) {
    if (axis.name == "m") axis.extent = 1;
  }
  EXPECT_EQ(traffic(one).copied_bytes, 33.0 * 4 * (1 + 16) * 128.0);
}

TEST(ProgramTest, RulesOfSlicesNameTheirNumbers) {
  const Program program = sliced_program();
  const auto step = [](Program& p, auto kind) -> decltype(kind)& {
    for (program::Step& one : p.steps) {
      if (auto* const found = std::get_if<decltype(kind)>(&one)) return *found;
    }
    throw std::logic_error("no such step");
  };
  EXPECT_THAT(
      rule_broken_by(program, [&](Program& p) { step(p, program::Pipeline{}).slice_warps = 2; }),
      HasSubstr("all warps of a block take parts of the contracted axis, and no producer "
                "(value 2, limit 4 warps)"));
  EXPECT_THAT(rule_broken_by(program, [&](Program& p) { step(p, program::Copy{}).width = 4; }),
              HasSubstr("a direct copy brings a line of 128 bytes, 16 bytes a lane"));
  EXPECT_THAT(
      rule_broken_by(
          program, [&](Program& p) { step(p, program::Copy{}).kind = program::CopyKind::kAsync; }),
      HasSubstr("registers take lines of an operand, and shared memory all else"));
  EXPECT_THAT(rule_broken_by(program, [&](Program& p) { tile(p, 3).stages = 3; }),
              HasSubstr("each warp has a slice of its own (value 3, limit 4 slices)"));
  EXPECT_THAT(rule_broken_by(program, [&](Program& p) { tile(p, 3).columns.extent = 8; }),
              HasSubstr("slices are merged through a tile of their size in shared memory"));
  EXPECT_THAT(
      rule_broken_by(program, [&](Program& p) { tile(p, 2).place = program::Place::kFragment; }),
      HasSubstr("products of lines in registers are slices of a sum, and no others"));
  EXPECT_THAT(rule_broken_by(program,
                             [&](Program& p) {
                               step(p, program::Contract{}).precision = ContractPrecision::kTf32x3;
                             }),
              HasSubstr("lines in registers are not split into two TF32 numbers"));
}

/// c[1000, 520] = a[1000, 200] b[200, 520] in f32.
Program lane_program(std::string_view fn = "sum", std::string_view precision = "") {
  const SegmentFacts facts = facts_of(parse_fusion(fmt::format(R"(fusion @product extents(rows) {{
  %v0 a : f32[rows, 200] = input
  %v1 b : f32[200, 520] = input
  %v2 c : f32[rows, 520] = contract.{} %v0, %v1 left(0, 2) right(2, 1) over(2){}
  return %v2
}})",
                                                               fn, precision))
                                          .value(),
                                      {{"rows", 1000}});
  return matmul_program(facts, schedule_of({.tile_rows = 128,
                                            .tile_columns = 64,
                                            .tile_depth = 16,
                                            .row_warps = 2,
                                            .pipeline_stages = 3},
                                           128));
}

TEST(ProgramTest, TextNamesTheUnitAndThePrecision) {
  EXPECT_THAT(print(lane_program()),
              AllOf(HasSubstr("tile %left : f32 shared [m 128, k 16] stages 3\n"),
                    HasSubstr("tile %right : f32 shared [k 16, n 64] in order stages 3\n"),
                    HasSubstr("contract sum by lanes %sum += %left * %right\n")));
  EXPECT_THAT(print(lane_program("max")), HasSubstr("contract max by lanes %sum"));
  EXPECT_THAT(print(lane_program("sum", " precision(tf32x3)")),
              AllOf(HasSubstr("tile %right : f32 shared [k 16, n 64] stages 3\n"),
                    HasSubstr("contract sum tf32x3 %sum += %left * %right\n")));
}

// A warp has 64 x 32 elements, a lane 8 rows and 8 columns of them.
TEST(ProgramTest, WalksCountWhatLanesCompute) {
  const Program program = lane_program();
  const int64_t sums = 64;
  const int64_t rows = 8 * 4;  // A chunk of four elements of each.
  const int64_t columns = 8;   // One element of each.
  const int64_t addresses = 16;
  EXPECT_EQ(program::fragment_words(program), sums + rows + columns + columns + addresses);
  const program::Traffic traffic = program::traffic(program);
  // 8 x 9 tiles in 13 steps of 16.
  EXPECT_EQ(traffic.products, 8.0 * 9 * 13 * 128 * 64 * 16);
  EXPECT_EQ(traffic.matrix_instructions, traffic.products / 32);
  // Every lane reads 16 elements of 4 bytes for each step along k.
  EXPECT_EQ(traffic.shared_read_bytes, 8.0 * 9 * 13 * 16 * 128 * 16 * 4);
}

TEST(ProgramTest, RulesOfLanesNameTheirNumbers) {
  const auto broken = [](auto&& change) {
    return rule_broken_by(lane_program(), [&](Program& p) {
      for (program::Step& step : p.steps) {
        if (auto* contract = std::get_if<program::Contract>(&step)) change(p, *contract);
      }
    });
  };
  EXPECT_EQ(broken([](Program&, program::Contract&) {}), "");
  EXPECT_THAT(broken([](Program&, auto& c) { c.fn = ContractFn::kLogSumExp; }),
              HasSubstr("lanes keep one value of each accumulator (value 2, limit 1 values"));
  EXPECT_THAT(broken([](Program& p, auto&) { tile(p, 1).in_order = false; }),
              HasSubstr("lanes read a transposed tile in order, and no other tile is read so"));
  EXPECT_THAT(broken([](Program& p, auto&) { tile(p, 0).in_order = true; }),
              HasSubstr("lanes read a transposed tile in order, and no other tile is read so"));
  EXPECT_THAT(broken([](Program& p, auto& c) {
                c.unit = program::Unit::kMatrix;
                c.fn = ContractFn::kMax;
                tile(p, 1).in_order = false;
              }),
              HasSubstr("matrix instructions compute sums of products alone"));
}

TEST(ProgramTest, WalksCountBlocksBytesAndInstructions) {
  const Program program = linear_program();
  EXPECT_EQ(block_count(program), 8 * 9);
  EXPECT_EQ(shared_bytes(program), 4 * (128 + 64) * 32 * 2 + 4 * 8 * 32 * 4);
  // 64 x 32 sums of 32 lanes; operands of one step, and of half of the two steps of a stage.
  EXPECT_EQ(fragment_words(program), 64 * 32 / 32 + 2 * (4 * 4 + 4 * 2));
  // 128 threads copy 512 and 256 accesses of eight elements.
  EXPECT_EQ(copy_words(program), 3 * (4 + 2));
  const program::Traffic traffic = program::traffic(program);
  constexpr double kStages = 7;  // 200 elements, 32 at a time.
  EXPECT_EQ(traffic.copied_bytes, 72 * kStages * (128 + 64) * 32 * 2);
  EXPECT_EQ(traffic.copied_accesses, 72 * kStages * (128 + 64) * 32 / 8);
  EXPECT_EQ(traffic.products, 72 * kStages * 128 * 64 * 32);
  EXPECT_EQ(traffic.matrix_instructions, traffic.products / (16 * 8 * 16));
  EXPECT_EQ(traffic.shared_read_bytes, 72 * kStages * 4 * (64 + 32) * 32 * 2);
  EXPECT_EQ(outstanding_bytes(program), 3 * (128 + 64) * 32 * 2);
}

/// The same product by a producer and two warp groups, 64 rows each.
Program group_program() {
  Schedule schedule = schedule_of({.tile_rows = 128,
                                   .tile_columns = 256,
                                   .tile_depth = 64,
                                   .row_warps = 8,
                                   .pipeline_stages = 4,
                                   .consumer_registers = 232},
                                  256);
  schedule.persistent_blocks = 10;
  return matmul_program(linear_facts(), schedule);
}

TEST(ProgramTest, WarpGroupsHaveAProducer) {
  EXPECT_EQ(print(group_program()), R"(program linear threads 256 {
  producer threads 128 registers 40 leaves 232
  axis batch 1
  axis m 1000 launched
  axis n 520
  axis k 200
  tile %left : bf16 shared [m 128, k 64] line 64 stages 4
  tile %right : bf16 shared [n 256, k 64] line 64 stages 4
  tile %sum : f32 group_fragment [m 64, n 256]
  tile %row0 : f32 shared [m 8, n 128] stages 8
  for block batch by 1, m by 128, n by 256 group 8 persistent 10 {
    pipeline k by 64 stages 4 {
      copy tensor %left = rows width 64
      copy tensor %right = columns width 64
    } do {
      for warp group m by 64, n by 256 {
        contract sum %sum += %left * %right
      }
    }
    for warp group m by 64, n by 256 {
      region %v2 = %sum width 2 output 0 through %row0 width 4
    }
  }
}
)");
}

// Each of two warp groups has a tile of its own.
TEST(ProgramTest, PartsOfABlockTakeTurns) {
  Schedule schedule = schedule_of({.tile_rows = 64,
                                   .tile_columns = 256,
                                   .tile_depth = 64,
                                   .row_warps = 4,
                                   .pipeline_stages = 4,
                                   .consumer_registers = 232},
                                  128);
  schedule.rows_per_block = 2;
  schedule.persistent_blocks = 10;
  Program program = matmul_program(linear_facts(), schedule);
  EXPECT_THAT(print(program), HasSubstr("program linear threads 256 {"));
  EXPECT_THAT(print(program), HasSubstr("m by 64, n by 256 group 8 persistent 10 at once 2 {"));
  EXPECT_EQ(tiles_at_once(program), 2);
  EXPECT_EQ(tile_count(program), 16 * 3);
  // An mbarrier more for each turn.
  EXPECT_EQ(shared_bytes(program), 4 * ((64 + 256) * 64 * 2 + 2 * 8) + 8 * 8 * 128 * 4 + 2 * 8);
  EXPECT_EQ(check(program, "matmul"), std::nullopt);
  const auto rule = [&] { return text_of(*check(program, "matmul")); };
  auto& blocks = std::get<program::Nest>(program.steps[program.body.front()]);
  blocks.at_once = 4;
  EXPECT_THAT(rule(), HasSubstr("warps and parts of a tile differ in number (value 128, limit 64"));
  blocks.at_once = 0;
  EXPECT_THAT(rule(), HasSubstr("only a producer feeds parts of a block"));
}

TEST(ProgramTest, WalksCountWhatAProducerBringsIn) {
  const Program program = group_program();
  EXPECT_EQ(tile_count(program), 8 * 3);
  EXPECT_EQ(block_count(program), 10);
  // Eight warps stage half of a row at a time.
  EXPECT_EQ(shared_bytes(program), 4 * ((128 + 256) * 64 * 2 + 2 * 8) + 8 * 8 * 128 * 4);
  EXPECT_EQ(fragment_words(program), 64 * 256 / 128);
  EXPECT_EQ(copy_words(program), 0);
  const program::Traffic traffic = program::traffic(program);
  constexpr double kStages = 4;  // 200 elements, 64 at a time.
  EXPECT_EQ(traffic.copied_bytes, 24 * kStages * (128 + 256) * 64 * 2);
  EXPECT_EQ(traffic.copied_accesses, 0);
  EXPECT_EQ(traffic.products, 24 * kStages * 128 * 256 * 64);
  EXPECT_EQ(traffic.matrix_instructions, traffic.products / (64 * 256 * 16));
  EXPECT_EQ(traffic.shared_read_bytes, 24 * kStages * 2 * (64 + 256) * 64 * 2);
}

TEST(ProgramTest, RulesOfAProducerNameTheirNumbers) {
  const auto broken = [](const std::function<void(Program&)>& change) {
    return rule_broken_by(group_program(), change);
  };
  EXPECT_EQ(broken([](Program&) {}), "");
  EXPECT_THAT(broken([](Program& p) { p.producer.reset(); }),
              HasSubstr("a producer copies by tensor maps, and nothing else does"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 0).line = 48; }),
              HasSubstr("a power of two of bytes, two chunks at least (value 96"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 0).columns.extent = 96; }),
              HasSubstr("the columns of a tile are not whole lines (value 96, limit 64"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 1).rows.extent = 512; }),
              HasSubstr("a tensor map copies up to 256 rows"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 2).rows.extent = 32; }),
              HasSubstr("rows of a warp group are not whole matrix instructions (value 32"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 2).columns.extent = 160; }),
              HasSubstr("no matrix instruction of a warp group has so many columns (value 160"));
  EXPECT_THAT(broken([&](Program& p) { p.threads = 512; }),
              HasSubstr("use 128 threads for each part"));
  // The columns' operand with its own axis inside: 64 of them are a line.
  EXPECT_THAT(broken([&](Program& p) {
                std::swap(tile(p, 1).rows, tile(p, 1).columns);
                tile(p, 2).columns.extent = 32;
                for (program::Step& step : p.steps) {
                  if (auto* nest = std::get_if<program::Nest>(&step);
                      nest != nullptr && nest->binding == program::Binding::kWarpGroup)
                    nest->loops[1].step = 32;
                }
                p.threads = 128 * 2 * 8;
              }),
              HasSubstr("takes whole lines of a transposed operand (value 32, limit 64"));
}

/// Normalised rows of a product: y is stored in bf16, and the largest element of each row.
Program row_program(int64_t columns, int64_t cluster) {
  const SegmentFacts facts = facts_of(parse_fusion(fmt::format(R"(fusion @rows {{
  %v0 x : bf16[1000, 200] = input
  %v1 w : bf16[{0}, 200] = input
  %v2 : f32[1000, {0}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : f32[1000, {0}] = tanh %v2
  %v4 m : f32[1000] = reduce.max %v3 over(1)
  %v5 : f32[1000, {0}] = broadcast %v4 axes(0)
  %v6 : f32[1000, {0}] = sub %v3, %v5
  %v7 y : bf16[1000, {0}] = cast %v6
  return %v7, %v4
}})",
                                                               columns))
                                          .value());
  Schedule schedule = schedule_of({.tile_rows = 128,
                                   .tile_columns = 128,
                                   .tile_depth = 64,
                                   .row_warps = 8,
                                   .pipeline_stages = 4,
                                   .cluster_size = cluster,
                                   .consumer_registers = 232},
                                  256);
  schedule.persistent_blocks = 8 * cluster;
  return matmul_program(facts, schedule);
}

TEST(ProgramTest, TextNamesStagedOutputsAndRows) {
  EXPECT_EQ(print(row_program(96, 1)), R"(program rows threads 256 {
  producer threads 128 registers 40 leaves 232
  axis batch 1
  axis m 1000 launched
  axis n 96
  axis k 200
  tile %left : bf16 shared [m 128, k 64] line 64 stages 4
  tile %right : bf16 shared [n 128, k 64] line 64 stages 4
  tile %sum : f32 group_fragment [m 64, n 128]
  tile %row0 : bf16 shared [m 8, n 128] stages 8
  for block batch by 1, m by 128, n by 128 group 8 persistent 8 {
    pipeline k by 64 stages 4 {
      copy tensor %left = rows width 64
      copy tensor %right = columns width 64
    } do {
      for warp group m by 64, n by 128 {
        contract sum %sum += %left * %right
      }
    }
    for warp group m by 64, n by 128 {
      region %v2 = %sum width 2 rows keep %v3 output 0 through %row0 width 8
    }
  }
}
)");
}

/// Rows of a cluster of two blocks, 128 columns each, that seven warps evaluate beside the
/// products.
Program epilogue_program(ExchangeKind exchange = ExchangeKind::kCluster) {
  const SegmentFacts facts = facts_of(parse_fusion(R"(fusion @rows {
  %v0 x : bf16[1000, 200] = input
  %v1 w : bf16[256, 200] = input
  %v2 : f32[1000, 256] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : bf16[1000, 256] = cast %v2
  %v4 : f32[1000, 256] = cast %v3
  %v5 m : f32[1000] = reduce.max %v4 over(1)
  %v6 : f32[1000, 256] = broadcast %v5 axes(0)
  %v7 : f32[1000, 256] = sub %v4, %v6
  %v8 y : bf16[1000, 256] = cast %v7
  return %v8, %v5
})")
                                          .value());
  Schedule schedule = schedule_of({.tile_rows = 128,
                                   .tile_columns = 128,
                                   .tile_depth = 64,
                                   .row_warps = 8,
                                   .pipeline_stages = 4,
                                   .cluster_size = 2,
                                   .exchange = exchange,
                                   .consumer_registers = 160,
                                   .epilogue_warps = 7},
                                  256);
  schedule.persistent_blocks = 8;
  return matmul_program(facts, schedule);
}

TEST(ProgramTest, TextSaysHowBlocksExchange) {
  EXPECT_THAT(print(epilogue_program()), HasSubstr("n by 128 persistent 8 cluster 2 {"));
  EXPECT_THAT(print(epilogue_program(ExchangeKind::kMessages)),
              HasSubstr("n by 128 persistent 8 team 2 {"));
}

// A float of each row from two blocks, in two copies. In a cluster each of seven warps has places
// for its four rows, with an mbarrier; messages have places for all 128 rows.
TEST(ProgramTest, PlacesOfAnExchangeAreThoseOfRowsThatAreOnTheirWay) {
  const Program by_row = epilogue_program();
  const Program messages = epilogue_program(ExchangeKind::kMessages);
  EXPECT_EQ(shared_bytes(by_row) - shared_bytes(messages), 7 * 2 * (8 + 4 * 2 * 4));
  EXPECT_EQ(message_places(by_row), 0);
  EXPECT_EQ(message_places(messages), 128 * 2 * 2);
}

TEST(ProgramTest, OnlyWarpsOfAnEpilogueSendMessages) {
  const auto blocks = [](Program& program) -> program::Nest& {
    for (program::Step& step : program.steps) {
      auto* found = std::get_if<program::Nest>(&step);
      if (found != nullptr && found->binding == program::Binding::kBlock) return *found;
    }
    unreachable();
  };
  EXPECT_THAT(rule_broken_by(row_program(200, 2),
                             [&](Program& p) { blocks(p).exchange = ExchangeKind::kMessages; }),
              HasSubstr("the warps of an epilogue of blocks that share rows send messages"));
}

TEST(ProgramTest, TextNamesWhatIsHandedOver) {
  EXPECT_EQ(print(epilogue_program()), R"(program rows threads 256 {
  producer threads 256 registers 96 leaves 160 epilogue warps 7
  axis batch 1
  axis m 1000 launched
  axis n 256
  axis k 200
  tile %left : bf16 shared [m 128, k 64] line 64 stages 4
  tile %right : bf16 shared [n 128, k 64] line 64 stages 4
  tile %sum : f32 group_fragment [m 64, n 128]
  tile %handed : bf16 shared [m 128, n 128]
  for block batch by 1, m by 128, n by 128 persistent 8 cluster 2 {
    pipeline k by 64 stages 4 {
      copy tensor %left = rows width 64
      copy tensor %right = columns width 64
    } do {
      for warp group m by 64, n by 128 {
        contract sum %sum += %left * %right
      }
    }
    for warp group m by 64, n by 128 {
      hand over %v3 of %sum in %handed
    }
    for epilogue warp m by 4, n by 128 {
      region %v3 = %handed width 8 rows
    }
  }
}
)");
}

TEST(ProgramTest, WalksKnowWhatIsHandedOver) {
  const Program program = epilogue_program();
  EXPECT_EQ(handed_parts(program), 2);
  EXPECT_EQ(epilogue_lanes(program), 8);
  EXPECT_EQ(rows_together(program), 1);
  const Schedule rows = row_schedule(program);
  EXPECT_EQ(rows.threads_per_row, 8);
  EXPECT_EQ(rows.rows_per_block, 7 * 4);
  EXPECT_EQ(rows.vector_width, 8);
  EXPECT_EQ(rows.cluster_size(), 2);
  EXPECT_EQ(step_of<program::Handover>(row_program(96, 1)), nullptr);
  EXPECT_EQ(handed_parts(row_program(96, 1)), 0);
  EXPECT_EQ(epilogue_lanes(row_program(96, 1)), 0);
}

TEST(ProgramTest, RulesOfHandoversNameTheirNumbers) {
  const auto nest = [](Program& program) -> program::Nest& {
    for (program::Step& step : program.steps) {
      auto* found = std::get_if<program::Nest>(&step);
      if (found != nullptr && found->binding == program::Binding::kEpilogueWarp) return *found;
    }
    unreachable();
  };
  const auto handed = [](Program& program) -> program::Tile& {
    return program.tiles[step_of<program::Handover>(program)->tile];
  };
  const Program program = epilogue_program();
  EXPECT_EQ(rule_broken_by(program, [](Program&) {}), "");
  EXPECT_THAT(rule_broken_by(program, [](Program& p) { p.producer->epilogue_warps = 8; }),
              HasSubstr("beside the producer's (value 8, limit 7 warps"));
  EXPECT_THAT(rule_broken_by(program, [](Program& p) { p.producer->epilogue_warps = 0; }),
              HasSubstr("beside the producer's (value 0, limit 7 warps"));
  EXPECT_THAT(rule_broken_by(program, [&](Program& p) { nest(p).loops.front().step = 16; }),
              HasSubstr("rows for every warp of the epilogue (value 4, limit 7 iterations"));
  EXPECT_THAT(rule_broken_by(program, [&](Program& p) { handed(p).rows.extent = 64; }),
              HasSubstr("not that of the block (value 64, limit 128 rows"));
  EXPECT_THAT(
      rule_broken_by(program, [&](Program& p) { handed(p).place = program::Place::kFragment; }),
      HasSubstr("hand it over in shared memory"));
}

// A block has 100 columns of 200, whole accesses of 8 bytes.
TEST(ProgramTest, TextNamesTheBlocksOfACluster) {
  EXPECT_THAT(print(row_program(200, 2)),
              HasSubstr("  tile %row0 : bf16 shared [m 16, n 128] stages 8\n"
                        "  for block batch by 1, m by 128, n by 100 persistent 16 cluster 2 {"));
  EXPECT_THAT(print(row_program(200, 2)), HasSubstr("output 0 through %row0 width 4"));
}

TEST(ProgramTest, WalksCountWhatClustersExchangeAndWarpsStage) {
  const auto without = [](Program program) {
    for (program::Step& step : program.steps) {
      if (auto* region = std::get_if<program::Region>(&step)) region->exchange_bytes = 0;
    }
    return program;
  };
  const int64_t ring = 4 * ((128 + 128) * 64 * 2 + 2 * 8);
  EXPECT_EQ(shared_bytes(row_program(96, 1)), ring + 8 * 8 * 128 * 2);
  const Program pair = row_program(200, 2);
  EXPECT_EQ(shared_bytes(without(pair)), ring + 8 * 16 * 128 * 2);
  // Two copies of an mbarrier for each of eight warps, and of a float for each of two rows of 64
  // groups of four lanes, from each of the blocks.
  EXPECT_EQ(shared_bytes(pair) - shared_bytes(without(pair)), 2 * 8 * 8 + 2 * 2 * 64 * 2 * 4);
  EXPECT_EQ(tile_count(pair), 8 * 2);
  EXPECT_EQ(cluster_size(pair), 2);
  EXPECT_EQ(rows_together(pair), 2);
  EXPECT_EQ(rows_together(row_program(96, 1)), 1);
  EXPECT_EQ(row_schedule(pair).cluster_size(), 2);
  EXPECT_EQ(row_schedule(pair).rows_per_block, 64);
  EXPECT_EQ(row_schedule(pair).kept.size(), 1U);
}

TEST(ProgramTest, RulesOfRowsAndClustersNameTheirNumbers) {
  const auto region = [](Program& program) -> program::Region& {
    for (program::Step& step : program.steps) {
      if (auto* found = std::get_if<program::Region>(&step)) return *found;
    }
    unreachable();
  };
  const auto blocks = [](Program& program) -> program::Nest& {
    return std::get<program::Nest>(program.steps[program.body.front()]);
  };
  const auto staged = [&](Program& program) -> program::Tile& {
    return program.tiles[region(program).staged.front().tile];
  };
  const Program one = row_program(96, 1);
  const Program pair = row_program(200, 2);
  EXPECT_EQ(rule_broken_by(one, [](Program&) {}), "");
  EXPECT_EQ(rule_broken_by(pair, [](Program&) {}), "");
  // Staging.
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { staged(p).rows.extent = 4; }),
              HasSubstr("stages eight or sixteen rows of an output (value 4, limit 8 rows"));
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { staged(p).place = program::Place::kFragment; }),
              HasSubstr("stages eight or sixteen rows of an output"));
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { staged(p).stages = 4; }),
              HasSubstr("each warp stages its own rows (value 4, limit 8 warps"));
  EXPECT_THAT(
      rule_broken_by(one, [&](Program& p) { region(p).staged.front().width = 16; }),
      HasSubstr("a staged row is stored in accesses of up to 16 bytes (value 32, limit 16"));
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { region(p).staged.front().width = 3; }),
              HasSubstr("a staged row is stored in accesses of up to 16 bytes (value 6"));
  // Rows.
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { region(p).width = 1; }),
              HasSubstr("does not fit the fragment of a warp or warp group"));
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { p.axes[program::AxisId{2}].extent = 130; }),
              HasSubstr("does not fit the fragment of a warp or warp group (value 130, limit 128"))
      << "columns of two blocks that are no cluster";
  EXPECT_THAT(rule_broken_by(pair,
                             [&](Program& p) {
                               p.axes[program::AxisId{2}].extent = 260;
                               blocks(p).loops.back().step = 130;
                             }),
              HasSubstr("does not split evenly over its warps (value 130, limit 128"));
  // Clusters.
  EXPECT_THAT(rule_broken_by(pair, [&](Program& p) { blocks(p).cluster = 4; }),
              HasSubstr("the blocks of a cluster share the columns evenly (value 2, limit 4"));
  EXPECT_THAT(rule_broken_by(pair, [&](Program& p) { blocks(p).cluster = 0; }),
              HasSubstr("a cluster has blocks (value 0, limit 1"));
  EXPECT_THAT(rule_broken_by(pair, [&](Program& p) { blocks(p).loops.back().step = 101; }),
              HasSubstr("the blocks of a cluster share the columns evenly (value 2, limit 2"));
  EXPECT_THAT(rule_broken_by(pair, [&](Program& p) { blocks(p).persistent_blocks = 15; }),
              HasSubstr("a grid has whole clusters (value 15, limit 2"));
  EXPECT_THAT(rule_broken_by(one, [&](Program& p) { blocks(p).persistent_blocks = -1; }),
              HasSubstr("a grid has blocks (value -1"));
}

// Warps that share the columns of a tile have no whole rows.
TEST(ProgramTest, RowsThatWarpsDivideDoNotFit) {
  const SegmentFacts facts = facts_of(parse_fusion(R"(fusion @rows {
  %v0 x : bf16[1000, 200] = input
  %v1 w : bf16[64, 200] = input
  %v2 : f32[1000, 64] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 m : f32[1000] = reduce.max %v2 over(1)
  return %v3
})")
                                          .value());
  const auto broken = [&](int64_t row_warps) {
    const auto rejection = check(matmul_program(facts, schedule_of({.tile_rows = 64,
                                                                    .tile_columns = 128,
                                                                    .tile_depth = 32,
                                                                    .row_warps = row_warps,
                                                                    .pipeline_stages = 2},
                                                                   128)),
                                 "matmul");
    return rejection ? text_of(*rejection) : "";
  };
  EXPECT_EQ(broken(4), "");
  EXPECT_THAT(broken(2), HasSubstr("does not fit the fragment of a warp or warp group (value 128, "
                                   "limit 64 columns"));
}

TEST(ProgramTest, AnEmptyContractedAxisCopiesNothing) {
  Program program = linear_program();
  program.axes[program::AxisId{3}].extent = 0;
  EXPECT_EQ(traffic(program).products, 0.0);
  EXPECT_EQ(traffic(program).copied_bytes, 0.0);
  EXPECT_EQ(block_count(program), 72);
}

TEST(ProgramTest, EveryRuleNamesItsNumbers) {
  const auto broken = [](const std::function<void(Program&)>& change) {
    return rule_broken_by(linear_program(), change);
  };
  EXPECT_EQ(broken([](Program&) {}), "");
  EXPECT_THAT(broken([&](Program& p) { tile(p, 0).rows.extent = 0; }),
              HasSubstr("a tile has no elements (value 0, limit 1 elements"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 0).columns.extent = 48; }),
              HasSubstr("a power of two of bytes, two chunks at least (value 96, limit 32 bytes"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 2).rows.extent = 24; }),
              HasSubstr("rows of a warp are not whole matrix instructions (value 24, limit 16"));
  EXPECT_THAT(
      broken([&](Program& p) { tile(p, 2).columns.extent = 24; }),
      HasSubstr("a warp's columns are not pairs of matrix instructions (value 24, limit 16"));
  EXPECT_THAT(broken([&](Program& p) { tile(p, 1).type = DType::kF8E4M3; }),
              HasSubstr("operands of a matrix instruction have elements of one size"));
  EXPECT_THAT(broken([&](Program& p) { p.threads = 256; }),
              HasSubstr("warps and parts of a tile differ in number (value 128, limit 256"));
  for (program::StepId id : linear_program().steps.ids()) {
    const auto change = [&](Program& p) {
      program::Step& step = p.steps[id];
      if (auto* pipeline = std::get_if<program::Pipeline>(&step)) pipeline->stages = 1;
      if (auto* copy = std::get_if<program::Copy>(&step)) copy->width = 16;
      if (auto* region = std::get_if<program::Region>(&step)) region->width = 4;
      if (auto* nest = std::get_if<program::Nest>(&step);
          nest != nullptr && nest->binding == program::Binding::kWarp)
        nest->loops[0].step = 48;
    };
    const bool may_break = !std::holds_alternative<program::Contract>(linear_program().steps[id]) &&
                           id != linear_program().body.front();
    EXPECT_EQ(broken(change).empty(), !may_break) << id.index;
  }
}

// Eight rows that begin at a multiple of eight, read at one chunk, lie in eight places of a line of
// 128 bytes, and no two chunks of a row share a place.
TEST(ProgramTest, RowsOfAMatrixLieInDifferentBanks) {
  for (const int64_t chunks : {2, 4, 8, 16}) {
    const program::SharedLayout layout{.chunks = chunks};
    for (int64_t first = 0; first < 64; first += 8) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        std::set<int64_t> places;
        for (int64_t row = first; row < first + 8; ++row)
          places.insert((row * chunks + layout.place_of(row, chunk)) % 8);
        EXPECT_EQ(places.size(), 8U) << chunks << " " << first << " " << chunk;
      }
      std::set<int64_t> of_row;
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        of_row.insert(layout.place_of(first + 3, chunk));
      EXPECT_EQ(std::ssize(of_row), chunks);
      EXPECT_LT(*of_row.rbegin(), chunks);
    }
  }
}

}  // namespace sinter::program_test
