#include "tests/support/training_layers.h"

#include <array>

#include "fusion_ir/error.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// What all layers are built of. Calls that append ops never stand side by side in one argument
/// list: their order is the compiler's choice.
class LayerBuilder {
 public:
  LayerBuilder(std::string name, int64_t tokens_hint, DType activation)
      : b(std::move(name)), tokens(b.symbol("tokens", tokens_hint)), type(activation) {}

  FusionBuilder b;
  Extent tokens;
  DType type;

  [[nodiscard]] DType statistics() const { return type == DType::kF64 ? type : DType::kF32; }
  [[nodiscard]] const Shape& shape_of(ValueId x) const { return b.fusion().values[x].shape; }

  ValueId activation(Shape inner, std::string name) {
    inner.insert(inner.begin(), tokens);
    return b.input(type, inner, std::move(name));
  }
  ValueId weight(const Shape& shape, std::string name) {
    return b.input(type, shape, std::move(name));
  }
  ValueId per_token(std::string name) { return b.input(statistics(), {tokens}, std::move(name)); }
  ValueId scalar(std::string name) { return b.input(DType::kI64, {}, std::move(name)); }

  ValueId matmul_nt(ValueId x, ValueId y) {
    return matmul("matmul_nt", {x, y}, {shape_of(x)[0], shape_of(y)[0]});
  }
  ValueId matmul_nt(ValueId x, ValueId y, ValueId added) {
    return matmul("matmul_nt", {x, y, added}, shape_of(added));
  }
  ValueId matmul_nn(ValueId x, ValueId y) {
    return matmul("matmul_nn", {x, y}, {shape_of(x)[0], shape_of(y)[1]});
  }
  ValueId matmul_tn(ValueId x, ValueId y) {
    return matmul("matmul_tn", {x, y}, {shape_of(x)[1], shape_of(y)[1]});
  }

  /// o and lse; o is [tokens, heads, dim].
  std::vector<ValueId> attention(ValueId q, ValueId k, ValueId v) {
    const Shape shape = shape_of(q);
    return b.external("attention", {q, k, v}, {{type, shape}, {statistics(), {shape[1], tokens}}});
  }
  /// dq, dk and dv.
  std::vector<ValueId> attention_backward(std::vector<ValueId> operands) {
    std::vector<ResultType> results;
    for (const size_t i : {1U, 2U, 3U}) results.push_back({type, shape_of(operands[i])});
    return b.external("attention_backward", std::move(operands), std::move(results));
  }

  ValueId split_heads(ValueId x, int64_t heads, int64_t dim) {
    return b.reshape(x, {tokens, heads, dim});
  }
  ValueId join_heads(ValueId x) {
    const Shape shape = shape_of(x);
    return b.reshape(x, {tokens, shape[1].constant() * shape[2].constant()});
  }

  /// The sum of all in f32, not rounded.
  ValueId sum_of(std::span<const ValueId> terms) {
    ValueId sum = terms.front();
    for (const ValueId term : terms.subspan(1)) sum = b.add(sum, term);
    return sum;
  }

  /// Declares the gradient of an input.
  void gradient(ValueId dx, std::string_view name) { b.output(dx, fmt::format("d{}", name)); }

 private:
  ValueId matmul(std::string name, std::vector<ValueId> operands, const Shape& shape) {
    return b.external(std::move(name), std::move(operands), {{type, shape}}).front();
  }
};

// Llama.

