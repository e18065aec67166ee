#include "codegen/outer_accumulators.h"

#include <algorithm>
#include <functional>
#include <set>

#include "codegen/combine.h"

namespace sinter {

using kir::Combiner;
using kir::ExprId;
using kir::VarId;

OuterAccumulators::OuterAccumulators(const SegmentFacts& facts, kir::KernelBuilder& builder,
                                     TileLowering& tiles, int64_t groups, int64_t lanes)
    : facts_(facts), builder_(builder), tiles_(tiles), groups_(groups), lanes_(lanes) {}

void OuterAccumulators::declare() {
  if (groups_ == 0) return;  // No columns.
  for (const OpId id : facts_.outer_reductions) {
    const Op& op = facts_.fusion.ops[id];
    const std::vector<DType> types = exchange_types(facts_.fusion, op);
    const std::string name = tiles_.name_of_value(op.results.back());
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string suffix = types.size() == 1 ? "" : fmt::format("_{}", i);
      const VarId tile = builder_.declare_tile(name + "_sum" + suffix, types[i], groups_, lanes_);
      components_.push_back(
          {.op = id, .index = i, .type = types[i], .tile = tile, .exchange = {}, .partials = {}});
      builder_.unrolled("b", groups_, [&](ExprId group) {
        builder_.unrolled("v", lanes_, [&](ExprId lane) {
          builder_.set(tile, group, lane,
                       kir::identity_of(builder_, kir::combiner_of(op.kind),
                                        static_cast<int64_t>(i), types[i]));
        });
      });
    }
  }
}

std::vector<ExprId> OuterAccumulators::element_tuple(const Op& op) {
  const ExprId x = tiles_.element_value(op.operands[0]);
  const Combiner combiner = kir::combiner_of(op.kind);
  switch (combiner) {
    case Combiner::kWelford: {
      const DType type = facts_.fusion.values[op.results[0]].type;
      return {builder_.real(1.0, type), x, builder_.real(0.0, type)};
    }
    case Combiner::kLogSumExp:
      return {x, builder_.real(1.0, facts_.fusion.values[op.results[0]].type)};
    case Combiner::kArgMax:
    case Combiner::kArgMin:
      return {x, tiles_.row()};
    default:
      return {x};
  }
}

void OuterAccumulators::accumulate(const std::vector<OpId>& reductions, ExprId group, ExprId lane) {
  for (size_t first = 0; first < components_.size();) {
    const Op& op = facts_.fusion.ops[components_[first].op];
    const auto count = static_cast<size_t>(kir::components_of(kir::combiner_of(op.kind)));
    if (std::ranges::find(reductions, components_[first].op) != reductions.end())
      combine(first, group, lane, element_tuple(op));
    first += count;
  }
}

void OuterAccumulators::combine(size_t first, ExprId group, ExprId lane,
                                const std::vector<ExprId>& others) {
  const Op& op = facts_.fusion.ops[components_[first].op];
  std::vector<VarId> running;
  for (size_t i = 0; i < others.size(); ++i) {
    running.push_back(
        builder_.declare("running", builder_.element(components_[first + i].tile, group, lane)));
  }
  kir::emit_combine(builder_, kir::combiner_of(op.kind), running, others);
  for (size_t i = 0; i < others.size(); ++i)
    builder_.set(components_[first + i].tile, group, lane, builder_.ref(running[i]));
}

void OuterAccumulators::define_results(ExprId group, ExprId lane) {
  for (size_t first = 0; first < components_.size();) {
    const Op& op = facts_.fusion.ops[components_[first].op];
    const Combiner combiner = kir::combiner_of(op.kind);
    const auto value = [&](size_t i) {
      return builder_.element(components_[first + i].tile, group, lane);
    };
    switch (combiner) {
      case Combiner::kWelford:
        tiles_.define_element_value(op.results[0], value(1));
        tiles_.define_element_value(op.results[1], value(2));
        break;
      case Combiner::kLogSumExp:
        tiles_.define_element_value(op.results[0], value(0));
        tiles_.define_element_value(op.results[1], value(1));
        break;
      case Combiner::kArgMax:
      case Combiner::kArgMin:
        tiles_.define_element_value(
            op.results[0], facts_.space.rows > 0 ? value(1) : builder_.integer(0, DType::kI64));
        break;
      default:
        tiles_.define_element_value(op.results[0], value(0));
        break;
    }
    first += static_cast<size_t>(kir::components_of(combiner));
  }
}

