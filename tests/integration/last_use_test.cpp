// What loads ask of L2 where rows are read again: kept until their last read, which leaves first.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "codegen/kernel_traversal.h"
#include "codegen/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "tests/integration/canned_case.h"

namespace sinter {
namespace {

using testing::ElementsAre;

/// RMS norm of x times a gate, which only the second stage reads.
Fusion gated() {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {64, 1024}, "x");
  const ValueId gate = b.input(DType::kBF16, {64, 1024}, "gate");
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId sum = b.sum(b.mul(wide, wide), {1});
  const ValueId scaled = b.mul(wide, b.broadcast_over(b.rsqrt(sum), wide, {1}));
  b.output(b.cast(b.mul(scaled, b.cast(gate, DType::kF32)), DType::kBF16), "y");
  return b.build();
}

/// Buffer and hint of every load of a tile, in the order of the text.
std::vector<std::string> hints_of(const kir::Kernel& kernel) {
  std::vector<std::string> out;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const auto* load = std::get_if<kir::Load>(&kernel.stmts[id].kind);
    if (load == nullptr || kernel.vars[load->tile].is_scalar()) return;
    out.push_back(kernel.buffers[load->buffer].name + " " + std::string(text_of(load->hint)));
  });
  return out;
}

TEST(LastUse, RowsAreKeptUntilTheyAreReadForTheLastTime) {
  const Fusion fusion = gated();
  const Plan planned = plan(fusion, {}, *find_device("H200")).value();
  const SegmentFacts& facts = planned.segments.front().facts;
  Schedule schedule{.family = "looped",
                    .threads_per_row = 64,
                    .vector_width = 8,
                    .unroll = 2,
                    .read_priority = ReadPriority::kLastUse};
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_last", "x evict_first", "gate evict_first"));
  EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
  schedule.read_priority = ReadPriority::kEvictLast;
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_last", "x evict_last", "gate evict_last"));
  schedule.family = "multi_wave";
  schedule.read_priority = ReadPriority::kLastUse;
  schedule.persistent = {{facts.fusion.inputs.front()}};
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_first", "gate evict_first"))
      << "what is kept is read once";
}

}  // namespace
}  // namespace sinter
