#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"
#include "scheduler/program/program.h"

namespace sinter::matmul {

/// Predicted microseconds of a program. docs/cost_model.md has the formulas. `stage` is what its
/// stages do, all_of() them.
Prediction predict_program(const SegmentFacts& facts, const Schedule& schedule,
                           const program::Program& program, const Stage& stage,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter::matmul