void OuterAccumulators::combine_slots(int64_t slots, int64_t threads, ExprId slot, ExprId thread,
                                      const std::function<void()>& barrier) {
  if (components_.empty() || facts_.space.columns == 0) return;
  builder_.comment(fmt::format("combine {} row slots", slots));
  for (Component& component : components_) {
    component.exchange =
        builder_.add_buffer({.name = builder_.kernel().vars[component.tile].name + "_slots",
                             .type = component.type,
                             .space = kir::Space::kShared,
                             .access = kir::Access::kReadWrite,
                             .alignment = 16,
                             .value = {},
                             .count = (slots - 1) * threads * lanes_});
  }
  // Slot s has its place at s - 1: the first one never sends.
  const auto place = [&](int64_t later) {
    const ExprId sender = builder_.add(slot, builder_.integer(later - 1));
    return builder_.add(builder_.mul(sender, builder_.integer(threads)), thread);
  };
  builder_.unrolled("b", groups_, [&](ExprId group) {
    for (int64_t left = slots; left > 1;) {
      const int64_t half = (left + 1) / 2;
      builder_.when(builder_.both(builder_.less_equal(builder_.integer(half), slot),
                                  builder_.less(slot, builder_.integer(left))),
                    [&] { send(group, place(0)); });
      barrier();
      builder_.when(builder_.less(slot, builder_.integer(left - half)),
                    [&] { receive(group, place(half)); });
      left = half;
    }
    // The next group takes the same places.
    if (groups_ > 1) barrier();
  });
}

void OuterAccumulators::send(ExprId group, ExprId place) {
  const ExprId index = builder_.mul(place, builder_.integer(lanes_));
  for (const Component& component : components_) {
    builder_.append(
        kir::Store{component.exchange, index, lanes_, component.tile, group, builder_.integer(0)});
  }
}

void OuterAccumulators::receive(ExprId group, ExprId place) {
  const ExprId index = builder_.mul(place, builder_.integer(lanes_));
  std::vector<VarId> received;
  for (const Component& component : components_) {
    received.push_back(builder_.declare_tile(
        builder_.kernel().vars[component.tile].name + "_received", component.type, 1, lanes_));
    builder_.append(kir::Load{received.back(), builder_.integer(0), builder_.integer(0), lanes_,
                              component.exchange, index, kir::CacheHint::kDefault});
  }
  const ExprId zero = builder_.integer(0);
  builder_.unrolled("v", lanes_, [&](ExprId lane) {
    for (size_t first = 0; first < components_.size();) {
      const Op& op = facts_.fusion.ops[components_[first].op];
      std::vector<ExprId> others;
      const auto count = static_cast<size_t>(kir::components_of(kir::combiner_of(op.kind)));
      for (size_t i = 0; i < count; ++i)
        others.push_back(builder_.element(received[first + i], zero, lane));
      combine(first, group, lane, others);
      first += count;
    }
  });
}

void OuterAccumulators::declare_partials() {
  for (Component& component : components_) {
    const ValueId value = facts_.fusion.ops[component.op].results.front();
    component.partials = builder_.add_buffer({.name = tiles_.name_of_value(value) + "_partials",
                                              .type = component.type,
                                              .space = kir::Space::kGlobal,
                                              .access = kir::Access::kWrite,
                                              .alignment = 16,
                                              .value = value});
  }
}

void OuterAccumulators::store_partials(ExprId group, ExprId index) {
  for (const Component& component : components_) {
    builder_.append(
        kir::Store{component.partials, index, lanes_, component.tile, group, builder_.integer(0)});
  }
}

void OuterAccumulators::store_partials(RowWalk& walk, ExprId row) {
  if (components_.empty()) return;
  declare_partials();
  const ExprId columns = builder_.integer(facts_.space.columns, DType::kI64);
  const ExprId start = builder_.mul(builder_.ref(builder_.declare("partial_row", row)), columns);
  walk.for_vectors([&](const TilePosition& at) {
    const auto store = [&] {
      store_partials(at.batch, builder_.add(start, builder_.cast(at.first_column, DType::kI64)));
    };
    if (at.guard == Guard::kNone) {
      store();
    } else {
      builder_.when(tiles_.vector_is_inside(at), store);
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
    // What an outer reduction takes was evaluated with the rows.
    if (is_reduction(op.kind)) return;
    for (const ValueId operand : op.operands) visit(operand);
  };
  for (const ValueId output : facts.fusion.outputs) {
    if (facts.is_after_rows(output)) visit(output);
  }
  return loads;
}

}  // namespace sinter
