// The part of TileLowering that moves vectors between memory and registers: tiles, their loads
// under predicates, and the stores of outputs.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

namespace {

/// The column that predicates compare with the end.
ExprId predicated_column(const TilePosition& position) {
  return position.column_in_part.valid() ? position.column_in_part : position.first_column;
}

}  // namespace

// ---- Tiles

VarId TileLowering::declare_tile(ValueId value, int64_t groups, std::string_view suffix) {
  int64_t lanes = width();
  if (const TensorAccess* access = facts_.space.find_input(value)) {
    if (access_kind(facts_, *access, schedule_) == AccessKind::kUniform) lanes = 1;
  }
  return builder_.declare_tile(name_of_value(value) + std::string(suffix),
                               facts_.fusion.values[value].type, groups, lanes);
}

void TileLowering::bind_tile(ValueId value, VarId tile, bool resident) {
  view_.tiles[value] = {tile, resident};
}

ExprId TileLowering::lane_is_inside(const TilePosition& position, ExprId lane) {
  const ExprId column =
      builder_.add(predicated_column(position), builder_.cast(lane, column_type_));
  return builder_.both(builder_.less_equal(builder_.integer(0, column_type_), column),
                       builder_.less(column, column_count_));
}

ExprId TileLowering::vector_is_inside(const TilePosition& position) {
  if (position.is_edge()) return position.edge_is_inside;
  const ExprId first = predicated_column(position);
  if (position.predication == Predication::kVector) return builder_.less(first, column_count_);
  const ExprId end = builder_.add(first, builder_.integer(width(), column_type_));
  return builder_.both(builder_.less_equal(builder_.integer(0, column_type_), first),
                       builder_.less_equal(end, column_count_));
}

void TileLowering::load(ValueId value, const TilePosition& position) {
  const TensorAccess& access = *facts_.space.find_input(value);
  const BoundTile tile = view_.tiles.at(value);
  const ExprId group = tile.resident ? position.batch : position.group;
  const kir::BufferId buffer = buffer_of(access.tensor);
  const kir::CacheHint hint = hint_of(access);
  const AccessKind kind = access_kind(facts_, access, schedule_);
  const DType type = facts_.fusion.values[value].type;

  const auto load_from = [&](ExprId lane, int64_t count, ExprId index) {
    builder_.append(
        kir::Load{tile.var, group, lane, count, buffer, index, hint, tensor_of(buffer)});
  };
  const auto load_at = [&](ExprId lane, int64_t count, ExprId column) {
    load_from(lane, count, address(access, column));
  };
  const auto load_whole = [&] {
    if (kind == AccessKind::kVector) {
      load_from(builder_.integer(0), lanes_at(position), vector_address(access, position));
    } else if (kind == AccessKind::kUniform) {
      load_at(builder_.integer(0), 1, position.first_column);
    } else {
      builder_.unrolled("v", lanes_at(position), [&](ExprId lane) {
        load_at(lane, 1, builder_.add(position.first_column, builder_.cast(lane, column_type_)));
      });
    }
  };
  const auto load_lanes = [&] {
    builder_.unrolled("v", width(), [&](ExprId lane) {
      builder_.when(
          lane_is_inside(position, lane),
          [&] {
            load_at(lane, 1,
                    builder_.add(position.first_column, builder_.cast(lane, column_type_)));
          },
          [&] {
            const DType compute = compute_type(type);
            const ExprId nothing =
                is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute);
            builder_.set(tile.var, group, lane, builder_.cast(nothing, type));
          });
    });
  };

  switch (position.predication) {
    case Predication::kNone:
      load_whole();
      return;
    case Predication::kVector:
      builder_.when(vector_is_inside(position), load_whole);
      return;
    case Predication::kElement:
      if (kind == AccessKind::kElement) {
        load_lanes();
      } else {
        builder_.when(vector_is_inside(position), load_whole, load_lanes);
      }
      return;
  }
}

