#include "scheduler/analysis/decision.h"

#include <fmt/format.h>

namespace sinter {

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
