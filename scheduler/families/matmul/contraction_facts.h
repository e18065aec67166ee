#pragma once

#include <cstddef>
#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/program/program.h"
#include "scheduler/schedule/family_names.h"

// What the rules, programs and times of the family ask of a segment that contracts.
namespace sinter::matmul {

inline constexpr std::string_view kName = kMatmul;

const ContractOp& contract_op(const SegmentFacts& facts);

/// True for schedules of a producer and warp groups.
inline bool has_producer(const MatmulParameters& own) { return own.consumer_registers > 0; }

/// What warp groups hand over to the warps of an epilogue: the contraction's value, or its cast to
/// a narrower type that is evaluated in the contraction's, where nothing else reads it.
ValueId handed_value(const SegmentFacts& facts);

/// True for outputs that have an element for each row: no two blocks store the same one.
bool covers_rows(const SegmentFacts& facts, size_t output);

/// True for outputs that have an element for each row and column.
bool covers_all(const SegmentFacts& facts, size_t output);

/// What combines the elements of the contraction: matrix instructions, where there are any.
program::Unit unit_of(const SegmentFacts& facts);

/// True if an operand of the contraction is f8.
bool has_f8(const SegmentFacts& facts);

/// True if matrix instructions multiply f32 in two parts: warp groups by a program::Split.
bool splits_stages(const SegmentFacts& facts);

/// Steps of warp groups along the contracted axis, whose left operand they split.
double split_steps(const SegmentFacts& facts);

/// True if a block's tile, or those of a cluster, have all columns. The operand of the rows is then
/// read by one tile only. Otherwise the other operand is, where a tile has all rows.
bool has_all_columns(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter::matmul
