#include "codegen/lower/lane_product.h"

#include "codegen/kernel/combine.h"
#include "codegen/lower/fragment_product.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

namespace {

/// Rows of an instruction that a lane has.
constexpr int64_t kHalves = kir::Mma::kAccumulatorGroups;

}  // namespace

ExprId LaneProduct::identity(kir::KernelBuilder& builder, ContractFn fn, DType type) {
  return kir::identity_of(builder, fn == ContractFn::kMax ? Reduction::kMax : Reduction::kSum, 0,
                          type);
}

LaneProduct::Operand LaneProduct::operand(program::TileId id) {
  const program::Tile& tile = scope_.tile(id);
  const bool is_left = id == contract_.left;
  const bool transposed = is_transposed(id);
  SINTER_CHECK(tile.in_order == transposed,
               "lanes read transposed tiles in order, and others by chunks of eight rows");
  const int64_t instructions = is_left ? row_instructions(sum_) : column_instructions(sum_);
  const int64_t of_instruction = is_left ? kHalves : kPair;
  const int64_t adjacent = is_left ? 1 : kPair;
  const int64_t count = instructions * of_instruction;
  return {.tile = tile,
          .shared = scope_.shared.at(id),
          .registers = transposed
                           ? builder_.declare_tile(tile.name + "_part", tile.type, count / adjacent,
                                                   adjacent)
                           : builder_.declare_tile(tile.name + "_part", tile.type, count, shape_.k),
          .begin = scope_.part_begins.at(own_axis(id)),
          .is_transposed = transposed,
          .instructions = instructions,
          .of_instruction = of_instruction,
          .adjacent = adjacent,
          .instruction_extent = is_left ? shape_.m : shape_.n,
          .first = is_left ? row_of_lane(scope_)
                           : builder_.mul(scope_.remainder(scope_.lane, kLanesOfRow),
                                          scope_.i32(kPair))};
}

void LaneProduct::load_chunk(const Operand& operand, ExprId stage, ExprId chunk) {
  const int64_t step = operand.adjacent == 1 ? program::kFragmentRows : 1;
  builder_.unrolled("i", operand.instructions, [&](ExprId i) {
    for (int64_t part = 0; part < operand.of_instruction; ++part) {
      // Instructions begin at multiples of eight, after which the swizzle repeats.
      const ExprId in_eight = builder_.add(operand.first, scope_.i32(part * step % shape_.n));
      const ExprId row = builder_.add(
          builder_.add(operand.begin, builder_.mul(i, scope_.i32(operand.instruction_extent))),
          builder_.add(operand.first, scope_.i32(part * step)));
      const ExprId place = builder_.mul(scope_.swizzled(layout_of(operand.tile), in_eight, chunk),
                                        scope_.i32(shape_.k));
      const ExprId index = scope_.shared_element(operand.tile, stage, row, place);
      builder_.append(kir::Load{
          .tile = operand.registers,
          .group =
              builder_.add(builder_.mul(i, scope_.i32(operand.of_instruction)), scope_.i32(part)),
          .lane = scope_.i32(0),
          .width = shape_.k,
          .buffer = operand.shared,
          .index = index});
    }
  });
}

void LaneProduct::load_step(const Operand& operand, ExprId stage, ExprId k) {
  const int64_t vectors = operand.of_instruction / operand.adjacent;
  builder_.unrolled("i", operand.instructions, [&](ExprId i) {
    for (int64_t part = 0; part < vectors; ++part) {
      const ExprId own = builder_.add(
          builder_.add(operand.begin, builder_.mul(i, scope_.i32(operand.instruction_extent))),
          builder_.add(operand.first, scope_.i32(part * program::kFragmentRows)));
      const ExprId index = scope_.shared_element(operand.tile, stage, k, own);
      builder_.append(
          kir::Load{.tile = operand.registers,
                    .group = builder_.add(builder_.mul(i, scope_.i32(vectors)), scope_.i32(part)),
                    .lane = scope_.i32(0),
                    .width = operand.adjacent,
                    .buffer = operand.shared,
                    .index = index});
    }
  });
}

ExprId LaneProduct::value(const Operand& operand, ExprId number, ExprId k) const {
  if (!operand.is_transposed)
    return builder_.cast(builder_.element(operand.registers, number, k), sum_.type);
  const ExprId group = builder_.div(number, scope_.i32(operand.adjacent));
  const ExprId lane = scope_.remainder(number, operand.adjacent);
  return builder_.cast(builder_.element(operand.registers, group, lane), sum_.type);
}

void LaneProduct::combine(const Operand& left, const Operand& right, ExprId k) {
  const kir::VarId sums = scope_.fragments.at(contract_.accumulator);
  const int64_t columns = column_instructions(sum_);
  builder_.unrolled("i", row_instructions(sum_) * kHalves, [&](ExprId row) {
    const ExprId half = scope_.remainder(row, kHalves);
    const ExprId i = builder_.div(row, scope_.i32(kHalves));
    builder_.unrolled("j", columns, [&](ExprId j) {
      const ExprId instruction = builder_.add(builder_.mul(i, scope_.i32(columns)), j);
      const ExprId group = builder_.add(builder_.mul(instruction, scope_.i32(kHalves)), half);
      for (int64_t lane = 0; lane < kPair; ++lane) {
        const ExprId column = builder_.add(builder_.mul(j, scope_.i32(kPair)), scope_.i32(lane));
        const ExprId a = value(left, row, k);
        const ExprId b = value(right, column, k);
        const ExprId sum = builder_.element(sums, group, scope_.i32(lane));
        builder_.set(sums, group, scope_.i32(lane),
                     contract_.fn == ContractFn::kMax ? builder_.max(sum, builder_.add(a, b))
                                                      : builder_.add(sum, builder_.mul(a, b)));
      }
    });
  });
}

void LaneProduct::add(ExprId stage, ExprId begin) {
  const Operand left = operand(contract_.left);
  const Operand right = operand(contract_.right);
  const int64_t extent = scope_.program.axes[depth().axis].extent;
  // Beyond the end the tiles hold zeros, which change sums of products alone.
  const bool has_end = contract_.fn != ContractFn::kSum && extent % depth().extent != 0;
  builder_.unrolled("chunk", depth().extent / shape_.k, [&](ExprId chunk) {
    if (!left.is_transposed) load_chunk(left, stage, chunk);
    if (!right.is_transposed) load_chunk(right, stage, chunk);
    builder_.unrolled("k", shape_.k, [&](ExprId k) {
      const ExprId in_stage = builder_.add(builder_.mul(chunk, scope_.i32(shape_.k)), k);
      const auto step = [&] {
        if (left.is_transposed) load_step(left, stage, in_stage);
        if (right.is_transposed) load_step(right, stage, in_stage);
        combine(left, right, k);
      };
      if (has_end) {
        builder_.when(builder_.less(builder_.add(begin, scope_.wide(in_stage)), scope_.i64(extent)),
                      step);
      } else {
        step();
      }
    });
  });
}

}  // namespace sinter
