// Matmul kernels of whole numbers against loops, and how many statements a pipeline takes.

#include "codegen/lower/lower_program.h"

#include "fusion_ir/composites.h"
#include "scheduler/families/matmul.h"
#include "tests/codegen/product_kernel.h"

namespace sinter::lower_program_test {

constexpr std::string_view kLinear = R"(fusion @linear {
  %v0 x : bf16[37, 52] = input
  %v1 w : bf16[41, 52] = input
  %v2 bias : f32[41] = input
  %v3 : f32[37, 41] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[37, 41] = broadcast %v2 axes(1)
  %v5 y : f32[37, 41] = add %v3, %v4
  return %v5
})";

std::string schedule(int64_t rows, int64_t columns, int64_t depth, int64_t row_warps,
                     int64_t column_warps, int64_t stages) {
  return fmt::format(
      "schedule matmul {{ threads_per_row {} rows_per_block 1 vector_width 1 unroll 1 "
      "min_blocks_per_sm 1 tile_rows {} tile_columns {} tile_depth {} row_warps {} "
      "pipeline_stages {} row_access scalar read_priority normal }}",
      32 * row_warps * column_warps, rows, columns, depth, row_warps, stages);
}

ScheduledKernel::Tensors linear(const ScheduledKernel::Tensors& in) {
  std::vector<float> out;
  for (size_t m = 0; m < 37; ++m) {
    for (size_t n = 0; n < 41; ++n) {
      float sum = in[2][n];
      for (size_t k = 0; k < 52; ++k) sum += in[0][m * 52 + k] * in[1][n * 52 + k];
      out.push_back(sum);
    }
  }
  return {out};
}

TEST(LowerProgramTest, TilesOfAnyShapeComputeTheProduct) {
  for (const auto& [rows, columns, row_warps, column_warps] :
       {std::array<int64_t, 4>{16, 16, 1, 1}, {32, 32, 2, 2}, {64, 16, 4, 1}, {16, 64, 1, 4}}) {
    for (const int64_t depth : {16, 32, 64}) {
      for (const int64_t stages : {2, 3, 5}) {
        ScheduledKernel(kLinear, schedule(rows, columns, depth, row_warps, column_warps, stages))
            .expect_outputs(linear, 2);
      }
    }
  }
}

/// A producer and two warp groups that share the rows or the columns of a tile.
std::string groups(int64_t rows, int64_t columns, int64_t row_warps, int64_t stages, int64_t blocks,
                   int64_t depth = 64, int64_t registers = 232) {
  return fmt::format(
      "schedule matmul {{ threads_per_row 256 rows_per_block 1 vector_width 1 unroll 1 "
      "min_blocks_per_sm 1 persistent_blocks {} tile_rows {} tile_columns {} tile_depth {} "
      "row_warps {} pipeline_stages {} consumer_registers {} row_access scalar "
      "read_priority normal }}",
      blocks, rows, columns, depth, row_warps, stages, registers);
}

/// y[b, m, n] = sum over k of left and right, whose strides of (b, m, k) and (b, n, k) are given.
struct Operands {
  std::string_view fir;
  std::array<size_t, 3> left, right;
};
constexpr size_t kB = 2, kM = 72, kN = 136, kK = 200;

ScheduledKernel::Tensors multiplied(const Operands& operands, const ScheduledKernel::Tensors& in,
                                    size_t batches) {
  std::vector<float> out;
  for (size_t b = 0; b < batches; ++b) {
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < kN; ++n) {
        float sum = 0.0F;
        for (size_t k = 0; k < kK; ++k) {
          sum += in[0][b * operands.left[0] + m * operands.left[1] + k * operands.left[2]] *
                 in[1][b * operands.right[0] + n * operands.right[1] + k * operands.right[2]];
        }
        out.push_back(sum);
      }
    }
  }
  return {out};
}

// Blocks that take several tiles, rings that are shorter and longer than the contracted axis,
// groups that share rows or columns, operands in all layouts, batches.
TEST(LowerProgramTest, WarpGroupsComputeTheProduct) {
  constexpr Operands kLayouts[] = {
      {R"(fusion @nt {
  %v0 x : bf16[72, 200] = input
  %v1 w : bf16[136, 200] = input
  %v2 y : f32[72, 136] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})",
       {0, kK, 1},
       {0, kK, 1}},
      {R"(fusion @tn {
  %v0 x : bf16[200, 72] = input
  %v1 w : bf16[200, 136] = input
  %v2 y : f32[72, 136] = contract.sum %v0, %v1 left(2, 0) right(2, 1) over(2)
  return %v2
})",
       {0, 1, kM},
       {0, 1, kN}},
      {R"(fusion @batch {
  %v0 x : bf16[2, 72, 200] = input
  %v1 w : bf16[2, 200, 136] = input
  %v2 y : f32[2, 72, 136] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 3, 2) over(3)
  return %v2
})",
       {kM * kK, kK, 1},
       {kN * kK, 1, kN}},
  };
  for (const Operands& operands : kLayouts) {
    const size_t batches = operands.left[0] == 0 ? 1 : kB;
    for (const std::string& sched :
         {groups(128, 64, 8, 2, 2), groups(64, 128, 4, 3, 1), groups(128, 256, 8, 3, 7)}) {
      ScheduledKernel(operands.fir, sched)
          .expect_outputs(
              [&](const ScheduledKernel::Tensors& in) { return multiplied(operands, in, batches); },
              2);
    }
  }
}

