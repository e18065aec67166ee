#include "codegen/lower/tile_lowering.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

TileLowering::TileLowering(const SegmentFacts& facts, const Schedule& schedule,
                           kir::KernelBuilder& builder)
    : facts_(facts), schedule_(schedule), builder_(builder) {
  // Column indices exceed the row by less than twice the elements of one iteration of the block.
  const int64_t reach =
      schedule.threads_per_block() * schedule.vector_width * std::max<int64_t>(schedule.unroll, 1);
  // Coordinates are computed by division; the divisors may be large even if there are no columns.
  int64_t largest = 1;
  for (size_t i = facts.space.row_dimensions; i < facts.space.dimensions.size(); ++i)
    largest *= std::max<int64_t>(facts.space.dimensions[i].size, 1);
  if (largest > std::numeric_limits<int32_t>::max() - 2 * reach) column_type_ = DType::kI64;
  column_count_ = builder_.integer(facts.space.columns, column_type_);
}

// ---- Set-up

void TileLowering::declare_buffers(bool finishes) {
  const auto declare = [&](ValueId tensor, kir::Access access, int64_t alignment,
                           std::string name) {
    buffers_[tensor] = builder_.add_buffer({.name = std::move(name),
                                            .type = facts_.fusion.values[tensor].type,
                                            .space = kir::Space::kGlobal,
                                            .access = access,
                                            .alignment = alignment,
                                            .value = tensor});
  };
  for (const ValueId input : facts_.fusion.inputs) {
    const bool read = std::ranges::any_of(facts_.space.inputs,
                                          [&](const TensorAccess& a) { return a.tensor == input; });
    if (read)
      declare(input, kir::Access::kRead, facts_.fusion.def_as<InputOp>(input)->alignment,
              name_of_value(input));
  }
  for (const InPlace& pair : facts_.in_place) write_in_place(pair);
  for (const ValueId output : facts_.fusion.outputs) {
    if (buffers_.contains(output) || (!finishes && facts_.is_after_rows(output))) continue;
    declare(output, kir::Access::kWrite, facts_.fusion.layout_of(output).alignment,
            name_of_value(output) + "_out");
  }
}

void TileLowering::write_in_place(const InPlace& pair) {
  const kir::BufferId buffer = buffers_.at(pair.input);
  builder_.kernel().buffers[buffer].access = kir::Access::kReadWrite;
  buffers_[facts_.fusion.outputs[pair.output]] = buffer;
}

void TileLowering::declare_buffers_of(const TensorList& list, int64_t capacity) {
  const auto declare = [&](ValueId tensor, kir::Buffer buffer) {
    const bool writes =
        std::ranges::find(facts_.fusion.inputs, tensor) == facts_.fusion.inputs.end();
    buffer.name = name_of_value(tensor) + (writes ? "_out" : "");
    buffer.type = facts_.fusion.values[tensor].type;
    buffer.access = writes ? kir::Access::kWrite : kir::Access::kRead;
    if (!writes) buffer.alignment = facts_.fusion.def_as<InputOp>(tensor)->alignment;
    buffers_[tensor] = builder_.add_buffer(std::move(buffer));
  };
  for (const auto& [input, value] : list.shared) declare(input, {.name = {}, .value = value});
  for (size_t slot = 0; slot < list.slots.size(); ++slot) {
    kir::Buffer table{.name = {}, .value = {}, .tensors = capacity};
    for (const ListMember& member : list.members) table.values.push_back(member.tensors[slot]);
    declare(list.slots[slot], std::move(table));
  }
  for (const InPlace& pair : facts_.in_place) write_in_place(pair);
}

ExprId TileLowering::tensor_of(kir::BufferId buffer) const {
  return builder_.kernel().buffers[buffer].is_table() ? tensor_ : ExprId{};
}

void TileLowering::leave_row(bool ends) {
  // Values common to all rows are in scope only inside the loop over rows.
  std::erase_if(view_.values, [&](const auto& entry) {
    return ends || facts_.space.dependence[entry.first].rows;
  });
  view_.row = ExprId{};
  view_.coordinates.clear();
  view_.offsets.clear();
}

void TileLowering::enter_row_at(std::vector<ExprId> coordinates) {
  leave_row(false);
  view_.coordinates = std::move(coordinates);
}

