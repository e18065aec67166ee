#include "codegen/lower/lower_transpose.h"

#include <map>
#include <memory>
#include <optional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/tile_space.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

/// Start of a vector, relative to the tile's first element and line.
struct VectorPlace {
  ExprId fast;  ///< i32.
  ExprId line;  ///< i32.
};

class TransposeLowering {
 public:
  TransposeLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        axes_(*tile_axes(facts)),
        along_(walked_along(facts, axes_.along)),
        across_(walked_along(facts, axes_.across)),
        list_(distribute(along_, {})),
        builder_(&kernel_),
        tiles_(along_, schedule_, builder_) {
    int64_t widest = 1;
    for (const StagedTensor& tensor : staged_tensors(facts, axes_, schedule)) {
      widest = std::max(widest, bytes_of(type_of(tensor.value)));
      staged_.push_back(std::make_unique<Staged>(tensor, across_, schedule_, builder_));
    }
    walk_ = walk_along(schedule, widest);
  }

  LoweredKernel run() {
    kernel_.name = facts_.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers(true);
    for (const auto& staged : staged_) {
      staged->tiles.share_buffers(tiles_);
      staged->shared =
          builder_.add_buffer({.name = tiles_.name_of_value(staged->tensor.value) +
                                       (staged->tensor.is_output ? "_turned" : "_tile"),
                               .type = type_of(staged->tensor.value),
                               .space = kir::Space::kShared,
                               .access = kir::Access::kReadWrite,
                               .alignment = kir::kSharedUnit,
                               .value = {},
                               .count = tile_shape(schedule_).across * staged->tensor.pitch});
    }
    kernel_.grid = {builder_.add_param("blocks"), 1};
    find_tile();
    tiles_.enter_row_at({});
    for (const ValueId value : list_.row_values) {
      if (!along_.space.dependence[value].rows) tiles_.row_value(value);
    }

    const Stage& stage = list_.stages[0];
    for (const ValueId value : stage.loads) {
      if (find_staged(value, false) == nullptr)
        tiles_.bind_tile(value, tiles_.declare_tile(value, schedule_.unroll), false);
    }
    in_each_tile([&](bool whole) { load(whole); });
    if (has_staged(false)) builder_.append(kir::Barrier{});
    in_each_tile([&](bool whole) { evaluate(whole); });
    if (has_staged(true)) {
      builder_.append(kir::Barrier{});
      in_each_tile([&](bool whole) { store(whole); });
    }
    return {std::move(kernel_), {tile_grid(facts_, axes_, schedule_).blocks()}};
  }

 private:
  /// A tensor that is staged in shared memory and accessed in its own order in global memory.
  struct Staged {
    Staged(const StagedTensor& staged, const SegmentFacts& across, const Schedule& like,
           kir::KernelBuilder& builder)
        : tensor(staged),
          schedule(in_vectors_of(like, staged.walk.width)),
          tiles(across, schedule, builder) {}

    static Schedule in_vectors_of(Schedule schedule, int64_t width) {
      schedule.vector_width = width;
      return schedule;
    }

    StagedTensor tensor;
    Schedule schedule;
    TileLowering tiles;
    kir::BufferId shared{};
  };

  [[nodiscard]] DType type_of(ValueId value) const { return facts_.fusion.values[value].type; }
  [[nodiscard]] int64_t size_of(size_t dimension) const {
    return facts_.space.dimensions[dimension].size;
  }

  Staged* find_staged(ValueId value, bool is_output) {
    for (const auto& staged : staged_) {
      if (staged->tensor.value == value && staged->tensor.is_output == is_output)
        return staged.get();
    }
    return nullptr;
  }

  [[nodiscard]] bool has_staged(bool is_output) const {
    return std::ranges::any_of(
        staged_, [&](const auto& staged) { return staged->tensor.is_output == is_output; });
  }

