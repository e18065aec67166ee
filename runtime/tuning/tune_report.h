#pragma once

#include <string>

#include "runtime/tuning/tune.h"

namespace sinter {

/// What was measured and chosen, for people: a block for each segment, a line for each candidate,
/// the chosen one marked. Wrong results and what ended tuning early come last, where they are seen.
std::string report_text(const TuneResult& result);

}  // namespace sinter
