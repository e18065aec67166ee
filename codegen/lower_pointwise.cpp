#include "codegen/lower_pointwise.h"

#include <map>

#include "codegen/kernel_builder.h"
#include "codegen/tile_lowering.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

class PointwiseLowering {
 public:
  PointwiseLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        list_(distribute(facts, {})),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_) {}

  kir::Kernel run() {
    kernel_.name = facts_.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers(false);
    const kir::ParamId elements = builder_.add_param("elements");
    const int64_t reach = schedule_.threads_per_block() * schedule_.vector_width;
    const int64_t tile = reach * schedule_.unroll;
    kernel_.grid = {elements, tile};

    builder_.comment(fmt::format("{} elements per block: {} threads x {} elements x {} vectors",
                                 tile, schedule_.threads_per_block(), schedule_.vector_width,
                                 schedule_.unroll));
    const DType index = tiles_.column_type();
    const ExprId block = builder_.cast(builder_.special(kir::Special::kBlockIndex), index);
    const ExprId thread = builder_.cast(builder_.special(kir::Special::kThreadIndex), index);
    const ExprId count = builder_.cast(builder_.param(elements), index);
    tiles_.set_column_count(count);
    const ExprId begin = builder_.ref(
        builder_.declare("tile_begin", builder_.mul(block, builder_.integer(tile, index))));
    first_ = builder_.ref(builder_.declare(
        "first", builder_.add(begin, builder_.mul(thread, builder_.integer(schedule_.vector_width,
                                                                           index)))));

    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    store_scalars();
    if (list_.stages[0].outputs.empty()) return std::move(kernel_);
    const ExprId end = builder_.add(begin, builder_.integer(tile, index));
    const Guard tail =
        facts_.space.columns % schedule_.vector_width == 0 ? Guard::kVector : Guard::kElement;
    builder_.when(
        builder_.less_equal(end, count), [&] { body(Guard::kNone); },
        [&] {
          builder_.comment("the last tile reaches past the end");
          body(tail);
        });
    return std::move(kernel_);
  }

 private:
  void store_scalars() {
    for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
      if (facts_.space.output_coverage[i].columns) continue;
      const ExprId zero = builder_.integer(0, tiles_.column_type());
      builder_.when(builder_.equal(first_, zero), [&] { tiles_.store_row_output(i); });
    }
  }

  TilePosition position(ExprId group, Guard guard) {
    const DType index = tiles_.column_type();
    const int64_t reach = schedule_.threads_per_block() * schedule_.vector_width;
    const ExprId offset = builder_.mul(builder_.cast(group, index), builder_.integer(reach, index));
    return {.group = group,
            .batch = group,
            .first_column = builder_.add(first_, offset),
            .guard = guard};
  }

  void body(Guard guard) {
    const Stage& stage = list_.stages[0];
    for (const ValueId value : stage.loads) {
      tiles_.bind_tile(value, tiles_.declare_tile(value, schedule_.unroll), false);
    }
    builder_.unrolled("u", stage.loads.empty() ? 0 : schedule_.unroll, [&](ExprId group) {
      for (const ValueId value : stage.loads) tiles_.load(value, position(group, guard));
    });
    builder_.unrolled("u", schedule_.unroll, [&](ExprId group) {
      const TilePosition at = position(group, guard);
      const auto vector = [&] {
        std::map<size_t, VarId> output_tiles;
        for (const size_t output : stage.outputs)
          output_tiles[output] = tiles_.declare_output_tile(output);
        builder_.unrolled("v", schedule_.vector_width, [&](ExprId lane) {
          tiles_.begin_element(at, lane);
          for (const auto& [output, tile] : output_tiles) {
            builder_.set(tile, builder_.integer(0), lane, tiles_.output_element(output));
          }
        });
        TilePosition enclosed = at;
        if (guard == Guard::kVector) enclosed.guard = Guard::kNone;
        for (const auto& [output, tile] : output_tiles) tiles_.store(output, tile, enclosed);
      };
      if (guard == Guard::kVector) {
        builder_.when(tiles_.vector_is_inside(at), vector);
      } else {
        vector();
      }
    });
    for (const ValueId value : stage.loads) tiles_.unbind_tile(value);
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  ExprId first_;  ///< The thread's first element.
};

}  // namespace

LoweredKernel lower_pointwise(const SegmentFacts& facts, const Schedule& schedule) {
  return {PointwiseLowering(facts, schedule).run(), {facts.space.columns}};
}

}  // namespace sinter
