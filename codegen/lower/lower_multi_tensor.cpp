#include "codegen/lower/lower_multi_tensor.h"

#include <algorithm>
#include <limits>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/element_tile.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/analysis/tensor_list.h"

namespace sinter {
namespace {

using kir::BufferId;
using kir::ExprId;

class MultiTensorLowering {
 public:
  MultiTensorLowering(const SegmentFacts& facts, const Schedule& schedule)
      : list_(*facts.list),
        schedule_(schedule),
        stages_(distribute(list_.member, {})),
        capacity_(list_capacity(std::ssize(list_.members))),
        builder_(&kernel_),
        tiles_(list_.member, schedule, builder_),
        tile_(stages_, schedule.threads_per_block(),
              {.axis = {}, .width = schedule.vector_width, .vectors = schedule.unroll}, builder_,
              tiles_) {}

  LoweredKernel run() {
    kernel_.name = list_.member.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers_of(list_, capacity_);
    const BufferId elements = declare_integers("elements", DType::kI64, capacity_);
    const BufferId first_blocks = declare_integers("first_blocks", DType::kI32, search_places());
    kernel_.grid = {builder_.add_param("blocks"), 1};

    tile_.describe();
    builder_.comment(fmt::format("up to {} members, found in {} steps", capacity_,
                                 list_search_steps(capacity_)));
    find_member(first_blocks);
    const DType index = tiles_.column_type();
    const ExprId count = builder_.cast(read(elements, "count", tiles_.tensor()), index);
    const ExprId block = builder_.special(kir::Special::kBlockIndex);
    const ExprId first_block = read(first_blocks, "member_block", tiles_.tensor());
    tiles_.set_column_count(count);
    tile_.begin(builder_.cast(builder_.sub(block, first_block), index));
    for (const ValueId value : stages_.row_values) tiles_.row_value(value);
    tile_.evaluate(count, list_.divides(schedule_.vector_width) ? Predication::kVector
                                                                : Predication::kElement);
    return {.kernel = std::move(kernel_),
            .param_values = {list_.blocks(tile_.size())},
            .argument_values = {element_counts(), first_block_numbers()}};
  }

 private:
  [[nodiscard]] int64_t search_places() const { return list_search_places(capacity_); }

  BufferId declare_integers(std::string name, DType type, int64_t count) {
    return builder_.add_buffer({.name = std::move(name),
                                .type = type,
                                .space = kir::Space::kArgument,
                                .access = kir::Access::kRead,
                                .alignment = bytes_of(type),
                                .value = {},
                                .count = count});
  }

  ExprId read(BufferId buffer, std::string name, ExprId index) {
    const kir::VarId var =
        builder_.declare_scalar(std::move(name), builder_.kernel().buffers[buffer].type);
    const ExprId zero = builder_.integer(0);
    builder_.append(kir::Load{
        .tile = var, .group = zero, .lane = zero, .width = 1, .buffer = buffer, .index = index});
    return builder_.ref(var);
  }

  /// Finds the last member whose first block is not after this block. Unused places of the table
  /// have a first block after all blocks; a member without elements has the first block of the next
  /// member.
  void find_member(BufferId first_blocks) {
    const ExprId block = builder_.special(kir::Special::kBlockIndex);
    ExprId member = builder_.integer(0);
    for (int64_t left = search_places(); left > 1;) {
      const int64_t parts = std::min(left, kListSearchParts);
      left /= parts;
      std::vector<ExprId> begins;
      std::vector<ExprId> firsts;
      for (int64_t part = 1; part < parts; ++part) {
        begins.push_back(builder_.add(member, builder_.integer(part * left)));
        firsts.push_back(read(first_blocks, "first_block", begins.back()));
      }
      for (size_t i = 0; i < begins.size(); ++i) {
        member = builder_.ref(builder_.declare(
            "member", builder_.select(builder_.less_equal(firsts[i], block), begins[i], member)));
      }
    }
    tiles_.set_tensor(member);
  }

  [[nodiscard]] std::vector<int64_t> element_counts() const {
    std::vector<int64_t> out(static_cast<size_t>(capacity_));
    for (size_t i = 0; i < list_.members.size(); ++i) out[i] = list_.members[i].elements;
    return out;
  }

  [[nodiscard]] std::vector<int64_t> first_block_numbers() const {
    std::vector<int64_t> out(static_cast<size_t>(search_places()),
                             std::numeric_limits<int32_t>::max());
    int64_t next = 0;
    for (size_t i = 0; i < list_.members.size(); ++i) {
      // A grid of more blocks is refused at launch.
      out[i] = std::min<int64_t>(next, std::numeric_limits<int32_t>::max());
      next += (list_.members[i].elements + tile_.size() - 1) / tile_.size();
    }
    return out;
  }

  const TensorList& list_;
  const Schedule& schedule_;
  const StageList stages_;
  const int64_t capacity_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  ElementTile tile_;
};

}  // namespace

LoweredKernel lower_multi_tensor(const SegmentFacts& facts, const Schedule& schedule) {
  SINTER_CHECK(facts.list != nullptr, "{} is no list of tensors", facts.fusion.name);
  return MultiTensorLowering(facts, schedule).run();
}

}  // namespace sinter
