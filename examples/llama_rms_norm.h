#pragma once

#include "fusion_ir/fusion.h"

namespace sinter::examples {

/// The norm before every block of Llama-3-8B, with the residual added first: from bf16 x and r
/// [tokens, 4096] and the weight [4096] to h = x + r, rounded to bf16 as the residual stream is
/// stored, and y = h / rms(h) * weight. Extent `tokens` is given when it is planned.
Fusion llama_rms_norm();

}  // namespace sinter::examples