struct LlamaInputs {
  ValueId x, cos, sin, attention_norm, ffn_norm, q, k, v, o, gate, up, down;
};
LlamaInputs llama_inputs(LayerBuilder& layer, const LlamaSizes& sizes) {
  const int64_t width = sizes.heads * sizes.head_dim;
  const int64_t kv_width = sizes.kv_heads * sizes.head_dim;
  const Shape angles = {layer.tokens, sizes.head_dim / 2};
  LlamaInputs in{};
  in.x = layer.activation({sizes.hidden}, "x");
  in.cos = layer.b.input(layer.statistics(), angles, "cos");
  in.sin = layer.b.input(layer.statistics(), angles, "sin");
  in.attention_norm = layer.weight({sizes.hidden}, "attention_norm_weight");
  in.ffn_norm = layer.weight({sizes.hidden}, "ffn_norm_weight");
  in.q = layer.weight({width, sizes.hidden}, "q_weight");
  in.k = layer.weight({kv_width, sizes.hidden}, "k_weight");
  in.v = layer.weight({kv_width, sizes.hidden}, "v_weight");
  in.o = layer.weight({sizes.hidden, width}, "o_weight");
  in.gate = layer.weight({sizes.ffn, sizes.hidden}, "gate_weight");
  in.up = layer.weight({sizes.ffn, sizes.hidden}, "up_weight");
  in.down = layer.weight({sizes.hidden, sizes.ffn}, "down_weight");
  return in;
}

// GPT-2 and BERT.

struct EncoderInputs {
  ValueId x, seed, attention_offset, mlp_offset;
  ValueId attention_norm_weight, attention_norm_bias, mlp_norm_weight, mlp_norm_bias;
  ValueId qkv_weight, o_weight, fc_weight, proj_weight, qkv_bias, o_bias, fc_bias, proj_bias;
};

class EncoderBuilder : public LayerBuilder {
 public:
  EncoderBuilder(std::string name, const Gpt2Sizes& layer_sizes)
      : LayerBuilder(std::move(name), layer_sizes.tokens, layer_sizes.type),
        sizes(layer_sizes),
        width(layer_sizes.heads * layer_sizes.head_dim) {}

  Gpt2Sizes sizes;
  int64_t width;  ///< Of all heads together.
  EncoderInputs in{};

  /// Biases that are added to what the forward leaves behind are of no use to the backward.
  enum class Pass { kForward, kBackward };
  void declare_inputs(Pass pass) {
    in.x = activation({sizes.hidden}, "x");
    in.seed = scalar("seed");
    in.attention_offset = scalar("attention_offset");
    in.mlp_offset = scalar("mlp_offset");
    in.attention_norm_weight = weight({sizes.hidden}, "attention_norm_weight");
    in.mlp_norm_weight = weight({sizes.hidden}, "mlp_norm_weight");
    in.qkv_weight = weight({3 * width, sizes.hidden}, "qkv_weight");
    in.o_weight = weight({sizes.hidden, width}, "o_weight");
    in.fc_weight = weight({sizes.ffn, sizes.hidden}, "fc_weight");
    in.proj_weight = weight({sizes.hidden, sizes.ffn}, "proj_weight");
    if (pass == Pass::kBackward) return;
    in.attention_norm_bias = weight({sizes.hidden}, "attention_norm_bias");
    in.mlp_norm_bias = weight({sizes.hidden}, "mlp_norm_bias");
    in.qkv_bias = weight({3 * width}, "qkv_bias");
    in.o_bias = weight({sizes.hidden}, "o_bias");
    in.fc_bias = weight({sizes.ffn}, "fc_bias");
    in.proj_bias = weight({sizes.hidden}, "proj_bias");
  }

  /// matmul_nt, rounded, then the bias.
  ValueId linear(ValueId x, ValueId weight, ValueId bias) {
    const ValueId product = matmul_nt(x, weight);
    return b.cast(b.add(product, bias), type);
  }
  /// Declares the gradients of weight and bias and gives that of x.
  ValueId linear_backward(ValueId dy, ValueId x, ValueId weight, std::string_view name) {
    gradient(matmul_tn(dy, x), fmt::format("{}_weight", name));
    gradient(bias_gradient(b, dy, {-1}, type), fmt::format("{}_bias", name));
    return matmul_nn(dy, weight);
  }

