#include "codegen/lower/lower_two_pass.h"

#include <map>

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

class TwoPassLowering {
 public:
  explicit TwoPassLowering(RowKernel& kernel)
      : k_(kernel),
        builder_(kernel.builder),
        one_tile_(row_tile_count(kernel.facts, kernel.schedule) == 1) {}

  LoweredKernel run() {
    blocks_ = builder_.add_param("blocks");
    k_.kernel.grid = {blocks_, 1};
    if (in_cluster()) builder_.init_mbarriers();
    k_.outer.declare_for_chunks();
    k_.outer.declare_partials(one_tile_ ? kir::Access::kWrite : kir::Access::kReadWrite);
    k_.body.evaluate_common();
    declare_tile_row_values();
    if (in_cluster() && k_.facts.has_reduction())
      exchanges_ = builder_.declare("exchanges", builder_.integer(0));
    block_ = builder_.ref(builder_.declare("block", k_.block_number()));
    step_ = builder_.cast(builder_.param(blocks_), DType::kI64);
    const ExprId columns = builder_.integer(k_.facts.space.columns, DType::kI64);
    partials_ = builder_.ref(builder_.declare("partial_start", builder_.mul(block_, columns)));
    if (goes_through_once(k_.facts, distribute_two_pass(k_.facts))) {
      walk_rows();
    } else {
      for_two_pass([&](ExprId first) { take(first); });
    }
    store_totals();
    return {std::move(k_.kernel), {k_.facts.space.rows, partial_rows(k_.schedule)}};
  }

 private:
  [[nodiscard]] bool in_cluster() const { return k_.schedule.cluster_size() > 1; }

  void declare_tile_row_values() {
    for (const ValueId value : k_.body.tile_row_values()) {
      tile_row_values_[value] =
          builder_.add_buffer({.name = k_.tiles.name_of_value(value) + "_row_tile",
                               .type = travel_type(k_.facts.fusion.values[value].type),
                               .space = kir::Space::kShared,
                               .access = kir::Access::kReadWrite,
                               .alignment = 16,
                               .value = value,
                               .count = k_.schedule.rows_per_tile()});
    }
  }

  // ---- Single pass

  /// No work waits for the end of a tile, so rows follow one after the other.
  void walk_rows() {
    builder_.loop("row", block_, k_.rows, step_, false, [&](ExprId row) {
      if (k_.facts.space.row_dimensions > 0) k_.tiles.enter_row(row);
      take_row([&](Row& entered) {
        k_.body.begin(entered);
        k_.body.compute();
      });
    });
  }

  /// Runs `body` with a row whose threads may exchange, in a cluster also across its blocks.
  void take_row(const std::function<void(Row&)>& body) {
    Row row;
    if (in_cluster()) row.exchange = k_.cluster_exchange(builder_.ref(exchanges_));
    body(row);
    if (in_cluster())
      builder_.assign(exchanges_, builder_.add(builder_.ref(exchanges_), builder_.integer(1)));
  }

  // ---- Tiles of rows

  /// Runs `body` with the first row of every tile, at least once. Consecutive rows of a tile are as
  /// many rows apart as there are blocks or clusters.
  void for_two_pass(const std::function<void(ExprId)>& body) {
    if (one_tile_) {
      body(block_);
      return;
    }
    const ExprId reach =
        builder_.mul(step_, builder_.integer(k_.schedule.rows_per_tile(), DType::kI64));
    const ExprId after = builder_.add(block_, builder_.integer(1, DType::kI64));
    builder_.loop("row_tile", block_, builder_.max(k_.rows, after), reach, false, body);
  }

  void take(ExprId first) {
    const ExprId one = builder_.integer(1, DType::kI64);
    const ExprId left =
        builder_.div(builder_.add(builder_.sub(k_.rows, first), builder_.sub(step_, one)), step_);
    const ExprId most = builder_.integer(k_.schedule.rows_per_tile(), DType::kI64);
    const ExprId count = builder_.ref(
        builder_.declare("rows_of_tile", builder_.cast(builder_.min(left, most), DType::kI32)));
    if (k_.body.has_first_part()) reduce_rows(first, count);
    const bool keeps = !tile_row_values_.empty();
    if (keeps) builder_.append(kir::Barrier{});
    if (k_.body.has_second_part()) {
      k_.walk.for_chunks(k_.schedule.unroll,
                         [&](const RowChunk& chunk) { apply_rows(chunk, first, count); });
    }
    if (keeps && !one_tile_) builder_.append(kir::Barrier{});
  }

  /// Enters the row of the tile with this index, i32.
  void enter_row(ExprId first, ExprId index) {
    const ExprId before = builder_.mul(builder_.cast(index, DType::kI64), step_);
    if (k_.facts.space.row_dimensions > 0)
      k_.tiles.enter_row(builder_.ref(builder_.declare("row", builder_.add(first, before))));
  }

  // ---- First pass

  void reduce_rows(ExprId first, ExprId count) {
    const ExprId zero = builder_.integer(0);
    const ExprId lane = k_.walk.lane();
    if (k_.facts.has_reduction()) {
      builder_.comment("reduce the rows of the tile");
      builder_.loop("r", zero, count, builder_.integer(1), false, [&](ExprId index) {
        take_row([&](Row& row) { reduce_row(row, first, index, builder_.equal(lane, zero)); });
      });
      return;
    }
    // No row needs an exchange, so every thread takes rows of its own.
    builder_.comment("row values of the rows of the tile");
    Row row;
    row.is_leader =
        builder_.equal(k_.walk.first_of_block(), builder_.integer(0, k_.tiles.column_type()));
    builder_.loop("r", lane, count, builder_.integer(k_.walk.threads()), false,
                  [&](ExprId index) { reduce_row(row, first, index, builder_.boolean(true)); });
  }

