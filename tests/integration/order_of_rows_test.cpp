// What a kernel does before its row and behind it: blocks of a cluster load before they wait for
// each other, and labels are looked up behind the row.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::order_of_rows_test {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

/// Meetings, exchanges and what is read, in the order of the text, without repetitions.
std::vector<std::string> order_of(const kir::Kernel& kernel) {
  std::vector<std::string> out;
  const auto add = [&](std::string what) {
    if (out.empty() || out.back() != what) out.push_back(std::move(what));
  };
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const kir::StmtKind& stmt = kernel.stmts[id].kind;
    if (std::holds_alternative<kir::ClusterArrive>(stmt)) add("arrive");
    if (std::holds_alternative<kir::ClusterWait>(stmt)) add("wait");
    if (std::holds_alternative<kir::AllReduce>(stmt)) add("exchange");
    if (const auto* copy = std::get_if<kir::AsyncCopy>(&stmt))
      add("copy " + kernel.buffers[copy->global].name);
    const auto* load = std::get_if<kir::Load>(&stmt);
    if (load == nullptr || kernel.buffers[load->buffer].space != kir::Space::kGlobal) return;
    const bool is_one = kernel.vars[load->tile].is_scalar();
    add((is_one ? "pick " : "load ") + kernel.buffers[load->buffer].name);
  });
  return out;
}

TEST(OrderOfRows, BlocksOfAClusterLoadBeforeTheyWaitForEachOther) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {6, 1024}, "x");
  const ValueId sum = b.sum(b.exp(x), {1});
  b.output(b.div(b.exp(x), b.broadcast_over(sum, x, {1})), "y");
  const Fusion fusion = b.build();
  const Plan planned = plan(fusion, {}, *find_device("H200")).value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  Schedule schedule{.family = "multi_wave",
                    .parameters = MultiWaveParameters{.cluster_size = 2},
                    .threads_per_row = 64,
                    .vector_width = 4,
                    .kept = {{facts.fusion.inputs.front(), Residency::kRegister}}};
  EXPECT_THAT(order_of(lower_rows(facts, schedule).kernel),
              ElementsAre("arrive", "load x", "wait", "exchange"));
  EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
  schedule.kept.front().residency = Residency::kShared;
  EXPECT_THAT(order_of(lower_rows(facts, schedule).kernel),
              ElementsAre("arrive", "copy x", "wait", "exchange"));
  EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
  std::get<MultiWaveParameters>(schedule.parameters).cluster_size = 1;
  const auto alone = order_of(lower_rows(facts, schedule).kernel);
  EXPECT_THAT(alone, Not(Contains("arrive")));
  EXPECT_THAT(alone, Not(Contains("wait")));
}

/// Losses of rows: of what is picked and a sum, and, behind a second sum, of what is picked again.
Fusion picked_losses() {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {10, 512}, "x");
  const ValueId labels = b.input(DType::kI64, {10}, "labels");
  const ValueId others = b.input(DType::kI64, {10}, "others");
  const ValueId sum = b.sum(b.exp(x), {1});
  b.output(b.sub(b.log(sum), b.neg(b.take(x, labels, 1))), "loss");
  const ValueId shares = b.div(b.exp(x), b.broadcast_over(sum, x, {1}));
  b.output(b.mul(b.sum(b.mul(shares, shares), {1}), b.take(x, others, 1)), "second");
  return b.build();
}

TEST(OrderOfRows, LabelsAreLookedUpBehindTheRowThatTheirValueWaitsFor) {
  const Fusion fusion = picked_losses();
  const Plan planned = plan(fusion, {}, *find_device("H200")).value();
  ASSERT_EQ(planned.kernels.size(), 1U);
  const SegmentFacts& facts = planned.kernels.front().facts;
  const Schedule looped{.family = "looped",
                        .parameters = LoopedParameters{},
                        .threads_per_row = 64,
                        .vector_width = 4};
  EXPECT_THAT(order_of(lower_rows(facts, looped).kernel),
              ElementsAre("pick labels", "pick others", "load x", "pick x", "exchange", "load x",
                          "pick x", "exchange"));
  for (const int64_t rows_per_block : {1, 2, 4}) {
    for (const int64_t cluster : {1, 2}) {
      for (const int64_t threads : {32, 64}) {
        Schedule schedule = looped;
        schedule.threads_per_row = threads;
        schedule.rows_per_block = rows_per_block;
        schedule.parameters = LoopedParameters{.cluster_size = cluster};
        EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
        schedule.family = "multi_wave";
        schedule.parameters = MultiWaveParameters{.cluster_size = cluster};
        for (const Residency residency : {Residency::kRegister, Residency::kShared}) {
          schedule.kept = {{facts.fusion.inputs.front(), residency}};
          EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
        }
      }
    }
  }
}

}  // namespace sinter::order_of_rows_test