  /// residual + dropout(branch), rounded once.
  ValueId add_dropped(ValueId residual, ValueId branch, ValueId offset) {
    const ValueId dropped = dropout(b, branch, sizes.dropout, in.seed, offset).y;
    return residual_add(b, dropped, residual, type);
  }
  ValueId dropped_backward(ValueId dy, ValueId offset) {
    return dropout_backward(b, dy, sizes.dropout, in.seed, offset, type);
  }

  LayerNorm norm(ValueId x, ValueId weight, ValueId bias) {
    return layer_norm(b, x,
                      {.epsilon = sizes.epsilon, .output = type, .weight = weight, .bias = bias});
  }
  /// Declares the gradients of weight and bias and gives that of x.
  ValueId norm_backward(ValueId dy, ValueId x, ValueId mean, ValueId rstd, std::string_view name,
                        NormBackwardOptions options) {
    options.output = type;
    options.parameter_output = type;
    options.bias = true;
    const NormBackward out = layer_norm_backward(b, dy, x, mean, rstd, options);
    gradient(*out.dweight, fmt::format("{}_weight", name));
    gradient(*out.dbias, fmt::format("{}_bias", name));
    return out.dx;
  }

  /// Attention to the rows of x with its projections; declares q, k, v, o and lse.
  ValueId attend(ValueId x) {
    const ValueId qkv = linear(x, in.qkv_weight, in.qkv_bias);
    std::array<ValueId, 3> parts{};
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto first = static_cast<int64_t>(i) * width;
      const ValueId part = b.slice(qkv, {0, first}, {-1, first + width});
      parts[i] = split_heads(part, sizes.heads, sizes.head_dim);
    }
    const std::vector<ValueId> attended = attention(parts[0], parts[1], parts[2]);
    b.output(parts[0], "q");
    b.output(parts[1], "k");
    b.output(parts[2], "v");
    b.output(attended[0], "o");
    b.output(attended[1], "lse");
    return linear(join_heads(attended[0]), in.o_weight, in.o_bias);
  }
  /// From the gradient of its result to that of x.
  ValueId attend_backward(ValueId dy, ValueId x) {
    const Shape heads = {sizes.heads, sizes.head_dim};
    const ValueId q = activation(heads, "q");
    const ValueId k = activation(heads, "k");
    const ValueId v = activation(heads, "v");
    const ValueId o = activation(heads, "o");
    const ValueId lse = b.input(statistics(), {sizes.heads, tokens}, "lse");
    const ValueId rows = linear_backward(dy, join_heads(o), in.o_weight, "o");
    const ValueId dout = split_heads(rows, sizes.heads, sizes.head_dim);
    std::vector<ValueId> parts = attention_backward({dout, q, k, v, o, lse});
    for (ValueId& part : parts) part = join_heads(part);
    const ValueId dqkv = b.concatenate(parts, 1);
    return linear_backward(dqkv, x, in.qkv_weight, "qkv");
  }
};

using Pass = EncoderBuilder::Pass;

size_t position_of(const Fusion& fusion, std::span<const ValueId> values, std::string_view name) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (fusion.values[values[i]].name == name) return i;
  }
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("{} has no '{}'", fusion.name, name)});
}

}  // namespace

