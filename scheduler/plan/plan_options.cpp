#include "scheduler/plan/plan_options.h"
#include "scheduler/analysis/kept_value.h"

#include <algorithm>

namespace sinter {

bool SchedulePin::matches(const Schedule& candidate) const {
  if (family && candidate.family != *family) return false;
  if (threads_per_row && candidate.threads_per_row != *threads_per_row) return false;
  if (rows_per_block && candidate.rows_per_block != *rows_per_block) return false;
  if (vector_width && candidate.vector_width != *vector_width) return false;
  if (unroll && candidate.unroll != *unroll) return false;
  if (!residency) return true;
  return !candidate.kept.empty() &&
         std::ranges::all_of(candidate.kept,
                             [&](const KeptValue& value) { return value.residency == *residency; });
}

std::string SchedulePin::text() const {
  std::string out;
  const auto add = [&](std::string_view name, const auto& field) {
    if (field) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, *field);
  };
  add("family", family);
  add("threads_per_row", threads_per_row);
  add("rows_per_block", rows_per_block);
  add("vector_width", vector_width);
  add("unroll", unroll);
  if (residency) out += fmt::format("{}residency {}", out.empty() ? "" : ", ", text_of(*residency));
  return out;
}

}  // namespace sinter
