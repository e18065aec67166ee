#include "scheduler/families/overwriting.h"

#include <algorithm>

#include "scheduler/analysis/stages.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

int64_t rows_of_slots(const Schedule& schedule, const Family& family) {
  // Tiles that a block works on at once have rows of their own.
  if (family.layout == ElementLayout::kFragments) return 1;
  const int64_t of_slot =
      family.layout == ElementLayout::kColumns ? schedule.unroll : schedule.rows_per_iteration();
  return schedule.rows_per_block * std::max<int64_t>(of_slot, 1);
}

std::optional<Rejection> check_in_place(const SegmentFacts& facts, const Schedule& schedule,
                                        const Family& family) {
  // Elements of a tensor list are processed one by one, in one stage.
  if (facts.list || facts.in_place.empty()) return std::nullopt;
  if (family.layout == ElementLayout::kTiles) {
    return rejected_at(schedule.family, "threads store elements that others have read",
                       facts.in_place.front().input,
                       "none needed: other families take the segment");
  }
  // Slots beyond the last row read that row, while the thread that owns it may have written it. So
  // do lanes that have rows of a fragment beyond the last one of a batch, where rows are reduced.
  int64_t rows = rows_of_slots(schedule, family);
  int64_t of = facts.space.rows;
  const bool by_tiles = family.layout == ElementLayout::kFragments && facts.has_reduction();
  if (by_tiles && facts.space.contraction) {
    rows = std::max<int64_t>(schedule.tile_rows(), 1);
    of = 1;
    for (size_t i = facts.space.contraction->batch_dimensions; i < facts.space.row_dimensions; ++i)
      of *= facts.space.dimensions[i].size;
  }
  if (of % rows != 0) {
    Rejection out =
        rejected_at(schedule.family, "the last block reads a row again that it overwrites",
                    facts.in_place.front().input,
                    by_tiles ? "use tile_rows that divide the rows"
                             : "use rows per block that divide the rows");
    out.value = static_cast<double>(rows);
    out.limit = static_cast<double>(of);
    out.unit = "rows";
    return out;
  }
  // So do blocks of a persistent grid that have no row.
  if (schedule.persistent_blocks > 0 && rows_at_once(schedule) > facts.space.rows) {
    Rejection out =
        rejected_at(schedule.family, "a block without a row reads one that another overwrites",
                    facts.in_place.front().input, "use no more persistent blocks than rows need");
    out.value = static_cast<double>(rows_at_once(schedule));
    out.limit = static_cast<double>(facts.space.rows);
    out.unit = "rows";
    return out;
  }
  const StageList list = stages_of(facts, schedule);
  for (const InPlace& pair : facts.in_place) {
    bool is_stored = false;
    for (const Stage& stage : list.stages) {
      for (const ValueId value : stage.loads) {
        if (is_stored && facts.space.find_input(value)->tensor == pair.input) {
          return rejected_at(schedule.family,
                             "a stage reads an input again whose memory an output took over before",
                             pair.input, "keep the elements of the row");
        }
      }
      is_stored |= std::ranges::find(stage.outputs, pair.output) != stage.outputs.end();
    }
  }
  return std::nullopt;
}

}  // namespace sinter