Fusion llama_layer_forward(const LlamaSizes& sizes) {
  LayerBuilder layer("llama_layer_forward", sizes.tokens, sizes.type);
  FusionBuilder& b = layer.b;
  const DType type = layer.type;
  const LlamaInputs in = llama_inputs(layer, sizes);

  const RmsNorm first =
      rms_norm(b, in.x, {.epsilon = sizes.epsilon, .output = type, .weight = in.attention_norm});
  const auto project = [&](ValueId weight, int64_t heads) {
    return layer.split_heads(layer.matmul_nt(first.y, weight), heads, sizes.head_dim);
  };
  const ValueId q_plain = project(in.q, sizes.heads);
  const ValueId k_plain = project(in.k, sizes.kv_heads);
  const ValueId v = project(in.v, sizes.kv_heads);
  const ValueId q = rotary_embedding(b, q_plain, in.cos, in.sin, type);
  const ValueId k = rotary_embedding(b, k_plain, in.cos, in.sin, type);
  const std::vector<ValueId> attended = layer.attention(q, k, v);
  const ValueId attention = layer.matmul_nt(layer.join_heads(attended[0]), in.o);
  const ValueId h = residual_add(b, attention, in.x, type);

  const RmsNorm second =
      rms_norm(b, h, {.epsilon = sizes.epsilon, .output = type, .weight = in.ffn_norm});
  const ValueId gate = layer.matmul_nt(second.y, in.gate);
  const ValueId up = layer.matmul_nt(second.y, in.up);
  const ValueId activated = swiglu(b, gate, up, type);

  b.output(layer.matmul_nt(activated, in.down, h), "y");
  b.output(first.y, "attention_normal");
  b.output(first.rstd, "attention_rstd");
  b.output(q, "q");
  b.output(k, "k");
  b.output(v, "v");
  b.output(attended[0], "o");
  b.output(attended[1], "lse");
  b.output(h, "h");
  b.output(second.y, "ffn_normal");
  b.output(second.rstd, "ffn_rstd");
  b.output(gate, "gate");
  b.output(up, "up");
  b.output(activated, "activated");
  return b.build();
}

Fusion llama_layer_backward(const LlamaSizes& sizes) {
  LayerBuilder layer("llama_layer_backward", sizes.tokens, sizes.type);
  FusionBuilder& b = layer.b;
  const DType type = layer.type;
  const LlamaInputs in = llama_inputs(layer, sizes);
  const Shape heads = {sizes.heads, sizes.head_dim};
  const Shape kv_heads = {sizes.kv_heads, sizes.head_dim};
  const ValueId normal = layer.activation({sizes.hidden}, "attention_normal");
  const ValueId attention_rstd = layer.per_token("attention_rstd");
  const ValueId q = layer.activation(heads, "q");
  const ValueId k = layer.activation(kv_heads, "k");
  const ValueId v = layer.activation(kv_heads, "v");
  const ValueId o = layer.activation(heads, "o");
  const ValueId lse = b.input(layer.statistics(), {sizes.heads, layer.tokens}, "lse");
  const ValueId h = layer.activation({sizes.hidden}, "h");
  const ValueId ffn_normal = layer.activation({sizes.hidden}, "ffn_normal");
  const ValueId ffn_rstd = layer.per_token("ffn_rstd");
  const ValueId gate = layer.activation({sizes.ffn}, "gate");
  const ValueId up = layer.activation({sizes.ffn}, "up");
  const ValueId activated = layer.activation({sizes.ffn}, "activated");
  const ValueId dy = layer.activation({sizes.hidden}, "dy");

  layer.gradient(layer.matmul_tn(dy, activated), "down_weight");
  const ValueId dactivated = layer.matmul_nn(dy, in.down);
  const GatedBackward gated = swiglu_backward(b, dactivated, gate, up, type);
  layer.gradient(layer.matmul_tn(gated.dgate, ffn_normal), "gate_weight");
  layer.gradient(layer.matmul_tn(gated.dup, ffn_normal), "up_weight");
  const ValueId from_gate = layer.matmul_nn(gated.dgate, in.gate);
  const ValueId from_up = layer.matmul_nn(gated.dup, in.up);
  const NormBackward second = rms_norm_backward(
      b, layer.sum_of(std::array{from_gate, from_up}), h, ffn_rstd,
      {.output = type, .parameter_output = type, .weight = in.ffn_norm, .residual = dy});
  layer.gradient(*second.dweight, "ffn_norm_weight");

  layer.gradient(layer.matmul_tn(second.dx, layer.join_heads(o)), "o_weight");
  const ValueId dout =
      layer.split_heads(layer.matmul_nn(second.dx, in.o), sizes.heads, sizes.head_dim);
  const std::vector<ValueId> turned = layer.attention_backward({dout, q, k, v, o, lse});
  const ValueId dq_heads = rotary_embedding_backward(b, turned[0], in.cos, in.sin, type);
  const ValueId dk_heads = rotary_embedding_backward(b, turned[1], in.cos, in.sin, type);
  const ValueId dq = layer.join_heads(dq_heads);
  const ValueId dk = layer.join_heads(dk_heads);
  const ValueId dv = layer.join_heads(turned[2]);
  layer.gradient(layer.matmul_tn(dq, normal), "q_weight");
  layer.gradient(layer.matmul_tn(dk, normal), "k_weight");
  layer.gradient(layer.matmul_tn(dv, normal), "v_weight");
  const ValueId from_q = layer.matmul_nn(dq, in.q);
  const ValueId from_k = layer.matmul_nn(dk, in.k);
  const ValueId from_v = layer.matmul_nn(dv, in.v);
  const NormBackward first =
      rms_norm_backward(b, layer.sum_of(std::array{from_q, from_k, from_v}), in.x, attention_rstd,
                        {.output = type,
                         .parameter_output = type,
                         .weight = in.attention_norm,
                         .residual = second.dx});
  layer.gradient(*first.dweight, "attention_norm_weight");
  layer.gradient(first.dx, "x");
  return b.build();
}

