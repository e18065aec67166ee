#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// A sum of products of two tensors each of which lacks an axis that the other has: a matrix
/// product written element by element. Sinter has no primitive for it, so every product is
/// computed by ordinary arithmetic, and every operand is read as often as the other one's axes say.
struct Contraction {
  ValueId value{};  ///< The sum, in the graph it was found in.
  ValueId left{};   ///< What is multiplied, before broadcasts and casts.
  ValueId right{};
  int64_t batch = 1;  ///< Elements of the axes that both operands and the sum have.
  int64_t m = 1;      ///< Of the axes that only `left` and the sum have.
  int64_t n = 1;      ///< Of the axes that only `right` and the sum have.
  int64_t k = 1;      ///< Of the axes that are summed.
  /// Of the kernel that computes it, with all else that this kernel does; 0 before it is planned.
  double predicted_us = 0.0;
  friend bool operator==(const Contraction&, const Contraction&) = default;
};

/// All contractions of a graph whose extents are numbers, in the order of its ops. Casts,
/// broadcasts, permutations, and reshapes that insert or remove axes of one element may stand
/// between the operands and the product, and between the product and the sum; further factors and
/// changes of sign too.
std::vector<Contraction> find_contractions(const Fusion& fusion);

/// "%v9 'scores' is a matrix product written element by element: 64 x 128 x 32 (M x N x K)".
std::string text_of(const Contraction& contraction, const Fusion& fusion);

/// That it is one, what its kernel is predicted to take, and what to use instead.
Decision decision_of(const Contraction& contraction, const Fusion& fusion);

}  // namespace sinter
