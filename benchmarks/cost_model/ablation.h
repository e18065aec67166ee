#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/cost_model/accuracy.h"

namespace sinter::bench {

/// A part of the cost model that constants can switch off.
struct CostTerm {
  std::string_view name;
  std::string_view meaning;
  /// Constants by name, and the values at which the term has no effect.
  std::vector<std::pair<std::string_view, double>> off;
  /// Why the term stays although the timed sets show little of it; empty: it must show there.
  std::string_view stays_because{};
};

std::vector<CostTerm> cost_terms();

/// The limits with the term switched off.
DeviceLimits without(const CostTerm& term, DeviceLimits limits);

/// What a term is worth on one card, in percentage points.
struct TermWorth {
  std::string_view term;
  bool must_show = true;  ///< CostTerm::stays_because is empty.
  Accuracy without;       ///< Of predictions without the term.
  double error = 0.0;     ///< By how much the mean error grows.
  double behind = 0.0;    ///< By how much longer the choice takes, on average over problems.
  double low = 0.0;       ///< 95 % interval of `behind`: paired bootstrap over problems.
  double high = 0.0;
  /// As `behind`, of the first choice: what the model would run without re-planning, which may
  /// spill.
  double first_behind = 0.0;

  /// The most that the term is worth by any of these measures.
  [[nodiscard]] double most() const { return std::max({error, behind, first_behind}); }
};

/// Switches each term off alone, and refits nothing.
std::vector<TermWorth> ablate(const TimedSet& set);

}  // namespace sinter::bench