void TileLowering::enter_row(ExprId row) {
  leave_row(!row.valid());
  view_.row = row;
  const auto& space = facts_.space;
  if (!row.valid()) return;
  // Dimension k's coordinate is (row / product of inner sizes) mod its size; the outermost needs no
  // remainder.
  int64_t inner = 1;
  std::vector<ExprId> coordinates(space.row_dimensions);
  for (size_t i = space.row_dimensions; i-- > 0;) {
    ExprId coordinate = builder_.div(row, builder_.integer(inner, DType::kI64));
    if (i != 0)
      coordinate =
          builder_.rem(coordinate, builder_.integer(space.dimensions[i].size, DType::kI64));
    coordinates[i] = space.row_dimensions == 1
                         ? row
                         : builder_.ref(builder_.declare(fmt::format("row{}", i), coordinate));
    inner *= space.dimensions[i].size;
  }
  view_.coordinates = std::move(coordinates);
}

std::string TileLowering::name_of_value(ValueId value) const {
  const std::string& name = facts_.fusion.values[value].name;
  return name.empty() ? fmt::format("v{}", value.index) : name;
}

/// Emits a comment that names the next statement's op in the graph.
void TileLowering::describe(ValueId value) {
  const Op& op = facts_.fusion.def_of(value);
  builder_.comment(
      fmt::format("{} = {} {}", value, text_of(op.kind), fmt::join(op.operands, ", ")));
}

// ---- Addresses

std::vector<ExprId> TileLowering::column_coordinates(ExprId column) {
  const auto& space = facts_.space;
  const size_t count = space.dimensions.size() - space.row_dimensions;
  std::vector<ExprId> coordinates(count);
  if (count == 1) {
    coordinates[0] = column;
    return coordinates;
  }
  const DType type = builder_.type_of(column);
  int64_t inner = 1;
  for (size_t i = count; i-- > 0;) {
    const int64_t size = space.dimensions[space.row_dimensions + i].size;
    ExprId coordinate = builder_.div(column, builder_.integer(inner, type));
    if (i != 0) coordinate = builder_.rem(coordinate, builder_.integer(size, type));
    coordinates[i] = coordinate;
    inner *= size;
  }
  return coordinates;
}

ExprId TileLowering::row_offset(const TensorAccess& access) {
  const auto key = std::pair(access.tensor, access.value);
  if (const auto found = view_.offsets.find(key); found != view_.offsets.end())
    return found->second;
  ExprId offset = builder_.integer(access.offset, DType::kI64);
  for (size_t i = 0; i < view_.coordinates.size(); ++i) {
    if (access.strides[i] == 0) continue;
    offset = builder_.add(
        builder_.mul(view_.coordinates[i], builder_.integer(access.strides[i], DType::kI64)),
        offset);
  }
  return view_.offsets[key] = offset;
}

ExprId TileLowering::address(const TensorAccess& access, ExprId column) {
  ExprId index = row_offset(access);
  if (!column.valid()) return index;
  const auto& space = facts_.space;
  const size_t first = space.row_dimensions;
  const auto add_term = [&](ExprId coordinate, int64_t stride) {
    if (stride == 0) return;
    const ExprId wide = builder_.cast(coordinate, DType::kI64);
    index = builder_.add(index, builder_.mul(wide, builder_.integer(stride, DType::kI64)));
  };
  if (!access.strides.empty() && has_one_stride(space, access)) {
    add_term(column, access.strides.back());
    return index;
  }
  const std::vector<ExprId> coordinates = column_coordinates(column);
  for (size_t i = 0; i < coordinates.size(); ++i)
    add_term(coordinates[i], access.strides[first + i]);
  return index;
}

ExprId TileLowering::weighted_coordinate(const std::vector<int64_t>& weights, ExprId column) {
  ExprId sum = builder_.integer(0, DType::kI64);
  const size_t first = facts_.space.row_dimensions;
  for (size_t i = 0; i < view_.coordinates.size(); ++i) {
    if (weights[i] == 0) continue;
    sum = builder_.add(
        sum, builder_.mul(view_.coordinates[i], builder_.integer(weights[i], DType::kI64)));
  }
  if (!column.valid()) return sum;
  const std::vector<ExprId> coordinates = column_coordinates(column);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (weights[first + i] == 0) continue;
    const ExprId wide = builder_.cast(coordinates[i], DType::kI64);
    sum = builder_.add(sum, builder_.mul(wide, builder_.integer(weights[first + i], DType::kI64)));
  }
  return sum;
}

