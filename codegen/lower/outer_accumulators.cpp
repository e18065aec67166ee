#include "codegen/lower/outer_accumulators.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "codegen/kernel/combine.h"

namespace sinter {

using kir::Combiner;
using kir::ExprId;
using kir::VarId;

OuterAccumulators::OuterAccumulators(const SegmentFacts& facts, const Schedule& schedule,
                                     kir::KernelBuilder& builder, TileLowering& tiles,
                                     int64_t groups)
    : facts_(facts),
      schedule_(schedule),
      builder_(builder),
      tiles_(tiles),
      groups_(groups),
      lanes_(schedule.vector_width) {}

void OuterAccumulators::declare() { declare(true); }

void OuterAccumulators::declare_for_chunks() { declare(false); }

void OuterAccumulators::declare(bool clears_columns) {
  for (const OpId id : facts_.outer_reductions) {
    const bool total = facts_.is_total(id);
    if (!total && groups_ == 0) continue;  // No columns.
    const bool kept = in_shared() && !total;
    const int64_t groups = total || kept ? 1 : groups_;
    const Op& op = facts_.fusion.ops[id];
    const auto types = exchange_types(facts_.fusion, op);
    const std::string name = tiles_.name_of_value(op.results.back());
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string suffix = types.size() == 1 ? "" : fmt::format("_{}", i);
      const VarId tile =
          builder_.declare_tile(name + "_sum" + suffix, types[i], groups, total ? 1 : lanes_);
      components_.push_back({.op = id,
                             .index = i,
                             .type = types[i],
                             .total = total,
                             .tile = tile,
                             .kept = {},
                             .exchange = {},
                             .partials = {}});
      if (!total && !clears_columns) continue;
      builder_.unrolled(
          "b", groups, [&](ExprId group) { clear(components_.back(), group, total ? 1 : lanes_); });
      if (!kept) continue;
      const ThreadVectors& vectors =
          components_.back().kept.emplace(builder_, name + "_sums" + suffix, types[i], groups_,
                                          schedule_.threads_per_block(), lanes_);
      for_groups([&](ExprId group) { vectors.store(tile, group, own_thread()); });
    }
  }
}

void OuterAccumulators::for_groups(const std::function<void(ExprId group)>& body) {
  builder_.loop("b", builder_.integer(0), builder_.integer(groups_), builder_.integer(1), false,
                body);
}

ExprId OuterAccumulators::own_thread() { return builder_.special(kir::Special::kThreadIndex); }

ExprId OuterAccumulators::group_of(const Component& component, ExprId group) {
  return component.total || component.kept ? builder_.integer(0) : group;
}

void OuterAccumulators::for_kept(const std::vector<OpId>& reductions,
                                 const std::function<void(const Component&)>& body) {
  for (const Component& component : components_) {
    if (component.kept && std::ranges::find(reductions, component.op) != reductions.end())
      body(component);
  }
}

void OuterAccumulators::fetch(const std::vector<OpId>& reductions, ExprId group) {
  for_kept(reductions, [&](const Component& component) {
    component.kept->load(component.tile, group, own_thread());
  });
}

void OuterAccumulators::put_back(const std::vector<OpId>& reductions, ExprId group) {
  for_kept(reductions, [&](const Component& component) {
    component.kept->store(component.tile, group, own_thread());
  });
}

void OuterAccumulators::clear(const Component& component, ExprId group, int64_t lanes) {
  const Combiner combiner = traits_of(facts_.fusion.ops[component.op].kind).reduction();
  builder_.unrolled("v", lanes, [&](ExprId lane) {
    builder_.set(component.tile, group, lane,
                 kir::identity_of(builder_, combiner, static_cast<int64_t>(component.index),
                                  component.type));
  });
}

void OuterAccumulators::clear(ExprId group) {
  for (const Component* component : components(Part::kColumns)) clear(*component, group, lanes_);
}