  /// Declares the block's tile; consecutive blocks have adjacent tiles along the lines.
  void find_tile() {
    const TileShape shape = tile_shape(schedule_);
    const TileGrid grid = tile_grid(facts_, axes_, schedule_);
    builder_.comment(fmt::format("tiles of {} x {} elements, {} along, {} across", shape.across,
                                 shape.along, grid.along, grid.across));
    const ExprId block = builder_.special(kir::Special::kBlockIndex);
    const auto first = [&](const char* name, ExprId tile, int64_t side, int64_t tiles) {
      return builder_.ref(builder_.declare(
          name,
          builder_.mul(builder_.cast(builder_.rem(tile, builder_.integer(tiles)), DType::kI64),
                       builder_.integer(side, DType::kI64))));
    };
    first_along_ = first("first_along", block, shape.along, grid.along);
    const ExprId strip = builder_.div(block, builder_.integer(grid.along));
    first_across_ = first("first_across", strip, shape.across, grid.across);
    ExprId rest = builder_.div(strip, builder_.integer(grid.across));
    others_.resize(facts_.space.dimensions.size());
    int64_t left = grid.others;
    for (size_t i = facts_.space.dimensions.size(); i-- > 0;) {
      if (i == axes_.along || i == axes_.across) continue;
      left /= std::max<int64_t>(size_of(i), 1);
      // The outermost coordinate needs no remainder.
      const ExprId coordinate = left == 1 ? rest : builder_.rem(rest, builder_.integer(size_of(i)));
      others_[i] = builder_.ref(
          builder_.declare(fmt::format("coordinate{}", i), builder_.cast(coordinate, DType::kI64)));
      rest = builder_.div(rest, builder_.integer(size_of(i)));
    }
    const auto ends_inside = [&](ExprId begin, int64_t side, int64_t size) {
      if (size % side == 0) return builder_.boolean(true);
      return builder_.less_equal(builder_.add(begin, builder_.integer(side, DType::kI64)),
                                 builder_.integer(size, DType::kI64));
    };
    whole_ = builder_.both(ends_inside(first_along_, shape.along, size_of(axes_.along)),
                           ends_inside(first_across_, shape.across, size_of(axes_.across)));
    if (builder_.as_integer(whole_) == nullptr)
      whole_ = builder_.ref(builder_.declare("is_whole", whole_));
  }

  /// Emits one body for tiles inside the tensor, and a predicated one for tiles that reach past an
  /// end.
  void in_each_tile(const std::function<void(bool)>& body) {
    if (builder_.as_integer(whole_) != nullptr) return body(true);
    builder_.when(
        whole_, [&] { body(true); },
        [&] {
          builder_.comment("the tile reaches past the end of a dimension");
          body(false);
        });
  }

  /// Position of the thread's vector number `iteration` (i32) in a walk.
  VectorPlace place(const TileWalk& walk, ExprId iteration) {
    kir::KernelBuilder& b = builder_;
    const ExprId thread = b.special(kir::Special::kThreadIndex);
    const ExprId lane = b.rem(thread, b.integer(walk.lanes));
    const ExprId begins = b.div(thread, b.integer(walk.lanes));
    const int64_t lines_at_once = walk.threads / walk.lanes;
    ExprId line;
    ExprId chunk;
    if (lines_at_once <= walk.slow) {
      const int64_t iterations = walk.slow / lines_at_once;
      line =
          b.add(begins, b.mul(b.rem(iteration, b.integer(iterations)), b.integer(lines_at_once)));
      chunk = b.div(iteration, b.integer(iterations));
    } else {
      line = b.rem(begins, b.integer(walk.slow));
      chunk = b.add(b.div(begins, b.integer(walk.slow)),
                    b.mul(iteration, b.integer(lines_at_once / walk.slow)));
    }
    const ExprId vector = b.add(b.mul(chunk, b.integer(walk.lanes)), lane);
    return {b.mul(vector, b.integer(walk.width)), line};
  }

  /// Coordinates of a row of a walk; `line` is the coordinate of dimension `of_line`.
  std::vector<ExprId> coordinates(size_t columns, size_t of_line, ExprId line) const {
    std::vector<ExprId> out;
    for (size_t i = 0; i < others_.size(); ++i) {
      if (i != columns) out.push_back(i == of_line ? line : others_[i]);
    }
    return out;
  }

