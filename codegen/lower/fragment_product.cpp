#include "codegen/lower/fragment_product.h"

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

int64_t instruction_rows(const program::Tile& fragment) {
  return program::MatrixShape{}.m * program::threads_of(fragment.place) / kWarp;
}
int64_t row_instructions(const program::Tile& fragment) {
  return divided_up(fragment.rows.extent, instruction_rows(fragment));
}
int64_t halves_of_rows(const program::Tile& fragment) {
  return fragment.rows.extent < instruction_rows(fragment) ? 1 : 2;
}
int64_t column_instructions(const program::Tile& fragment) {
  return fragment.columns.extent / program::MatrixShape{}.n;
}

ExprId first_row(const ProgramScope& scope, const program::Tile& fragment, ExprId i, ExprId half) {
  constexpr int64_t kWarpRows = program::MatrixShape{}.m;
  kir::KernelBuilder& builder = scope.builder;
  ExprId in_part = builder.add(builder.mul(i, scope.i32(instruction_rows(fragment))),
                               builder.mul(half, scope.i32(program::kFragmentRows)));
  if (const int64_t warps = program::threads_of(fragment.place) / kWarp; warps > 1) {
    const ExprId warp = scope.remainder(builder.div(scope.thread, scope.i32(kWarp)), warps);
    in_part = builder.add(in_part, builder.mul(warp, scope.i32(kWarpRows)));
  }
  return builder.add(scope.part_begins.at(fragment.rows.axis), in_part);
}

ExprId warp_of_rows(const ProgramScope& scope, const program::Tile& fragment) {
  kir::KernelBuilder& builder = scope.builder;
  const int64_t warps = program::threads_of(fragment.place) / kWarp;
  const ExprId part =
      builder.div(scope.part_begins.at(fragment.rows.axis), scope.i32(fragment.rows.extent));
  if (warps == 1) return part;
  const ExprId warp = scope.remainder(builder.div(scope.thread, scope.i32(kWarp)), warps);
  return builder.add(builder.mul(part, scope.i32(warps)), warp);
}

ExprId row_of_lane(const ProgramScope& scope) {
  return scope.builder.div(scope.lane, scope.i32(kWarp / program::kFragmentRows));
}

OperandFragment FragmentProduct::operand(program::TileId tile, int64_t groups) const {
  return {scope_, tile, own_axis(tile), tile == contract_.left, groups};
}

void FragmentProduct::add(ExprId stage) {
  constexpr int64_t kOfLoad = kir::Mma::kLeftGroups;  // Registers.
  const int64_t rows = row_instructions(sum_);
  const int64_t columns = column_instructions(sum_);
  const OperandFragment left = operand(contract_.left, rows * kir::Mma::kLeftGroups);
  const OperandFragment right = operand(contract_.right, columns * kir::Mma::kRightGroups);
  // Each load is of 16 elements of the own axis.
  const auto load = [&](const OperandFragment& operand, program::AxisId own, ExprId k,
                        ExprId number) {
    const ExprId begin = builder_.add(scope_.part_begins.at(own),
                                      builder_.mul(number, scope_.i32(program::MatrixShape{}.m)));
    operand.load(stage, k, begin, builder_.mul(number, scope_.i32(kOfLoad)));
  };
  builder_.unrolled("k", depth().extent / shape_.k, [&](ExprId k) {
    builder_.unrolled("i", rows, [&](ExprId i) { load(left, sum_.rows.axis, k, i); });
    builder_.unrolled("j", columns / 2, [&](ExprId j) { load(right, sum_.columns.axis, k, j); });
    switch (contract_.precision) {
      case ContractPrecision::kIeee:
        break;
      case ContractPrecision::kTf32:
        left.round();
        right.round();
        break;
      case ContractPrecision::kTf32x3: {
        const auto [left_first, left_second] = left.split();
        const auto [right_first, right_second] = right.split();
        multiply(left_first, right_second);
        multiply(left_second, right_first);
        break;
      }
    }
    multiply(left.registers(), right.registers());
  });
}

void FragmentProduct::multiply(kir::VarId left, kir::VarId right) {
  const int64_t columns = column_instructions(sum_);
  builder_.unrolled("i", row_instructions(sum_), [&](ExprId i) {
    builder_.unrolled("j", columns, [&](ExprId j) {
      const ExprId number = builder_.add(builder_.mul(i, scope_.i32(columns)), j);
      builder_.append(kir::Mma{
          .accumulator = scope_.fragments.at(contract_.accumulator),
          .accumulator_group = builder_.mul(number, scope_.i32(kir::Mma::kAccumulatorGroups)),
          .left = left,
          .left_group = builder_.mul(i, scope_.i32(kir::Mma::kLeftGroups)),
          .right = right,
          .right_group = builder_.mul(j, scope_.i32(kir::Mma::kRightGroups))});
    });
  });
}

}  // namespace sinter
