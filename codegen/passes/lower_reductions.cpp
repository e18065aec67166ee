#include "codegen/passes/lower_reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "codegen/kernel/combine.h"
#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

using kir::AllReduce;
using kir::BufferId;
using kir::ExprId;
using kir::StmtId;
using kir::VarId;

/// True for a reduction that writes partial results to shared memory; barriers keep them apart from
/// those of the next execution.
bool is_wide(const kir::StmtKind& stmt) {
  const auto* reduce = std::get_if<AllReduce>(&stmt);
  return reduce != nullptr && reduce->threads > kWarp && !reduce->is_shared();
}

/// True for a statement at which the whole block waits.
bool is_barrier(const kir::StmtKind& stmt) {
  if (std::holds_alternative<kir::Barrier>(stmt)) return true;
  return is_wide(stmt) && !std::get<AllReduce>(stmt).barrier.valid();
}

/// Finds the wide reductions that may execute twice with no barrier in between. These are
/// reductions in a loop where neither the loop's body, outside of further conditions and loops, nor
/// the reduction's own block has another barrier. A thread that reaches a reduction also reaches
/// the barriers of the reduction's block.
class RepeatedReductions {
 public:
  explicit RepeatedReductions(const kir::Kernel& kernel) : kernel_(kernel) {
    visit(kernel.body, nullptr);
  }
  [[nodiscard]] bool contains(StmtId id) const { return repeated_[id]; }

 private:
  void visit(const kir::Block& block, const kir::Block* loop_body) {
    for (const StmtId id : block) {
      const kir::StmtKind& kind = kernel_.stmts[id].kind;
      if (const auto* loop = std::get_if<kir::For>(&kind)) {
        visit(loop->body, &loop->body);
      } else if (std::holds_alternative<kir::If>(kind)) {
        kir::for_each_block(kind, [&](const kir::Block& inner) { visit(inner, loop_body); });
      } else if (is_wide(kind) && loop_body != nullptr) {
        const auto is_other_barrier = [&](StmtId other) {
          return other != id && is_barrier(kernel_.stmts[other].kind);
        };
        repeated_[id] = std::ranges::none_of(*loop_body, is_other_barrier) &&
                        std::ranges::none_of(block, is_other_barrier);
      }
    }
  }

  const kir::Kernel& kernel_;
  IdMap<StmtId, uint8_t> repeated_;
};

/// Lowers one AllReduce. Bools are exchanged as i32, because shuffles and shared memory do not take
/// them.
class ReductionLowering {
 public:
  ReductionLowering(kir::KernelBuilder& builder, const AllReduce& reduce)
      : b_(builder), reduce_(reduce), thread_(b_.special(kir::Special::kThreadIndex)) {
    for (const kir::ReducePart& part : reduce.parts) {
      for (const VarId var : part.vars) {
        components_.push_back({.var = var, .partner = {}, .scratch = {}});
      }
      elements_.push_back(part.elements);
    }
  }

