#include "fusion_ir/training_composites.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/fusion_ir/gradient_check.h"

namespace sinter::training_composites_test {

/// A function of one row-major element number.
using Element = std::function<double(int64_t)>;

/// Expects a f64 formula to give what `expected` computes on its own; roundings of either are far
/// below the distance allowed.
void expect_values(const OracleOutput& actual, const Element& expected) {
  constexpr double kWidest = 1e-9;
  constexpr double kRoundings = 64.0 * std::numeric_limits<double>::epsilon();
  for (size_t i = 0; i < actual.real.size(); ++i) {
    const double value = expected(static_cast<int64_t>(i));
    EXPECT_LT(actual.bound[i], kWidest) << "element " << i;
    EXPECT_NEAR(actual.real[i], value, actual.bound[i] + kRoundings * (1.0 + std::fabs(value)))
        << "element " << i;
  }
}

HostTensor random(Sizes sizes, uint64_t seed) {
  return HostTensor::random(DType::kF64, std::move(sizes), {.seed = seed});
}

using Unary = ValueId (*)(FusionBuilder&, ValueId, std::optional<DType>);
using UnaryBackward = ValueId (*)(FusionBuilder&, ValueId, ValueId, std::optional<DType>);

TEST(TrainingGradients, OfActivations) {
  for (const auto& [forward, backward] :
       std::vector<std::pair<Unary, UnaryBackward>>{{silu, silu_backward},
                                                    {relu, relu_backward},
                                                    {gelu, gelu_backward},
                                                    {gelu_tanh, gelu_tanh_backward}}) {
    expect_gradients(
        {.shapes = {{3, 8}},
         .forward = [f = forward](auto& b, const Values& in) { return f(b, in[0], {}); },
         .backward = [f = backward](auto& b, const Values& in) -> Values {
           return {f(b, in[1], in[0], {})};
         }});
  }
}

TEST(TrainingGradients, OfGatedActivations) {
  using Gated = ValueId (*)(FusionBuilder&, ValueId, ValueId, std::optional<DType>);
  using Backward =
      GatedBackward (*)(FusionBuilder&, ValueId, ValueId, ValueId, std::optional<DType>);
  for (const auto& [forward, backward] : std::vector<std::pair<Gated, Backward>>{
           {swiglu, swiglu_backward}, {geglu, geglu_backward}}) {
    expect_gradients(
        {.shapes = {{3, 8}, {3, 8}},
         .forward = [f = forward](auto& b, const Values& in) { return f(b, in[0], in[1], {}); },
         .backward = [f = backward](auto& b, const Values& in) -> Values {
           const GatedBackward out = f(b, in[2], in[0], in[1], {});
           return {out.dgate, out.dup};
         }});
  }
}

TEST(TrainingGradients, OfRotaryEmbeddings) {
  for (const Shape& shape : {Shape{3, 2, 4}, Shape{3, 6}}) {
    const Shape angles = {3, shape.back().constant() / 2};
    const auto table = [=](FusionBuilder& b, PointwiseFn fn) {
      return b.pointwise(fn, {b.cast(b.iota(angles, 1), DType::kF64)});
    };
    expect_gradients({.shapes = {shape},
                      .forward =
                          [=](auto& b, const Values& in) {
                            const ValueId cos = table(b, PointwiseFn::kCos);
                            return rotary_embedding(b, in[0], cos, table(b, PointwiseFn::kSin));
                          },
                      .backward = [=](auto& b, const Values& in) -> Values {
                        const ValueId cos = table(b, PointwiseFn::kCos);
                        return {
                            rotary_embedding_backward(b, in[1], cos, table(b, PointwiseFn::kSin))};
                      }});
  }
}

TEST(TrainingGradients, OfMaskedSoftmax) {
  constexpr double kScale = 0.5;
  const Shape shape = {4, 5};
  // Causal, so that the first row has one score alone.
  const auto mask = [=](FusionBuilder& b) {
    const ValueId row = b.iota(shape, 0);
    return b.pointwise(PointwiseFn::kLe, {b.iota(shape, 1), row});
  };
  expect_gradients({.shapes = {shape},
                    .forward =
                        [=](auto& b, const Values& in) {
                          return scaled_masked_softmax(b, in[0], kScale, {.mask = mask(b)});
                        },
                    .backward = [=](auto& b, const Values& in) -> Values {
                      const ValueId y = scaled_masked_softmax(b, in[0], kScale, {.mask = mask(b)});
                      return {scaled_masked_softmax_backward(b, in[1], y, kScale)};
                    }});
}

TEST(TrainingGradients, OfCrossEntropy) {
  const Shape shape = {4, 6};
  for (const DType type : {DType::kI32, DType::kI64}) {
    const auto labels = [=](FusionBuilder& b) { return b.iota({4}, 0, type); };
    expect_gradients(
        {.shapes = {shape},
         .forward = [=](auto& b, const Values& in) { return cross_entropy(b, in[0], labels(b)); },
         .backward = [=](auto& b, const Values& in) -> Values {
           return {cross_entropy_backward(b, in[1], in[0], labels(b))};
         }});
  }
}

TEST(TrainingComposites, RotaryEmbeddingsTurnPairsOfHalves) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kDim = 6;
  const HostTensor x = random({3, kHeads, kDim}, 1);
  const HostTensor cos = random({3, kDim / 2}, 2);
  const HostTensor sin = random({3, kDim / 2}, 3);
  const auto y =
      run([](auto& b, const Values& in) { b.output(rotary_embedding(b, in[0], in[1], in[2])); },
          {x, cos, sin});
  ASSERT_EQ(y.front().sizes, x.sizes());
  expect_values(y.front(), [&](int64_t i) {
    const int64_t column = i % kDim;
    const bool low = column < kDim / 2;
    const int64_t angle = i / (kHeads * kDim) * (kDim / 2) + column % (kDim / 2);
    const double other = x.get(low ? i + kDim / 2 : i - kDim / 2);
    return x.get(i) * cos.get(angle) + (low ? -other : other) * sin.get(angle);
  });
}

