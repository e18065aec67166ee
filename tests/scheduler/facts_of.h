#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/families/schedule_verifier.h"
#include "tests/support/canned_fusions.h"

namespace sinter {

/// Simplified, specialised and analysed, as plan() does it. Throws what the analysis rejects.
inline SegmentFacts facts_of(const Fusion& fusion, const ExtentValues& extents = {}) {
  const auto binding = bind_extents(fusion, extents);
  if (!binding) throw_error(binding.error());
  auto facts = analyse(simplify(specialize(fusion, *binding)));
  if (!facts) throw_error({.kind = ErrorKind::kUnsupported, .message = text_of(facts.error())});
  return std::move(*facts);
}

/// A fusion of .fir text.
inline Fusion parsed_fusion(std::string_view fir) {
  auto fusion = parse_fusion(fir);
  if (!fusion) throw_error(fusion.error());
  return std::move(*fusion);
}

inline SegmentFacts facts_of(std::string_view fir) { return facts_of(parsed_fusion(fir)); }

/// A schedule of .sched text.
inline Schedule parsed_schedule(std::string_view sched) {
  auto schedule = parse_schedule(sched);
  if (!schedule) throw_error(schedule.error());
  return std::move(*schedule);
}

/// Extents of a canned fusion of rows and columns.
inline ExtentValues matrix(int64_t rows, int64_t cols) { return {{"rows", rows}, {"cols", cols}}; }

/// Those of a canned fusion.
inline SegmentFacts canned_facts(std::string_view name, int64_t rows, int64_t cols) {
  return facts_of(find_canned_fusion(name)->build(), matrix(rows, cols));
}

/// What verify_schedule says against a schedule, as text.
inline std::vector<std::string> reasons_against(const Schedule& schedule, const SegmentFacts& facts,
                                                const DeviceLimits& limits) {
  std::vector<std::string> out;
  for (const Rejection& rejection : verify_schedule(facts, schedule, limits, scheduling_families()))
    out.push_back(text_of(rejection));
  return out;
}

/// The value of this name; an invalid id if there is none.
inline ValueId named_value(const Fusion& fusion, std::string_view name) {
  for (const ValueId value : fusion.value_ids()) {
    if (fusion.values[value].name == name) return value;
  }
  return {};
}

}  // namespace sinter
