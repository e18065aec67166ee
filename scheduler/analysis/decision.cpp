#include "scheduler/analysis/decision.h"

#include <fmt/format.h>

namespace sinter {

Rejection rejected_at(std::string_view subject, std::string rule, ValueId at, std::string remedy) {
  return {.subject = std::string(subject),
          .rule = std::move(rule),
          .at = at,
          .remedy = std::move(remedy)};
}

std::string text_of(const Rejection& rejection) {
  std::string out = fmt::format("{}: {}", rejection.subject, rejection.rule);
  if (!rejection.unit.empty()) {
    out += fmt::format(" (value {:g}, limit {:g} {}", rejection.value, rejection.limit,
                       rejection.unit);
    if (rejection.at.valid()) out += fmt::format(", {}", rejection.at);
    out += ")";
  } else if (rejection.at.valid()) {
    out += fmt::format(" ({})", rejection.at);
  }
  if (!rejection.remedy.empty()) out += fmt::format(". Remedy: {}", rejection.remedy);
  return out;
}

}  // namespace sinter
