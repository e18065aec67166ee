#include "codegen/lower/last_block_finish.h"

#include "codegen/lower/column_finish.h"

namespace sinter {

using kir::ExprId;

LastBlockFinish::LastBlockFinish(const SegmentFacts& facts, const Schedule& schedule,
                                 kir::KernelBuilder& builder, const TileLowering& tiles,
                                 const OuterAccumulators& partials)
    : facts_(facts),
      builder_(builder),
      partials_(partials),
      threads_(schedule.threads_per_block()),
      geometry_(last_block_geometry(facts, schedule)),
      columns_({.threads_per_row = geometry_.across,
                .rows_per_block = geometry_.slots,
                .vector_width = geometry_.vector_width}),
      tiles_(facts, columns_, builder),
      sums_(facts, columns_, builder, tiles_, facts.space.columns > 0 ? 1 : 0) {
  tiles_.share_buffers(tiles);
}

void LastBlockFinish::run(const Place& place) {
  builder_.comment("the last block finishes");
  builder_.when(is_last(place), [&] { combine(place); });
}

ExprId LastBlockFinish::is_last(const Place& place) {
  const kir::BufferId arrivals = builder_.add_buffer({.name = "arrivals",
                                                      .type = DType::kI32,
                                                      .space = kir::Space::kGlobal,
                                                      .access = kir::Access::kReadWrite,
                                                      .alignment = 16,
                                                      .value = {}});
  const kir::BufferId shared =
      builder_.add_buffer({.name = "shared_arrival",
                           .type = DType::kI32,
                           .space = kir::Space::kShared,
                           .access = kir::Access::kReadWrite,
                           .alignment = 16,
                           .value = {},
                           .count = kArrivalFlagBytes / bytes_of(DType::kI32)});
  const ExprId zero = builder_.integer(0);
  const ExprId last = builder_.ref(
      builder_.declare("last_arrival", builder_.sub(place.blocks, builder_.integer(1))));
  place.barrier();
  builder_.when(builder_.equal(place.thread, zero), [&] {
    const kir::VarId arrival = builder_.declare_scalar("arrival", DType::kI32);
    builder_.append(kir::DeviceFence{});
    builder_.append(kir::AtomicCount{arrival, arrivals, place.strip, last});
    builder_.append(kir::DeviceFence{});
    builder_.append(kir::Store{shared, zero, 1, arrival, zero, zero});
  });
  place.barrier();
  const kir::VarId arrival = builder_.declare_scalar("block_arrival", DType::kI32);
  builder_.append(kir::Load{arrival, zero, zero, 1, shared, zero, kir::CacheHint::kDefault});
  return builder_.equal(builder_.ref(arrival), last);
}

void LastBlockFinish::combine(const Place& place) {
  if (geometry_.rounds() == 1) {
    combine_columns(place, builder_.integer(0));
    return;
  }
  builder_.loop("round", builder_.integer(0), builder_.integer(geometry_.rounds()),
                builder_.integer(1), false, [&](ExprId round) {
                  combine_columns(place, round);
                  // The next round reuses the same shared memory.
                  if (geometry_.slots > 1) place.barrier();
                });
}

void LastBlockFinish::combine_columns(const Place& place, ExprId round) {
  const DType index = tiles_.column_type();
  const ExprId across = builder_.integer(geometry_.across);
  const ExprId lane =
      builder_.ref(builder_.declare("column_of_slot", builder_.rem(place.thread, across)));
  const ExprId slot =
      builder_.ref(builder_.declare("slot_of_rows", builder_.div(place.thread, across)));
  const ExprId vector = builder_.cast(builder_.add(builder_.mul(round, across), lane), index);
  const ExprId first = builder_.ref(builder_.declare(
      "finished_column",
      builder_.add(place.first_column,
                   builder_.mul(vector, builder_.integer(geometry_.vector_width, index)))));
  const ExprId end = builder_.ref(builder_.declare("end_of_strip", end_of(place)));
  sums_.declare();
  const auto accumulate = [&] {
    // Past the end, the last columns are read again and not stored, because the next columns belong
    // to another strip.
    const ExprId last = builder_.sub(end, builder_.integer(geometry_.vector_width, index));
    const ExprId column = builder_.ref(builder_.declare(
        "read_column",
        builder_.cast(builder_.max(builder_.min(first, last), builder_.integer(0, index)),
                      DType::kI64)));
    sums_.accumulate_partials(partials_, builder_.cast(slot, DType::kI64), place.rows,
                              geometry_.slots, geometry_.unroll, column);
  };
  const ExprId slots = builder_.integer(geometry_.slots);
  const bool all_in_slots = geometry_.slots * geometry_.across == threads_;
  if (all_in_slots) {
    accumulate();
  } else {
    builder_.when(builder_.less(slot, slots), accumulate);
  }
  if (geometry_.slots > 1)
    sums_.combine_slots(geometry_.slots, geometry_.across, slot, lane, place.barrier);
  builder_.when(builder_.equal(slot, builder_.integer(0)), [&] { store_finished(first, end); });
}

ExprId LastBlockFinish::end_of(const Place& place) {
  const DType index = tiles_.column_type();
  return builder_.min(builder_.add(place.first_column, builder_.integer(geometry_.columns, index)),
                      builder_.integer(facts_.space.columns, index));
}

void LastBlockFinish::store_finished(ExprId first_column, ExprId end) {
  sums_.define_totals();
  store_finished_totals(facts_, tiles_, [&](const std::function<void()>& body) {
    const ExprId origin = builder_.integer(0, tiles_.column_type());
    builder_.when(builder_.equal(first_column, origin), body);
  });
  if (geometry_.columns == 0) return;
  const ExprId zero = builder_.integer(0);
  const TilePosition position{.group = zero,
                              .batch = zero,
                              .first_column = first_column,
                              .predication = Predication::kNone};
  builder_.when(builder_.less(first_column, end),
                [&] { store_finished_columns(facts_, builder_, tiles_, sums_, position); });
}

}  // namespace sinter
