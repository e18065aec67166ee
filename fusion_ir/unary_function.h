#pragma once

#include <optional>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// What a graph computes from one value element by element, with constants alone.
struct UnaryFunction {
  ValueId argument, result;
  std::vector<OpId> ops;  ///< In the order of the graph, those of constants included.
};

/// The longest function of a value: pointwise operations of it, of each other and of constants, of
/// which one result alone is used by other operations or is an output. No value if nothing is
/// computed from it so, if there are several such results, or if others use the value too.
std::optional<UnaryFunction> unary_function(const Fusion& fusion, ValueId argument);

/// Its value at `x`, in double. Needs: its values and constants are floats.
double evaluate(const Fusion& fusion, const UnaryFunction& function, double x);

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel, "Gaussian Error Linear
/// Units", 2016).
double tanh_gelu(double x);

/// True if it is that function, in whatever order it is written: sums, products, quotients,
/// exponentials and hyperbolic tangents of f32 whose values at 33 points from -8 to 8 and at -90
/// and 90 are those of the formula, but for 1e-6 max(1, |x|). The same with the error function in
/// place of tanh differs by up to 5e-4.
bool is_tanh_gelu(const Fusion& fusion, const UnaryFunction& function);

}  // namespace sinter