Fusion gpt2_layer_forward(const Gpt2Sizes& sizes) {
  EncoderBuilder layer("gpt2_layer_forward", sizes);
  layer.declare_inputs(Pass::kForward);
  FusionBuilder& b = layer.b;
  const EncoderInputs& in = layer.in;
  const LayerNorm first = layer.norm(in.x, in.attention_norm_weight, in.attention_norm_bias);
  const ValueId attended = layer.attend(first.y);
  const ValueId h = layer.add_dropped(in.x, attended, in.attention_offset);
  const LayerNorm second = layer.norm(h, in.mlp_norm_weight, in.mlp_norm_bias);
  const ValueId fc = layer.linear(second.y, in.fc_weight, in.fc_bias);
  const ValueId activated = gelu_tanh(b, fc, layer.type);
  const ValueId projected = layer.linear(activated, in.proj_weight, in.proj_bias);
  b.output(layer.add_dropped(h, projected, in.mlp_offset), "y");
  b.output(first.y, "attention_normal");
  b.output(first.mean, "attention_mean");
  b.output(first.rstd, "attention_rstd");
  b.output(h, "h");
  b.output(second.y, "mlp_normal");
  b.output(second.mean, "mlp_mean");
  b.output(second.rstd, "mlp_rstd");
  b.output(fc, "fc");
  b.output(activated, "activated");
  return b.build();
}

Fusion gpt2_layer_backward(const Gpt2Sizes& sizes) {
  EncoderBuilder layer("gpt2_layer_backward", sizes);
  layer.declare_inputs(Pass::kBackward);
  FusionBuilder& b = layer.b;
  const EncoderInputs& in = layer.in;
  const ValueId normal = layer.activation({sizes.hidden}, "attention_normal");
  const ValueId attention_mean = layer.per_token("attention_mean");
  const ValueId attention_rstd = layer.per_token("attention_rstd");
  const ValueId h = layer.activation({sizes.hidden}, "h");
  const ValueId mlp_normal = layer.activation({sizes.hidden}, "mlp_normal");
  const ValueId mlp_mean = layer.per_token("mlp_mean");
  const ValueId mlp_rstd = layer.per_token("mlp_rstd");
  const ValueId fc = layer.activation({sizes.ffn}, "fc");
  const ValueId activated = layer.activation({sizes.ffn}, "activated");
  const ValueId dy = layer.activation({sizes.hidden}, "dy");

  const ValueId dprojected = layer.dropped_backward(dy, in.mlp_offset);
  const ValueId dactivated = layer.linear_backward(dprojected, activated, in.proj_weight, "proj");
  const ValueId dfc = gelu_tanh_backward(b, dactivated, fc, layer.type);
  const ValueId dmlp_normal = layer.linear_backward(dfc, mlp_normal, in.fc_weight, "fc");
  const ValueId dh = layer.norm_backward(dmlp_normal, h, mlp_mean, mlp_rstd, "mlp_norm",
                                         {.weight = in.mlp_norm_weight, .residual = dy});

  const ValueId dattended = layer.dropped_backward(dh, in.attention_offset);
  const ValueId dnormal = layer.attend_backward(dattended, normal);
  const ValueId dx =
      layer.norm_backward(dnormal, in.x, attention_mean, attention_rstd, "attention_norm",
                          {.weight = in.attention_norm_weight, .residual = dh});
  layer.gradient(dx, "x");
  return b.build();
}

