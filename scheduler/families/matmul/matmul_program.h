#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"
#include "scheduler/program/program.h"

namespace sinter::matmul {

/// The stages of rows whose values are kept from one reduction to the next where the minimum cut
/// says so.
StageList stages_with(const SegmentFacts& facts);

/// The stages of rows whose elements are evaluated again from what was handed over.
StageList stages_of_epilogue(const SegmentFacts& facts, const MatmulParameters& own);

/// Registers of a lane of an epilogue beside its part of a row.
int64_t beside_row(const SegmentFacts& facts);

/// 32-bit registers of a lane for a vector of all inputs that it has not kept.
int64_t words_of_vector(const SegmentFacts& facts, const std::vector<ValueId>& kept, int64_t width);

/// The program of a schedule that check_schedule() accepts. `stages` are those of stages_with().
program::Program program_of(const SegmentFacts& facts, const Schedule& schedule,
                            const StageList& stages);

/// Makes of a program that of the schedule with another number of pipeline_stages.
void set_stages(program::Program& program, int64_t stages);

}  // namespace sinter::matmul