void TileLowering::copy_async(ValueId value, const TilePosition& position, kir::BufferId shared,
                              ExprId index) {
  const TensorAccess& access = *facts_.space.find_input(value);
  const int64_t piece =
      std::min(width(), kMostAsyncBytes / bytes_of(facts_.fusion.values[value].type));
  for (int64_t lane = 0; lane < width(); lane += piece) {
    const ExprId column = builder_.add(position.first_column, builder_.integer(lane, column_type_));
    builder_.append(kir::AsyncCopy{shared, builder_.add(index, builder_.integer(lane)),
                                   buffer_of(access.tensor), address(access, column), piece});
  }
}

void TileLowering::load_shared(ValueId value, const TilePosition& position, kir::BufferId shared,
                               ExprId index) {
  const BoundTile tile = view_.tiles.at(value);
  const auto load = [&] {
    builder_.append(kir::Load{tile.var, tile.resident ? position.batch : position.group,
                              builder_.integer(0), lanes_at(position, tile.var), shared, index,
                              kir::CacheHint::kDefault});
  };
  if (position.predication == Predication::kVector) {
    builder_.when(vector_is_inside(position), load);
  } else {
    load();
  }
}

// ---- Outputs

/// The operand of an output that is a cast to a storage type or an 8-bit integer: its tile holds
/// the compute type, and the store rounds or saturates, several elements at a time. Those casts
/// pass through the compute type, so that one in two steps gives the same bits.
std::optional<ValueId> TileLowering::stored_operand(size_t index) const {
  const ValueId output = facts_.fusion.outputs[index];
  const DType type = facts_.fusion.values[output].type;
  const Op& op = facts_.fusion.def_of(output);
  if (facts_.is_read(output) || sources_.contains(output) ||
      !std::holds_alternative<CastOp>(op.kind) || compute_type(type) == type) {
    return std::nullopt;
  }
  return op.operands[0];
}

VarId TileLowering::declare_output_tile(size_t index) {
  const ValueId output = facts_.fusion.outputs[index];
  const DType type = facts_.fusion.values[output].type;
  return builder_.declare_tile(name_of_value(output) + "_tile",
                               stored_operand(index) ? compute_type(type) : type, 1, width());
}

ExprId TileLowering::output_element(size_t index) {
  const ValueId output = facts_.fusion.outputs[index];
  const auto operand = stored_operand(index);
  if (!operand) return element_value(output);
  return builder_.cast(element_value(*operand), compute_type(facts_.fusion.values[output].type));
}

void TileLowering::store_row_output(size_t index) {
  const ValueId output = facts_.fusion.outputs[index];
  const DType type = compute_type(facts_.fusion.values[output].type);
  const auto operand = stored_operand(index);
  const ExprId stored = operand ? builder_.cast(row_value(*operand), type) : row_value(output);
  const VarId var = builder_.declare(name_of_value(output) + "_stored", stored);
  const ExprId zero = builder_.integer(0);
  builder_.append(kir::Store{buffer_of(output), address(facts_.space.outputs[index], ExprId{}), 1,
                             var, zero, zero});
}