Fusion bert_layer_forward(const BertSizes& sizes) {
  EncoderBuilder layer("bert_layer_forward", sizes);
  layer.declare_inputs(Pass::kForward);
  FusionBuilder& b = layer.b;
  const EncoderInputs& in = layer.in;
  const ValueId attended = layer.attend(in.x);
  const ValueId attention_sum = layer.add_dropped(in.x, attended, in.attention_offset);
  const LayerNorm first =
      layer.norm(attention_sum, in.attention_norm_weight, in.attention_norm_bias);
  const ValueId fc = layer.linear(first.y, in.fc_weight, in.fc_bias);
  const ValueId activated = gelu(b, fc, layer.type);
  const ValueId projected = layer.linear(activated, in.proj_weight, in.proj_bias);
  const ValueId mlp_sum = layer.add_dropped(first.y, projected, in.mlp_offset);
  const LayerNorm second = layer.norm(mlp_sum, in.mlp_norm_weight, in.mlp_norm_bias);
  b.output(second.y, "y");
  b.output(attention_sum, "attention_sum");
  b.output(first.mean, "attention_mean");
  b.output(first.rstd, "attention_rstd");
  b.output(first.y, "h");
  b.output(fc, "fc");
  b.output(activated, "activated");
  b.output(mlp_sum, "mlp_sum");
  b.output(second.mean, "mlp_mean");
  b.output(second.rstd, "mlp_rstd");
  return b.build();
}

Fusion bert_layer_backward(const BertSizes& sizes) {
  EncoderBuilder layer("bert_layer_backward", sizes);
  layer.declare_inputs(Pass::kBackward);
  FusionBuilder& b = layer.b;
  const EncoderInputs& in = layer.in;
  const ValueId attention_sum = layer.activation({sizes.hidden}, "attention_sum");
  const ValueId attention_mean = layer.per_token("attention_mean");
  const ValueId attention_rstd = layer.per_token("attention_rstd");
  const ValueId h = layer.activation({sizes.hidden}, "h");
  const ValueId fc = layer.activation({sizes.ffn}, "fc");
  const ValueId activated = layer.activation({sizes.ffn}, "activated");
  const ValueId mlp_sum = layer.activation({sizes.hidden}, "mlp_sum");
  const ValueId mlp_mean = layer.per_token("mlp_mean");
  const ValueId mlp_rstd = layer.per_token("mlp_rstd");
  const ValueId dy = layer.activation({sizes.hidden}, "dy");

  const ValueId dmlp_sum = layer.norm_backward(dy, mlp_sum, mlp_mean, mlp_rstd, "mlp_norm",
                                               {.weight = in.mlp_norm_weight});
  const ValueId dprojected = layer.dropped_backward(dmlp_sum, in.mlp_offset);
  const ValueId dactivated = layer.linear_backward(dprojected, activated, in.proj_weight, "proj");
  const ValueId dfc = gelu_backward(b, dactivated, fc, layer.type);
  const ValueId from_fc = layer.linear_backward(dfc, h, in.fc_weight, "fc");
  const ValueId dh = layer.sum_of(std::array{from_fc, dmlp_sum});
  const ValueId dattention_sum =
      layer.norm_backward(dh, attention_sum, attention_mean, attention_rstd, "attention_norm",
                          {.weight = in.attention_norm_weight});

  const ValueId dattended = layer.dropped_backward(dattention_sum, in.attention_offset);
  const ValueId from_attention = layer.attend_backward(dattended, in.x);
  layer.gradient(residual_add(b, from_attention, dattention_sum, layer.type), "x");
  return b.build();
}

