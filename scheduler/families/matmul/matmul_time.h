#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"
#include "scheduler/program/program.h"
#include "scheduler/program/program_walks.h"

namespace sinter::matmul {

/// Work of a program, whatever its number of stages.
struct ProgramWork {
  program::Traffic traffic;
  StageList epilogue;  ///< stages_of_epilogue(), where it has one.
};
ProgramWork work_of(const SegmentFacts& facts, const program::Program& program,
                    const MatmulParameters& own);

/// Predicted microseconds of a program. docs/cost_model.md has the formulas. `stage` is what its
/// stages do, all_of() them.
Prediction predict_program(const SegmentFacts& facts, const Schedule& schedule,
                           const program::Program& program, const ProgramWork& work,
                           const Stage& stage, const ResourceEstimate& estimate,
                           const DeviceLimits& limits);

}  // namespace sinter::matmul