  /// Runs `body` for every vector of the thread in a walk whose lines are those of dimension
  /// `of_line`, if the line exists. The row is entered before, and `body` gets the vector's place
  /// and position.
  void each_vector(TileLowering& tiles, const TileWalk& walk, size_t columns, size_t of_line,
                   bool whole,
                   const std::function<void(const VectorPlace&, const TilePosition&)>& body) {
    kir::KernelBuilder& b = builder_;
    const bool is_along = columns == axes_.along;
    const ExprId first_column = is_along ? first_along_ : first_across_;
    const ExprId first_line = is_along ? first_across_ : first_along_;
    const Predication tail =
        size_of(columns) % walk.width == 0 ? Predication::kVector : Predication::kElement;
    b.unrolled("u", walk.vectors_per_thread(), [&](ExprId iteration) {
      const VectorPlace at = place(walk, iteration);
      const ExprId line = b.add(first_line, b.cast(at.line, DType::kI64));
      const DType index = tiles.column_type();
      const TilePosition position{
          .group = iteration,
          .batch = b.integer(0),
          .first_column = b.add(b.cast(first_column, index), b.cast(at.fast, index)),
          .predication = whole ? Predication::kNone : tail};
      const auto inside = [&] {
        tiles.enter_row_at(coordinates(columns, of_line, line));
        body(at, position);
        tiles.enter_row_at({});
      };
      if (whole) {
        inside();
      } else {
        b.when(b.less(line, b.integer(size_of(of_line), DType::kI64)), inside);
      }
    });
  }

  /// Index in a staged tensor's shared memory.
  ExprId shared_index(const Staged& staged, ExprId along, ExprId across) {
    return builder_.add(builder_.mul(across, builder_.integer(staged.tensor.pitch)), along);
  }