TEST(TrainingComposites, RotaryEmbeddingsNeedHalves) {
  FusionBuilder b;
  const Extent dim = b.symbol("dim");
  const ValueId angles = b.input(DType::kF32, {3, 2});
  for (const Shape& shape : {Shape{3, 5}, Shape{3, dim}, Shape{4}, Shape{3, 0}, Shape{}}) {
    EXPECT_THROW(rotary_embedding(b, b.input(DType::kBF16, shape), angles, angles),
                 SinterException);
  }
}

TEST(TrainingComposites, MaskedSoftmaxCountsWhatIsSeen) {
  const HostTensor scores = random({3, 4}, 4);
  const HostTensor mask =
      HostTensor::of(DType::kBool, {3, 4}, std::vector<double>{1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 1});
  const auto y = run(
      [](auto& b, const Values& in) {
        b.output(scaled_masked_softmax(b, in[0], 0.25, {.mask = in[1]}));
      },
      {scores, mask});
  expect_values(y.front(), [&](int64_t i) {
    double sum = 0.0;
    for (int64_t k = i / 4 * 4; k < i / 4 * 4 + 4; ++k)
      sum += mask.get(k) * std::exp(0.25 * scores.get(k));
    return mask.get(i) * std::exp(0.25 * scores.get(i)) / sum;
  });
}

TEST(TrainingComposites, IgnoredLabelsGetNoGradient) {
  const HostTensor logits = random({3, 4}, 5);
  const HostTensor dloss = random({3}, 6);
  // The last one is outside and is not ignored: nothing is its column.
  const HostTensor labels = HostTensor::of(DType::kI64, {3}, std::vector<double>{2, -100, 9});
  const auto dlogits = run(
      [](auto& b, const Values& in) {
        b.output(cross_entropy_backward(b, in[1], in[0], in[2], {.ignored_label = -100}));
      },
      {logits, dloss, labels});
  expect_values(dlogits.front(), [&](int64_t i) {
    const int64_t row = i / 4;
    if (row == 1) return 0.0;
    double sum = 0.0;
    for (int64_t k = row * 4; k < row * 4 + 4; ++k) sum += std::exp(logits.get(k));
    const double hit = i % 4 == labels.get_integer(row) ? 1.0 : 0.0;
    return (std::exp(logits.get(i)) / sum - hit) * dloss.get(row);
  });
}

TEST(TrainingComposites, GegluIsAProductWithTheNormalDistribution) {
  const HostTensor gate = random({5}, 7);
  const HostTensor up = random({5}, 8);
  const auto y =
      run([](auto& b, const Values& in) { b.output(geglu(b, in[0], in[1])); }, {gate, up});
  expect_values(y.front(), [&](int64_t i) {
    const double x = gate.get(i);
    return x * 0.5 * std::erfc(-x / std::numbers::sqrt2) * up.get(i);
  });
}

