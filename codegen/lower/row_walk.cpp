#include "codegen/lower/row_walk.h"
#include "scheduler/analysis/kept_value.h"

#include <algorithm>

namespace sinter {

using kir::ExprId;

RowWalk::RowWalk(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
                 TileLowering& tiles)
    : facts_(facts), schedule_(schedule), builder_(builder), tiles_(tiles) {}

// ---- The thread's position

void RowWalk::declare() {
  const ExprId thread = builder_.special(kir::Special::kThreadIndex);
  if (schedule_.rows_per_block == 1) {
    lane_ = thread;
  } else {
    lane_ =
        builder_.ref(builder_.declare("lane", builder_.rem(thread, builder_.integer(threads()))));
    slot_ =
        builder_.ref(builder_.declare("slot", builder_.div(thread, builder_.integer(threads()))));
  }
  first_of_block_ = builder_.integer(0, tiles_.column_type());
  if (schedule_.cluster_size() > 1) declare_part_of_block();
  if (schedule_.row_access != RowAccess::kUnaligned) declare_first_column();
}

/// Blocks of a cluster have equal, consecutive parts of a row; in unaligned rows, equal numbers of
/// whole vectors.
void RowWalk::declare_part_of_block() {
  const DType type = tiles_.column_type();
  const ExprId columns = builder_.integer(columns_per_block(facts_, schedule_), type);
  const ExprId rank = builder_.rem(builder_.special(kir::Special::kBlockIndex),
                                   builder_.integer(schedule_.cluster_size()));
  first_of_block_ = builder_.ref(
      builder_.declare("first_of_block", builder_.mul(builder_.cast(rank, type), columns)));
  if (!shares_unaligned_rows()) tiles_.set_column_count(columns);
}

bool RowWalk::shares_unaligned_rows() const {
  return schedule_.cluster_size() > 1 && schedule_.row_access == RowAccess::kUnaligned;
}

ExprId RowWalk::is_first_thread() {
  const ExprId is_first = builder_.equal(lane_, builder_.integer(0));
  if (schedule_.cluster_size() == 1) return is_first;
  const ExprId is_first_block =
      builder_.equal(first_of_block_, builder_.integer(0, tiles_.column_type()));
  return builder_.both(is_first, is_first_block);
}

void RowWalk::enter_row() {
  if (schedule_.row_access == RowAccess::kUnaligned) declare_first_column();
}

void RowWalk::declare_first_column() {
  ExprId first = builder_.add(first_of_block_, first_in_part());
  if (schedule_.row_access == RowAccess::kUnaligned) {
    builder_.comment("whole vectors begin at the first boundary in the row");
    const ExprId head = builder_.ref(builder_.declare("head", first_whole_vector()));
    declare_guard_end(head);
    declare_peeled(head);
    first = builder_.add(first, head);
  }
  first_ = builder_.ref(builder_.declare("first_column", first));
}

/// A vector is whole if it starts at least one vector before the end of the row. It belongs to the
/// block if it starts before the part of the cluster's next block.
void RowWalk::declare_guard_end(ExprId head) {
  const DType type = tiles_.column_type();
  const int64_t last = std::max<int64_t>(facts_.space.columns - (tiles_.width() - 1), 0);
  ExprId end = builder_.integer(last, type);
  if (shares_unaligned_rows()) {
    const ExprId columns = builder_.integer(columns_per_block(facts_, schedule_), type);
    const ExprId next = builder_.add(builder_.add(first_of_block_, head), columns);
    end = builder_.ref(builder_.declare("part_end", builder_.min(next, end)));
  }
  tiles_.set_column_count(end);
}

/// Peeled elements: those before the first whole vector and those after the last, in this order,
/// distributed to the threads one by one.
void RowWalk::declare_peeled(ExprId head) {
  const DType type = tiles_.column_type();
  edges_.clear();
  const int64_t count = peeled_count(facts_, schedule_);
  if (count == 0) return;
  const ExprId columns = builder_.integer(facts_.space.columns, type);
  const ExprId width = builder_.integer(tiles_.width(), type);
  const ExprId vectors = builder_.div(builder_.sub(columns, head), width);
  const ExprId between = builder_.ref(builder_.declare("in_vectors", builder_.mul(vectors, width)));
  for (int64_t i = 0; i < count; ++i) {
    const ExprId number =
        builder_.add(builder_.cast(lane_, type), builder_.integer(i * threads(), type));
    const ExprId column =
        builder_.ref(builder_.declare("edge", builder_.select(builder_.less(number, head), number,
                                                              builder_.add(number, between))));
    ExprId inside = builder_.less(column, columns);
    if (schedule_.cluster_size() > 1)
      inside = builder_.both(builder_.equal(first_of_block_, builder_.integer(0, type)), inside);
    edges_.push_back({column, builder_.ref(builder_.declare("edge_is_inside", inside))});
  }
}

/// Column of the thread's first element within the block's part of a row.
ExprId RowWalk::first_in_part() {
  return builder_.mul(builder_.cast(lane_, tiles_.column_type()),
                      builder_.integer(tiles_.width(), tiles_.column_type()));
}

/// Elements of the row before its first aligned vector; all elements of a row that is too short for
/// one.
ExprId RowWalk::first_whole_vector() {
  const ExprId width = builder_.integer(tiles_.width(), DType::kI64);
  const ExprId head =
      builder_.cast(builder_.rem(builder_.sub(width, row_shift()), width), tiles_.column_type());
  if (facts_.space.columns >= tiles_.width() - 1) return head;
  return builder_.min(head, builder_.integer(facts_.space.columns, tiles_.column_type()));
}

/// Misalignment of the row: elements between the last vector boundary before its start and its
/// start.
ExprId RowWalk::row_shift() {
  const TensorAccess& reference = *shift_reference(facts_);
  const int64_t width = tiles_.width();
  ExprId start = builder_.integer(reference.offset, DType::kI64);
  if (facts_.space.row_dimensions > 0) {
    // Only the strides modulo the width matter, so row * (stride mod width) is enough.
    int64_t inner = 1;
    for (size_t i = facts_.space.row_dimensions; i-- > 0;) {
      const int64_t left_over = reference.strides[i] % width;
      ExprId coordinate = builder_.div(tiles_.row(), builder_.integer(inner, DType::kI64));
      if (i != 0)
        coordinate = builder_.rem(coordinate,
                                  builder_.integer(facts_.space.dimensions[i].size, DType::kI64));
      start =
          builder_.add(start, builder_.mul(coordinate, builder_.integer(left_over, DType::kI64)));
      inner *= facts_.space.dimensions[i].size;
    }
  }
  return builder_.rem(start, builder_.integer(width, DType::kI64));
}

// ---- Loops

void RowWalk::for_chunks(int64_t unroll, const std::function<void(const RowChunk&)>& body,
                         const std::function<bool(const ChunkRun&)>& takes) {
  std::vector<ChunkRun> runs = chunk_runs(facts_, schedule_, unroll);
  // If all kept values are in registers, the predicated run comes first: threads branch around its
  // use, and if it were used last, ptxas would wait for the other vectors before it loads this one.
  // If some are in shared memory, the order is left unchanged, because the other order spills there
  // (docs/experiments/constants_lowering.md).
  const auto in_registers = [](const KeptValue& kept) {
    return kept.residency == Residency::kRegister;
  };
  if (!schedule_.kept.empty() && std::ranges::all_of(schedule_.kept, in_registers))
    std::ranges::stable_partition(
        runs, [](const ChunkRun& run) { return run.predication != Predication::kNone; });
  int64_t end = 0;  // End of the batches so far.
  for (const ChunkRun& run : runs) {
    if (takes && !takes(run)) continue;
    const bool is_in_order = run.begin >= end && !run.edges;
    end = std::max(end, run.end);
    if (run.is_one()) {
      body({.first_batch = builder_.integer(run.begin),
            .batches = run.batches,
            .predication = run.predication,
            .edges = run.edges ? peeled_count(facts_, schedule_) : 0,
            .is_in_order = is_in_order});
      continue;
    }
    builder_.loop("batch", builder_.integer(run.begin), builder_.integer(run.end),
                  builder_.integer(run.batches), unrolls_batches(facts_, schedule_),
                  [&](ExprId batch) {
                    body({.first_batch = batch,
                          .batches = run.batches,
                          .predication = run.predication,
                          .is_in_order = is_in_order});
                  });
  }
}

void RowWalk::for_vectors(const RowChunk& chunk,
                          const std::function<void(const TilePosition&)>& body) {
  const DType type = tiles_.column_type();
  builder_.unrolled("u", chunk.batches, [&](ExprId group) {
    const ExprId batch = builder_.add(chunk.first_batch, group);
    const ExprId start = builder_.mul(builder_.cast(batch, type),
                                      builder_.integer(threads() * tiles_.width(), type));
    body({.group = group,
          .batch = batch,
          .first_column = builder_.add(first_, start),
          .column_in_part = schedule_.cluster_size() > 1 && !shares_unaligned_rows()
                                ? builder_.add(first_in_part(), start)
                                : ExprId{},
          .predication = chunk.predication});
  });
  const int64_t batches = batch_count(facts_, schedule_);
  for (int64_t i = 0; i < chunk.edges; ++i) {
    const Edge& edge = edges_[static_cast<size_t>(i)];
    body({.group = builder_.integer(chunk.batches + i),
          .batch = builder_.integer(batches + i),
          .first_column = edge.column,
          .predication = Predication::kVector,
          .edge = i,
          .edge_is_inside = edge.is_inside});
  }
}

void RowWalk::for_vectors(const std::function<void(const TilePosition&)>& body) {
  for_chunks(1, [&](const RowChunk& batch) { for_vectors(batch, body); });
}

void RowWalk::for_lanes(const TilePosition& at, const std::function<void(ExprId lane)>& body) {
  builder_.unrolled("v", tiles_.lanes_at(at), [&](ExprId lane) {
    tiles_.begin_element(at, lane);
    body(lane);
  });
}

void RowWalk::when_inside(const TilePosition& at, const std::function<void()>& body) {
  if (at.predication == Predication::kVector) {
    builder_.when(tiles_.vector_is_inside(at), body);
  } else {
    body();
  }
}

}  // namespace sinter