  ExprId nothing(DType type) {
    const DType compute = compute_type(type);
    return builder_.cast(
        is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute), type);
  }

  void load(bool whole) {
    kir::KernelBuilder& b = builder_;
    // Staged inputs are loaded first, because the barrier waits for them.
    std::map<Staged*, VarId> held;
    for (const auto& staged : staged_) {
      if (staged->tensor.is_output) continue;
      const ValueId value = staged->tensor.value;
      held[staged.get()] =
          staged->tiles.declare_tile(value, staged->tensor.walk.vectors_per_thread());
      staged->tiles.bind_tile(value, held[staged.get()], false);
      each_vector(staged->tiles, staged->tensor.walk, axes_.across, axes_.along, whole,
                  [&](const VectorPlace&, const TilePosition& position) {
                    staged->tiles.load(value, position);
                  });
    }
    for (const ValueId value : list_.stages[0].loads) {
      if (find_staged(value, false) != nullptr) continue;
      each_vector(
          tiles_, walk_, axes_.along, axes_.across, whole,
          [&](const VectorPlace&, const TilePosition& position) { tiles_.load(value, position); });
    }
    for (const auto& staged : staged_) {
      if (staged->tensor.is_output) continue;
      each_vector(staged->tiles, staged->tensor.walk, axes_.across, axes_.along, whole,
                  [&](const VectorPlace& at, const TilePosition& position) {
                    const auto put = [&](ExprId lane) {
                      b.append(kir::Store{staged->shared,
                                          shared_index(*staged, at.line, b.add(at.fast, lane)), 1,
                                          held.at(staged.get()), position.group, lane});
                    };
                    const auto all = [&] { b.unrolled("v", staged->tensor.walk.width, put); };
                    // Vectors past the end were not loaded; single lanes past the end are zero.
                    if (position.predication == Predication::kVector) {
                      b.when(staged->tiles.vector_is_inside(position), all);
                    } else {
                      all();
                    }
                  });
      staged->tiles.unbind_tile(staged->tensor.value);
    }
  }

  /// Loads a vector of each staged input from shared memory into registers.
  void fetch_staged(const VectorPlace& at, const TilePosition& position) {
    kir::KernelBuilder& b = builder_;
    for (const ValueId value : list_.stages[0].loads) {
      const Staged* staged = find_staged(value, false);
      if (staged == nullptr) continue;
      const DType type = type_of(value);
      const VarId tile = b.declare_tile(tiles_.name_of_value(value), type, 1, walk_.width);
      tiles_.bind_tile(value, tile, true);
      b.unrolled("v", walk_.width, [&](ExprId lane) {
        const auto get = [&] {
          b.append(kir::Load{tile, b.integer(0), lane, 1, staged->shared,
                             shared_index(*staged, b.add(at.fast, lane), at.line),
                             kir::CacheHint::kDefault});
        };
        if (position.predication != Predication::kElement) return get();
        b.when(tiles_.lane_is_inside(position, lane), get,
               [&] { b.set(tile, b.integer(0), lane, nothing(type)); });
      });
    }
  }

  void evaluate(bool whole) {
    kir::KernelBuilder& b = builder_;
    const Stage& stage = list_.stages[0];
    each_vector(tiles_, walk_, axes_.along, axes_.across, whole,
                [&](const VectorPlace& at, const TilePosition& position) {
                  const auto vector = [&] {
                    fetch_staged(at, position);
                    std::map<size_t, VarId> collected;
                    for (const size_t output : stage.outputs)
                      collected[output] = tiles_.declare_output_tile(output);
                    b.unrolled("v", walk_.width, [&](ExprId lane) {
                      tiles_.begin_element(position, lane);
                      for (const auto& [output, tile] : collected)
                        b.set(tile, b.integer(0), lane, tiles_.output_element(output));
                    });
                    TilePosition enclosed = position;
                    if (position.predication == Predication::kVector)
                      enclosed.predication = Predication::kNone;
                    for (const auto& [output, tile] : collected) {
                      const Staged* staged = find_staged(facts_.fusion.outputs[output], true);
                      if (staged == nullptr) {
                        tiles_.store(output, tile, enclosed);
                        continue;
                      }
                      const VarId from = tile;
                      b.unrolled("v", walk_.width, [&](ExprId lane) {
                        b.append(kir::Store{staged->shared,
                                            shared_index(*staged, b.add(at.fast, lane), at.line), 1,
                                            from, b.integer(0), lane});
                      });
                    }
                  };
                  if (position.predication == Predication::kVector) {
                    b.when(tiles_.vector_is_inside(position), vector);
                  } else {
                    vector();
                  }
                });
  }

  /// Stores the outputs that were transposed in shared memory.
  void store(bool whole) {
    kir::KernelBuilder& b = builder_;
    for (const auto& staged : staged_) {
      if (!staged->tensor.is_output) continue;
      TileLowering& tiles = staged->tiles;
      const int64_t width = staged->tensor.walk.width;
      const DType type = type_of(staged->tensor.value);
      each_vector(tiles, staged->tensor.walk, axes_.across, axes_.along, whole,
                  [&](const VectorPlace& at, const TilePosition& position) {
                    const auto vector = [&] {
                      const VarId tile =
                          b.declare_tile(tiles.name_of_value(staged->tensor.value), type, 1, width);
                      b.unrolled("v", width, [&](ExprId lane) {
                        const auto get = [&] {
                          b.append(kir::Load{tile, b.integer(0), lane, 1, staged->shared,
                                             shared_index(*staged, at.line, b.add(at.fast, lane)),
                                             kir::CacheHint::kDefault});
                        };
                        if (position.predication != Predication::kElement) return get();
                        b.when(tiles.lane_is_inside(position, lane), get,
                               [&] { b.set(tile, b.integer(0), lane, nothing(type)); });
                      });
                      TilePosition enclosed = position;
                      if (position.predication == Predication::kVector)
                        enclosed.predication = Predication::kNone;
                      tiles.store(staged->tensor.output, tile, enclosed);
                    };
                    if (position.predication == Predication::kVector) {
                      b.when(tiles.vector_is_inside(position), vector);
                    } else {
                      vector();
                    }
                  });
    }
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const TileAxes axes_;
  const SegmentFacts along_;
  const SegmentFacts across_;
  const StageList list_;
  TileWalk walk_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  std::vector<std::unique_ptr<Staged>> staged_;
  ExprId first_along_;          ///< Of the tile, i64.
  ExprId first_across_;         ///< Of the tile, i64.
  ExprId whole_;                ///< True if the tile reaches past no end.
  std::vector<ExprId> others_;  ///< Coordinates of the dimensions that no tile spans, i64.
};

}  // namespace

LoweredKernel lower_transpose(const SegmentFacts& facts, const Schedule& schedule) {
  return TransposeLowering(facts, schedule).run();
}

}  // namespace sinter
