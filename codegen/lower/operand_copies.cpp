#include "codegen/lower/operand_copies.h"

#include "fusion_ir/integers.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

ExprId offset_along(const ProgramScope& scope, const TensorAccess& operand, program::AxisId id,
                    ExprId index) {
  kir::KernelBuilder& builder = scope.builder;
  const program::Axis& axis = scope.program.axes[id];
  ExprId offset = scope.i64(0);
  for (size_t i = axis.sizes.size(); i-- > 0;) {
    // The outermost loop takes what is left.
    const ExprId coordinate = i == 0 ? index : scope.remainder(index, axis.sizes[i]);
    if (const int64_t stride = operand.strides[axis.first_loop + i]; stride != 0)
      offset = builder.add(offset, builder.mul(coordinate, scope.i64(stride)));
    if (i > 0) index = builder.div(index, scope.i64(axis.sizes[i]));
  }
  return offset;
}

ExprId operand_element(const ProgramScope& scope, const TensorAccess& operand, program::AxisId own,
                       program::AxisId contracted, ExprId index) {
  ExprId element =
      scope.builder.add(scope.i64(operand.offset), offset_along(scope, operand, own, index));
  for (const auto& [axis, begin] : scope.begins) {
    if (axis != own && axis != contracted)
      element = scope.builder.add(element, offset_along(scope, operand, axis, begin));
  }
  return element;
}

OperandCopies::OperandCopies(const ProgramScope& scope, const TileLowering& tiles,
                             const program::Copy& copy)
    : scope_(scope),
      builder_(scope.builder),
      copy_(copy),
      tile_(scope.tile(copy.tile)),
      operand_(copy.of_rows ? scope.contraction().rows : scope.contraction().columns),
      global_(tiles.buffer_of(operand_.tensor)),
      shared_(scope.shared.at(copy.tile)) {
  // The tile's axes are the contracted one and the operand's own.
  contracted_is_inner_ = !scope.begins.contains(tile_.columns.axis);
  own_ = contracted_is_inner_ ? tile_.rows.axis : tile_.columns.axis;
  contracted_ = contracted_is_inner_ ? tile_.columns.axis : tile_.rows.axis;
  accesses_ = divided_up(elements_of(tile_) / copy.width, scope.program.threads);
}

OperandCopies::Access OperandCopies::access(ExprId number) {
  const int64_t in_row = tile_.columns.extent / copy_.width;
  const ExprId row = builder_.div(number, scope_.i32(in_row));
  const ExprId column = builder_.mul(scope_.remainder(number, in_row), scope_.i32(copy_.width));
  // Where the swizzle of the tile puts the access.
  const int64_t of_chunk = chunk_elements(tile_);
  const ExprId chunk = builder_.div(column, scope_.i32(of_chunk));
  const ExprId turned = scope_.swizzled(layout_of(tile_), row, chunk);
  const ExprId place =
      builder_.add(builder_.mul(turned, scope_.i32(of_chunk)), scope_.remainder(column, of_chunk));
  const ExprId target = builder_.add(builder_.mul(row, scope_.i32(tile_.columns.extent)), place);

  // Beyond the end of its own axis, the last elements are copied again; no result depends on them.
  const ExprId last =
      builder_.sub(scope_.extents.at(own_), scope_.i64(contracted_is_inner_ ? 1 : copy_.width));
  const ExprId index = builder_.min(
      builder_.add(scope_.begins.at(own_), scope_.wide(contracted_is_inner_ ? row : column)), last);
  return {.source = operand_element(scope_, operand_, own_, contracted_, index), .target = target};
}

void OperandCopies::declare() {
  sources_ = builder_.declare_tile(tile_.name + "_source", DType::kI64, accesses_, 1);
  targets_ = builder_.declare_tile(tile_.name + "_target", DType::kI32, accesses_, 1);
  builder_.unrolled("i", accesses_, [&](ExprId i) {
    const ExprId number =
        builder_.add(scope_.thread, builder_.mul(i, scope_.i32(scope_.program.threads)));
    const Access one = access(number);
    builder_.set(sources_, i, scope_.i32(0), one.source);
    builder_.set(targets_, i, scope_.i32(0), one.target);
  });
}

void OperandCopies::copy(ExprId begin, ExprId stage) {
  const int64_t in_row = tile_.columns.extent / copy_.width;
  const int64_t in_tile = elements_of(tile_) / copy_.width;
  const int64_t depth = contracted_is_inner_ ? tile_.columns.extent : tile_.rows.extent;
  const int64_t contracted = scope_.program.axes[contracted_].extent;
  const ExprId stage_begin = builder_.mul(stage, scope_.i32(elements_of(tile_)));
  builder_.unrolled("i", accesses_, [&](ExprId i) {
    const ExprId number =
        builder_.add(scope_.thread, builder_.mul(i, scope_.i32(scope_.program.threads)));
    const ExprId at = contracted_is_inner_
                          ? builder_.mul(scope_.remainder(number, in_row), scope_.i32(copy_.width))
                          : builder_.div(number, scope_.i32(in_row));
    const ExprId index = builder_.add(begin, scope_.wide(at));
    const ExprId source = builder_.add(builder_.element(sources_, i, scope_.i32(0)),
                                       offset_along(scope_, operand_, contracted_, index));
    const ExprId target = builder_.add(stage_begin, builder_.element(targets_, i, scope_.i32(0)));
    // Elements beyond the end of the contracted axis are zeros.
    const ExprId inside =
        contracted % depth == 0 ? ExprId{} : builder_.less(index, scope_.i64(contracted));
    const auto start = [&] {
      if (copy_.kind == program::CopyKind::kPlain) {
        copy_plain(source, target, inside);
      } else {
        builder_.append(kir::AsyncCopy{.shared = shared_,
                                       .shared_index = target,
                                       .global = global_,
                                       .global_index = source,
                                       .width = copy_.width,
                                       .predicate = inside});
      }
    };
    if (in_tile % scope_.program.threads == 0) {
      start();
    } else {
      builder_.when(builder_.less(number, scope_.i32(in_tile)), start);
    }
  });
}

void OperandCopies::copy_plain(ExprId index, ExprId target, ExprId inside) {
  const VarId held = builder_.declare_tile(tile_.name + "_held", tile_.type, 1, 1);
  const ExprId zero = scope_.i32(0);
  const auto load = [&] {
    builder_.append(kir::Load{
        .tile = held, .group = zero, .lane = zero, .width = 1, .buffer = global_, .index = index});
  };
  if (inside.valid()) {
    const ExprId none = scope_.zero(tile_.type);
    builder_.set(held, zero, zero, none);
    builder_.when(inside, load);
  } else {
    load();
  }
  builder_.append(kir::Store{
      .buffer = shared_, .index = target, .width = 1, .tile = held, .group = zero, .lane = zero});
}

}  // namespace sinter