  /// `half` holds the offset of the scratch buffer in use. It is invalid if the reduction's phase
  /// selects the buffer, or if there is only one.
  void lower(VarId half) {
    if (components_.empty() || (reduce_.threads == 1 && !reduce_.is_shared())) return;
    if (reduce_.half == kir::ReduceHalf::kReceive) {
      receive_from_others();
      return;
    }
    b_.comment(fmt::format("Reduce {} over {} threads", reduce_.name, reduce_.threads));
    declare_partners();
    exchange(std::min(reduce_.threads, kWarp));
    if (reduce_.is_shared()) {
      exchange_between_blocks();
      return;
    }
    if (reduce_.threads <= kWarp) return;

    const int64_t group_warps = reduce_.threads / kWarp;
    const bool has_own_scratch = reduce_.group.valid();
    const int64_t warps =
        has_own_scratch ? reduce_.groups * group_warps : b_.kernel().threads / kWarp;
    const bool has_halves = half.valid() || reduce_.phase.valid();
    ExprId base = b_.integer(0);
    if (half.valid()) base = b_.ref(half);
    if (reduce_.phase.valid()) base = b_.mul(reduce_.phase, b_.integer(warps));
    // Index of the first partial result of the thread's group, and of its own warp's partial
    // result.
    ExprId first = b_.mul(b_.div(thread_, b_.integer(reduce_.threads)), b_.integer(group_warps));
    if (group_warps == warps) first = b_.integer(0);
    ExprId own = b_.div(thread_, b_.integer(kWarp));
    if (has_own_scratch) {
      first = b_.mul(reduce_.group, b_.integer(group_warps));
      own = b_.add(first, b_.rem(own, b_.integer(group_warps)));
    }
    for (Component& component : components_) {
      component.scratch = add_scratch(component, has_halves ? 2 * warps : warps);
    }
    b_.when(b_.equal(lane(), b_.integer(0)), [&] {
      for (const Component& component : components_) store_warp_value(component, b_.add(base, own));
    });
    if (reduce_.barrier.valid()) {
      b_.append(kir::GroupBarrier{.id = reduce_.barrier, .threads = reduce_.threads});
    } else {
      b_.append(kir::Barrier{});
    }
    const ExprId index = b_.add(base, b_.add(first, b_.rem(thread_, b_.integer(group_warps))));
    for (const Component& component : components_) load_warp_value(component, index);
    exchange(group_warps);
    if (half.valid()) b_.assign(half, b_.sub(b_.integer(warps), b_.ref(half)));
  }

 private:
  struct Component {
    VarId var, partner;  ///< `partner` receives the other lane's value.
    BufferId scratch;
  };
  /// What one store sends to another block of the cluster: some components.
  struct Sent {
    size_t first, count;  ///< In components_.
    int64_t width;        ///< Elements.
    VarId tuple;          ///< A tile with the components, where there are several.
    BufferId scratch;
    int64_t first_place = 0;  ///< Of messages.
  };

  std::string name_of(VarId var) const { return b_.kernel().vars[var].name; }
  bool is_flag(VarId var) const { return b_.kernel().vars[var].type == DType::kBool; }
  DType travel_type(VarId var) const {
    return is_flag(var) ? DType::kI32 : b_.kernel().vars[var].type;
  }
  ExprId lane() { return b_.rem(thread_, b_.integer(kWarp)); }

  /// Exchanges over the blocks of a cluster in one step: every warp sends its tuple to all blocks,
  /// lane l to block l, and combines the tuples that all warps of its group have sent to its own
  /// block.
  ///
  /// A tuple's place is written again two executions later. By then its reader has read it: the
  /// sender has waited for the execution in between, for which the reader's warp sent its tuple
  /// after reading. So every warp of the group must read the tuples of all warps, and phases must
  /// alternate.
  ///
  /// Groups of fewer threads than a warp share the mbarrier of their warp. Each sends its tuple
  /// itself.
  void exchange_between_blocks() {
    const TuplePlaces places = tuple_places();
    const std::vector<Sent> sent = pack(places);
    send(places, sent);
    if (reduce_.half == kir::ReduceHalf::kWhole) receive(places, sent);
  }

  /// The half that waits. Each thread's tuple is of all threads of its group already.
  void receive_from_others() {
    b_.comment(fmt::format("Receive {} from all blocks", reduce_.name));
    for (int64_t& elements : elements_) elements *= std::min(reduce_.threads, kWarp);
    declare_partners();
    const TuplePlaces places = tuple_places();
    receive(places, messages(places));
  }