// Two to four parts of a block have tiles of their own and take turns: rings that are shorter and
// longer than the steps of a tile, blocks that have fewer tiles than parts, and odd numbers of
// them.
TEST(LowerProgramTest, PartsOfABlockTakeTurns) {
  constexpr ProductExtents kExtents{.m = 300, .n = 136, .k = 72};
  for (const int64_t at_once : {2, 3, 4}) {
    for (const int64_t stages : {2, 3, 4}) {
      for (const int64_t depth : {16, 32, 64}) {
        for (const int64_t blocks : {1, 4, 13}) {
          const ProductSchedule schedule{.rows = 64,
                                         .columns = 64,
                                         .row_warps = 4,
                                         .depth = depth,
                                         .stages = stages,
                                         .persistent_blocks = blocks,
                                         .at_once = at_once};
          SCOPED_TRACE(print(schedule.schedule()));
          const ScheduledKernel kernel(parsed_fusion(R"(fusion @turns {
  %v0 x : bf16[300, 72] = input
  %v1 w : bf16[136, 72] = input
  %v2 y : f32[300, 136] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})"),
                                       schedule.schedule());
          EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
                    kernel.planned().kernels.front().chosen().estimate.shared_bytes);
          kernel.expect_outputs(
              [&](const ScheduledKernel::Tensors& in) {
                return ScheduledKernel::Tensors{product_of(in, kExtents)};
              },
              2);
        }
      }
    }
  }
}

TEST(LowerProgramTest, AProducerFillsTheStages) {
  const ScheduledKernel kernel(R"(fusion @nn {
  %v0 x : bf16[72, 200] = input
  %v1 w : bf16[200, 136] = input
  %v2 y : f32[72, 136] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)
  return %v2
})",
                               groups(128, 256, 8, 3, 1));
  const kir::Kernel lowered = kernel.lowered();
  // A box of the left operand, whose lines are its rows; four of the right one.
  EXPECT_EQ(count_of<kir::TensorCopy>(lowered, lowered.body), 1 + 256 / 64);
  // The first step stands apart from the others, and its first product replaces the sums.
  EXPECT_EQ(count_of<kir::Wgmma>(lowered, lowered.body), 2 * 64 / 16);
  EXPECT_EQ(count_of<kir::WgmmaFence>(lowered, lowered.body), 2);
  EXPECT_EQ(count_of<kir::WgmmaCommit>(lowered, lowered.body), 2);
  EXPECT_EQ(std::ranges::count_if(lowered.stmts,
                                  [](const kir::Stmt& stmt) {
                                    const auto* product = std::get_if<kir::Wgmma>(&stmt.kind);
                                    return product != nullptr && product->replaces;
                                  }),
            1);
  EXPECT_EQ(count_of<kir::WgmmaWait>(lowered, lowered.body), 2) << "in the loop, and behind it";
  EXPECT_EQ(count_of<kir::Barrier>(lowered, lowered.body), 1) << "behind the mbarriers";
  EXPECT_EQ(kir::shared_bytes(lowered),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
}

// f32 in three products: warps of their own split a stage of the right operand before it is
// multiplied, the others the left operand in registers.
TEST(LowerProgramTest, OperandsOfWarpGroupsAreSplit) {
  constexpr std::string_view kSplit = R"(fusion @split {
  %v0 x : f32[72, 200] = input
  %v1 w : f32[136, 200] = input
  %v2 y : f32[72, 136] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2) precision(tf32x3)
  return %v2
})";
  constexpr Operands kOperands{kSplit, {0, kK, 1}, {0, kK, 1}};
  constexpr int64_t kRegisters = 208;
  for (const std::string& sched :
       {groups(128, 64, 8, 2, 2, 32, kRegisters), groups(64, 128, 4, 3, 1, 32, kRegisters),
        groups(128, 128, 8, 3, 7, 16, kRegisters), groups(256, 128, 8, 2, 1, 16, kRegisters),
        groups(128, 32, 8, 2, 3, 64, kRegisters)}) {
    const ScheduledKernel kernel(kSplit, sched);
    kernel.expect_outputs(
        [&](const ScheduledKernel::Tensors& in) { return multiplied(kOperands, in, 1); }, 2);
    EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
              kernel.planned().kernels.front().chosen().estimate.shared_bytes);
  }
  const kir::Kernel lowered =
      ScheduledKernel(kSplit, groups(128, 64, 8, 2, 2, 32, kRegisters)).lowered();
  EXPECT_EQ(count_of<kir::Wgmma>(lowered, lowered.body), 2 * 3 * 32 / 8);
  EXPECT_EQ(count_of<kir::WgmmaCommit>(lowered, lowered.body), 2 * 2) << "one of each half";
  EXPECT_EQ(count_of<kir::ProxyFence>(lowered, lowered.body), 1);
  EXPECT_EQ(count_of<kir::GroupBarrier>(lowered, lowered.body), 0);
  for (const kir::TensorMap& map : lowered.tensor_maps) EXPECT_FALSE(map.to_tf32);
}

