#include "scheduler/families/family.h"

#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/column.h"
#include "scheduler/families/looped.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/families/transpose.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {
namespace {

/// The rejections of families that walk over rows.
std::optional<Rejection> refuse_rows(const SegmentFacts& facts, std::string_view family) {
  for (Rejection& rejection : check_row_segment(facts, family)) return std::move(rejection);
  return check_outer_reductions(facts, family);
}

}  // namespace

std::optional<Rejection> refusal_of(const Family& family, const SegmentFacts& facts) {
  if (!is_for(family, facts)) {
    return rejected_at(
        family.name,
        family.contracts ? "the segment contracts nothing" : "the family contracts nothing", {},
        "use a family for this kind of segment");
  }
  return family.refuses ? family.refuses(facts) : std::nullopt;
}

const Family* find_family(const FamilySet& families, std::string_view name) {
  for (const Family& family : families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

bool is_library_call(const FamilySet& families, std::string_view name) {
  const Family* family = find_family(families, name);
  return family != nullptr && family->call;
}

FamilySet scheduling_families() {
  // Ties in predicted time go to the earlier family, which is the simpler one.
  return {
      {.name = std::string(kPointwise),
       .propose = propose_pointwise,
       .estimate = estimate_pointwise,
       .predict = predict_pointwise,
       .lower = {},
       .refuses = refuse_pointwise},
      {.name = std::string(kTranspose),
       .propose = propose_transpose,
       .estimate = estimate_transpose,
       .predict = predict_transpose,
       .lower = {},
       .layout = ElementLayout::kTiles,
       .refuses = refuse_pointwise},  // Beyond that, it runs what pointwise runs.
      {.name = std::string(kMultiTensor),
       .propose = propose_multi_tensor,
       .estimate = estimate_multi_tensor,
       .predict = predict_multi_tensor,
       .lower = {},
       .refuses = refuse_multi_tensor},
      {.name = std::string(kColumn),
       .propose = propose_column,
       .estimate = estimate_column,
       .predict = predict_column,
       .lower = {},
       .layout = ElementLayout::kColumns,
       .can_finish_by_last_block = true,
       .refuses = refuse_column},
      {.name = std::string(kLooped),
       .propose = propose_looped,
       .estimate = estimate_looped,
       .predict = predict_looped,
       .lower = {},
       .writes_partials = true,
       .refuses = [](const SegmentFacts& facts) { return refuse_rows(facts, kLooped); }},
      {.name = std::string(kMultiWave),
       .propose = propose_multi_wave,
       .estimate = estimate_multi_wave,
       .predict = predict_rows,
       .lower = {},
       .writes_partials = true,
       .can_finish_by_last_block = true,
       .refuses = [](const SegmentFacts& facts) { return refuse_rows(facts, kMultiWave); }},
      {.name = std::string(kWarpSpecialised),
       .propose = propose_warp_specialised,
       .estimate = estimate_warp_specialised,
       .predict =
           [](const SegmentFacts& facts, const Schedule& schedule, const ResourceEstimate& estimate,
              const DeviceLimits& limits) {
             return predict_warp_specialised(facts, schedule, estimate, limits);
           },
       .lower = {},
       .models_latency = true,
       .writes_partials = true,
       .can_finish_by_last_block = true,
       .refuses = [](const SegmentFacts& facts) { return refuse_rows(facts, kWarpSpecialised); }},
      {.name = std::string(kMatmul),
       .propose = propose_matmul,
       .estimate = estimate_matmul,
       .predict = predict_matmul,
       .lower = {},
       .layout = ElementLayout::kFragments,
       .contracts = true,
       .refuses = refuse_matmul},
  };
}

}  // namespace sinter
