#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A symbol along which a fusion computes slice by slice: it is only ever the outermost axis, no op
/// reduces, counts, gathers or asks for its size. Inputs that repeat every `n` slices then give
/// outputs that repeat every `n` slices, so that a large problem can be held in full against an
/// oracle that evaluates `n` slices. The first such symbol that an output has; none if there is
/// none.
std::optional<SymbolId> slicewise_symbol(const Fusion& fusion);

/// A fusion at given sizes that computes slice by slice, as slicewise_symbol() means it, or
/// likewise but for totals: sums, maxima and minima over all slices, and what is computed from
/// them. The outermost axes that are walked together are its only symbols; all other extents are
/// numbers.
struct SlicedFusion {
  struct Axis {
    SymbolId symbol{};
    int64_t times = 1;  ///< Elements along it for each slice: a reshape may join or split rows.
  };

  Fusion fusion{};  ///< Ids, inputs and outputs are those of the fusion it was made of.
  int64_t slices = 0;
  std::vector<Axis> axes{};  ///< In the order of the symbols' ids.
  bool has_totals = false;

  /// With `count` slices.
  [[nodiscard]] Binding binding(int64_t count) const;
  [[nodiscard]] std::vector<SymbolId> symbols() const;
  /// The longest period, at most all slices, in which the fusion reads and writes about
  /// `element_budget` elements; at least one slice. Below all slices it is odd: a kernel that swaps
  /// rows at a distance of a power of two then cannot go unseen.
  [[nodiscard]] int64_t period(int64_t element_budget) const;
};

/// The slices of a fusion, along the outermost axis of an input or output and of all that iterates
/// together with it; they lie apart in memory. None if there are none; those without totals are
/// preferred, then those of the largest tensor. Inputs that repeat every `n` slices then give
/// outputs that do, and totals that OracleOptions::whole folds.
std::optional<SlicedFusion> find_slices(const Fusion& fusion, const Binding& binding);

}  // namespace sinter