  /// Where the tuples of a group lie, in the shared memory of each block.
  struct TuplePlaces {
    ExprId mbarrier;      ///< Index in `arrived`.
    ExprId base;          ///< Of the group's first tuple.
    int64_t tuples;       ///< Of a group: one of each of its warps in each block.
    int64_t of_warp;      ///< Groups of a warp.
    int64_t group_lanes;  ///< Lanes of a warp that a group has.
    int64_t group_warps;
    int64_t count;  ///< Tuples of all groups and phases.
  };
  TuplePlaces tuple_places() {
    const int64_t group_warps = std::max<int64_t>(reduce_.threads / kWarp, 1);
    const int64_t group_lanes = std::min(reduce_.threads, kWarp);
    const int64_t of_warp = kWarp / group_lanes;
    const int64_t tuples = kir::blocks_together(b_.kernel()) * group_warps;
    const ExprId group = reduce_.group.valid() ? reduce_.group : b_.integer(0);
    const ExprId phase = reduce_.phase.valid() ? reduce_.phase : b_.integer(0);
    const int64_t phases = reduce_.phase.valid() ? 2 : 1;
    const ExprId place = b_.add(b_.mul(group, b_.integer(phases)), phase);
    ExprId base = b_.mul(place, b_.integer(of_warp * tuples));
    if (of_warp > 1) {
      const ExprId number = b_.rem(b_.div(thread_, b_.integer(group_lanes)), b_.integer(of_warp));
      base = b_.add(base, b_.mul(number, b_.integer(tuples)));
    }
    return {.mbarrier = place,
            .base = base,
            .tuples = tuples,
            .of_warp = of_warp,
            .group_lanes = group_lanes,
            .group_warps = group_warps,
            .count = phases * reduce_.groups * of_warp * tuples};
  }

  void send(const TuplePlaces& places, const std::vector<Sent>& sent) {
    const int64_t blocks = kir::blocks_together(b_.kernel());
    const ExprId block = b_.rem(b_.special(kir::Special::kBlockIndex), b_.integer(blocks));
    const ExprId warp = b_.rem(b_.div(thread_, b_.integer(kWarp)), b_.integer(places.group_warps));
    int64_t bytes = 0;
    for (const Sent& part : sent) {
      bytes += places.of_warp * places.tuples * part.width *
               bytes_of(travel_type(components_[part.first].var));
    }
    // A lane sends for all lanes of its warp. They have read the tuples of two executions ago.
    b_.append(kir::WarpBarrier{});
    // The bytes of all tuples that are sent to this block; some may have arrived already.
    if (reduce_.arrived.valid()) {
      const ExprId sharing = b_.integer(std::max(reduce_.threads, kWarp));
      b_.when(b_.equal(b_.rem(thread_, sharing), b_.integer(0)), [&] {
        b_.append(kir::ExpectBytes{reduce_.arrived, places.mbarrier, b_.integer(bytes)});
      });
    }
    const ExprId in_group = b_.rem(thread_, b_.integer(places.group_lanes));
    for (int64_t first_block = 0; first_block < blocks; first_block += places.group_lanes) {
      const ExprId receiver = b_.add(in_group, b_.integer(first_block));
      b_.when(b_.less(receiver, b_.integer(blocks)), [&] {
        const ExprId own =
            b_.add(places.base, b_.add(b_.mul(block, b_.integer(places.group_warps)), warp));
        for (const Sent& part : sent) send_part(places, part, own, receiver);
      });
    }
  }

  /// Sends a part of a tuple, whose number is `own`.
  void send_part(const TuplePlaces& places, const Sent& part, ExprId own, ExprId receiver) {
    if (reduce_.mail.valid()) {
      kir::MessageStore message{.mail = reduce_.mail,
                                .block = receiver,
                                .place = place_of(part, own),
                                .values = {},
                                .number = reduce_.number};
      for (size_t i = part.first; i < part.first + part.count; ++i)
        message.values.push_back(travelling(components_[i].var));
      b_.append(std::move(message));
      return;
    }
    b_.append(kir::ClusterStore{
        .shared = part.scratch,
        .index = b_.mul(own, b_.integer(part.width)),
        .block = receiver,
        .source = part.width > 1 ? part.tuple : travelling(components_[part.first].var),
        .array = reduce_.arrived,
        .mbarrier = places.mbarrier});
  }

