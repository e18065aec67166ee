// Kernels whose blocks take rows in turns: what they do in which order, and that their numbers are
// right at any width and number of rows.

#include <gmock/gmock.h>

#include "codegen/kernel_traversal.h"
#include "codegen/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/compile_kernel.h"
#include "scheduler/turns.h"
#include "tests/integration/canned_case.h"

namespace sinter {
namespace {

Plan plan_of(const Fusion& fusion, int64_t rows, int64_t columns) {
  return plan(fusion, {{"rows", rows}, {"cols", columns}}, *find_device("H200"),
              {.families = builtin_families(), .pin = {.family = "looped"}})
      .value();
}

SegmentFacts facts_of(std::string_view name, int64_t rows, int64_t columns) {
  return plan_of(find_canned_fusion(name)->build(), rows, columns).segments.front().facts;
}

Schedule shape_of(int64_t rows_per_turn) {
  return {.family = "looped",
          .threads_per_row = 64,
          .vector_width = 8,
          .persistent_blocks = 4,
          .rows_per_turn = rows_per_turn};
}

/// Statements of one kind in a block and all that it holds.
template <class Stmt>
int64_t count_of(const kir::Kernel& kernel, const kir::Block& block,
                 const std::function<bool(const Stmt&)>& counts = {}) {
  int64_t count = 0;
  kir::for_each_stmt(kernel, block, [&](kir::StmtId id) {
    const auto* stmt = std::get_if<Stmt>(&kernel.stmts[id].kind);
    if (stmt != nullptr && (!counts || counts(*stmt))) ++count;
  });
  return count;
}

/// Loops over rows of a turn, outermost ones of the kernel or of its loop over turns.
std::vector<const kir::For*> row_loops(const kir::Kernel& kernel) {
  std::vector<const kir::For*> loops;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const auto* loop = std::get_if<kir::For>(&kernel.stmts[id].kind);
    if (loop != nullptr && kernel.vars[loop->index].name.starts_with("r")) loops.push_back(loop);
  });
  return loops;
}

bool loops_over_turns(const kir::Kernel& kernel) {
  return count_of<kir::For>(kernel, kernel.body, [&](const kir::For& loop) {
           return kernel.vars[loop.index].name == "turn";
         }) > 0;
}

bool is_partials(const kir::Kernel& kernel, kir::BufferId buffer) {
  return kernel.buffers[buffer].name.ends_with("_partials");
}

TEST(Turns, RowsAreReducedBeforeAnyIsStored) {
  const kir::Kernel kernel =
      lower_rows(facts_of("layer_norm_backward", 64, 1024), shape_of(4)).kernel;
  const std::vector<const kir::For*> loops = row_loops(kernel);
  ASSERT_EQ(loops.size(), 2U) << "the rows, and the rows for each of two chunks";
  const auto stores_global = [&](const kir::Store& store) {
    return kernel.buffers[store.buffer].space == kir::Space::kGlobal;
  };
  EXPECT_EQ(count_of<kir::AllReduce>(kernel, loops[0]->body), 1);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[0]->body, stores_global), 0);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[0]->body), 4) << "row values for later";
  EXPECT_EQ(count_of<kir::AllReduce>(kernel, loops[1]->body), 0);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[1]->body, stores_global), 1) << "dx";
}

TEST(Turns, WeightsAreReadOnceAChunk) {
  const kir::Kernel kernel =
      lower_rows(facts_of("layer_norm_backward", 64, 1024), shape_of(4)).kernel;
  const kir::For& again = *row_loops(kernel)[1];
  EXPECT_EQ(count_of<kir::Load>(kernel, again.body,
                                [&](const kir::Load& load) {
                                  return kernel.buffers[load.buffer].name == "weight";
                                }),
            0);
}

