#include "codegen/lower/fragment_product.h"

#include "codegen/lower/tf32_parts.h"
#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

namespace {

/// Rows of one matrix of a matrix load, and elements of a row where they have 2 bytes.
constexpr int64_t kMatrix = kir::LoadMatrix::kRows;
/// Matrices of one load: all registers of a left operand, or those of two right ones.
constexpr int64_t kMatrices = 4;

}  // namespace

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

ExprId row_of_lane(const ProgramScope& scope) {
  return scope.builder.div(scope.lane, scope.i32(kWarp / program::kFragmentRows));
}

FragmentProduct::Operand FragmentProduct::operand(program::TileId id, int64_t groups) {
  const program::Tile& tile = scope_.tile(id);
  return {.tile = tile,
          .shared = scope_.shared.at(id),
          .registers = builder_.declare_tile(tile.name + "_part", tile.type, groups,
                                             kRegisterBytes / bytes_of(tile.type)),
          .groups = groups,
          .begin = scope_.part_begins.at(own_axis(id)),
          .is_transposed = is_transposed(id),
          .is_left = id == contract_.left};
}

void FragmentProduct::load(const Operand& operand, ExprId stage, ExprId k, ExprId number) {
  // Lane l gives row l % 8 of matrix l / 8. Matrices 0 to 3 are registers 0 to 3 of a left operand:
  // rows 0 and 8, then the same of the second half of k. Of right operands they are the halves of k
  // of the first eight columns, then of the next eight.
  const ExprId in_matrix = scope_.remainder(scope_.lane, kMatrix);
  const ExprId matrix = builder_.div(scope_.lane, scope_.i32(kMatrix));
  const ExprId low = scope_.remainder(matrix, 2);
  const ExprId high = builder_.div(matrix, scope_.i32(2));
  const ExprId own_half = operand.is_left ? low : high;  // Which eight elements of the own axis.
  const ExprId k_half = operand.is_left ? high : low;
  const ExprId own_begin =
      builder_.add(operand.begin, builder_.mul(number, scope_.i32(2 * kMatrix)));
  const int64_t of_chunk = chunk_elements(operand.tile);
  ExprId row;
  ExprId chunk;
  const auto chunk_of = [&](ExprId element) { return builder_.div(element, scope_.i32(of_chunk)); };
  if (operand.is_transposed) {
    const ExprId k_begin = builder_.mul(k, scope_.i32(shape_.k));
    row = builder_.add(k_begin, builder_.add(builder_.mul(k_half, scope_.i32(kMatrix)), in_matrix));
    chunk = builder_.add(chunk_of(own_begin), own_half);
  } else {
    row = builder_.add(own_begin,
                       builder_.add(builder_.mul(own_half, scope_.i32(kMatrix)), in_matrix));
    chunk = builder_.add(builder_.mul(k, scope_.i32(2)), k_half);  // k has 32 bytes.
  }
  // All rows of a matrix begin at a multiple of eight, and the swizzle repeats after eight rows.
  const ExprId place = builder_.mul(scope_.swizzled(layout_of(operand.tile), in_matrix, chunk),
                                    scope_.i32(of_chunk));
  const ExprId index = scope_.shared_element(operand.tile, stage, row, place);
  builder_.append(kir::LoadMatrix{.tile = operand.registers,
                                  .group = builder_.mul(number, scope_.i32(kMatrices)),
                                  .matrices = kMatrices,
                                  .transpose = operand.is_transposed,
                                  .shared = operand.shared,
                                  .index = index});
}

void FragmentProduct::load_words(const Operand& operand, ExprId stage, ExprId k, ExprId number) {
  // Register m is what load() would give lane l of matrix m: row l / 4 and element l % 4 of it.
  constexpr int64_t kWords = program::kChunkBytes / kRegisterBytes;
  const ExprId own_lane = row_of_lane(scope_);
  const ExprId k_lane = scope_.remainder(scope_.lane, kWords);
  const int64_t of_chunk = chunk_elements(operand.tile);
  for (int64_t m = 0; m < kMatrices; ++m) {
    const int64_t own_half = operand.is_left ? m % 2 : m / 2;
    const int64_t k_half = operand.is_left ? m / 2 : m % 2;
    const ExprId own =
        builder_.add(builder_.add(operand.begin, builder_.mul(number, scope_.i32(2 * kMatrix))),
                     builder_.add(own_lane, scope_.i32(own_half * kMatrix)));
    const ExprId in_k = builder_.add(k_lane, scope_.i32(k_half * kWords));
    // Steps along k begin at multiples of eight, after which the swizzle repeats.
    const ExprId row = builder_.add(builder_.mul(k, scope_.i32(shape_.k)), in_k);
    const ExprId chunk =
        scope_.swizzled(layout_of(operand.tile), in_k, builder_.div(own, scope_.i32(of_chunk)));
    const ExprId place =
        builder_.add(builder_.mul(chunk, scope_.i32(of_chunk)), scope_.remainder(own, of_chunk));
    const ExprId index = scope_.shared_element(operand.tile, stage, row, place);
    builder_.append(
        kir::Load{.tile = operand.registers,
                  .group = builder_.add(builder_.mul(number, scope_.i32(kMatrices)), scope_.i32(m)),
                  .lane = scope_.i32(0),
                  .width = 1,
                  .buffer = operand.shared,
                  .index = index});
  }
}

void FragmentProduct::add(ExprId stage) {
  const int64_t rows = row_instructions(sum_);
  const int64_t columns = column_instructions(sum_);
  const Operand left = operand(contract_.left, rows * kir::Mma::kLeftGroups);
  const Operand right = operand(contract_.right, columns * kir::Mma::kRightGroups);
  const auto load_operand = [&](const Operand& operand, ExprId k, ExprId number) {
    const bool is_transposable = bytes_of(operand.tile.type) <= 2;
    if (operand.is_transposed && !is_transposable) {
      load_words(operand, stage, k, number);
    } else {
      load(operand, stage, k, number);
    }
  };
  builder_.unrolled("k", depth().extent / shape_.k, [&](ExprId k) {
    builder_.unrolled("i", rows, [&](ExprId i) { load_operand(left, k, i); });
    builder_.unrolled("j", columns / 2, [&](ExprId j) { load_operand(right, k, j); });
    switch (contract_.precision) {
      case ContractPrecision::kIeee:
        break;
      case ContractPrecision::kTf32:
        round(left);
        round(right);
        break;
      case ContractPrecision::kTf32x3: {
        const kir::VarId left_second = split(left);
        const kir::VarId right_second = split(right);
        multiply(left.registers, right_second);
        multiply(left_second, right.registers);
        break;
      }
    }
    multiply(left.registers, right.registers);
  });
}

void FragmentProduct::round(const Operand& operand) {
  const ExprId zero = scope_.i32(0);
  builder_.unrolled("i", operand.groups, [&](ExprId i) {
    builder_.set(operand.registers, i, zero,
                 builder_.round_to_tf32(builder_.element(operand.registers, i, zero)));
  });
}

kir::VarId FragmentProduct::split(const Operand& operand) {
  const ExprId zero = scope_.i32(0);
  const kir::VarId second =
      builder_.declare_tile(operand.tile.name + "_second", DType::kF32, operand.groups, 1);
  builder_.unrolled("i", operand.groups, [&](ExprId i) {
    const Tf32Parts parts = tf32_parts(scope_, builder_.element(operand.registers, i, zero));
    builder_.set(second, i, zero, parts.second);
    builder_.set(operand.registers, i, zero, parts.first);
  });
  return second;
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
