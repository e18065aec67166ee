#include "scheduler/families/matmul/contraction_facts.h"

#include <algorithm>
#include <cmath>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/shared_layout.h"

namespace sinter::matmul {
namespace {

/// True if a matrix instruction multiplies elements of the type, of f32 where the precision lets
/// it round them to TF32.
bool has_matrix_instruction(DType type, ContractPrecision precision) {
  switch (type) {
    case DType::kBF16:
    case DType::kF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
      return true;
    case DType::kF32:
      return precision != ContractPrecision::kIeee;
    case DType::kF64:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return false;
  }
  unreachable();
}

bool is_f8(DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; }

DType type_of_rows(const SegmentFacts& facts) {
  return facts.fusion.values[facts.space.contraction->rows.value].type;
}

}  // namespace

const ContractOp& contract_op(const SegmentFacts& facts) {
  return std::get<ContractOp>(facts.fusion.ops[facts.space.contraction->op].kind);
}

ValueId handed_value(const SegmentFacts& facts) {
  const ValueId value = facts.space.contraction->value;
  const DType type = facts.fusion.values[value].type;
  ValueId only;
  for (const Op& op : facts.fusion.ops) {
    if (std::ranges::find(op.operands, value) == op.operands.end()) continue;
    if (only.valid() || !std::holds_alternative<CastOp>(op.kind)) return value;
    only = op.results.front();
  }
  if (!only.valid() || std::ranges::find(facts.fusion.outputs, value) != facts.fusion.outputs.end())
    return value;
  const DType narrow = facts.fusion.values[only].type;
  return bytes_of(narrow) < bytes_of(type) && compute_type(narrow) == type ? only : value;
}

bool covers_rows(const SegmentFacts& facts, size_t output) {
  const std::vector<int64_t>& strides = facts.space.outputs[output].strides;
  for (size_t i = 0; i < facts.space.row_dimensions; ++i) {
    if (facts.space.dimensions[i].size > 1 && strides[i] == 0) return false;
  }
  return facts.space.output_coverage[output].rows || facts.space.row_dimensions == 0;
}

bool covers_all(const SegmentFacts& facts, size_t output) {
  return facts.space.output_coverage[output].columns && covers_rows(facts, output) &&
         !facts.is_after_rows(facts.fusion.outputs[output]);
}

program::Unit unit_of(const SegmentFacts& facts) {
  const ContractOp& op = contract_op(facts);
  const DType columns = facts.fusion.values[facts.space.contraction->columns.value].type;
  const bool has_matrices = op.fn == ContractFn::kSum &&
                            has_matrix_instruction(type_of_rows(facts), op.precision) &&
                            has_matrix_instruction(columns, op.precision);
  return has_matrices ? program::Unit::kMatrix : program::Unit::kLane;
}

bool has_f8(const SegmentFacts& facts) {
  const ContractedSpace& contraction = *facts.space.contraction;
  return is_f8(facts.fusion.values[contraction.rows.value].type) ||
         is_f8(facts.fusion.values[contraction.columns.value].type);
}

bool splits_stages(const SegmentFacts& facts) {
  return unit_of(facts) == program::Unit::kMatrix &&
         contract_op(facts).precision == ContractPrecision::kTf32x3;
}

double split_steps(const SegmentFacts& facts) {
  const ContractedSpace& contraction = *facts.space.contraction;
  constexpr int64_t kStepBytes = 2 * program::kChunkBytes;
  return std::ceil(static_cast<double>(contraction.contracted() * contraction.rows.element_bytes) /
                   static_cast<double>(kStepBytes));
}

bool has_all_columns(const SegmentFacts& facts, const Schedule& schedule) {
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  return own.cluster_size > 1 || facts.space.columns <= own.tile_columns;
}

}  // namespace sinter::matmul