bool OuterAccumulators::has_totals() const {
  return std::ranges::any_of(components_, &Component::total);
}

std::vector<OuterAccumulators::Component*> OuterAccumulators::components(Part part) {
  std::vector<Component*> out;
  for (Component& component : components_) {
    if (component.total == (part == Part::kTotals)) out.push_back(&component);
  }
  return out;
}

std::vector<ExprId> OuterAccumulators::element_tuple(const Op& op) {
  const ExprId x = tiles_.element_value(op.operands[0]);
  switch (traits_of(op.kind).tuple) {
    case TupleKind::kMoments:
      return kir::welford_element(builder_, x);
    case TupleKind::kScaledSum:
      return {x, builder_.real(1.0, facts_.fusion.values[op.results[0]].type)};
    case TupleKind::kPlace:
      return {x, builder_.cast(tiles_.row(), exchange_types(facts_.fusion, op)[1])};
    case TupleKind::kIndependent:
      return kir::independent_element(builder_, traits_of(op.kind).reduction(), x);
  }
  unreachable();
}

void OuterAccumulators::accumulate(const std::vector<OpId>& reductions, ExprId group, ExprId lane) {
  for (size_t first = 0; first < components_.size();) {
    const Op& op = facts_.fusion.ops[components_[first].op];
    const auto count = traits_of(op.kind).components.size();
    if (std::ranges::find(reductions, components_[first].op) != reductions.end()) {
      const ExprId of_lane = components_[first].total ? builder_.integer(0) : lane;
      combine(first, group_of(components_[first], group), of_lane, element_tuple(op),
              kir::emit_append);
    }
    first += count;
  }
}

void OuterAccumulators::accumulate_row(const std::vector<OpId>& totals) {
  accumulate(totals, builder_.integer(0), builder_.integer(0));
}

void OuterAccumulators::combine(size_t first, ExprId group, ExprId lane,
                                const std::vector<ExprId>& others,
                                decltype(kir::emit_combine)* emit) {
  const Op& op = facts_.fusion.ops[components_[first].op];
  std::vector<VarId> running;
  for (size_t i = 0; i < others.size(); ++i) {
    running.push_back(
        builder_.declare("running", builder_.element(components_[first + i].tile, group, lane)));
  }
  emit(builder_, traits_of(op.kind).reduction(), running, others);
  for (size_t i = 0; i < others.size(); ++i)
    builder_.set(components_[first + i].tile, group, lane, builder_.ref(running[i]));
}

void OuterAccumulators::define(size_t first, ExprId group, ExprId lane,
                               const std::function<void(ValueId, ExprId)>& to) {
  const Op& op = facts_.fusion.ops[components_[first].op];
  const auto value = [&](size_t i) {
    return builder_.element(components_[first + i].tile, group, lane);
  };
  switch (traits_of(op.kind).tuple) {
    case TupleKind::kMoments:
      to(op.results[0], value(1));
      to(op.results[1], value(2));
      break;
    case TupleKind::kScaledSum:
      to(op.results[0], value(0));
      to(op.results[1],
         facts_.space.rows > 0 ? kir::sum_of_pair(builder_, value(0), value(1)) : value(1));
      break;
    case TupleKind::kPlace:
      to(op.results[0], kir::place_of_extreme(builder_, value(1)));
      break;
    case TupleKind::kIndependent:
      for (size_t i = 0; i < op.results.size(); ++i) to(op.results[i], value(i));
      break;
  }
}

void OuterAccumulators::define_results(ExprId group, ExprId lane) {
  for (size_t i = 0; i < components_.size(); ++i) {
    if (components_[i].total || components_[i].index != 0) continue;
    define(i, group, lane,
           [&](ValueId value, ExprId expr) { tiles_.define_element_value(value, expr); });
  }
}

void OuterAccumulators::define_totals() {
  for (size_t i = 0; i < components_.size(); ++i) {
    if (!components_[i].total || components_[i].index != 0) continue;
    define(i, builder_.integer(0), builder_.integer(0),
           [&](ValueId value, ExprId expr) { tiles_.define_row_value(value, expr); });
  }
}

