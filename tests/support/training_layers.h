#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fusion_ir/fusion.h"
#include "fusion_ir/training_composites.h"

namespace sinter {

// Layers of transformers as whole graphs, forward and backward: fusions between calls. Activations
// are matrices [tokens, ...] with the symbol `tokens`; all other extents are constants.
// Activations, weights and their gradients are of the type that the sizes name, statistics, angles
// and the log-sum-exp of attention are f32 (f64 where that is the type).
//
// Inputs and outputs have names. A backward graph takes what its forward graph was given (but for
// biases that nothing needs), what that one left for it, under the same names, and dy; the gradient
// of `n` is its output `dn`. What calls of the forward were given is kept, for the calls of the
// backward need it; dropout's choices are made again.
//
// The calls, whose operands have the activations' type. Sums are accumulated in f32 (f64 for f64)
// and rounded once, to the declared type of the result:
//
//   matmul_nt (a [M, K], b [N, K]) -> [M, N], sum of a[m, k] * b[n, k]; with a third operand c
//       [M, N], that sum plus c;
//   matmul_nn (a [M, K], b [K, N]) -> [M, N], sum of a[m, k] * b[k, n];
//   matmul_tn (a [K, M], b [K, N]) -> [M, N], sum of a[k, m] * b[k, n];
//   attention (q [tokens, heads, dim], k, v [tokens, kv_heads, dim])
//       -> (o like q, lse [heads, tokens]): causal. Head h reads head h * kv_heads / heads of k and
//       v. With s_ij = q_i . k_j / sqrt(dim) for j <= i, lse_i = log(sum of exp(s_ij)) and
//       o_i = sum of exp(s_ij - lse_i) * v_j;
//   attention_backward (do, q, k, v, o, lse) -> (dq, dk, dv): with p_ij = exp(s_ij - lse_i),
//       ds_ij = p_ij * (do_i . v_j - do_i . o_i) / sqrt(dim), dq_i = sum of ds_ij * k_j, and over
//       the heads that read them dk_j = sum of ds_ij * q_i, dv_j = sum of p_ij * do_i.
//
// Probabilities p and ds may be rounded to the activations' type before they are multiplied.

/// Touvron et al., arXiv 2307.09288, with grouped queries. The type f64 is for checks of gradients.
struct LlamaSizes {
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t ffn = 96;
  int64_t tokens = 64;  ///< Hint.
  double epsilon = 1e-5;
  DType type = DType::kBF16;
};
inline constexpr LlamaSizes kSmallLlama{};
/// Dubey et al., arXiv 2407.21783, table 3.
inline constexpr LlamaSizes kLlama3With8B{
    .hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .tokens = 8192};

/// h = x + attention(rms_norm(x)), y = h + swiglu layer(rms_norm(h)).
///
/// Inputs x [tokens, hidden], cos and sin [tokens, head_dim / 2], attention_norm_weight and
/// ffn_norm_weight [hidden], q_weight [heads * head_dim, hidden], k_weight and v_weight
/// [kv_heads * head_dim, hidden], o_weight [hidden, heads * head_dim], gate_weight and up_weight
/// [ffn, hidden], down_weight [hidden, ffn].
///
/// Outputs y; for the backward attention_normal [tokens, hidden] (x normalised), attention_rstd
/// [tokens], q (rotated), k (rotated), v, o [tokens, heads or kv_heads, head_dim], lse [heads,
/// tokens], h, ffn_normal [tokens, hidden], ffn_rstd [tokens], gate, up, activated [tokens, ffn].
Fusion llama_layer_forward(const LlamaSizes& sizes = kSmallLlama);
/// Outputs dx and the gradients of all weights.
Fusion llama_layer_backward(const LlamaSizes& sizes = kSmallLlama);

/// Radford et al., "Language models are unsupervised multitask learners", 2019.
struct Gpt2Sizes {
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t head_dim = 16;
  int64_t ffn = 96;
  int64_t tokens = 64;  ///< Hint.
  double dropout = 0.1;
  double epsilon = 1e-5;
  DType type = DType::kBF16;
};
inline constexpr Gpt2Sizes kSmallGpt2{};
inline constexpr Gpt2Sizes kGpt2{
    .hidden = 768, .heads = 12, .head_dim = 64, .ffn = 3072, .tokens = 8192};

/// h = x + dropout(attention(layer_norm(x))), y = h + dropout(gelu_tanh layer(layer_norm(h))).
///
/// Inputs x [tokens, hidden], seed, attention_offset and mlp_offset (i64 scalars: offsets at least
/// tokens * hidden apart), attention_norm_weight, _bias and mlp_norm_weight, _bias [hidden],
/// qkv_weight [3 * heads * head_dim, hidden], o_weight [hidden, heads * head_dim], fc_weight [ffn,
/// hidden], proj_weight [hidden, ffn], and qkv_bias, o_bias, fc_bias, proj_bias.
///
/// Outputs y; for the backward attention_normal [tokens, hidden], attention_mean, attention_rstd
/// [tokens], q, k, v, o [tokens, heads, head_dim], lse [heads, tokens], h, mlp_normal [tokens,
/// hidden], mlp_mean, mlp_rstd [tokens], fc (before gelu_tanh), activated [tokens, ffn].
Fusion gpt2_layer_forward(const Gpt2Sizes& sizes = kSmallGpt2);
/// Outputs dx and the gradients of all weights and biases.
Fusion gpt2_layer_backward(const Gpt2Sizes& sizes = kSmallGpt2);

/// Devlin et al., arXiv 1810.04805. Its attention is the causal call all the same: which scores are
/// hidden is the call's matter and changes nothing in the graph.
using BertSizes = Gpt2Sizes;
inline constexpr BertSizes kSmallBert{.epsilon = 1e-12};
inline constexpr BertSizes kBertBase{
    .hidden = 768, .heads = 12, .head_dim = 64, .ffn = 3072, .tokens = 8192, .epsilon = 1e-12};

/// h = layer_norm(x + dropout(attention(x))), y = layer_norm(h + dropout(gelu layer(h))). Inputs as
/// of gpt2_layer_forward.
///
/// Outputs y; for the backward q, k, v, o [tokens, heads, head_dim], lse [heads, tokens],
/// attention_sum [tokens, hidden] (what is normalised to h), attention_mean, attention_rstd
/// [tokens], h [tokens, hidden], fc, activated [tokens, ffn], mlp_sum [tokens, hidden], mlp_mean,
/// mlp_rstd [tokens].
Fusion bert_layer_forward(const BertSizes& sizes = kSmallBert);
/// Outputs dx and the gradients of all weights and biases.
Fusion bert_layer_backward(const BertSizes& sizes = kSmallBert);

/// A language model's head and its loss: logits = x * weight^T, loss = sum over the tokens of
/// logsumexp(logits) - logits[label], less logits[other label] if there are `others`.
///
/// Inputs x [tokens, hidden], weight [vocabulary, hidden] (bf16), labels and others [tokens] (i64).
/// Output loss, f32.
Fusion language_model_loss(int64_t hidden, int64_t vocabulary, bool others = false);

/// One step of Adam for tensors of these shapes, each with inputs p0, g0 of `type` and m0, v0 in
/// f32 (p1, ... for the next), and outputs next_p0, next_m0, next_v0. Scalars in f32:
/// learning_rate, correction1, correction2, as adam_step takes them.
enum class Updates : uint8_t {
  kApart,    ///< Outputs have memory of their own.
  kInPlace,  ///< They take over that of p, m and v.
};
Fusion adam_over(std::span<const Sizes> shapes, const AdamOptions& options = {},
                 DType type = DType::kBF16, Updates updates = Updates::kApart);

/// The graph with its calls of matmul_nt, matmul_nn and matmul_tn as contractions. Attention stays
/// a call.
Fusion with_contractions(const Fusion& layer);

/// Position among Fusion::inputs or Fusion::outputs of the value with that name. Throws
/// SinterException (InvalidArgument) if there is none.
size_t input_named(const Fusion& fusion, std::string_view name);
size_t output_named(const Fusion& fusion, std::string_view name);

}  // namespace sinter
