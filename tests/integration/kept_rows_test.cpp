// In which order threads take the vectors of rows that registers hold: those that may lie outside
// the row first, so that nothing waits before the last load is in flight.

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::kept_rows_test {

using testing::Each;
using testing::ElementsAre;

/// Three vectors of eight elements for each of 64 threads, the last of them for half of these.
Fusion softmax_of_1280() {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {16, 1280}, "x");
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId exps = b.exp(b.sub(wide, b.broadcast_over(b.amax(wide, {1}), wide, {1})));
  const ValueId y = b.div(exps, b.broadcast_over(b.sum(exps, {1}), wide, {1}));
  b.output(b.cast(y, DType::kBF16), "y");
  return b.build();
}

/// How tiles are loaded, in the order of the text.
std::vector<std::string> loads_of(const kir::Kernel& kernel) {
  std::vector<std::string> out;
  std::set<kir::StmtId> predicated;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    if (const auto* branch = std::get_if<kir::If>(&kernel.stmts[id].kind)) {
      kir::for_each_stmt(kernel, branch->then_body,
                         [&](kir::StmtId inner) { predicated.insert(inner); });
    }
    const auto* load = std::get_if<kir::Load>(&kernel.stmts[id].kind);
    if (load != nullptr && !kernel.vars[load->tile].is_scalar())
      out.emplace_back(predicated.contains(id) ? "predicated" : "whole");
  });
  return out;
}

class KeptRows : public testing::Test {
 protected:
  /// Keeps the input in registers.
  [[nodiscard]] Schedule kept_by(int64_t threads_per_row, int64_t rows_per_block) const {
    return {.family = "multi_wave",
            .parameters = MultiWaveParameters{},
            .threads_per_row = threads_per_row,
            .rows_per_block = rows_per_block,
            .vector_width = 8,
            .kept = {{facts_.fusion.inputs.front()}}};
  }
  [[nodiscard]] std::vector<std::string> loads_by(const Schedule& schedule) const {
    return loads_of(lower_rows(facts_, schedule).kernel);
  }

  const Fusion fusion_ = softmax_of_1280();
  const Plan planned_ = plan(fusion_, {}, *find_device("H200")).value();
  const SegmentFacts& facts_ = planned_.kernels.front().facts;
};

TEST_F(KeptRows, ThreadsLoadWhatMayLieOutsideFirst) {
  Schedule schedule = kept_by(64, 2);
  EXPECT_THAT(loads_by(schedule), ElementsAre("predicated", "whole"))
      << "the loop over whole vectors";
  EXPECT_TRUE(computes_the_oracle(fusion_, planned_, schedule));
  // Of a row that they read again they go on in its order.
  schedule.family = "looped";
  schedule.parameters = LoopedParameters{};
  schedule.kept.clear();
  const std::vector<std::string> again = loads_by(schedule);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.front(), "whole");
  EXPECT_TRUE(computes_the_oracle(fusion_, planned_, schedule));
}

TEST_F(KeptRows, AWholeRowNeedsNoGuard) {
  const Schedule schedule = kept_by(32, 4);
  EXPECT_THAT(loads_by(schedule), Each("whole"));
  EXPECT_TRUE(computes_the_oracle(fusion_, planned_, schedule));
}

}  // namespace sinter::kept_rows_test
