#pragma once

#include <string_view>

#include "fusion_ir/fusion.h"
#include "fusion_ir/result.h"

namespace sinter {

/// Reads .fir text (grammar in fusion_ir/README.md) and checks all that FusionBuilder checks, so a
/// fusion it returns verifies. Takes any bytes: time is n log n in their number, memory linear.
/// Errors (InvalidFusion): "line:column: what is wrong, found 'token'", lines and byte columns
/// from 1.
Result<Fusion> parse_fusion(std::string_view text);

}  // namespace sinter
