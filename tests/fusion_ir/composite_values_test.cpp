#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "fusion_ir/composites.h"
#include "runtime/oracle/oracle.h"

// The gradient composites against differences of the forward ones, all evaluated in f64: with
// cotangent dy, the gradient of sum(y * dy) by every element of every differentiated input.

namespace sinter {
namespace {

using Values = std::vector<ValueId>;

/// A forward formula and its gradient as functions of the same inputs.
struct Formula {
  std::vector<Shape> shapes;  ///< Of the inputs, all differentiated, f64.
  std::function<ValueId(FusionBuilder&, const Values&)> forward;
  /// Gradients of the inputs in their order; takes dy after them.
  std::function<Values(FusionBuilder&, const Values&)> backward;
};

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

/// Central differences at steps h and h / 2, extrapolated: the error falls from h^2 to h^4, and the
/// distance between the two estimates bounds it with room to spare.
struct Difference {
  double value, bound;
};
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

void expect_gradients(const Formula& formula, uint64_t seed = 1) {
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

/// Inputs x, weight, bias; the statistics are recomputed from x, so that their dependence on it is
/// part of what is differentiated.
Formula layer_norm_formula(const Shape& shape, const Shape& parameter, std::vector<int> axes) {
  return {.shapes = {shape, parameter, parameter},
          .forward =
              [axes](auto& b, const Values& in) {
                return layer_norm(b, in[0], {.weight = in[1], .bias = in[2], .axes = axes}).y;
              },
          .backward = [axes](auto& b, const Values& in) -> Values {
            const LayerNorm norm = layer_norm(b, in[0], {.axes = axes});
            const NormBackward out =
                layer_norm_backward(b, in[3], in[0], norm.mean, norm.rstd,
                                    {.weight = in[1], .bias = true, .axes = axes});
            return {out.dx, *out.dweight, *out.dbias};
          }};
}

TEST(Gradients, LayerNorm) {
  expect_gradients(layer_norm_formula({3, 5}, {5}, {-1}));
  expect_gradients(layer_norm_formula({2, 3, 4}, {4}, {-1}));
  expect_gradients(layer_norm_formula({2, 3, 4}, {3, 4}, {1, -1}));
}

TEST(Gradients, LayerNormOverEverythingSumsNoParameter) {
  expect_gradients(layer_norm_formula({7}, {7}, {-1}));
}

TEST(Gradients, RmsNorm) {
  for (const std::vector<int>& axes : {std::vector<int>{-1}, std::vector<int>{1, 2}}) {
    const Shape parameter = axes.size() == 1 ? Shape{4} : Shape{3, 4};
    expect_gradients({.shapes = {{2, 3, 4}, parameter},
                      .forward =
                          [axes](auto& b, const Values& in) {
                            return rms_norm(b, in[0], {.weight = in[1], .axes = axes}).y;
                          },
                      .backward = [axes](auto& b, const Values& in) -> Values {
                        const RmsNorm norm = rms_norm(b, in[0], {.axes = axes});
                        const NormBackward out = rms_norm_backward(b, in[2], in[0], norm.rstd,
                                                                   {.weight = in[1], .axes = axes});
                        return {out.dx, *out.dweight};
                      }});
  }
}

// x = residual + dropout(branch) is normalised and also passed on, scaled so that the second
// gradient of x differs from the first.
TEST(Gradients, NormsCarryAResidualAndADropout) {
  constexpr double kScale = 1.25;
  constexpr double kOnward = 0.5;
  const Shape shape = {3, 5};
  const auto mask = [shape](FusionBuilder& b) {
    const ValueId column = b.iota(shape, 1, DType::kI32);
    return b.pointwise(PointwiseFn::kNe, {column, b.constant_integer(2, DType::kI32)});
  };
  const auto sum = [=](FusionBuilder& b, const Values& in) {
    const ValueId passed = b.mul(in[1], b.constant(kScale, DType::kF64));
    return b.add(in[0], b.select(mask(b), passed, b.constant(0.0, DType::kF64)));
  };
  const auto onward = [](FusionBuilder& b, ValueId x) {
    return b.mul(x, b.constant(kOnward, DType::kF64));
  };
  const auto options = [=](FusionBuilder& b, ValueId dy) {
    return NormBackwardOptions{
        .residual = onward(b, dy), .dropout_mask = mask(b), .dropout_scale = kScale};
  };
  expect_gradients({.shapes = {shape, shape},
                    .forward =
                        [=](auto& b, const Values& in) {
                          const ValueId x = sum(b, in);
                          return b.add(layer_norm(b, x).y, onward(b, x));
                        },
                    .backward = [=](auto& b, const Values& in) -> Values {
                      const ValueId x = sum(b, in);
                      const LayerNorm norm = layer_norm(b, x);
                      const NormBackward out =
                          layer_norm_backward(b, in[2], x, norm.mean, norm.rstd, options(b, in[2]));
                      return {out.dx, *out.dbranch};
                    }});
  expect_gradients({.shapes = {shape, shape},
                    .forward =
                        [=](auto& b, const Values& in) {
                          const ValueId x = sum(b, in);
                          return b.add(rms_norm(b, x).y, onward(b, x));
                        },
                    .backward = [=](auto& b, const Values& in) -> Values {
                      const ValueId x = sum(b, in);
                      const RmsNorm norm = rms_norm(b, x);
                      const NormBackward out =
                          rms_norm_backward(b, in[2], x, norm.rstd, options(b, in[2]));
                      return {out.dx, *out.dbranch};
                    }});
}

TEST(Gradients, SoftmaxWithABias) {
  for (const int axis : {0, 1, -1}) {
    const Shape shape = {3, 2, 4};
    const int along = axis < 0 ? axis + 3 : axis;
    const auto shifted = [=](FusionBuilder& b, const Values& in) {
      return b.add(in[0], b.broadcast(in[1], shape, {along}));
    };
    expect_gradients(
        {.shapes = {shape, {shape[static_cast<size_t>(along)]}},
         .forward = [=](auto& b, const Values& in) { return softmax(b, shifted(b, in), axis); },
         .backward = [=](auto& b, const Values& in) -> Values {
           const ValueId y = softmax(b, shifted(b, in), axis);
           const SoftmaxBackward out = softmax_backward(b, in[2], y, {.axis = axis, .bias = true});
           return {out.dx, *out.dbias};
         }});
  }
}

TEST(Gradients, DynamicTanh) {
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 4}, Shape{4}}) {
    expect_gradients({.shapes = {shape, {}, {shape.back()}, {shape.back()}},
                      .forward =
                          [](auto& b, const Values& in) {
                            return dyt(b, in[0], in[1], {.weight = in[2], .bias = in[3]});
                          },
                      .backward = [](auto& b, const Values& in) -> Values {
                        const DytBackward out =
                            dyt_backward(b, in[4], in[0], in[1], {.weight = in[2]});
                        return {out.dx, out.dalpha, *out.dweight, out.dbias};
                      }});
  }
}

