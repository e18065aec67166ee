#pragma once

#include <vector>

#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// Lowers a step that reduces rows of columns: every thread accumulates its share of the rows for
/// one vector of columns, the groups of the block and the blocks of a cluster combine their
/// accumulators, and the first group stores what follows from them, or partial results. Sets the
/// grid and the cluster of the kernel; parameters that it adds get their values at the end of
/// `values`.
void lower_fold(const ProgramScope& scope, const StageList& list, TileLowering& tiles,
                const program::Fold& fold, const Schedule& schedule, kir::Kernel& kernel,
                std::vector<int64_t>& values);

}  // namespace sinter