  /// The first place of the message with a part of a tuple.
  ExprId place_of(const Sent& part, ExprId number) {
    return b_.add(b_.mul(number, b_.integer(part.width)), b_.integer(part.first_place));
  }

  void receive(const TuplePlaces& places, const std::vector<Sent>& sent) {
    if (reduce_.arrived.valid())
      b_.append(kir::MbarrierWait{reduce_.arrived, places.mbarrier, reduce_.parity});
    const int64_t lanes = std::min(places.tuples, places.group_lanes);
    const ExprId first = b_.add(places.base, b_.rem(thread_, b_.integer(lanes)));
    load_sent(sent, first, true);
    if (lanes < places.tuples) {  // Lanes then have several tuples.
      std::ranges::fill(elements_, 0);
      declare_partners();
    }
    for (int64_t more = lanes; more < places.tuples; more += lanes) {
      load_sent(sent, b_.add(first, b_.integer(more)), false);
      combine_with_partners();
    }
    exchange(lanes);
  }

  /// What blocks send each other: a message for each tuple. In a cluster, tuples that fit one store
  /// (sent_together()) as a whole, others by component.
  std::vector<Sent> pack(const TuplePlaces& places) {
    return reduce_.mail.valid() ? messages(places) : pack_for_cluster(places);
  }

  std::vector<Sent> messages(const TuplePlaces& places) {
    std::vector<Sent> all;
    size_t first = 0;
    int64_t first_place = reduce_.first_place;
    for (const kir::ReducePart& part : reduce_.parts) {
      const int64_t width = places_of_tuple(part.vars.size());
      all.push_back({.first = first,
                     .count = part.vars.size(),
                     .width = width,
                     .tuple = {},
                     .scratch = {},
                     .first_place = first_place});
      first += part.vars.size();
      first_place += places.count * width;
    }
    return all;
  }

  std::vector<Sent> pack_for_cluster(const TuplePlaces& places) {
    std::vector<Sent> all;
    size_t first = 0;
    for (const kir::ReducePart& part : reduce_.parts) {
      std::vector<DType> types;
      for (const VarId var : part.vars) types.push_back(b_.kernel().vars[var].type);
      const int64_t width = sent_together(types);
      if (width > 1) {
        const std::string name = reduce_.name + "_tuple";
        const VarId tuple = b_.declare_tile(name, types.front(), 1, width);
        for (int64_t lane = 0; lane < width; ++lane) {
          // Lanes beyond the tuple repeat its last component.
          const VarId var = part.vars[std::min(static_cast<size_t>(lane), types.size() - 1)];
          b_.set(tuple, b_.integer(0), b_.integer(lane), b_.ref(var));
        }
        const BufferId scratch = add_scratch(name + "s", types.front(), places.count * width);
        all.push_back({first, types.size(), width, tuple, scratch});
      } else {
        for (size_t i = first; i < first + types.size(); ++i) {
          components_[i].scratch = add_scratch(components_[i], places.count);
          all.push_back({i, 1, 1, {}, components_[i].scratch});
        }
      }
      first += types.size();
    }
    return all;
  }

  /// Loads the tuples at `index`: the lane's own, or those of its partner.
  void load_sent(const std::vector<Sent>& sent, ExprId index, bool own) {
    for (const Sent& part : sent) {
      const std::span<Component> components =
          std::span(components_).subspan(part.first, part.count);
      if (reduce_.mail.valid()) {
        take_message(part, index, own);
      } else if (part.width == 1 && own) {
        load_warp_value(components.front(), index);
      } else if (part.width == 1) {
        load_value(components.front().partner, part.scratch, index, 1);
      } else {
        load_value(part.tuple, part.scratch, b_.mul(index, b_.integer(part.width)), part.width);
        for (size_t i = 0; i < components.size(); ++i) {
          b_.assign(own ? components[i].var : components[i].partner,
                    b_.element(part.tuple, b_.integer(0), b_.integer(static_cast<int64_t>(i))));
        }
      }
    }
  }

