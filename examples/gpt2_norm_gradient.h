#pragma once

#include "fusion_ir/fusion.h"

namespace sinter::examples {

/// The gradient of a layer norm of GPT-2 XL: from bf16 dy and x [tokens, 1600], the weight [1600]
/// and the forward's f32 mean and rstd [tokens] to dx [tokens, 1600], dweight and dbias [1600]. It
/// reduces every row and every column. Extent `tokens` is given when it is planned.
Fusion gpt2_norm_gradient();

}  // namespace sinter::examples
