#include "codegen/lower/lower_pointwise.h"

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/element_tile.h"
#include "scheduler/analysis/stages.h"

namespace sinter {
namespace {

using kir::ExprId;

class PointwiseLowering {
 public:
  PointwiseLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        list_(distribute(facts, {})),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        tile_(facts, schedule, list_, builder_, tiles_) {}

  kir::Kernel run() {
    kernel_.name = facts_.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers(false);
    const kir::ParamId elements = builder_.add_param("elements");
    kernel_.grid = {elements, tile_.size()};

    tile_.describe();
    const DType index = tiles_.column_type();
    const ExprId block = builder_.cast(builder_.special(kir::Special::kBlockIndex), index);
    const ExprId count = builder_.cast(builder_.param(elements), index);
    tiles_.set_column_count(count);
    tile_.begin(block);

    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    store_scalars();
    if (list_.stages[0].outputs.empty()) return std::move(kernel_);
    tile_.evaluate(count, facts_.space.columns % schedule_.vector_width == 0
                              ? Predication::kVector
                              : Predication::kElement);
    return std::move(kernel_);
  }

 private:
  void store_scalars() {
    for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
      if (facts_.space.output_coverage[i].columns) continue;
      const ExprId zero = builder_.integer(0, tiles_.column_type());
      builder_.when(builder_.equal(tile_.first(), zero), [&] { tiles_.store_row_output(i); });
    }
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  ElementTile tile_;
};

}  // namespace

LoweredKernel lower_pointwise(const SegmentFacts& facts, const Schedule& schedule) {
  return {PointwiseLowering(facts, schedule).run(), {facts.space.columns}};
}

}  // namespace sinter
