#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fusion_ir/composites.h"
#include "tests/fusion_ir/gradient_check.h"

namespace sinter::composite_values_test {

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

TEST(CompositeValues, UniformNumbersAreThoseOfTheElementsNumber) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const ValueId seed = b.input(DType::kI64, {});
  const ValueId offset = b.input(DType::kI64, {});
  b.output(uniform(b, {rows, 1, 3, 4}, seed, offset));
  const Fusion fusion = b.build();
  const std::vector<HostTensor> inputs = {HostTensor::of(DType::kI64, {}, std::vector{11.0}),
                                          HostTensor::of(DType::kI64, {}, std::vector{100.0})};
  const auto out = evaluate(fusion, *bind_extents(fusion, {{"rows", 2}}), inputs).outputs.front();
  ASSERT_EQ(out.real.size(), 24U);
  for (size_t i = 0; i < out.real.size(); ++i) {
    EXPECT_EQ(out.real[i],
              evaluate_random(PointwiseFn::kPhiloxUniform, 11, 100 + static_cast<int64_t>(i)));
  }
}

TEST(CompositeValues, DropoutScalesWhatItKeepsInBothDirections) {
  constexpr double kDropped = 0.25;
  constexpr int64_t kCount = 4096;
  FusionBuilder b;
  const ValueId x = b.input(DType::kF64, {64, kCount / 64});
  const ValueId seed = b.constant_integer(5);
  const ValueId offset = b.constant_integer(1000);
  const Dropout forward = dropout(b, x, kDropped, seed, offset);
  b.output(forward.y);
  b.output(forward.keep);
  b.output(dropout_backward(b, x, kDropped, seed, offset));
  const HostTensor input = HostTensor::random(DType::kF64, {64, kCount / 64});
  const Fusion fusion = b.build();
  const auto out = evaluate(fusion, *bind_extents(fusion, {}), std::vector{input}).outputs;
  int64_t kept = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto element = static_cast<size_t>(i);
    const bool keep = evaluate_random(PointwiseFn::kPhiloxUniform, 5, 1000 + i) >= kDropped;
    EXPECT_EQ(out[1].integer[element], keep ? 1 : 0);
    EXPECT_EQ(out[0].real[element], keep ? input.get(i) * (1.0 / (1.0 - kDropped)) : 0.0);
    EXPECT_EQ(out[2].real[element], out[0].real[element]);
    kept += keep ? 1 : 0;
  }
  // Six standard deviations of a binomial distribution.
  const double deviation = std::sqrt(kDropped * (1.0 - kDropped) / kCount);
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 1.0 - kDropped, 6.0 * deviation);
}

TEST(CompositeValues, NothingIsDroppedWithProbabilityZero) {
  const auto out = run(
      [](FusionBuilder& b, const Values& in) {
        const ValueId seed = b.constant_integer(1);
        b.output(dropout(b, in[0], 0.0, seed, seed).y);
      },
      {HostTensor::of(DType::kF32, {4}, std::vector{1.0, -2.0, 3.0, 4.0})});
  EXPECT_EQ(out.front().real, (std::vector{1.0, -2.0, 3.0, 4.0}));
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

}  // namespace sinter::composite_values_test
