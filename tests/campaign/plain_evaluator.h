#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A tensor as a list of numbers in row-major order: `real` of float types, `integer` of the others
/// (bools are 0 and 1).
struct PlainTensor {
  DType type = DType::kF32;
  Sizes sizes{};
  std::vector<double> real{};
  std::vector<int64_t> integer{};
};

/// Runs an external call: results as the call declares them, whose extents are constants.
using PlainCall =
    std::function<std::vector<PlainTensor>(const ExternalOp& op, std::span<const PlainTensor>)>;

/// Evaluates a verified fusion a second time, in the plainest way: op by op, element by element,
/// without bounds, views or threads. It shares no code with the oracle, the simplifier or the
/// scheduler, and takes nothing from the fusion IR but its data structures.
///
/// Functions are those of the C++ library in double, rounded to f32 where the op's type is f32.
/// Reductions are evaluated by their definition in long double and rounded once. Results are so
/// what a device without rounding errors inside of an op would have, which the oracle's bounds must
/// admit.
///
/// `inputs` stand in the order of Fusion::inputs. Returns the outputs in the order of
/// Fusion::outputs. Throws std::logic_error for a graph that no verifier accepts.
std::vector<PlainTensor> evaluate_plainly(const Fusion& fusion, const Binding& binding,
                                          std::span<const PlainTensor> inputs,
                                          const PlainCall& call = {});

}  // namespace sinter
