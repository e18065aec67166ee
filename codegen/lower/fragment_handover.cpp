#include "codegen/lower/fragment_handover.h"

#include <algorithm>

#include "codegen/lower/fragment_product.h"
#include "fusion_ir/integers.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

FragmentHandover::FragmentHandover(const ProgramScope& scope, const program::Handover& handover)
    : scope_(scope),
      builder_(scope.builder),
      handover_(handover),
      fragment_(scope.tile(handover.fragment)),
      tile_(scope.tile(handover.tile)) {}

void FragmentHandover::put() {
  const HandedTile& handed = *scope_.handed;
  const ExprId part =
      builder_.div(scope_.part_begins.at(fragment_.rows.axis), scope_.i32(fragment_.rows.extent));
  const ExprId barrier = handed.barrier(scope_, part);
  // The first wait for each stage passes at once.
  builder_.append(kir::MbarrierWait{handed.empty, barrier,
                                    builder_.sub(scope_.i32(1), builder_.ref(handed.parity))});
  // Every so many instructions along a row, and every eight rows, the swizzle is the same: those
  // have one address, and constant distances from it.
  const program::SharedLayout layout = layout_of(tile_);
  const int64_t period =
      std::max<int64_t>(layout.period() * chunk_elements(tile_) / program::MatrixShape{}.n, 1);
  for (int64_t first = 0; first < std::min(period, column_instructions(fragment_)); ++first)
    put_columns(first, period);
  builder_.append(kir::WarpBarrier{});
  builder_.when(builder_.equal(scope_.lane, scope_.i32(0)), [&] {
    builder_.append(kir::MbarrierArrive{handed.full, barrier});
  });
  handed.advance(scope_);
}

void FragmentHandover::put_columns(int64_t first, int64_t period) {
  constexpr int64_t kInstructionColumns = program::MatrixShape{}.n;
  const int64_t columns = column_instructions(fragment_);
  const ExprId zero = scope_.i32(0);
  const ExprId row = builder_.add(first_row(scope_, fragment_, zero, zero), row_of_lane(scope_));
  const ExprId column =
      builder_.add(scope_.i32(first * kInstructionColumns),
                   builder_.mul(scope_.remainder(scope_.lane, kLanesOfRow), scope_.i32(kPair)));
  const ExprId place = scope_.named("place", handed_element(scope_, tile_, row, column));
  const int64_t rows_of_instruction = instruction_rows(fragment_) * tile_.columns.extent;
  const int64_t rows_of_half = program::kFragmentRows * tile_.columns.extent;
  builder_.unrolled("i", row_instructions(fragment_), [&](ExprId i) {
    builder_.unrolled("half", 2, [&](ExprId half) {
      builder_.unrolled("j", divided_up(columns - first, period), [&](ExprId j) {
        const ExprId instruction =
            builder_.add(builder_.mul(i, scope_.i32(columns)),
                         builder_.add(builder_.mul(j, scope_.i32(period)), scope_.i32(first)));
        const ExprId distance =
            builder_.add(builder_.add(builder_.mul(i, scope_.i32(rows_of_instruction)),
                                      builder_.mul(half, scope_.i32(rows_of_half))),
                         builder_.mul(j, scope_.i32(period * kInstructionColumns)));
        // The store rounds where the value is a cast.
        builder_.append(
            kir::Store{.buffer = scope_.shared.at(handover_.tile),
                       .index = builder_.add(place, distance),
                       .width = kPair,
                       .tile = scope_.fragments.at(handover_.fragment),
                       .group = builder_.add(builder_.mul(instruction, scope_.i32(2)), half),
                       .lane = zero});
      });
    });
  });
}

}  // namespace sinter
