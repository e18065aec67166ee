#include "scheduler/schedule/two_pass.h"

#include <algorithm>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"

namespace sinter {
namespace {

/// True if an inner reduction's result is the same in all rows.
bool reduces_for_all_rows(const SegmentFacts& facts, const StageList& list) {
  return std::ranges::any_of(list.stages, [&](const Stage& stage) {
    return std::ranges::any_of(stage.reductions, [&](OpId id) {
      return !facts.space.dependence[facts.fusion.ops[id].results.front()].rows;
    });
  });
}

}  // namespace

int64_t rows_of_block(const SegmentFacts& facts, const Schedule& schedule) {
  return divided_up(facts.space.rows, partial_rows(schedule));
}

int64_t row_tile_count(const SegmentFacts& facts, const Schedule& schedule) {
  return std::max<int64_t>(1, divided_up(rows_of_block(facts, schedule), schedule.rows_per_tile()));
}

bool is_non_persistent(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.persistent_blocks == 0) return true;
  return schedule.rows_per_tile() > 0 && !accumulates_columns(facts) &&
         rows_of_block(facts, schedule) <= 1;
}

bool goes_through_once(const SegmentFacts& facts, const StageList& list) {
  const Stage& last = list.stages.back();
  return facts.has_reduction() && last.outer.empty() && last.outputs.empty();
}

std::optional<Rejection> check_two_pass(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list) {
  const int64_t most = std::max<int64_t>(facts.space.rows, 1);
  if (schedule.rows_per_tile() < 1 || schedule.rows_per_tile() > most) {
    return rejected(schedule, "a tile has no rows, or more than there are",
                    schedule.rows_per_tile(), most, "rows per tile",
                    "use rows_per_tile 1 or more, up to the rows that a block has");
  }
  if (!goes_through_once(facts, list)) {
    if (schedule.row_access == RowAccess::kUnaligned) {
      return rejected(schedule, "a chunk of unaligned rows is other columns in every row of a tile",
                      0, 0, "",
                      "use row_access scalar for rows that are no multiple of the vector");
    }
    if (reduces_for_all_rows(facts, list)) {
      return rejected(schedule, "what is reduced once for all rows is not kept for a second part",
                      0, 0, "", "use another family, or reduce it in a fusion of its own");
    }
  }
  if (schedule.rows_per_block == 1) return std::nullopt;
  return rejected(schedule, "all threads of a block take the rows of a tile one after the other",
                  schedule.rows_per_block, 1, "rows per block",
                  "use rows_per_block 1; rows_per_tile says how many they take");
}

}  // namespace sinter