// ---- Exchange

void OuterAccumulators::combine_threads(int64_t threads, const RowExchange& exchange) {
  if (!has_totals() || threads == 1 || facts_.space.columns == 0) return;
  builder_.comment("totals of the threads of a row");
  const ExprId zero = builder_.integer(0);
  kir::AllReduce all = all_reduce(builder_, threads, "totals", exchange);
  for (const Component* component : components(Part::kTotals)) {
    const VarId running =
        builder_.declare("running", builder_.element(component->tile, zero, zero));
    const Op& op = facts_.fusion.ops[component->op];
    if (component->index == 0) all.parts.push_back({traits_of(op.kind).reduction(), {}});
    all.parts.back().vars.push_back(running);
  }
  const std::vector<kir::ReducePart> parts = all.parts;
  builder_.append(std::move(all));
  size_t next = 0;
  const std::vector<Component*> totals = components(Part::kTotals);
  for (const kir::ReducePart& part : parts) {
    for (const VarId running : part.vars)
      builder_.set(totals[next++]->tile, zero, zero, builder_.ref(running));
  }
}

void OuterAccumulators::combine_lanes(int64_t lanes, int64_t threads) {
  const std::vector<Component*> columns = components(Part::kColumns);
  for (int64_t mask = lanes; mask < threads; mask *= 2) {
    builder_.unrolled("b", groups_, [&](ExprId group) {
      std::map<const Component*, VarId> received;
      for (const Component* component : columns) {
        const DType type = travel_type(component->type);
        received[component] = builder_.declare_tile(
            builder_.kernel().vars[component->tile].name + "_other", type, 1, lanes_);
        builder_.unrolled("v", lanes_, [&](ExprId lane) {
          const VarId other = builder_.declare_scalar("other", type);
          const ExprId own = builder_.element(component->tile, group_of(*component, group), lane);
          builder_.append(kir::ShuffleXor{.target = other,
                                          .source = builder_.cast(own, type),
                                          .mask = static_cast<int32_t>(mask)});
          builder_.set(received[component], builder_.integer(0), lane, builder_.ref(other));
        });
      }
      combine_received(Part::kColumns, group, received);
    });
  }
}

void OuterAccumulators::combine_slots(int64_t slots, int64_t threads, ExprId slot, ExprId thread,
                                      const std::function<void()>& barrier) {
  for (const Part part : {Part::kColumns, Part::kTotals}) {
    const std::vector<Component*> all = components(part);
    const int64_t groups = part == Part::kTotals ? 1 : groups_;
    if (all.empty() || (part == Part::kColumns && facts_.space.columns == 0)) continue;
    builder_.comment(fmt::format("combine {} row slots", slots));
    if (part == Part::kColumns && in_shared()) {
      combine_slots_in_place(slots, threads, slot, barrier);
      continue;
    }
    for (Component* component : all) {
      component->exchange =
          builder_.add_buffer({.name = builder_.kernel().vars[component->tile].name + "_slots",
                               .type = component->type,
                               .space = kir::Space::kShared,
                               .access = kir::Access::kReadWrite,
                               .alignment = 16,
                               .value = {},
                               .count = (slots - 1) * threads * lanes_of(part)});
    }
    builder_.unrolled("b", groups, [&](ExprId group) {
      combine_slots_of(part, group, {slots, threads, slot, thread}, barrier);
      // The next group reuses the same shared memory.
      if (groups > 1) barrier();
    });
  }
}