kir::CacheHint TileLowering::hint_of(const TensorAccess& access) const {
  if (!facts_.is_full(access.value)) return kir::CacheHint::kDefault;
  switch (schedule_.read_priority) {
    case ReadPriority::kNormal:
      return kir::CacheHint::kDefault;
    case ReadPriority::kEvictFirst:
      return kir::CacheHint::kEvictFirst;
    case ReadPriority::kEvictLast:
      return kir::CacheHint::kEvictLast;
    case ReadPriority::kLastUse:
      return read_again_.contains(access.tensor) ? kir::CacheHint::kEvictLast
                                                 : kir::CacheHint::kEvictFirst;
  }
  unreachable();
}

// ---- Computation

ExprId TileLowering::constant(ValueId value) {
  const auto& literal = *facts_.fusion.def_as<ConstantOp>(value);
  const DType type = facts_.fusion.values[value].type;
  if (is_float(type)) return builder_.cast(builder_.real(literal.real, compute_type(type)), type);
  const DType compute = compute_type(type);
  return builder_.cast(builder_.integer(literal.integer, compute), type);
}

ExprId TileLowering::compute(ValueId value, const std::function<ExprId(ValueId)>& operand,
                             ExprId column) {
  const Op& op = facts_.fusion.def_of(value);
  const DType type = facts_.fusion.values[value].type;
  if (const auto* pointwise = std::get_if<PointwiseOp>(&op.kind)) {
    std::vector<ExprId> arguments;
    for (const ValueId id : op.operands) arguments.push_back(operand(id));
    return builder_.apply(pointwise->fn, std::move(arguments));
  }
  if (std::holds_alternative<CastOp>(op.kind)) return builder_.cast(operand(op.operands[0]), type);
  if (std::holds_alternative<ConstantOp>(op.kind)) return constant(value);
  if (std::holds_alternative<IotaOp>(op.kind)) {
    return builder_.cast(weighted_coordinate(facts_.space.iota_weights[value], column), type);
  }
  // Broadcast, permute and reshape of computed values only rename coordinates.
  SINTER_CHECK(op.operands.size() == 1, "{} is not computed element by element", value);
  return operand(op.operands[0]);
}

namespace {

/// Ops without a statement of their own: their value is another expression.
bool is_transparent(const OpKind& kind) {
  return std::holds_alternative<ConstantOp>(kind) || std::holds_alternative<BroadcastOp>(kind) ||
         std::holds_alternative<PermuteOp>(kind) || std::holds_alternative<ReshapeOp>(kind);
}

}  // namespace

ExprId TileLowering::row_value(ValueId value) {
  if (const auto found = view_.values.find(value); found != view_.values.end())
    return found->second;
  walk_operands(
      value, [&](ValueId of) { return row_operands(of); },
      [&](ValueId needed) { return !has_row_value(needed); },
      [&](ValueId needed) { compute_row_value(needed); });
  return view_.values.at(value);
}

/// The row values that a row value is computed from. For a take: the index, and the operands of all
/// elements that it may gather.
std::vector<ValueId> TileLowering::row_operands(ValueId value) const {
  const Op& op = facts_.fusion.def_of(value);
  if (!std::holds_alternative<TakeOp>(op.kind)) return op.operands;
  std::vector<ValueId> out = {op.operands[1]};
  if (facts_.space.gathers.contains(value)) return out;
  std::set<ValueId> seen;
  walk_operands(facts_.fusion, op.operands[0], [&](ValueId needed) {
    if (!seen.insert(needed).second) return false;
    if (!facts_.is_tile(needed)) out.push_back(needed);
    return facts_.is_tile(needed) && !facts_.is_read(needed);
  });
  return out;
}

/// True if a row value is known. One that is read from memory is loaded here.
bool TileLowering::has_row_value(ValueId value) {
  if (view_.values.contains(value)) return true;
  ExprId result;
  if (const TensorAccess* access = facts_.space.find_input(value)) {
    const ExprId index = address(*access, ExprId{});
    const VarId var =
        builder_.declare_scalar(name_of_value(access->tensor), facts_.fusion.values[value].type);
    const ExprId zero = builder_.integer(0);
    const kir::BufferId buffer = buffer_of(access->tensor);
    builder_.append(
        kir::Load{var, zero, zero, 1, buffer, index, kir::CacheHint::kDefault, tensor_of(buffer)});
    result = builder_.ref(var);
  } else {
    return false;
  }
  view_.values[value] = result;
  return true;
}

/// Evaluates a row value whose operands are evaluated.
void TileLowering::compute_row_value(ValueId value) {
  if (facts_.fusion.def_as<TakeOp>(value) != nullptr) {
    view_.values[value] = take(value);
    return;
  }
  const ExprId expr = compute(
      value, [&](ValueId id) { return view_.values.at(id); }, ExprId{});
  if (is_transparent(facts_.fusion.def_of(value).kind)) {
    view_.values[value] = expr;
    return;
  }
  describe(value);
  view_.values[value] = builder_.ref(builder_.declare(name_of_value(value), expr));
}

