#include "fusion_ir/composites.h"

#include <gtest/gtest.h>

#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::composites_test {

const Value& output_value(const Fusion& fusion, size_t i = 0) {
  return fusion.values[fusion.outputs[i]];
}

TEST(Composites, StorageTypesGiveF32UnlessAskedOtherwise) {
  using Unary = ValueId (*)(FusionBuilder&, ValueId, std::optional<DType>);
  for (const Unary fn :
       {Unary{gelu}, Unary{gelu_tanh}, Unary{sigmoid}, Unary{silu}, Unary{relu}, Unary{softplus}}) {
    for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
      const Fusion plain = fusion_of([&](auto& b, ValueId x) { return b.neg(fn(b, x, {})); }, type);
      EXPECT_EQ(output_value(plain).type, type == DType::kF64 ? DType::kF64 : DType::kF32);
      const Fusion asked =
          fusion_of([&](auto& b, ValueId x) { return fn(b, x, DType::kF16); }, type);
      EXPECT_EQ(output_value(asked).type, DType::kF16);
      EXPECT_EQ(output_value(asked).shape, (Shape{8, 32}));
    }
  }
}

TEST(Composites, AxesMayBeNegativeAndAreRemovedByStatistics) {
  const Shape shape = {4, 8, 16};
  for (const auto& [axes, rest] : std::vector<std::pair<std::vector<int>, Shape>>{
           {{-1}, {4, 8}}, {{0}, {8, 16}}, {{-2, 2}, {4}}, {{}, {}}}) {
    for (const auto& make : std::vector<std::function<ValueId(FusionBuilder&, ValueId)>>{
             [&](auto& b, ValueId x) { return mean(b, x, axes); },
             [&](auto& b, ValueId x) { return variance(b, x, axes).variance; },
             [&](auto& b, ValueId x) { return logsumexp(b, x, axes); }}) {
      EXPECT_EQ(output_value(fusion_of(make, DType::kBF16, shape)).shape, rest);
    }
  }
  const auto rows = [](auto& b, ValueId x) { return softmax(b, x, 0); };
  EXPECT_EQ(output_value(fusion_of(rows, DType::kBF16, shape)).shape, shape);
}

TEST(Composites, LayerNormOffersItsStatistics) {
  FusionBuilder b;
  const Shape shape = {4, 8, 16};
  const ValueId x = b.input(DType::kBF16, shape);
  const ValueId weight = b.input(DType::kBF16, {8, 16});
  const ValueId bias = b.input(DType::kBF16, {8, 16});
  const LayerNorm norm =
      layer_norm(b, x, {.output = DType::kBF16, .weight = weight, .bias = bias, .axes = {-2, -1}});
  b.output(norm.y);
  b.output(norm.mean);
  b.output(norm.rstd);
  const Fusion fusion = b.build();
  EXPECT_EQ(output_value(fusion, 0).type, DType::kBF16);
  EXPECT_EQ(output_value(fusion, 0).shape, shape);
  for (const size_t i : {1U, 2U}) {
    EXPECT_EQ(output_value(fusion, i).type, DType::kF32);
    EXPECT_EQ(output_value(fusion, i).shape, Shape{4});
  }
}

TEST(Composites, CrossEntropyPicksFromTheStoredLogits) {
  FusionBuilder b;
  const ValueId logits = b.input(DType::kBF16, {8, 32});
  const ValueId labels = b.input(DType::kI32, {8});
  b.output(cross_entropy(b, logits, labels));
  const Fusion fusion = b.build();
  EXPECT_EQ(output_value(fusion).shape, Shape{8});
  for (const Op& op : fusion.ops) {
    if (text_of(op.kind) == "take") {
      EXPECT_EQ(op.operands[0], logits);
    }
  }
  EXPECT_EQ(count_ops(fusion, "take"), 1);
}

TEST(Composites, QuantisationReturnsBytesAndScales) {
  for (const DType type : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kBF16, {8, 32});
    const Quantized rows = quantize_per_row(b, x, {.type = type});
    const Quantized groups = quantize_per_group(b, x, {.count = 4, .size = 8}, {.type = type});
    b.output(quantize(b, x, b.input(DType::kF32, {}), type));
    for (const Quantized& quantized : {rows, groups}) {
      b.output(quantized.q);
      b.output(quantized.scale);
    }
    const Fusion fusion = b.build();
    for (const size_t i : {0U, 1U, 3U}) {
      EXPECT_EQ(output_value(fusion, i).type, type);
      EXPECT_EQ(output_value(fusion, i).shape, (Shape{8, 32}));
    }
    for (const size_t i : {2U, 4U}) EXPECT_EQ(output_value(fusion, i).type, DType::kF32);
    EXPECT_EQ(output_value(fusion, 2).shape, Shape{8});
    EXPECT_EQ(output_value(fusion, 4).shape, (Shape{8, 4}));
  }
}

