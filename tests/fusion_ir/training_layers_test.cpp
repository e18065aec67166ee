#include "tests/support/training_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/gradient_check.h"
#include "tests/fusion_ir/op_count.h"
#include "tests/support/reference_calls.h"

namespace sinter::training_layers_test {

using Tensors = std::map<std::string, HostTensor, std::less<>>;

/// A layer in both directions.
struct Layer {
  Fusion forward, backward;
};

Layer llama(const LlamaSizes& sizes) {
  return {llama_layer_forward(sizes), llama_layer_backward(sizes)};
}
Layer gpt2(const Gpt2Sizes& sizes) {
  return {gpt2_layer_forward(sizes), gpt2_layer_backward(sizes)};
}
Layer bert(const BertSizes& sizes) {
  return {bert_layer_forward(sizes), bert_layer_backward(sizes)};
}

const std::string& name_of(const Fusion& fusion, ValueId value) {
  return fusion.values[value].name;
}

/// Adds what the fusion takes and `tensors` does not have, at random. Cosines and sines need not be
/// those of one angle.
void add_inputs(const Fusion& fusion, const Binding& binding, double weight_deviation,
                Tensors& tensors) {
  for (const ValueId input : fusion.inputs) {
    const std::string& name = name_of(fusion, input);
    if (tensors.contains(name)) continue;
    const Value& value = fusion.values[input];
    const Sizes sizes = binding.sizes_of(value.shape);
    const RandomSpec spec{.seed = tensors.size() + 1,
                          .deviation = name.ends_with("_weight") ? weight_deviation : 1.0,
                          .low = 0,
                          .high = 1000};
    tensors.emplace(name, HostTensor::random(value.type, sizes, spec));
  }
}

std::map<std::string, OracleOutput, std::less<>> outputs_of(const Fusion& fusion,
                                                            const Binding& binding,
                                                            const Tensors& tensors) {
  std::vector<HostTensor> inputs;
  for (const ValueId input : fusion.inputs) inputs.push_back(tensors.at(name_of(fusion, input)));
  const OracleResult result =
      evaluate(fusion, binding, inputs, {.threads = 0, .external = reference_call});
  std::map<std::string, OracleOutput, std::less<>> outputs;
  for (size_t i = 0; i < result.outputs.size(); ++i)
    outputs.emplace(name_of(fusion, fusion.outputs[i]), result.outputs[i]);
  return outputs;
}

HostTensor stored(const OracleOutput& output) {
  return HostTensor::of(output.type, output.sizes, output.real);
}

/// The forward's inputs and results, and dy: all that the backward takes.
Tensors run_forward(const Layer& layer, int64_t tokens, double weight_deviation) {
  Tensors tensors;
  const Binding binding = *bind_extents(layer.forward, {{"tokens", tokens}});
  add_inputs(layer.forward, binding, weight_deviation, tensors);
  for (const auto& [name, output] : outputs_of(layer.forward, binding, tensors))
    tensors.emplace(name, stored(output));
  add_inputs(layer.backward, *bind_extents(layer.backward, {{"tokens", tokens}}), weight_deviation,
             tensors);
  return tensors;
}

/// Holds every gradient of a layer in f64 against differences of sum(y * dy) along one direction.
void expect_layer_gradients(const Layer& layer) {
  constexpr int64_t kTokens = 5;
  const Binding forward = *bind_extents(layer.forward, {{"tokens", kTokens}});
  const Binding backward = *bind_extents(layer.backward, {{"tokens", kTokens}});
  const Tensors tensors = run_forward(layer, kTokens, 0.25);
  const HostTensor& dy = tensors.at("dy");
  const auto gradients = outputs_of(layer.backward, backward, tensors);
  size_t checked = 0;
  for (const ValueId input : layer.forward.inputs) {
    const std::string& name = name_of(layer.forward, input);
    const auto gradient = gradients.find("d" + name);
    if (gradient == gradients.end()) continue;
    ++checked;
    const HostTensor& x = tensors.at(name);
    const HostTensor direction = HostTensor::random(x.type(), x.sizes(), {.seed = 99});
    const auto loss = [&](double h) {
      Tensors moved = tensors;
      HostTensor& at = moved.at(name);
      for (int64_t i = 0; i < x.count(); ++i) at.set(i, x.get(i) + h * direction.get(i));
      const auto y = outputs_of(layer.forward, forward, moved).at("y");
      double sum = 0.0;
      for (int64_t i = 0; i < dy.count(); ++i) sum += y.real[static_cast<size_t>(i)] * dy.get(i);
      return sum;
    };
    double along = 0.0;
    for (int64_t i = 0; i < x.count(); ++i)
      along += gradient->second.real[static_cast<size_t>(i)] * direction.get(i);
    const Difference expected = difference(loss);
    EXPECT_NEAR(along, expected.value, expected.bound) << name;
    // Else a gradient of nothing would pass.
    EXPECT_LT(expected.bound, 0.01 * std::fabs(expected.value)) << name;
  }
  EXPECT_EQ(checked, gradients.size());
}

TEST(TrainingLayers, LlamaGradientsAreThoseOfItsForward) {
  expect_layer_gradients(llama(
      {.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 4, .ffn = 10, .type = DType::kF64}));
}

constexpr Gpt2Sizes kTinyEncoder{
    .hidden = 12, .heads = 3, .head_dim = 4, .ffn = 10, .dropout = 0.25, .type = DType::kF64};

TEST(TrainingLayers, Gpt2GradientsAreThoseOfItsForward) {
  expect_layer_gradients(gpt2(kTinyEncoder));
}

TEST(TrainingLayers, BertGradientsAreThoseOfItsForward) {
  expect_layer_gradients(bert(kTinyEncoder));
}

/// In bf16 and through all calls. Bounds of chained products grow with the weights' magnitudes, so
/// those are as small as at the start of a training. Bounds of means hold from any pivot, so that
/// those of BERT, whose residuals are normalised, come to 0.46 of the values.
TEST(TrainingLayers, BoundsOfBf16AreOfUse) {
  constexpr int64_t kTokens = 8;
  constexpr double kOfUse = 0.5;
  for (const Layer& layer : {llama(kSmallLlama), gpt2(kSmallGpt2), bert(kSmallBert)}) {
    const Tensors tensors = run_forward(layer, kTokens, 0.02);
    for (const Fusion* fusion : {&layer.forward, &layer.backward}) {
      for (const auto& [name, output] :
           outputs_of(*fusion, *bind_extents(*fusion, {{"tokens", kTokens}}), tensors)) {
        double error = 0.0;
        double reach = 0.0;
        for (size_t i = 0; i < output.real.size(); ++i) {
          error += output.bound[i];
          reach += std::fabs(output.real[i]);
        }
        EXPECT_LT(error, kOfUse * reach) << fusion->name << ", " << name;
      }
    }
  }
}

/// What a backward takes its forward must give, in the same type and shape.
TEST(TrainingLayers, ForwardsLeaveWhatBackwardsTake) {
  for (const Layer& layer : {llama(kLlama3With8B), gpt2(kGpt2), bert(kBertBase)}) {
    const Fusion& backward = layer.backward;
    for (const ValueId input : backward.inputs) {
      const std::string& name = name_of(backward, input);
      const Fusion& forward = layer.forward;
      const std::string& source = name == "dy" ? "y" : name;
      const auto same_name = [&](ValueId value) { return name_of(forward, value) == source; };
      const bool given = std::ranges::any_of(forward.inputs, same_name);
      const ValueId value = given ? forward.inputs[input_named(forward, source)]
                                  : forward.outputs[output_named(forward, source)];
      EXPECT_EQ(text_of(forward, forward.values[value].type, forward.values[value].shape),
                text_of(backward, backward.values[input].type, backward.values[input].shape))
          << backward.name << ", " << name;
    }
  }
}

TEST(TrainingLayers, AreSoundBeforeAndAfterSimplification) {
  const std::vector<Sizes> shapes = {{768}, {768, 3072}, {50257, 768}, {}};
  std::vector<Fusion> graphs = {adam_over(shapes)};
  for (Layer layer : {llama(kSmallLlama), llama(kLlama3With8B), gpt2(kSmallGpt2), gpt2(kGpt2),
                      bert(kSmallBert), bert(kBertBase)}) {
    graphs.push_back(std::move(layer.forward));
    graphs.push_back(std::move(layer.backward));
  }
  for (const Fusion& fusion : graphs) {
    EXPECT_TRUE(verify(fusion).empty()) << text_of(verify(fusion));
    const auto parsed = parse_fusion(print(fusion));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
    EXPECT_EQ(*parsed, fusion);
    const Fusion bound = specialize(fusion, *bind_extents(fusion, {}));
    const Fusion simple = simplify(bound, {.verify = true});
    EXPECT_EQ(count_ops(simple, "external"), count_ops(fusion, "external")) << fusion.name;
  }
}

TEST(TrainingLayers, CallsAreThoseOfTheLayer) {
  const Layer layer = llama(kSmallLlama);
  EXPECT_EQ(count_ops(layer.forward, "external"), 8);
  EXPECT_EQ(count_ops(layer.backward, "external"), 15);
}

TEST(TrainingLayers, AdamStepsEveryTensor) {
  const std::vector<Sizes> shapes = {{3}, {2, 4}};
  const Fusion fusion = adam_over(shapes);
  EXPECT_EQ(fusion.inputs.size(), 11U);
  EXPECT_EQ(fusion.outputs.size(), 6U);
  EXPECT_EQ(input_named(fusion, "g1"), 8U);
  EXPECT_EQ(output_named(fusion, "next_v1"), 5U);
  EXPECT_THROW(input_named(fusion, "next_v1"), SinterException);
  const Value& p = fusion.values[fusion.outputs[output_named(fusion, "next_p1")]];
  EXPECT_EQ(p.type, DType::kBF16);
  EXPECT_EQ(p.shape, (Shape{2, 4}));
}

}  // namespace sinter::training_layers_test
