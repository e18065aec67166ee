#include "tests/fusion_ir/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sinter {
namespace {

Sizes sizes_of(const Shape& shape) {
  Sizes sizes;
  for (const Extent& extent : shape) sizes.push_back(extent.constant());
  return sizes;
}

/// sum(y * dy), summed in f64.
double weighted_sum(const Formula& formula, const std::vector<HostTensor>& inputs,
                    const HostTensor& dy) {
  const auto y = run([&](auto& b, const Values& x) { b.output(formula.forward(b, x)); }, inputs);
  double sum = 0.0;
  for (size_t i = 0; i < y.front().real.size(); ++i)
    sum += y.front().real[i] * dy.get(static_cast<int64_t>(i));
  return sum;
}

}  // namespace

std::vector<OracleOutput> run(const std::function<void(FusionBuilder&, const Values&)>& build,
                              const std::vector<HostTensor>& inputs) {
  FusionBuilder b;
  Values values;
  for (const HostTensor& tensor : inputs) {
    Shape shape;
    for (const int64_t size : tensor.sizes()) shape.emplace_back(size);
    values.push_back(b.input(tensor.type(), shape));
  }
  build(b, values);
  const Fusion fusion = b.build();
  return evaluate(fusion, *bind_extents(fusion, {}), inputs).outputs;
}

Difference difference(const std::function<double(double)>& f) {
  const auto central = [&](double h) { return (f(h) - f(-h)) / (2.0 * h); };
  // Rounding costs eps / h and truncation h^4 after extrapolation: balanced at the fifth root.
  const double h = std::pow(std::numeric_limits<double>::epsilon(), 0.2);
  const double wide = central(h);
  const double narrow = central(h / 2.0);
  const double rounding = 16.0 * std::numeric_limits<double>::epsilon() *
                          (std::fabs(f(h)) + std::fabs(f(-h)) + 1.0) / h;
  return {.value = (4.0 * narrow - wide) / 3.0, .bound = std::fabs(narrow - wide) + rounding};
}

void expect_gradients(const Formula& formula, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (const Shape& shape : formula.shapes)
    inputs.push_back(HostTensor::random(DType::kF64, sizes_of(shape), {.seed = seed++}));
  const auto y = run([&](auto& b, const Values& x) { b.output(formula.forward(b, x)); }, inputs);
  const HostTensor dy = HostTensor::random(DType::kF64, y.front().sizes, {.seed = seed});

  std::vector<HostTensor> with_dy = inputs;
  with_dy.push_back(dy);
  const auto gradients = run(
      [&](auto& b, const Values& x) {
        // A gradient may be dy itself, and an input cannot be an output.
        for (const ValueId gradient : formula.backward(b, x))
          b.output(b.mul(gradient, b.constant(1.0, DType::kF64)));
      },
      with_dy);
  ASSERT_EQ(gradients.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(gradients[i].sizes, inputs[i].sizes()) << "input " << i;
    for (int64_t k = 0; k < inputs[i].count(); ++k) {
      const double at = inputs[i].get(k);
      const Difference expected = difference([&](double h) {
        std::vector<HostTensor> moved = inputs;
        moved[i].set(k, at + h);
        return weighted_sum(formula, moved, dy);
      });
      EXPECT_NEAR(gradients[i].real[static_cast<size_t>(k)], expected.value, expected.bound)
          << "input " << i << ", element " << k;
    }
  }
}

}  // namespace sinter
