#pragma once

#include <functional>
#include <vector>

#include "fusion_ir/fusion_builder.h"
#include "runtime/oracle/oracle.h"

namespace sinter {

using Values = std::vector<ValueId>;

/// A forward formula and its gradient as functions of the same inputs.
struct Formula {
  std::vector<Shape> shapes;  ///< Of the inputs, all differentiated, f64.
  std::function<ValueId(FusionBuilder&, const Values&)> forward;
  /// Gradients of the inputs in their order; takes dy after them.
  std::function<Values(FusionBuilder&, const Values&)> backward;
};

/// What the outputs of a graph over these inputs, of constant extents, must hold.
std::vector<OracleOutput> run(const std::function<void(FusionBuilder&, const Values&)>& build,
                              const std::vector<HostTensor>& inputs);

/// Central differences at steps h and h / 2, extrapolated: the error falls from h^2 to h^4, and the
/// distance between the two estimates bounds it with room to spare.
struct Difference {
  double value, bound;
};
/// The derivative at 0 of a function evaluated in f64.
Difference difference(const std::function<double(double)>& f);

/// Holds the gradients against differences of the forward formula, all evaluated in f64: with a
/// random cotangent dy, those of sum(y * dy) by every element of every input.
void expect_gradients(const Formula& formula, uint64_t seed = 1);

}  // namespace sinter
