#pragma once

#include <string>
#include <string_view>

#include "fusion_ir/fusion.h"

namespace sinter {

/// The fusion as .fir text (grammar in fusion_ir/README.md). Deterministic; parse_fusion gives back
/// an equal fusion for every one that verifies. One whose ids are broken prints too, for
/// dumps; element types and functions must be known ones.
std::string print(const Fusion& fusion);

/// Text in which quotes, backslashes and bytes outside printable ASCII are escaped as \", \\ and
/// \xNN: the inside of a quoted name.
std::string escaped(std::string_view text);

}  // namespace sinter
