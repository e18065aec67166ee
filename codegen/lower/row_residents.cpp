#include "codegen/lower/row_residents.h"
#include "scheduler/analysis/kept_value.h"

#include <algorithm>

namespace sinter {

using kir::ExprId;
using kir::VarId;

RowResidents::RowResidents(const SegmentFacts& facts, const Schedule& schedule,
                           kir::KernelBuilder& builder, TileLowering& tiles, RowWalk& walk)
    : facts_(facts), schedule_(schedule), builder_(builder), tiles_(tiles), walk_(walk) {}

const KeptValue* RowResidents::find(ValueId value) const {
  const auto found = std::ranges::find_if(
      schedule_.kept, [&](const KeptValue& kept) { return kept.value == value && is_kept(kept); });
  return found == schedule_.kept.end() ? nullptr : &*found;
}

bool RowResidents::is_held(ValueId value, size_t s) const {
  return find(value) != nullptr &&
         (facts_.is_read(value) || facts_.level[value] < static_cast<int>(s));
}

bool RowResidents::is_shared(ValueId value) const {
  const KeptValue* kept = find(value);
  return kept != nullptr && kept->residency == Residency::kShared;
}

void RowResidents::declare() {
  const int64_t groups = group_count(facts_, schedule_);
  if (groups == 0) return;
  for (const KeptValue& kept : schedule_.kept) {
    if (kept.residency == Residency::kRegister) {
      tiles_.bind_tile(kept.value, tiles_.declare_tile(kept.value, groups), true);
    } else if (kept.residency == Residency::kShared) {
      shared_[kept.value] = builder_.add_buffer(
          {.name = tiles_.name_of_value(kept.value) + "_row",
           .type = facts_.fusion.values[kept.value].type,
           .space = kir::Space::kShared,
           .access = kir::Access::kReadWrite,
           .alignment = 16,
           .value = kept.value,
           .count = elements_per_thread(facts_, schedule_) * schedule_.threads_per_block()});
    }
  }
  for (const ValueId value : prefetched_inputs(facts_, schedule_))
    next_[value] = tiles_.declare_tile(value, groups, "_next");
}

void RowResidents::declare_another_row() {
  const int64_t groups = group_count(facts_, schedule_);
  if (groups == 0) return;
  for (const KeptValue& kept : schedule_.kept) {
    if (!facts_.space.dependence[kept.value].rows) continue;
    SINTER_CHECK(kept.residency != Residency::kShared, "{} has one place for all rows", kept.value);
    if (kept.residency == Residency::kRegister)
      tiles_.bind_tile(kept.value, tiles_.declare_tile(kept.value, groups), true);
  }
}

// ---- Inputs

void RowResidents::load(bool rows, const RowInputs& inputs) {
  if (group_count(facts_, schedule_) == 0) return;
  std::vector<ValueId> loaded;
  std::vector<ValueId> copied;
  for (const KeptValue& kept : schedule_.kept) {
    if (!facts_.is_read(kept.value) || facts_.space.dependence[kept.value].rows != rows) continue;
    if (kept.residency == Residency::kRegister && !next_.contains(kept.value))
      loaded.push_back(kept.value);
    if (kept.residency == Residency::kShared) copied.push_back(kept.value);
  }
  const std::vector<Passing> passing = start_shared_copies(copied);
  if (!loaded.empty()) {
    builder_.comment("held in registers, packed as loaded");
    walk_.for_vectors([&](const TilePosition& at) {
      for (const ValueId value : loaded) load_input(builder_, tiles_, inputs, value, at);
    });
  }
  finish_shared_copies(copied, passing);
}

void RowResidents::load_prefetched() {
  if (next_.empty()) return;
  std::map<ValueId, VarId> current;
  for (const auto& [value, next] : next_) {
    current[value] = tiles_.tile_of(value);
    tiles_.bind_tile(value, next, true);
  }
  walk_.for_vectors([&](const TilePosition& at) {
    for (const auto& [value, next] : next_) tiles_.load(value, at);
  });
  for (const auto& [value, tile] : current) tiles_.bind_tile(value, tile, true);
}

/// Copies element by element; the compiler makes it one move per word of packed elements.
void RowResidents::take_prefetched() {
  if (next_.empty()) return;
  const auto take = [&](const TilePosition& at) {
    for (const auto& [value, next] : next_) {
      const VarId tile = tiles_.tile_of(value);
      builder_.unrolled("v", tiles_.lanes_at(at, tile), [&, next = next, tile = tile](ExprId lane) {
        builder_.set(tile, at.batch, lane, builder_.element(next, at.batch, lane));
      });
    }
  };
  walk_.for_vectors([&](const TilePosition& at) { walk_.when_inside(at, [&] { take(at); }); });
}

std::vector<RowResidents::Passing> RowResidents::start_shared_copies(
    const std::vector<ValueId>& copied) {
  std::vector<Passing> passing;
  if (copied.empty()) return passing;
  builder_.comment("the whole row, on its way to shared memory");
  const auto load = [&](const RowChunk& batch) { load_passing(copied, batch, passing); };
  const auto copy = [&](const RowChunk& batch) {
    walk_.for_vectors(batch, [&](const TilePosition& at) {
      if (at.is_edge()) return;
      walk_.when_inside(at, [&] {
        for (const ValueId value : copied) {
          if (copies_async(facts_, schedule_, value))
            tiles_.copy_async(value, at, shared_.at(value), shared_index(at));
        }
      });
    });
  };
  walk_.for_chunks(1, load, [&](const ChunkRun& run) { return run.is_one(); });
  if (std::ranges::any_of(copied,
                          [&](ValueId value) { return copies_async(facts_, schedule_, value); }))
    walk_.for_chunks(1, copy);
  return passing;
}

void RowResidents::finish_shared_copies(const std::vector<ValueId>& copied,
                                        const std::vector<Passing>& passing) {
  if (copied.empty()) return;
  const auto store = [&](const Passing& vector) {
    walk_.when_inside(vector.at, [&] { store_shared(vector.value, vector.at, vector.tile); });
  };
  // A loop has registers for the vectors of one batch, and waits for them.
  const auto load_and_store = [&](const RowChunk& batch) {
    std::vector<Passing> vectors;
    load_passing(copied, batch, vectors);
    std::ranges::for_each(vectors, store);
  };
  if (!std::ranges::all_of(copied,
                           [&](ValueId value) { return copies_async(facts_, schedule_, value); }))
    walk_.for_chunks(1, load_and_store, [&](const ChunkRun& run) { return !run.is_one(); });
  std::ranges::for_each(passing, store);
  builder_.append(kir::AsyncWait{});
}

bool RowResidents::passes_registers(ValueId value, const TilePosition& at) const {
  return at.is_edge() || !copies_async(facts_, schedule_, value);
}

void RowResidents::load_passing(const std::vector<ValueId>& copied, const RowChunk& batch,
                                std::vector<Passing>& out) {
  walk_.for_vectors(batch, [&](TilePosition at) {
    at.group = builder_.integer(0);  // Each vector has a tile of its own.
    for (const ValueId value : copied) {
      if (!passes_registers(value, at)) continue;
      const VarId tile = tiles_.declare_tile(value, 1);
      tiles_.bind_tile(value, tile, false);
      tiles_.load(value, at);
      tiles_.unbind_tile(value);
      out.push_back({value, at, tile});
    }
  });
}

// ---- Shared memory

/// Layout: the threads' vectors, batch by batch, and then the peeled elements.
ExprId RowResidents::shared_index(const TilePosition& at) {
  const ExprId thread = builder_.special(kir::Special::kThreadIndex);
  if (at.is_edge()) {
    const int64_t vectors = batch_count(facts_, schedule_) * tiles_.width();
    const int64_t before = (vectors + at.edge) * schedule_.threads_per_block();
    return builder_.add(builder_.integer(before), thread);
  }
  const ExprId vector =
      builder_.add(builder_.mul(at.batch, builder_.integer(schedule_.threads_per_block())), thread);
  return builder_.mul(vector, builder_.integer(tiles_.width()));
}

void RowResidents::load_shared(ValueId value, const TilePosition& at) {
  tiles_.load_shared(value, at, shared_.at(value), shared_index(at));
}

void RowResidents::store_shared(ValueId value, const TilePosition& at, VarId tile) {
  const ExprId zero = builder_.integer(0);
  builder_.append(
      kir::Store{shared_.at(value), shared_index(at), tiles_.lanes_at(at, tile), tile, zero, zero});
}

}  // namespace sinter
