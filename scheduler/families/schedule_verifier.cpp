#include "scheduler/families/schedule_verifier.h"

#include <algorithm>
#include <set>

#include "scheduler/analysis/in_place.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/families/overwriting.h"
#include "scheduler/families/transpose.h"
#include "scheduler/schedule/last_block.h"

namespace sinter {
namespace {

Rejection broken(const Schedule& schedule, std::string rule, ValueId at, std::string remedy) {
  return rejected_at(schedule.family, std::move(rule), at, std::move(remedy));
}

/// Rules of the kept values; the family's estimate checks the others.
std::vector<Rejection> check_kept(const SegmentFacts& facts, const Schedule& schedule) {
  std::vector<Rejection> rejections;
  const auto& persistent = schedule.kept;
  for (size_t i = 0; i < persistent.size(); ++i) {
    const ValueId value = persistent[i].value;
    if (!facts.fusion.values.contains(value)) {
      rejections.push_back(broken(schedule, "a persistent value is not in the fusion", value,
                                  "name values of the simplified fusion, as `explain` prints it"));
    } else if (i > 0 && persistent[i - 1].value >= value) {
      rejections.push_back(broken(schedule, "persistent values do not ascend, or one stands twice",
                                  value, "order the keep lines by value"));
    }
  }
  if (!rejections.empty()) return rejections;
  const std::vector<bool> needed = needed_later(facts, persistent);
  for (size_t i = 0; i < persistent.size(); ++i) {
    if (needed[i] || !is_kept(persistent[i])) continue;
    rejections.push_back(broken(schedule, "no later stage needs a value that is kept",
                                persistent[i].value, "leave its keep line out"));
  }
  return rejections;
}

/// Any two neighbouring kernels in a stream may overlap. A kernel that is launched early waits for
/// the end of the previous one, whatever that is. A kernel that lets the next one start early has
/// no effect on one that is launched normally.
std::optional<Rejection> check_overlap(const Schedule& schedule, const DeviceLimits& limits) {
  if (schedule.dependent_launch == DependentLaunch::kPreload && schedule.slice_warps() == 0) {
    Rejection out = broken(
        schedule, "only warps that take parts of a contracted axis in turns load before they wait",
        {}, "use dependent_launch wait");
    out.limit = 1;
    out.unit = "slice_warps";
    return out;
  }
  if (schedule.dependent_launch == DependentLaunch::kNone || limits.has_dependent_launch)
    return std::nullopt;
  Rejection out =
      broken(schedule, "the device launches no kernel before the one ahead of it has ended", {},
             "use dependent_launch none, or a device of compute capability 9.0");
  out.value = limits.compute_major;
  return out;
}

/// If a family does not implement last-block reductions, its partial results would never be
/// finished.
std::optional<Rejection> check_finish(const SegmentFacts& facts, const Schedule& schedule,
                                      const Family& family) {
  if (schedule.finish == Finish::kLastBlock && !family.can_finish_by_last_block)
    return broken(schedule, "the family cannot finish by its last block", {}, "use finish kernel");
  return check_last_block(facts, schedule);
}

}  // namespace

std::optional<Rejection> check_stages(const SegmentFacts& facts, const Schedule& schedule,
                                      const StageList& list) {
  std::set<ValueId> kept;
  for (size_t s = 0; s < list.stages.size(); ++s) {
    const Stage& stage = list.stages[s];
    std::set<ValueId> available = kept;
    available.insert(stage.loads.begin(), stage.loads.end());
    const auto missing = [&](ValueId value) -> std::optional<Rejection> {
      if (facts.is_tile(value)) {
        if (available.contains(value) || facts.is_contracted(value)) return std::nullopt;
        return broken(schedule, fmt::format("stage {} reads an element it does not have", s), value,
                      "keep the value, or what it is computed from");
      }
      const int level = facts.level[value];
      if (level <= static_cast<int>(s)) return std::nullopt;
      return Rejection{.subject = schedule.family,
                       .rule = "a stage needs the result of a reduction that comes later",
                       .value = static_cast<double>(level),
                       .limit = static_cast<double>(s),
                       .unit = "stages",
                       .at = value,
                       .remedy = "evaluate the value in a later stage"};
    };
    for (const ValueId value : stage.computed) {
      const Op& op = facts.fusion.def_of(value);
      // The operand that a take gathers from is read by the gather itself.
      const bool is_take = std::holds_alternative<TakeOp>(op.kind);
      for (const ValueId operand : std::span(op.operands).subspan(is_take ? 1 : 0)) {
        if (auto rejection = missing(operand)) return rejection;
      }
      available.insert(value);
    }
    for (const OpId reduction : stage.reductions) {
      if (auto rejection = missing(facts.fusion.ops[reduction].operands[0])) return rejection;
    }
    for (const size_t output : stage.outputs) {
      if (auto rejection = missing(facts.fusion.outputs[output])) return rejection;
    }
    for (const ValueId value : stage.kept) {
      if (auto rejection = missing(value)) return rejection;
      kept.insert(value);
    }
  }
  return std::nullopt;
}

std::optional<Rejection> check_batches(const SegmentFacts& facts, const Schedule& schedule,
                                       std::span<const BatchSpan> spans) {
  const auto wrong = [&](const char* rule, int64_t value, int64_t limit, const char* unit) {
    return Rejection{.subject = schedule.family,
                     .rule = rule,
                     .value = static_cast<double>(value),
                     .limit = static_cast<double>(limit),
                     .unit = unit,
                     .remedy = "this is a defect of the row geometry; please report it"};
  };
  const int64_t columns = columns_per_block(facts, schedule);
  const int64_t fewest_columns = columns_of_last_block(facts, schedule);
  const int64_t reach = schedule.threads_per_row * schedule.vector_width;
  int64_t next = 0;
  for (const BatchSpan& span : spans) {
    if (span.begin != next || span.end <= span.begin)
      return wrong("batches are left out or repeated", span.begin, next, "batches");
    next = span.end;
    switch (span.predication) {
      case Predication::kElement:
        return wrong("elements of a row's vectors are predicated one by one", span.begin, 0,
                     "batches");
      case Predication::kVector:
        if (columns % schedule.vector_width != 0) {
          return wrong("a vector that straddles the end of the row is predicated as a whole",
                       columns % schedule.vector_width, 0, "elements");
        }
        break;
      case Predication::kNone:
        if (span.end * reach > fewest_columns)
          return wrong("an unpredicated batch ends past the row", span.end * reach, fewest_columns,
                       "columns");
        break;
    }
  }
  if (next * reach < columns)
    return wrong("columns at the end of the row are in no batch", next * reach, columns, "columns");
  const int64_t edges = std::min(most_peeled_elements(schedule), facts.space.columns);
  const int64_t taken = peeled_count(facts, schedule) * schedule.threads_per_row;
  if (taken < edges)
    return wrong("elements outside of the row's whole vectors are no thread's", taken, edges,
                 "elements");
  return std::nullopt;
}

std::vector<Rejection> verify_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                       const DeviceLimits& limits, const FamilySet& families) {
  std::vector<Rejection> rejections = check_kept(facts, schedule);
  const Family* family = find_family(families, schedule.family);
  if (family == nullptr) {
    rejections.push_back(broken(schedule, "no family of this name is in the set", {},
                                "add the family to PlanOptions::families"));
    return rejections;
  }
  if (!has_parameters_of_family(schedule)) {
    rejections.push_back(broken(schedule, "the parameters are those of another family", {},
                                "give Schedule::parameters the alternative of the family, as "
                                "parameters_of_family() does"));
    return rejections;
  }
  if (!is_for(*family, facts)) {
    rejections.push_back(*refusal_of(*family, facts));
    return rejections;
  }
  if (const auto estimate = family->estimate(facts, schedule, limits); !estimate)
    rejections.push_back(estimate.error());
  if (auto rejection = check_overlap(schedule, limits)) rejections.push_back(*rejection);
  if (auto rejection = check_finish(facts, schedule, *family)) rejections.push_back(*rejection);
  if (!rejections.empty()) return rejections;

  const SegmentFacts& walked = facts.list ? facts.list->member : facts;
  if (auto rejection = check_stages(walked, schedule, distribute(walked, schedule.kept)))
    rejections.push_back(*rejection);
  if (auto rejection = check_in_place(facts, schedule, *family)) rejections.push_back(*rejection);
  // The rules of rows need not hold for other layouts of elements. Of columns, blocks of a cluster
  // share the rows instead of the columns of a row. Tiles are powers of two, and their grid covers
  // everything; the tiles of each member cover a list.
  if (family->layout == ElementLayout::kRows && !facts.list && !check_row_access(facts, schedule)) {
    const auto spans = batch_spans(facts, schedule);
    if (auto rejection = check_batches(facts, schedule, {spans.data(), spans.size()}))
      rejections.push_back(*rejection);
  }
  return rejections;
}

}  // namespace sinter