  void take_message(const Sent& part, ExprId index, bool own) {
    const std::span<Component> components = std::span(components_).subspan(part.first, part.count);
    kir::MessageWait message{.mail = reduce_.mail,
                             .place = place_of(part, index),
                             .values = {},
                             .number = reduce_.number};
    for (const Component& component : components)
      message.values.push_back(own && !is_flag(component.var) ? component.var : component.partner);
    b_.append(std::move(message));
    for (const Component& component : components) {
      if (own && is_flag(component.var)) b_.assign(component.var, partner_value(component));
    }
  }

  void combine_with_partners() {
    size_t first = 0;
    for (const kir::ReducePart& part : reduce_.parts) {
      std::vector<ExprId> others;
      for (size_t i = 0; i < part.vars.size(); ++i)
        others.push_back(partner_value(components_[first + i]));
      kir::emit_combine(b_, part.combiner, part.vars, others);
      first += part.vars.size();
    }
  }

  BufferId add_scratch(const Component& component, int64_t count) {
    return add_scratch(name_of(component.var) + "_warps", travel_type(component.var), count);
  }

  BufferId add_scratch(const std::string& name, DType type, int64_t count) {
    return b_.add_buffer({.name = name,
                          .type = type,
                          .space = kir::Space::kShared,
                          .access = kir::Access::kReadWrite,
                          .value = {},
                          .count = count});
  }

  ExprId partner_value(const Component& component) {
    const ExprId value = b_.ref(component.partner);
    if (!is_flag(component.var)) return value;
    return b_.apply(PointwiseFn::kNe, {value, b_.integer(0)});
  }

  /// Declares what the partner has of each component, but of counts that are known.
  void declare_partners() {
    size_t first = 0;
    for (size_t p = 0; p < reduce_.parts.size(); ++p) {
      const size_t count = reduce_.parts[p].vars.size();
      for (size_t i = elements_[p] > 0 ? 1 : 0; i < count; ++i) {
        Component& component = components_[first + i];
        if (component.partner.valid()) continue;
        component.partner =
            b_.declare_scalar(name_of(component.var) + "_other", travel_type(component.var));
      }
      first += count;
    }
  }

  /// Combines aligned groups of `lanes` lanes of a warp, all components of a step at once, so that
  /// their latencies overlap.
  void exchange(int64_t lanes) {
    for (int64_t mask = lanes / 2; mask >= 1; mask /= 2) {
      size_t first = 0;
      for (size_t p = 0; p < reduce_.parts.size(); ++p) {
        const size_t count = reduce_.parts[p].vars.size();
        // A count that is known need not travel.
        for (size_t i = elements_[p] > 0 ? 1 : 0; i < count; ++i) {
          const Component& component = components_[first + i];
          b_.append(
              kir::ShuffleXor{.target = component.partner,
                              .source = b_.cast(b_.ref(component.var), travel_type(component.var)),
                              .mask = static_cast<int32_t>(mask)});
        }
        first += count;
      }
      first = 0;
      for (size_t p = 0; p < reduce_.parts.size(); ++p) {
        const kir::ReducePart& part = reduce_.parts[p];
        if (elements_[p] > 0) {
          combine_of_equal_counts(part, first, mask, elements_[p]);
          elements_[p] *= 2;
        } else {
          combine(part, first, mask);
        }
        first += part.vars.size();
      }
    }
  }

  /// True for the lane of two partners that comes first, where last bits depend on the order.
  ExprId is_lower(int64_t mask) {
    const ExprId bit = b_.apply(PointwiseFn::kAnd, {thread_, b_.integer(mask)});
    return b_.ref(b_.declare("is_lower", b_.equal(bit, b_.integer(0))));
  }