void OuterAccumulators::combine_blocks(ExprId block, int64_t threads, ExprId thread,
                                       kir::MbarrierId arrived) {
  const int64_t cluster = builder_.kernel().cluster;
  builder_.comment(fmt::format("combine {} blocks", cluster));
  int64_t bytes = 0;
  for (Component& component : components_) {
    const int64_t count =
        (cluster - 1) * threads * lanes_of(component.total ? Part::kTotals : Part::kColumns);
    const DType type = travel_type(component.type);
    component.exchange =
        builder_.add_buffer({.name = builder_.kernel().vars[component.tile].name + "_blocks",
                             .type = type,
                             .space = kir::Space::kShared,
                             .access = kir::Access::kReadWrite,
                             .alignment = 16,
                             .value = {},
                             .count = count});
    bytes += count * bytes_of(type);
  }
  const ExprId zero = builder_.integer(0);
  // Block b uses place b - 1, because the first block never sends.
  const auto place = [&](ExprId before) {
    return builder_.add(builder_.mul(before, builder_.integer(threads)), thread);
  };
  const auto send_all = [&] {
    const ExprId own = place(builder_.sub(block, builder_.integer(1)));
    for (const Part part : {Part::kColumns, Part::kTotals}) send_to_first_block(part, own, arrived);
  };
  const auto receive_all = [&] {
    // Some bytes may have arrived already.
    builder_.when(builder_.equal(thread, zero), [&] {
      builder_.append(kir::ExpectBytes{arrived, zero, builder_.integer(bytes)});
    });
    builder_.append(kir::MbarrierWait{arrived, zero, zero});
    for (const Part part : {Part::kColumns, Part::kTotals}) {
      for (int64_t b = 0; b + 1 < cluster; ++b) receive(part, zero, place(builder_.integer(b)));
    }
  };
  builder_.when(builder_.equal(block, zero), receive_all, send_all);
}

void OuterAccumulators::send_to_first_block(Part part, ExprId place, kir::MbarrierId arrived) {
  const int64_t lanes = lanes_of(part);
  const ExprId zero = builder_.integer(0);
  const ExprId first = builder_.mul(place, builder_.integer(lanes));
  for (const Component* component : components(part)) {
    const DType type = builder_.kernel().buffers[component->exchange].type;
    builder_.unrolled("v", lanes, [&](ExprId lane) {
      const ExprId value = builder_.element(component->tile, zero, lane);
      builder_.append(
          kir::ClusterStore{.shared = component->exchange,
                            .index = builder_.add(first, lane),
                            .block = zero,
                            .source = builder_.declare("sent", builder_.cast(value, type)),
                            .array = arrived,
                            .mbarrier = zero});
    });
  }
}

void OuterAccumulators::combine_slots_of(Part part, ExprId group, const Slots& slots,
                                         const std::function<void()>& barrier) {
  const ExprId slot = slots.slot;
  // Slot s uses place s - 1, because the first slot never sends.
  const auto place = [&](int64_t later) {
    const ExprId sender = builder_.add(slot, builder_.integer(later - 1));
    return builder_.add(builder_.mul(sender, builder_.integer(slots.threads)), slots.thread);
  };
  for (int64_t left = slots.count; left > 1;) {
    const int64_t half = (left + 1) / 2;
    builder_.when(builder_.both(builder_.less_equal(builder_.integer(half), slot),
                                builder_.less(slot, builder_.integer(left))),
                  [&] { send(part, group, place(0)); });
    barrier();
    builder_.when(builder_.less(slot, builder_.integer(left - half)),
                  [&] { receive(part, group, place(half)); });
    left = half;
  }
}

void OuterAccumulators::send(Part part, ExprId group, ExprId place) {
  const int64_t lanes = lanes_of(part);
  const ExprId index = builder_.mul(place, builder_.integer(lanes));
  for (const Component* component : components(part)) {
    builder_.append(
        kir::Store{component->exchange, index, lanes, component->tile, group, builder_.integer(0)});
  }
}