  void reduce_row(const Row& row, ExprId first, ExprId index, ExprId keeps) {
    enter_row(first, index);
    k_.body.begin(row);
    k_.body.compute();
    std::map<ValueId, VarId> kept;
    for (const auto& [value, buffer] : tile_row_values_) {
      const ExprId result =
          builder_.cast(k_.tiles.row_value(value), builder_.kernel().buffers[buffer].type);
      kept[value] = builder_.declare("kept", result);
    }
    if (kept.empty()) return;
    builder_.when(keeps, [&] {
      const ExprId zero = builder_.integer(0);
      for (const auto& [value, var] : kept)
        builder_.append(kir::Store{tile_row_values_.at(value), index, 1, var, zero, zero});
    });
  }

  // ---- Second pass

  void apply_rows(const RowChunk& chunk, ExprId first, ExprId count) {
    builder_.comment("a chunk of columns of all rows of the tile");
    if (one_tile_) {
      clear(chunk);
    } else {
      builder_.when(
          builder_.equal(first, block_), [&] { clear(chunk); },
          [&] {
            for_partials(chunk, [&](const TilePosition& at, ExprId index) {
              k_.outer.load_partials(at.group, index);
            });
          });
    }
    k_.body.with_common_reads(chunk, [&] {
      if (k_.schedule.prefetch_rows() > 0) {
        k_.body.with_prefetch_rows(chunk, [&] { go_through_prefetched(chunk, first, count); });
      } else {
        go_through(chunk, first, count);
      }
    });
    for_partials(chunk, [&](const TilePosition& at, ExprId index) {
      k_.outer.store_partials(at.group, index);
    });
  }

  void go_through(const RowChunk& chunk, ExprId first, ExprId count) {
    builder_.loop("r", builder_.integer(0), count, builder_.integer(1), false, [&](ExprId index) {
      enter_row(first, index);
      take_tile_row_values(index);
      k_.body.apply(chunk);
    });
  }

  /// The same with the next row prefetched.
  void go_through_prefetched(const RowChunk& chunk, ExprId first, ExprId count) {
    const auto load = [&](ExprId index) {
      builder_.when(builder_.less(index, count), [&] {
        enter_row(first, index);
        k_.body.load_next(chunk);
      });
    };
    load(builder_.integer(0));
    builder_.loop("r", builder_.integer(0), count, builder_.integer(1), false, [&](ExprId index) {
      k_.body.take_next(chunk);
      load(builder_.add(index, builder_.integer(1)));
      // Always true, which ptxas does not know. Otherwise it would delay the loads until the
      // current row is done.
      builder_.when(builder_.less(builder_.integer(0, DType::kI64), builder_.param(blocks_)), [&] {
        enter_row(first, index);
        take_tile_row_values(index);
        k_.body.apply(chunk);
      });
    });
  }

  void clear(const RowChunk& chunk) {
    builder_.unrolled("u", chunk.batches, [&](ExprId group) { k_.outer.clear(group); });
  }

  /// Runs `body` for every vector of a chunk, with its index in the block's partial results.
  void for_partials(const RowChunk& chunk,
                    const std::function<void(const TilePosition&, ExprId)>& body) {
    k_.walk.for_vectors(chunk, [&](const TilePosition& at) {
      const auto run = [&] {
        body(at, builder_.add(partials_, builder_.cast(at.first_column, DType::kI64)));
      };
      if (at.predication == Predication::kNone) {
        run();
      } else {
        builder_.when(k_.tiles.vector_is_inside(at), run);
      }
    });
  }

  void take_tile_row_values(ExprId index) {
    const ExprId zero = builder_.integer(0);
    for (const auto& [value, buffer] : tile_row_values_) {
      const DType type = builder_.kernel().buffers[buffer].type;
      const VarId var = builder_.declare_scalar(k_.tiles.name_of_value(value), type);
      builder_.append(kir::Load{var, zero, zero, 1, buffer, index, kir::CacheHint::kDefault});
      k_.tiles.define_row_value(
          value, builder_.cast(builder_.ref(var), k_.facts.fusion.values[value].type));
    }
  }

  void store_totals() {
    if (!k_.outer.has_totals()) return;
    k_.outer.combine_threads(k_.schedule.threads_per_row, k_.cluster_exchange({}));
    builder_.when(k_.walk.is_first_thread(), [&] { k_.outer.store_totals(block_); });
  }

  RowKernel& k_;
  kir::KernelBuilder& builder_;
  const bool one_tile_;
  kir::ParamId blocks_;
  VarId exchanges_;      ///< Counts the rows that the blocks of a cluster have reduced.
  ExprId block_, step_;  ///< Number of the block or cluster, and how many there are, i64.
  ExprId partials_;  ///< Index of the block's or cluster's first partial result of columns, i64.
  std::map<ValueId, kir::BufferId> tile_row_values_;
};

}  // namespace

LoweredKernel lower_two_pass(RowKernel& k) { return TwoPassLowering(k).run(); }

}  // namespace sinter