TEST(Gradients, OfABias) {
  const Shape shape = {3, 2, 4};
  for (const std::vector<int>& axes :
       {std::vector<int>{2}, std::vector<int>{0, 2}, std::vector<int>{0, 1, 2}}) {
    Shape bias;
    for (const int axis : axes) bias.push_back(shape[static_cast<size_t>(axis)]);
    expect_gradients(
        {.shapes = {bias},
         .forward = [=](auto& b, const Values& in) { return b.broadcast(in[0], shape, axes); },
         .backward = [=](auto& b, const Values& in) -> Values {
           return {bias_gradient(b, in[1], axes)};
         }});
  }
}

TEST(CompositeValues, BatchStatisticsAreThoseOfTheChannelsAsRows) {
  const HostTensor x = HostTensor::random(DType::kF64, {3, 2, 4}, {.seed = 9});
  for (const int channel : {0, 1, 2, -1, -2}) {
    std::vector<int> order = {0, 1, 2};
    const auto position = order.begin() + (channel + 3) % 3;
    std::rotate(order.begin(), position, position + 1);
    const auto outputs = run(
        [&](auto& b, const Values& in) {
          const MeanVariance batch = batch_statistics(b, in[0], channel, 1.0);
          const MeanVariance rows = variance(b, b.permute(in[0], order), {1, 2}, 1.0);
          for (const ValueId value : {batch.mean, rows.mean, batch.variance, rows.variance})
            b.output(value);
        },
        {x});
    for (const size_t i : {0U, 2U}) {
      ASSERT_EQ(outputs[i].sizes, outputs[i + 1].sizes) << channel;
      for (size_t k = 0; k < outputs[i].real.size(); ++k) {
        EXPECT_NEAR(outputs[i].real[k], outputs[i + 1].real[k],
                    outputs[i].bound[k] + outputs[i + 1].bound[k])
            << channel;
      }
    }
  }
}

TEST(CompositeValues, ATotalIsTheSumOfItsRows) {
  const auto outputs = run(
      [](auto& b, const Values& in) {
        const RowLoss loss = with_total(b, kl_divergence(b, in[0], in[1]));
        b.output(loss.rows);
        b.output(loss.total);
      },
      {HostTensor::random(DType::kF64, {5, 4}, {.seed = 3}),
       HostTensor::random(DType::kF64, {5, 4}, {.seed = 4})});
  double sum = 0.0;
  double bound = 0.0;
  for (size_t i = 0; i < outputs[0].real.size(); ++i) {
    sum += outputs[0].real[i];
    bound += outputs[0].bound[i];
  }
  EXPECT_EQ(outputs[0].sizes, Sizes{5});
  EXPECT_EQ(outputs[1].sizes, Sizes{});
  EXPECT_NEAR(outputs[1].real[0], sum, outputs[1].bound[0] + bound);
}

}  // namespace
}  // namespace sinter
