#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Removes every op that no output needs; inputs and symbols stay.
/// After: each op but the inputs is needed by an output.
/// Needs: a verified graph.
/// Stands first, so that the passes behind it do not work on what is dropped. The rewriter removes
/// what dies in later passes.
std::optional<Fusion> remove_dead_values(const Fusion& fusion);

}  // namespace sinter