ExprId TileLowering::index_is_inside(ExprId position, int64_t size) {
  return builder_.ref(builder_.declare(
      "index_is_inside",
      builder_.both(builder_.less_equal(builder_.integer(0, DType::kI64), position),
                    builder_.less(position, builder_.integer(size, DType::kI64)))));
}

ExprId TileLowering::load_where(ExprId inside, const TensorAccess& access, ExprId index) {
  const DType type = facts_.fusion.values[access.value].type;
  const VarId var = builder_.declare_scalar(name_of_value(access.tensor) + "_picked", type);
  const ExprId zero = builder_.integer(0);
  builder_.when(
      inside,
      [&] {
        builder_.append(kir::Load{var, zero, zero, 1, buffer_of(access.tensor), index,
                                  kir::CacheHint::kDefault});
      },
      [&] {
        const DType compute = compute_type(type);
        const ExprId nothing =
            is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute);
        builder_.assign(var, builder_.cast(nothing, type));
      });
  return builder_.ref(var);
}

ExprId TileLowering::take_at(ValueId value, ExprId index, ExprId column) {
  const Gather& gather = facts_.space.gathers.at(value);
  describe(value);
  const ExprId position = builder_.ref(
      builder_.declare(name_of_value(value) + "_index", builder_.cast(index, DType::kI64)));
  ExprId inside = index_is_inside(position, gather.size);
  // Lanes past the last element are also evaluated, but not stored.
  if (column.valid() && position_.predication == Predication::kElement)
    inside = builder_.both(inside, lane_is_inside(position_, lane_));
  const ExprId jump = builder_.mul(position, builder_.integer(gather.stride, DType::kI64));
  return load_where(inside, gather.access, builder_.add(address(gather.access, column), jump));
}

ExprId TileLowering::take(ValueId value) {
  const Op& op = facts_.fusion.def_of(value);
  if (facts_.space.gathers.contains(value))
    return take_at(value, row_value(op.operands[1]), ExprId{});
  describe(value);
  const VarId index = builder_.declare(name_of_value(op.operands[1]) + "_index",
                                       builder_.cast(row_value(op.operands[1]), DType::kI64));
  const ExprId position = builder_.ref(index);
  const ExprId inside = index_is_inside(position, facts_.space.columns);
  const ValueId source = op.operands[0];
  std::map<ValueId, ExprId> memo;
  const ExprId picked = gathered(source, position, inside, memo);
  const DType type = facts_.fusion.values[value].type;
  const DType compute = compute_type(type);
  // The load itself gives zero if the index is out of range.
  const bool is_loaded = facts_.is_tile(source) && facts_.space.find_input(source) != nullptr;
  if (compute != type && is_loaded) return picked;
  // `select` does not take storage types. The cast to the compute type and back changes nothing.
  const ExprId zero = is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute);
  const ExprId taken = builder_.select(inside, builder_.cast(picked, compute), zero);
  return builder_.ref(builder_.declare(name_of_value(value), builder_.cast(taken, type)));
}