Fusion language_model_loss(int64_t hidden, int64_t vocabulary, bool others) {
  FusionBuilder b("language_model_loss");
  const Extent tokens = b.symbol("tokens");
  const ValueId x = b.input(DType::kBF16, {tokens, hidden}, "x");
  const ValueId weight = b.input(DType::kBF16, {vocabulary, hidden}, "weight");
  const ValueId labels = b.input(DType::kI64, {tokens}, "labels");
  const ValueId logits =
      b.external("matmul_nt", {x, weight}, {{DType::kBF16, {tokens, vocabulary}}}).front();
  const ValueId wide = b.cast(logits, DType::kF32);
  ValueId loss = cross_entropy(b, wide, labels);
  if (others) loss = b.sub(loss, b.take(wide, b.input(DType::kI64, {tokens}, "others"), 1));
  b.output(b.sum(loss, {0}), "loss");
  return b.build();
}

Fusion adam_over(std::span<const Sizes> shapes, const AdamOptions& options, DType type,
                 Updates updates) {
  FusionBuilder b("adam");
  AdamScalars scalars{};
  scalars.learning_rate = b.input(DType::kF32, {}, "learning_rate");
  scalars.correction1 = b.input(DType::kF32, {}, "correction1");
  scalars.correction2 = b.input(DType::kF32, {}, "correction2");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape shape(shapes[i].begin(), shapes[i].end());
    const ValueId p = b.input(type, shape, fmt::format("p{}", i));
    const ValueId g = b.input(type, shape, fmt::format("g{}", i));
    const ValueId m = b.input(DType::kF32, shape, fmt::format("m{}", i));
    const ValueId v = b.input(DType::kF32, shape, fmt::format("v{}", i));
    const AdamStep step = adam_step(b, p, g, m, v, scalars, options);
    const auto update = [&](ValueId next, const char* name, ValueId memory) {
      OutputOptions in_place;
      if (updates == Updates::kInPlace) in_place.alias = memory;
      b.output(next, fmt::format("next_{}{}", name, i), in_place);
    };
    update(step.p, "p", p);
    update(step.m, "m", m);
    update(step.v, "v", v);
  }
  return b.build();
}

Fusion with_contractions(const Fusion& layer) {
  struct Product {
    std::string_view name;
    std::vector<int> left, right;  // Places in the space [M, N, K].
  };
  static const std::array<Product, 3> kProducts = {Product{"matmul_nt", {0, 2}, {1, 2}},
                                                   Product{"matmul_nn", {0, 2}, {2, 1}},
                                                   Product{"matmul_tn", {2, 0}, {2, 1}}};
  const auto decide =
      [&](Rewriter& rewriter, OpId id,
          std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
    const Op& op = layer.ops[id];
    const auto* call = std::get_if<ExternalOp>(&op.kind);
    if (call == nullptr) return std::nullopt;
    const auto product = std::ranges::find(kProducts, call->name, &Product::name);
    if (product == kProducts.end()) return std::nullopt;
    const ContractOp contract{.left = product->left, .right = product->right, .reduced = {2}};
    ValueId sum = rewriter.append(contract, {operands[0], operands[1]}).front();
    if (operands.size() > 2) {
      const DType sums = rewriter.graph().values[sum].type;
      sum = rewriter.pointwise(PointwiseFn::kAdd, {sum, rewriter.cast(operands[2], sums)});
    }
    return std::vector{rewriter.cast(sum, layer.values[op.results.front()].type)};
  };
  return rewrite(layer, decide).value_or(layer);
}

size_t input_named(const Fusion& fusion, std::string_view name) {
  return position_of(fusion, fusion.inputs, name);
}

size_t output_named(const Fusion& fusion, std::string_view name) {
  return position_of(fusion, fusion.outputs, name);
}

}  // namespace sinter