// 64 rows over 4 blocks are 16 each.
TEST(Turns, PartialResultsAreReadWhereThereAreSeveral) {
  const SegmentFacts facts = facts_of("layer_norm_backward", 64, 1024);
  for (const int64_t rows : {4, 15, 16, 64}) {
    const kir::Kernel kernel = lower_rows(facts, shape_of(rows)).kernel;
    const bool several = rows < 16;
    EXPECT_EQ(loops_over_turns(kernel), several) << rows;
    EXPECT_EQ(count_of<kir::Barrier>(kernel, kernel.body), several ? 2 : 1);
    EXPECT_EQ(count_of<kir::Load>(
                  kernel, kernel.body,
                  [&](const kir::Load& load) { return is_partials(kernel, load.buffer); }),
              several ? 2 : 0);
    EXPECT_EQ(count_of<kir::Store>(
                  kernel, kernel.body,
                  [&](const kir::Store& store) { return is_partials(kernel, store.buffer); }),
              2);
    for (const kir::Buffer& buffer : kernel.buffers) {
      if (!buffer.name.ends_with("_partials")) continue;
      EXPECT_EQ(buffer.access, several ? kir::Access::kReadWrite : kir::Access::kWrite);
    }
  }
}

TEST(Turns, WithoutStatisticsThereIsOnePart) {
  const kir::Kernel kernel = lower_rows(facts_of("dyt_backward", 64, 1024), shape_of(16)).kernel;
  EXPECT_EQ(row_loops(kernel).size(), 1U);
  EXPECT_EQ(count_of<kir::Barrier>(kernel, kernel.body), 0);
  for (const kir::Buffer& buffer : kernel.buffers) EXPECT_EQ(buffer.space, kir::Space::kGlobal);
}

TEST(Turns, TheNextRowIsOnItsWayBeforeOneIsStored) {
  Schedule schedule = shape_of(4);
  schedule.rows_ahead = 1;
  const kir::Kernel kernel = lower_rows(facts_of("layer_norm_backward", 64, 1024), schedule).kernel;
  int64_t ahead = 0;
  bool stored = false;
  kir::for_each_stmt(kernel, row_loops(kernel).at(1)->body, [&](kir::StmtId id) {
    const kir::StmtKind& kind = kernel.stmts[id].kind;
    stored = stored || std::holds_alternative<kir::Store>(kind);
    const auto* load = std::get_if<kir::Load>(&kind);
    if (load == nullptr || kernel.buffers[load->buffer].space != kir::Space::kGlobal) return;
    EXPECT_TRUE(kernel.vars[load->tile].name.ends_with("_next"));
    EXPECT_FALSE(stored);
    ++ahead;
  });
  EXPECT_EQ(ahead, 2) << "x and dy";
}

/// Row values that no reduction gives: threads share the rows of a turn.
Fusion scaled_rows() {
  FusionBuilder b("scaled_rows");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, cols}, "x");
  const ValueId s = b.input(DType::kBF16, {rows}, "s");
  const ValueId scale = b.exp(b.cast(s, DType::kF32));
  const ValueId y = b.mul(b.cast(x, DType::kF32), b.broadcast(scale, {rows, cols}, {0}));
  b.output(scale, "scale");
  b.output(b.cast(y, DType::kBF16), "y");
  b.output(b.sum(y, {0}), "columns");
  b.output(b.sum(scale, {0}), "scales");
  b.output(b.sum(y, {0, 1}), "all");
  return b.build();
}

/// A bool for each row, and a value that all rows have in common.
Fusion masked_rows() {
  FusionBuilder b("masked_rows");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kF32, {rows, cols}, "x");
  const ValueId w = b.input(DType::kF32, {}, "w");
  const ValueId weight = b.exp(w);
  const ValueId sum = b.sum(x, {1});
  const ValueId keep = b.pointwise(PointwiseFn::kGt, {sum, b.constant(0.0)});
  const ValueId keeps = b.broadcast(keep, {rows, cols}, {0});
  const ValueId scaled = b.mul(x, b.broadcast(weight, {rows, cols}, {}));
  const ValueId y = b.select(keeps, scaled, x);
  b.output(keep, "keep");
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