void OuterAccumulators::receive(Part part, ExprId group, ExprId place) {
  const int64_t lanes = lanes_of(part);
  const ExprId index = builder_.mul(place, builder_.integer(lanes));
  const ExprId zero = builder_.integer(0);
  std::map<const Component*, VarId> received;
  for (const Component* component : components(part)) {
    const VarId tile =
        builder_.declare_tile(builder_.kernel().vars[component->tile].name + "_received",
                              builder_.kernel().buffers[component->exchange].type, 1, lanes);
    builder_.append(
        kir::Load{tile, zero, zero, lanes, component->exchange, index, kir::CacheHint::kDefault});
    received[component] = tile;
  }
  combine_received(part, group, received);
}

void OuterAccumulators::combine_received(Part part, ExprId group,
                                         const std::map<const Component*, VarId>& received) {
  const ExprId zero = builder_.integer(0);
  builder_.unrolled("v", lanes_of(part), [&](ExprId lane) {
    for (size_t first = 0; first < components_.size();) {
      const Op& op = facts_.fusion.ops[components_[first].op];
      const auto count = traits_of(op.kind).components.size();
      if (received.contains(&components_[first])) {
        std::vector<ExprId> others;
        for (size_t i = 0; i < count; ++i) {
          const ExprId other = builder_.element(received.at(&components_[first + i]), zero, lane);
          others.push_back(builder_.cast(other, components_[first + i].type));
        }
        combine(first, group, lane, others);
      }
      first += count;
    }
  });
}

void OuterAccumulators::combine_slots_in_place(int64_t slots, int64_t threads, ExprId slot,
                                               const std::function<void()>& barrier) {
  for (int64_t left = slots; left > 1;) {
    const int64_t half = (left + 1) / 2;
    // After the barrier, the slot that is read has accumulated its rows and received tuples.
    barrier();
    builder_.when(builder_.less(slot, builder_.integer(left - half)), [&] {
      combine_with(builder_.add(own_thread(), builder_.integer(half * threads)));
    });
    left = half;
  }
}

void OuterAccumulators::combine_with(ExprId other) {
  const ExprId zero = builder_.integer(0);
  for_groups([&](ExprId group) {
    fetch(facts_.outer_reductions, group);
    std::map<const Component*, VarId> received;
    for (const Component* component : components(Part::kColumns)) {
      const VarId tile = builder_.declare_tile(
          builder_.kernel().vars[component->tile].name + "_received", component->type, 1, lanes_);
      component->kept->load(tile, group, other);
      received[component] = tile;
    }
    combine_received(Part::kColumns, zero, received);
    put_back(facts_.outer_reductions, group);
  });
}

// ---- Partial results

void OuterAccumulators::declare_partials(kir::Access access) {
  for (Component& component : components_) {
    const ValueId value = facts_.fusion.ops[component.op].results.front();
    component.partials = builder_.add_buffer({.name = tiles_.name_of_value(value) + "_partials",
                                              .type = component.type,
                                              .space = kir::Space::kGlobal,
                                              .access = access,
                                              .alignment = 16,
                                              .value = value});
  }
}

void OuterAccumulators::store_partials(ExprId group, ExprId index) {
  fetch(facts_.outer_reductions, group);
  for (const Component* component : components(Part::kColumns)) {
    builder_.append(kir::Store{component->partials, index, lanes_, component->tile,
                               group_of(*component, group), builder_.integer(0)});
  }
}

void OuterAccumulators::load_partials(ExprId group, ExprId index) {
  for (const Component* component : components(Part::kColumns)) {
    builder_.append(kir::Load{component->tile, group, builder_.integer(0), lanes_,
                              component->partials, index, kir::CacheHint::kDefault});
  }
}

void OuterAccumulators::store_totals(ExprId row) {
  const ExprId zero = builder_.integer(0);
  for (const Component* component : components(Part::kTotals))
    builder_.append(kir::Store{component->partials, row, 1, component->tile, zero, zero});
}