/// The even lane has vector a, the odd lane vector b, which follows a. For each two pieces of a
/// vector the lane pair first stores both pieces of a, one per lane, and then both of b.
void TileLowering::store_in_pairs(size_t index, VarId tile, const TilePosition& position) {
  const TensorAccess& access = facts_.space.outputs[index];
  const kir::BufferId buffer = buffer_of(facts_.fusion.outputs[index]);
  const DType type = builder_.kernel().vars[tile].type;
  const int64_t piece = kMostAccessBytes / bytes_of(type);
  const ExprId zero = builder_.integer(0);
  const ExprId two = builder_.integer(2);
  const ExprId is_odd = builder_.ref(builder_.declare(
      "is_odd", builder_.equal(builder_.rem(builder_.special(kir::Special::kThreadIndex), two),
                               builder_.integer(1))));
  const auto store_at = [&](VarId of_pair, int64_t if_odd, int64_t if_even) {
    const ExprId offset = builder_.select(is_odd, builder_.integer(if_odd, column_type_),
                                          builder_.integer(if_even, column_type_));
    const ExprId column = builder_.add(position.first_column, offset);
    builder_.append(
        kir::Store{buffer, address(access, column), piece, of_pair, zero, zero, tensor_of(buffer)});
  };
  for (int64_t first = 0; first < width(); first += 2 * piece) {
    const VarId a = builder_.declare_tile("even_lane", type, 1, piece);
    const VarId b = builder_.declare_tile("odd_lane", type, 1, piece);
    for (int64_t i = 0; i < piece; ++i) {
      const ExprId lane = builder_.integer(i);
      const ExprId lower = builder_.element(tile, zero, builder_.integer(first + i));
      const ExprId upper = builder_.element(tile, zero, builder_.integer(first + piece + i));
      const VarId other = builder_.declare_scalar("other_half", type);
      builder_.append(kir::ShuffleXor{other, builder_.select(is_odd, lower, upper), 1});
      builder_.set(a, zero, lane, builder_.select(is_odd, builder_.ref(other), lower));
      builder_.set(b, zero, lane, builder_.select(is_odd, upper, builder_.ref(other)));
    }
    store_at(a, first + piece - width(), first);
    store_at(b, first + piece, first + width());
  }
}

void TileLowering::store_collected(size_t index, VarId tile, TilePosition position) {
  if (const auto sink = sinks_.find(index); sink != sinks_.end()) {
    sink->second(tile, position);
    return;
  }
  if (position.predication == Predication::kNone && stores_in_pairs(facts_, schedule_, index)) {
    store_in_pairs(index, tile, position);
    return;
  }
  if (position.predication == Predication::kVector) position.predication = Predication::kNone;
  store(index, tile, position);
}

void TileLowering::evaluate_vector(const std::vector<size_t>& outputs, const TilePosition& position,
                                   const std::function<void(ExprId)>& also) {
  const auto evaluate = [&] {
    std::map<size_t, VarId> tiles;
    for (const size_t output : outputs) tiles[output] = declare_output_tile(output);
    builder_.unrolled("v", width(), [&](ExprId lane) {
      begin_element(position, lane);
      for (const auto& [output, tile] : tiles)
        builder_.set(tile, builder_.integer(0), lane, output_element(output));
      also(lane);
    });
    for (const auto& [output, tile] : tiles) store_collected(output, tile, position);
  };
  if (position.predication == Predication::kVector) {
    builder_.when(vector_is_inside(position), evaluate);
  } else {
    evaluate();
  }
}

void TileLowering::store(size_t index, VarId tile, const TilePosition& position) {
  const TensorAccess& access = facts_.space.outputs[index];
  const kir::BufferId buffer = buffer_of(facts_.fusion.outputs[index]);
  const AccessKind kind = access_kind(facts_, access, schedule_);
  const ExprId zero = builder_.integer(0);

  const auto store_to = [&](ExprId element, ExprId lane, int64_t count) {
    builder_.append(kir::Store{buffer, element, count, tile, zero, lane, tensor_of(buffer)});
  };
  const auto store_lane = [&](ExprId lane) {
    const ExprId column = builder_.add(position.first_column, builder_.cast(lane, column_type_));
    store_to(address(access, column), lane, 1);
  };
  const auto store_whole = [&] {
    if (kind == AccessKind::kVector) {
      store_to(vector_address(access, position), zero, lanes_at(position));
    } else {
      builder_.unrolled("v", lanes_at(position), store_lane);
    }
  };
  const auto store_lanes = [&] {
    builder_.unrolled("v", width(), [&](ExprId lane) {
      builder_.when(lane_is_inside(position, lane), [&] { store_lane(lane); });
    });
  };
  switch (position.predication) {
    case Predication::kNone:
      store_whole();
      return;
    case Predication::kVector:
      builder_.when(vector_is_inside(position), store_whole);
      return;
    case Predication::kElement:
      if (kind == AccessKind::kVector) {
        builder_.when(vector_is_inside(position), store_whole, store_lanes);
      } else {
        store_lanes();
      }
      return;
  }
}

}  // namespace sinter
