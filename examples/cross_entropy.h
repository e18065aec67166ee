#pragma once

#include "fusion_ir/fusion.h"

namespace sinter::examples {

/// The loss over Llama-3's vocabulary: from bf16 logits [tokens, 128256] and i64 labels [tokens] to
/// the f32 cross-entropy of every token. Extent `tokens` is given when it is planned.
Fusion vocabulary_cross_entropy();

}  // namespace sinter::examples
