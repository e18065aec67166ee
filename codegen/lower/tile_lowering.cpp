#include "codegen/lower/tile_lowering.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "scheduler/plan/tensor_slots.h"

namespace sinter {

using kir::ExprId;

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
    if (facts_.reads_tensor(input))
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

ExprId TileLowering::vector_address(const TensorAccess& access, const TilePosition& position) {
  const bool is_divided = position.column_of_vector.valid() && !access.strides.empty() &&
                          has_one_stride(facts_.space, access);
  if (!is_divided) return address(access, position.first_column);
  const ExprId stride = builder_.integer(access.strides.back(), DType::kI64);
  return builder_.add(address(access, position.column_of_thread),
                      builder_.mul(builder_.cast(position.column_of_vector, DType::kI64), stride));
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

ExprId TileLowering::row_start(ValueId value) {
  return address(*facts_.space.find_input(value), ExprId{});
}

kir::CacheHint TileLowering::hint_of(ValueId value) const {
  return hint_of(*facts_.space.find_input(value));
}

}  // namespace sinter