TEST(Composites, QuantisationRefusesOtherTypesAndGroupsThatDoNotFit) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {8, 32});
  EXPECT_THROW(quantize(b, x, x, DType::kU8), SinterException);
  EXPECT_THROW(quantize_per_row(b, x, {.type = DType::kBF16}), SinterException);
  EXPECT_THROW(quantize_per_group(b, x, {.count = 5, .size = 8}), SinterException);
}

TEST(Composites, KlDivergenceReducesTheLastAxis) {
  const auto make = [](auto& b, ValueId x) {
    const ValueId p = log_softmax(b, x);
    return kl_divergence(b, p, log_softmax(b, b.neg(x)));
  };
  EXPECT_EQ(output_value(fusion_of(make)).shape, Shape{8});
}

TEST(Composites, GradientsRoundEachResultOnce) {
  FusionBuilder b;
  const Shape shape = {4, 8, 16};
  const ValueId x = b.input(DType::kBF16, shape);
  const ValueId dy = b.input(DType::kBF16, shape);
  const ValueId mask = b.input(DType::kBool, shape);
  const ValueId weight = b.input(DType::kBF16, {16});
  const ValueId center = b.input(DType::kF32, {4, 8});
  const ValueId rstd = b.input(DType::kF32, {4, 8});
  const NormBackward norm = layer_norm_backward(b, dy, x, center, rstd,
                                                {.output = DType::kBF16,
                                                 .parameter_output = DType::kF16,
                                                 .weight = weight,
                                                 .bias = true,
                                                 .residual = dy,
                                                 .dropout_mask = mask,
                                                 .dropout_scale = 2.0});
  for (const ValueId out : {norm.dx, *norm.dbranch, *norm.dweight, *norm.dbias}) b.output(out);
  const Fusion fusion = b.build();
  for (const size_t i : {0U, 1U}) {
    EXPECT_EQ(output_value(fusion, i).type, DType::kBF16);
    EXPECT_EQ(output_value(fusion, i).shape, shape);
  }
  for (const size_t i : {2U, 3U}) {
    EXPECT_EQ(output_value(fusion, i).type, DType::kF16);
    EXPECT_EQ(output_value(fusion, i).shape, Shape{16});
  }
  int roundings = 0;
  for (const Op& op : fusion.ops) {
    if (text_of(op.kind) != "cast") continue;
    const DType type = fusion.values[op.results[0]].type;
    roundings += static_cast<int>(type == DType::kBF16 || type == DType::kF16);
  }
  EXPECT_EQ(roundings, 4);
}

TEST(Composites, GradientsOfAbsentParametersAreAbsent) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {8, 32});
  const ValueId rstd = b.input(DType::kF32, {8});
  const NormBackward norm = rms_norm_backward(b, x, x, rstd);
  EXPECT_FALSE(norm.dweight || norm.dbias || norm.dbranch);
  EXPECT_FALSE(softmax_backward(b, x, x).dbias);
  EXPECT_FALSE(dyt_backward(b, x, x, b.constant(0.5)).dweight);
}

TEST(Composites, DropoutKeepsShapeAndGivesItsMask) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kBF16, {rows, 4, 1});
  const ValueId seed = b.input(DType::kI64, {});
  const ValueId offset = b.input(DType::kI32, {});
  const Dropout out = dropout(b, x, 0.25, seed, offset, DType::kBF16);
  b.output(out.y);
  b.output(out.keep);
  b.output(dropout_backward(b, b.input(DType::kF64, {rows, 4, 1}), 0.25, seed, offset));
  b.output(uniform(b, {}, seed, offset));
  b.output(uniform(b, {1, 1}, seed, offset));
  const Fusion fusion = b.build();
  const auto text = [&](size_t i) {
    return text_of(fusion, output_value(fusion, i).type, output_value(fusion, i).shape);
  };
  EXPECT_EQ(text(0), "bf16[rows, 4, 1]");
  EXPECT_EQ(text(1), "bool[rows, 4, 1]");
  EXPECT_EQ(text(2), "f64[rows, 4, 1]");
  EXPECT_EQ(text(3), "f32");
  EXPECT_EQ(text(4), "f32[1, 1]");
}

TEST(Composites, AMistakeIsReportedWithItsValues) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {8, 32});
  const ValueId weight = b.input(DType::kF32, {8});
  try {
    layer_norm(b, x, {.weight = weight});
    FAIL() << "a weight of 8 scaled rows of 32";
  } catch (const SinterException& e) {
    EXPECT_EQ(e.error().kind, ErrorKind::kInvalidFusion);
    EXPECT_FALSE(e.error().values.empty());
  }
}

}  // namespace sinter::composites_test