  /// Assigns to `var` what the lower lane has, and returns what the other one has.
  ExprId put_lower_first(VarId var, ExprId other, ExprId lower) {
    const ExprId mine = b_.ref(var);
    const VarId second = b_.declare(name_of(var) + "_second", b_.select(lower, other, mine));
    b_.assign(var, b_.select(lower, mine, other));
    return b_.ref(second);
  }

  /// Of the squares' sums the order does not matter.
  void combine_of_equal_counts(const kir::ReducePart& part, size_t first, int64_t mask,
                               int64_t elements) {
    std::vector<ExprId> others = {{}};  // The count is known.
    for (size_t i = 1; i < part.vars.size(); ++i) {
      others.push_back(partner_value(components_[first + i]));
    }
    const ExprId lower = is_lower(mask);
    others[1] = put_lower_first(part.vars[1], others[1], lower);
    kir::emit_combine_of_equal_counts(b_, part.vars, others, elements);
  }

  void combine(const kir::ReducePart& part, size_t first, int64_t mask) {
    std::vector<ExprId> others;
    for (size_t i = 0; i < part.vars.size(); ++i) {
      others.push_back(partner_value(components_[first + i]));
    }
    // Where the last bits depend on the order of the operands, the tuple of the lower lane comes
    // first for both partners, so both hold the same bits afterwards.
    if (!traits_of(part.combiner).commutes) {
      const ExprId lower = is_lower(mask);
      for (size_t i = 0; i < part.vars.size(); ++i)
        others[i] = put_lower_first(part.vars[i], others[i], lower);
    }
    kir::emit_combine(b_, part.combiner, part.vars, others);
  }

  /// A variable with the value of `var` that can be exchanged.
  VarId travelling(VarId var) {
    if (!is_flag(var)) return var;
    return b_.declare(name_of(var) + "_flag", b_.cast(b_.ref(var), DType::kI32));
  }

  void store_warp_value(const Component& component, ExprId index) {
    const VarId source = travelling(component.var);
    b_.append(kir::Store{.buffer = component.scratch,
                         .index = index,
                         .width = 1,
                         .tile = source,
                         .group = b_.integer(0),
                         .lane = b_.integer(0)});
  }

  void load_value(VarId target, BufferId buffer, ExprId index, int64_t width) {
    b_.append(kir::Load{.tile = target,
                        .group = b_.integer(0),
                        .lane = b_.integer(0),
                        .width = width,
                        .buffer = buffer,
                        .index = index});
  }

  void load_warp_value(const Component& component, ExprId index) {
    const bool flag = is_flag(component.var);
    load_value(flag ? component.partner : component.var, component.scratch, index, 1);
    if (flag) b_.assign(component.var, partner_value(component));
  }

  kir::KernelBuilder& b_;
  const AllReduce& reduce_;
  ExprId thread_;
  std::vector<Component> components_;
  std::vector<int64_t> elements_;  ///< Of each part's tuples, as far as they are known.
};

}  // namespace

kir::Kernel lower_reductions(kir::Kernel kernel) {
  const kir::Kernel before = kernel;
  const RepeatedReductions repeated(before);
  kir::KernelBuilder builder(&kernel);
  kir::Block declarations;
  kir::replace_statements(builder, [&](StmtId id, const kir::StmtKind& kind) {
    const auto* reduce = std::get_if<AllReduce>(&kind);
    if (reduce == nullptr) return false;
    VarId half;
    if (repeated.contains(id) && !reduce->phase.valid()) {
      builder.into(&declarations,
                   [&] { half = builder.declare(reduce->name + "_half", builder.integer(0)); });
    }
    ReductionLowering(builder, *reduce).lower(half);
    return true;
  });
  kernel.body.insert(kernel.body.begin(), declarations.begin(), declarations.end());
  return kernel;
}

}  // namespace sinter
