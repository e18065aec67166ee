#pragma once

#include <string>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// What the loss of a language model's head may have beside -log softmax(x w^T)[label].
struct HeadLossOptions {
  bool bias = false;       ///< Added to the logits.
  bool softcap = false;    ///< Logits become 30 tanh(logit / 30).
  bool smoothing = false;  ///< Labels share 0.1 of their weight with all words.
  bool z_loss = false;     ///< 1e-4 times the square of the logsumexp is added.
  bool weights = false;    ///< The loss is multiplied by the weight of the label's class.
  bool mean = false;       ///< Of all rows; else each row's ("none").
};

/// The loss of x[M, K] bf16 and w[N, K] bf16, whose logits are rounded to bf16, for labels[M] i64.
Fusion head_loss(const HeadLossOptions& options);

struct NamedHeadLoss {
  std::string name;
  HeadLossOptions options;
};
/// Each option alone, none, and all of them.
std::vector<NamedHeadLoss> head_losses();

}  // namespace sinter