ExprId TileLowering::gathered(ValueId value, ExprId column, ExprId inside,
                              std::map<ValueId, ExprId>& memo) {
  const auto is_known = [&](ValueId needed) {
    if (!facts_.is_tile(needed)) {
      row_value(needed);
      return true;
    }
    if (memo.contains(needed)) return true;
    const TensorAccess* access = facts_.space.find_input(needed);
    if (access != nullptr) memo[needed] = load_where(inside, *access, address(*access, column));
    return access != nullptr;
  };
  const auto known = [&](ValueId needed) {
    return facts_.is_tile(needed) ? memo.at(needed) : row_value(needed);
  };
  walk_operands(
      facts_.fusion, value, [&](ValueId needed) { return !is_known(needed); },
      [&](ValueId needed) {
        const ExprId expr = compute(needed, known, column);
        memo[needed] =
            is_transparent(facts_.fusion.def_of(needed).kind)
                ? expr
                : builder_.ref(builder_.declare(name_of_value(needed) + "_picked", expr));
      });
  return known(value);
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

namespace {

/// The column that predicates compare with the end.
ExprId predicated_column(const TilePosition& position) {
  return position.column_in_part.valid() ? position.column_in_part : position.first_column;
}

}  // namespace

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

  const auto load_at = [&](ExprId lane, int64_t count, ExprId column) {
    builder_.append(kir::Load{tile.var, group, lane, count, buffer, address(access, column), hint,
                              tensor_of(buffer)});
  };
  const auto load_whole = [&] {
    if (kind == AccessKind::kVector) {
      load_at(builder_.integer(0), lanes_at(position), position.first_column);
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

ExprId TileLowering::row_start(ValueId value) {
  return address(*facts_.space.find_input(value), ExprId{});
}

kir::CacheHint TileLowering::hint_of(ValueId value) const {
  return hint_of(*facts_.space.find_input(value));
}

void TileLowering::begin_element(const TilePosition& position, ExprId lane) {
  position_ = position;
  lane_ = lane;
  element_values_.clear();
}

ExprId TileLowering::element_value(ValueId value) {
  // A gather reads its source at the index, not at the current element.
  const auto operands = [&](ValueId of) {
    const Op& op = facts_.fusion.def_of(of);
    const std::span<const ValueId> all(op.operands);
    return std::holds_alternative<TakeOp>(op.kind) ? all.subspan(1) : all;
  };
  walk_operands(
      value, operands, [&](ValueId needed) { return !has_element(needed); },
      [&](ValueId needed) { compute_element(needed); });
  return is_element(value) ? element_values_.at(value) : row_value(value);
}

/// True if a value needs no statement for the current element, except that a row value may be
/// evaluated.
bool TileLowering::has_element(ValueId value) {
  if (!is_element(value)) {
    row_value(value);
    return true;
  }
  if (element_values_.contains(value)) return true;
  if (const auto tile = view_.tiles.find(value); tile != view_.tiles.end()) {
    const bool uniform = builder_.kernel().vars[tile->second.var].lanes == 1;
    element_values_[value] = builder_.element(
        tile->second.var, tile->second.resident ? position_.batch : position_.group,
        uniform ? builder_.integer(0) : lane_);
    return true;
  }
  SINTER_CHECK(!facts_.is_read(value), "{} was not loaded", value);
  return false;
}

/// Evaluates a value whose operands are evaluated.
void TileLowering::compute_element(ValueId value) {
  const auto operand = [&](ValueId id) {
    return is_element(id) ? element_values_.at(id) : row_value(id);
  };
  const ExprId column = builder_.add(position_.first_column, builder_.cast(lane_, column_type_));
  const Op& op = facts_.fusion.def_of(value);
  if (std::holds_alternative<TakeOp>(op.kind)) {
    element_values_[value] = take_at(value, operand(op.operands[1]), column);
    return;
  }
  const ExprId expr = compute(value, operand, column);
  if (is_transparent(op.kind)) {
    element_values_[value] = expr;
    return;
  }
  describe(value);
  element_values_[value] = builder_.ref(builder_.declare(name_of_value(value), expr));
}

// ---- Outputs

/// The operand of an output that is a cast to a storage type or an 8-bit integer: its tile holds
/// the compute type, and the store rounds or saturates, several elements at a time. Those casts
/// pass through the compute type, so that one in two steps gives the same bits.
std::optional<ValueId> TileLowering::stored_operand(size_t index) const {
  const ValueId output = facts_.fusion.outputs[index];
  const DType type = facts_.fusion.values[output].type;
  const Op& op = facts_.fusion.def_of(output);
  if (facts_.is_read(output) || !std::holds_alternative<CastOp>(op.kind) ||
      compute_type(type) == type) {
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
  if (position.predication == Predication::kNone && stores_in_pairs(facts_, schedule_, index)) {
    store_in_pairs(index, tile, position);
    return;
  }
  if (position.predication == Predication::kVector) position.predication = Predication::kNone;
  store(index, tile, position);
}

void TileLowering::store(size_t index, VarId tile, const TilePosition& position) {
  const TensorAccess& access = facts_.space.outputs[index];
  const kir::BufferId buffer = buffer_of(facts_.fusion.outputs[index]);
  const AccessKind kind = access_kind(facts_, access, schedule_);
  const ExprId zero = builder_.integer(0);

  const auto store_at = [&](ExprId lane, int64_t count, ExprId column) {
    builder_.append(
        kir::Store{buffer, address(access, column), count, tile, zero, lane, tensor_of(buffer)});
  };
  const auto store_lane = [&](ExprId lane) {
    store_at(lane, 1, builder_.add(position.first_column, builder_.cast(lane, column_type_)));
  };
  const auto store_whole = [&] {
    if (kind == AccessKind::kVector) {
      store_at(zero, lanes_at(position), position.first_column);
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