void OuterAccumulators::store_partials(RowWalk& walk, ExprId row, kir::Access access) {
  if (components_.empty()) return;
  declare_partials(access);
  // Kernels of unaligned rows have no column accumulators to store.
  if (!components(Part::kColumns).empty()) {
    const ExprId columns = builder_.integer(facts_.space.columns, DType::kI64);
    const ExprId start = builder_.mul(builder_.ref(builder_.declare("partial_row", row)), columns);
    walk.for_vectors([&](const TilePosition& at) {
      const auto store = [&] {
        store_partials(at.batch, builder_.add(start, builder_.cast(at.first_column, DType::kI64)));
      };
      if (at.predication == Predication::kNone) {
        store();
      } else {
        builder_.when(tiles_.vector_is_inside(at), store);
      }
    });
  }
  if (has_totals()) builder_.when(walk.is_first_thread(), [&] { store_totals(row); });
}

void OuterAccumulators::accumulate_partials(const OuterAccumulators& writer, ExprId first,
                                            ExprId rows, int64_t step, int64_t unroll,
                                            ExprId column) {
  const ExprId zero = builder_.integer(0);
  const auto number = [&](int64_t value) { return builder_.integer(value, DType::kI64); };
  const auto load_row = [&](const std::vector<VarId>& tiles, int64_t u, ExprId row) {
    for (size_t i = 0; i < components_.size(); ++i) {
      const bool total = components_[i].total;
      const ExprId start = builder_.mul(row, number(facts_.space.columns));
      builder_.append(kir::Load{.tile = tiles[i],
                                .group = builder_.integer(u),
                                .lane = zero,
                                .width = total ? 1 : lanes_,
                                .buffer = writer.components_[i].partials,
                                .index = total ? row : builder_.add(start, column)});
    }
  };
  const auto combine_row = [&](const std::vector<VarId>& tiles, int64_t u) {
    for (size_t i = 0; i < components_.size();) {
      const Op& op = facts_.fusion.ops[components_[i].op];
      const auto count = traits_of(op.kind).components.size();
      builder_.unrolled("v", components_[i].total ? 1 : lanes_, [&](ExprId lane) {
        std::vector<ExprId> others;
        for (size_t k = i; k < i + count; ++k)
          others.push_back(builder_.element(tiles[k], builder_.integer(u), lane));
        combine(i, zero, lane, others);
      });
      i += count;
    }
  };
  const ExprId last = builder_.sub(rows, number(1));
  builder_.loop("partial_row", first, rows, number(step * unroll), false, [&](ExprId row) {
    std::vector<VarId> tiles;
    for (const Component& component : components_) {
      tiles.push_back(builder_.declare_tile(builder_.kernel().vars[component.tile].name + "_rows",
                                            component.type, unroll, component.total ? 1 : lanes_));
    }
    const auto later = [&](int64_t u) { return builder_.add(row, number(u * step)); };
    // Past the end, the last row is read again and not used.
    for (int64_t u = 0; u < unroll; ++u) {
      load_row(tiles, u,
               u == 0 ? row
                      : builder_.ref(builder_.declare(fmt::format("partial_row_{}", u),
                                                      builder_.min(later(u), last))));
    }
    for (int64_t u = 0; u < unroll; ++u) {
      if (u == 0) {
        combine_row(tiles, u);
      } else {
        builder_.when(builder_.less(later(u), rows), [&] { combine_row(tiles, u); });
      }
    }
  });
}

std::vector<ValueId> finish_loads(const SegmentFacts& facts) {
  std::vector<ValueId> loads;
  std::set<ValueId> seen;
  const std::function<void(ValueId)> visit = [&](ValueId value) {
    if (!seen.insert(value).second) return;
    if (facts.is_read(value)) {
      if (facts.is_tile(value)) loads.push_back(value);
      return;
    }
    const Op& op = facts.fusion.def_of(value);
    // The operands of an outer reduction were evaluated with the rows.
    if (is_reduction(op.kind)) return;
    for (const ValueId operand : op.operands) visit(operand);
  };
  for (const ValueId output : facts.fusion.outputs) {
    if (facts.is_after_rows(output)) visit(output);
  }
  return loads;
}

}  // namespace sinter