/// What follows a product, with outputs of a type.
SegmentFacts facts_behind(std::string_view what, DType type) {
  FusionBuilder b("behind");
  const ValueId x = b.input(DType::kBF16, {300, 64});
  const ValueId w = b.input(DType::kBF16, {240, 64});
  const ValueId product = b.linear(x, w);
  const auto less = [&](ValueId y, ValueId row) { return b.sub(y, b.broadcast_over(row, y, {1})); };
  ValueId y = product;
  if (what == "maximum") y = less(y, b.amax(y, {1}));
  if (what == "two sums") {
    const ValueId below = less(y, b.sum(y, {1}));
    y = less(below, b.sum(b.mul(below, below), {1}));
  }
  if (what == "norm") y = layer_norm(b, y, {.output = DType::kF32}).y;
  if (what == "softmax") y = softmax(b, y, 1, DType::kF32);
  if (what == "place") b.output(b.reduce(ReduceFn::kArgMax, y, {1}), "place");
  b.output(b.cast(y, type), "y");
  return facts_of(b.build());
}

TEST(LowerProgramTest, SharedBytesAreEstimated) {
  std::vector<ProductSchedule> schedules;
  for (const int64_t stages : {2, 3, 4}) {
    schedules.push_back({.rows = 64, .columns = 256, .row_warps = 4, .stages = stages});
    for (const int64_t cluster : {1, 2, 4, 8}) {
      schedules.push_back({.rows = cluster == 1 ? 128 : 256,
                           .columns = cluster == 1 ? 256 : 128,
                           .row_warps = 8,
                           .depth = 32,
                           .stages = stages,
                           .persistent_blocks = 2 * cluster,
                           .cluster = cluster});
      schedules.push_back({.rows = 64,
                           .columns = cluster == 1 ? 256 : 128,
                           .row_warps = 4,
                           .depth = 32,
                           .stages = stages,
                           .persistent_blocks = 2 * cluster,
                           .cluster = cluster,
                           .at_once = 2});
    }
  }
  for (const char* what : {"nothing", "maximum", "two sums", "norm", "softmax", "place"}) {
    for (const DType type : {DType::kBF16, DType::kF32, DType::kI8}) {
      const SegmentFacts facts = facts_behind(what, type);
      for (const ProductSchedule& product : schedules) {
        const Schedule schedule = product.schedule();
        SCOPED_TRACE(fmt::format("{} {} {}", what, type, print(schedule)));
        const auto estimate = estimate_matmul(facts, schedule, *find_device("H200"));
        if (!facts.has_reduction() && product.cluster > 1) {
          EXPECT_FALSE(estimate);
          continue;
        }
        ASSERT_TRUE(estimate) << text_of(estimate.error());
        const auto lowered = lower(facts, schedule, builtin_families(), {.verify = true});
        ASSERT_TRUE(lowered) << lowered.error().text();
        EXPECT_EQ(kir::shared_bytes(lowered->kernel), estimate->shared_bytes);
      }
    }
  }
}

TEST(LowerProgramTest, AStepWaitsOnceAndSynchronisesOnce) {
  const ScheduledKernel kernel(kLinear, schedule(32, 32, 32, 1, 1, 4));
  const kir::Kernel lowered = kernel.lowered();
  // Three groups before the loop, and one in it.
  EXPECT_EQ(count_of<kir::AsyncCommit>(lowered, lowered.body), 4);
  EXPECT_EQ(count_of<kir::AsyncWait>(lowered, lowered.body), 1);
  EXPECT_EQ(count_of<kir::Barrier>(lowered, lowered.body), 1);
  EXPECT_EQ(count_of<kir::Mma>(lowered, lowered.body), 1) << "in loops over steps and instructions";
  EXPECT_EQ(kir::shared_bytes(lowered),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
}

}  // namespace sinter::lower_program_test