TEST(TrainingComposites, AdamMovesParametersAndMoments) {
  constexpr double kRate = 0.25;
  constexpr double kDecay = 0.125;
  constexpr double kBeta1 = 0.75;
  constexpr double kBeta2 = 0.875;
  constexpr double kEpsilon = 1e-3;
  const double correction1 = 1.0 - std::pow(kBeta1, 3.0);
  const double correction2 = 1.0 - std::pow(kBeta2, 3.0);
  const HostTensor p = random({3, 4}, 9);
  const HostTensor g = random({3, 4}, 10);
  const HostTensor m = random({3, 4}, 11);
  HostTensor v = random({3, 4}, 12);
  for (int64_t i = 0; i < v.count(); ++i) v.set(i, std::fabs(v.get(i)));
  const auto out = run(
      [&](auto& b, const Values& in) {
        AdamScalars scalars{};
        scalars.learning_rate = b.constant(kRate, DType::kF64);
        scalars.correction1 = b.constant(correction1, DType::kF64);
        scalars.correction2 = b.constant(correction2, DType::kF64);
        const AdamStep step = adam_step(
            b, in[0], in[1], in[2], in[3], scalars,
            {.beta1 = kBeta1, .beta2 = kBeta2, .epsilon = kEpsilon, .weight_decay = kDecay});
        for (const ValueId value : {step.p, step.m, step.v}) b.output(value);
      },
      {p, g, m, v});
  const auto next_m = [&](int64_t i) { return kBeta1 * m.get(i) + (1.0 - kBeta1) * g.get(i); };
  const auto next_v = [&](int64_t i) {
    return kBeta2 * v.get(i) + (1.0 - kBeta2) * g.get(i) * g.get(i);
  };
  expect_values(out[0], [&](int64_t i) {
    const double root = std::sqrt(next_v(i) / correction2);
    return p.get(i) * (1.0 - kRate * kDecay) - kRate * next_m(i) / correction1 / (root + kEpsilon);
  });
  expect_values(out[1], next_m);
  expect_values(out[2], next_v);
}

TEST(TrainingComposites, AdamKeepsTypes) {
  FusionBuilder b;
  const Shape shape = {8, 32};
  const ValueId p = b.input(DType::kBF16, shape);
  const ValueId g = b.input(DType::kBF16, shape);
  const ValueId m = b.input(DType::kF32, shape);
  const ValueId v = b.input(DType::kF32, shape);
  const ValueId scalar = b.input(DType::kF32, {});
  const AdamStep step = adam_step(
      b, p, g, m, v, {.learning_rate = scalar, .correction1 = scalar, .correction2 = scalar});
  const auto type = [&](ValueId x) { return b.fusion().values[x].type; };
  EXPECT_EQ(type(step.p), DType::kBF16);
  EXPECT_EQ(type(step.m), DType::kF32);
  EXPECT_EQ(type(step.v), DType::kF32);
  EXPECT_EQ(b.fusion().values[step.p].shape, shape);
}

TEST(TrainingComposites, StorageTypesGiveF32UnlessAskedOtherwise) {
  for (const std::optional<DType> asked : {std::optional<DType>{}, std::optional{DType::kBF16}}) {
    FusionBuilder b;
    const Extent tokens = b.symbol("tokens");
    const ValueId x = b.input(DType::kBF16, {tokens, 4, 8});
    const ValueId angles = b.input(DType::kF32, {tokens, 4});
    const ValueId labels = b.input(DType::kI32, {tokens, 4});
    const ValueId dloss = b.input(DType::kF32, {tokens, 4});
    const GatedBackward swiglu = swiglu_backward(b, x, x, x, asked);
    const GatedBackward geglu = geglu_backward(b, x, x, x, asked);
    const Values results = {
        rotary_embedding(b, x, angles, angles, asked),
        rotary_embedding_backward(b, x, angles, angles, asked),
        relu_backward(b, x, x, asked),
        silu_backward(b, x, x, asked),
        gelu_backward(b, x, x, asked),
        gelu_tanh_backward(b, x, x, asked),
        sinter::geglu(b, x, x, asked),
        swiglu.dgate,
        swiglu.dup,
        geglu.dgate,
        geglu.dup,
        scaled_masked_softmax(b, x, 0.5, {.output = asked}),
        scaled_masked_softmax_backward(b, x, x, 0.5, asked),
        cross_entropy_backward(b, dloss, x, labels, {.output = asked}),
    };
    for (const ValueId result : results) {
      EXPECT_EQ(b.fusion().values[result].type, asked.value_or(DType::kF32));
      EXPECT_EQ(b.fusion().values[result].shape, b.fusion().values[x].shape);
    }
  }
}

}  // namespace sinter::training_composites_test
