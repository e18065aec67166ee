#include "codegen/lower/row_kernel.h"

#include "codegen/lower/last_block_finish.h"

namespace sinter {

using kir::ExprId;

RowKernel::RowKernel(const SegmentFacts& segment_facts, const Schedule& row_schedule)
    : facts(segment_facts),
      schedule(row_schedule),
      builder(&kernel),
      tiles(facts, schedule, builder),
      walk(facts, schedule, builder, tiles),
      outer(facts, schedule, builder, tiles, held_batches(facts, schedule)),
      body(facts, schedule, builder, tiles, walk, outer) {
  kernel.name = facts.fusion.name;
  kernel.threads = schedule.threads_per_block();
  kernel.min_blocks_per_sm = schedule.min_blocks_per_sm;
  kernel.cluster = schedule.cluster_size();
  tiles.declare_buffers(schedule.finish == Finish::kLastBlock);
  rows_param = builder.add_param("rows");
  rows = builder.param(rows_param);
  builder.comment(fmt::format("{} threads per row, {} rows per block, {} elements per vector",
                              schedule.threads_per_row, schedule.rows_per_block,
                              schedule.vector_width));
  walk.declare();
}

ExprId RowKernel::block_number() {
  const ExprId number = builder.div(builder.special(kir::Special::kBlockIndex),
                                    builder.integer(schedule.cluster_size()));
  return builder.cast(number, DType::kI64);
}

ExprId RowKernel::first_row() {
  return builder.mul(block_number(), builder.integer(schedule.rows_per_block, DType::kI64));
}

RowExchange RowKernel::cluster_exchange(ExprId iteration) {
  RowExchange exchange;
  if (schedule.cluster_size() == 1) return exchange;
  exchange.group = walk.slot();
  exchange.groups = schedule.rows_per_block;
  exchange.parity = builder.integer(0);
  if (!iteration.valid()) return exchange;
  const ExprId two = builder.integer(2);
  exchange.phase = builder.rem(iteration, two);
  exchange.parity = builder.rem(builder.div(iteration, two), two);
  return exchange;
}

void RowKernel::store_partials(const RowExchange& exchange, const std::function<void()>& barrier) {
  outer.combine_threads(schedule.threads_per_row, exchange);
  const bool by_last_block = schedule.finish == Finish::kLastBlock;
  const kir::Access access = by_last_block ? kir::Access::kReadWrite : kir::Access::kWrite;
  const ExprId row = block_number();
  const ExprId slot = walk.slot();
  if (!slot.valid()) {
    outer.store_partials(walk, row, access);
  } else {
    outer.combine_slots(schedule.rows_per_block, schedule.threads_per_row, slot, walk.lane(),
                        barrier);
    builder.when(builder.equal(slot, builder.integer(0)),
                 [&] { outer.store_partials(walk, row, access); });
  }
  if (by_last_block) finish_by_last_block(barrier);
}

void RowKernel::finish_by_last_block(const std::function<void()>& barrier) {
  const ExprId clusters = builder.param(kernel.grid.work);
  const ExprId cluster = builder.integer(schedule.cluster_size());
  const ExprId drawing = builder.cast(clusters, DType::kI32);
  const bool apart = last_block_geometry(facts, schedule).strips > 1;
  LastBlockFinish(facts, schedule, builder, tiles, outer)
      .run({.thread = builder.special(kir::Special::kThreadIndex),
            .strip = apart ? builder.rem(builder.special(kir::Special::kBlockIndex), cluster)
                           : builder.integer(0),
            .first_column = apart ? walk.first_of_block() : builder.integer(0, tiles.column_type()),
            .blocks = apart ? drawing : builder.mul(drawing, cluster),
            .rows = clusters,
            .barrier = barrier});
}

}  // namespace sinter