/// Few and many rows a turn, one and several batches at once, more blocks than rows and fewer.
std::vector<Schedule> shapes(const SegmentFacts& facts) {
  const bool whole = facts.space.columns % 8 == 0;
  std::vector<Schedule> out = {
      {.threads_per_row = 32, .unroll = 1, .persistent_blocks = 132, .rows_per_turn = 1},
      {.threads_per_row = 128, .unroll = 2, .persistent_blocks = 5, .rows_per_turn = 3},
      {.threads_per_row = 64, .unroll = 3, .persistent_blocks = 2, .rows_per_turn = 200},
      {.threads_per_row = 32,
       .unroll = 2,
       .persistent_blocks = 4,
       .rows_ahead = 1,
       .rows_per_turn = 2},
  };
  for (Schedule& schedule : out) {
    schedule.family = "looped";
    schedule.vector_width = whole ? 8 : 1;
    schedule.row_access = whole ? RowAccess::kAligned : RowAccess::kScalar;
    schedule.rows_per_turn =
        std::min(schedule.rows_per_turn, std::max<int64_t>(facts.space.rows, 1));
    if (inputs_ahead(facts, schedule).empty()) schedule.rows_ahead = 0;
  }
  return out;
}

class TurnsAt : public ::testing::TestWithParam<int64_t> {
 protected:
  static void check(const Fusion& fusion, int64_t columns) {
    const Plan plan = plan_of(fusion, GetParam(), columns);
    const SegmentFacts& facts = plan.segments.front().facts;
    if (!facts.has_outer()) return;  // The sums of one row are the row.
    for (const Schedule& schedule : shapes(facts))
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << columns << print(schedule);
  }
};

TEST_P(TurnsAt, GradientsAreTheOracles) {
  for (const char* name : {"layer_norm_backward", "rms_norm_backward_f32", "softmax_backward_bias",
                           "dyt_backward", "marginal_sums", "row_and_total_loss"}) {
    for (const int64_t columns : {1, 7, 96, 1000})
      check(find_canned_fusion(name)->build(), columns);
  }
  check(find_canned_fusion("layer_norm_backward")->build(), 1543);
}

TEST_P(TurnsAt, RowValuesOfEveryKindAreTheOracles) {
  for (const int64_t columns : {1, 7, 96, 257}) {
    check(scaled_rows(), columns);
    check(masked_rows(), columns);
  }
}

TEST_P(TurnsAt, ShiftedRowsOfTotalsAreTheOracles) {
  const Fusion fusion = find_canned_fusion("row_and_total_loss")->build();
  for (const int64_t columns : {7, 131, 1543}) {
    const Plan plan = plan_of(fusion, GetParam(), columns);
    const SegmentFacts& facts = plan.segments.front().facts;
    if (!facts.has_outer()) continue;
    for (Schedule schedule : shapes(facts)) {
      schedule.vector_width = 8;
      schedule.row_access = RowAccess::kShifted;
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << columns << print(schedule);
    }
  }
}

TEST_P(TurnsAt, ABlockForEveryRowIsTheOracle) {
  const int64_t rows = GetParam();
  for (const char* name : {"row_and_total_loss", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {96, 1000}) {
      const Plan plan = plan_of(fusion, rows, columns);
      if (!plan.segments.front().facts.has_outer()) continue;
      Schedule schedule = shape_of(1);
      schedule.unroll = 4;
      schedule.persistent_blocks = std::max<int64_t>(rows, 1);
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << name << print(schedule);
    }
  }
}

TEST_P(TurnsAt, ClustersAreTheOracles) {
  for (const char* name : {"layer_norm_backward", "dyt_backward", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(fusion, GetParam(), 1024);
    if (!plan.segments.front().facts.has_outer()) continue;
    for (const int64_t rows : {1, 2}) {
      Schedule schedule = shape_of(rows);
      schedule.rows_per_turn = std::min(rows, std::max<int64_t>(GetParam(), 1));
      schedule.threads_per_row = 32;
      schedule.cluster_blocks = 4;
      schedule.persistent_blocks = 12;
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << name << print(schedule);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TurnsAt, ::testing::Values(0, 1, 2, 17, 133));

}  // namespace
}  // namespace sinter
