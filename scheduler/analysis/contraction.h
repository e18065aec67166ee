#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// A sum of products of two tensors, each of which lacks an axis that the other has: a matrix
/// product written element by element that recognize_contractions() leaves as it is. Every product
/// is ordinary arithmetic, and every operand is read once for each element of the axes that it
/// lacks.
struct Contraction {
  ValueId value{};  ///< The sum, in the graph it was found in.
  ValueId left{};   ///< The first factor, before broadcasts and casts.
  ValueId right{};
  int64_t batch = 1;  ///< Elements of the axes that both operands and the sum have.
  int64_t m = 1;      ///< Elements of the axes that only `left` and the sum have.
  int64_t n = 1;      ///< Elements of the axes that only `right` and the sum have.
  int64_t k = 1;      ///< Elements of the axes that are summed.
  /// Predicted time of the whole kernel that computes it; 0 before it is planned.
  double predicted_us = 0.0;
  friend bool operator==(const Contraction&, const Contraction&) = default;
};

/// All contractions of a graph of constant extents, in the order of its ops. Casts, broadcasts,
/// permutations, and reshapes that insert or remove axes of one element may stand between the
/// operands and the product, and between the product and the sum. So may further factors and
/// changes of sign.
std::vector<Contraction> find_contractions(const Fusion& fusion);

/// "%v9 'scores' is a matrix product written element by element: 64 x 128 x 32 (M x N x K)".
std::string text_of(const Contraction& contraction, const Fusion& fusion);

/// The decision log entry: the contraction, the predicted time of its kernel, and what to use
/// instead.
Decision decision_of(const Contraction& contraction, const Fusion& fusion);

}  // namespace sinter
