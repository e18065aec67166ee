#include "codegen/lower/row_statistics.h"

#include <bit>
#include <cmath>

#include "codegen/kernel/combine.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

using kir::Combiner;
using kir::ExprId;
using kir::VarId;

namespace {

std::string_view component_name(Combiner combiner, size_t i) {
  return traits_of(combiner).components[i].name;
}

/// The combiner of the first pass: the extreme, for a reduction whose second pass searches for its
/// index; the reduction itself for all others.
Combiner first_pass_of(Combiner combiner) {
  return traits_of(combiner).first_pass.value_or(combiner);
}

}  // namespace

kir::AllReduce all_reduce(kir::KernelBuilder& builder, int64_t threads, const std::string& name,
                          const RowExchange& exchange) {
  kir::AllReduce all{.parts = {},
                     .threads = threads,
                     .name = name,
                     .phase = exchange.phase,
                     .barrier = exchange.barrier,
                     .group = exchange.group,
                     .groups = exchange.groups,
                     .parity = exchange.parity,
                     .mail = exchange.mail,
                     .number = exchange.number,
                     .first_place = exchange.first_place,
                     .half = exchange.half};
  if (exchange.parity.valid()) {
    const int64_t phases = exchange.phase.valid() ? 2 : 1;
    all.arrived = builder.add_mbarriers(name + "_arrived", exchange.groups * phases, 1);
    builder.sync_cluster();
  }
  return all;
}

RowStatistics::RowStatistics(const SegmentFacts& facts, kir::KernelBuilder& builder,
                             TileLowering& tiles, const std::vector<OpId>& reductions)
    : facts_(facts), builder_(builder), tiles_(tiles) {
  for (const OpId op : reductions) accumulators_.push_back(start(op));
}

RowStatistics::Accumulator RowStatistics::start(OpId id) {
  const Op& op = facts_.fusion.ops[id];
  Accumulator accumulator{};
  accumulator.op = id;
  accumulator.combiner = traits_of(op.kind).reduction();
  const auto types = exchange_types(facts_.fusion, op);
  accumulator.type = types.front();
  const std::string name = tiles_.name_of_value(op.results.back());
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string component =
        types.size() == 1 ? name
                          : fmt::format("{}_{}", name, component_name(accumulator.combiner, i));
    accumulator.running.push_back(builder_.declare(
        component,
        kir::identity_of(builder_, accumulator.combiner, static_cast<int64_t>(i), types[i])));
  }
  return accumulator;
}

std::vector<ValueId> RowStatistics::second_operands() const {
  std::vector<ValueId> operands;
  for (const Accumulator& accumulator : accumulators_) {
    if (takes_two_passes(facts_.fusion.ops[accumulator.op].kind))
      operands.push_back(facts_.fusion.ops[accumulator.op].operands[0]);
  }
  return operands;
}

ExprId RowStatistics::operand(const Accumulator& accumulator) {
  return tiles_.element_value(facts_.fusion.ops[accumulator.op].operands[0]);
}

bool RowStatistics::is_search(const Accumulator& accumulator) {
  return traits_of(accumulator.combiner).is_search();
}

bool RowStatistics::deviates(const Accumulator& accumulator) {
  const ReductionTraits& traits = traits_of(accumulator.combiner);
  return traits.takes_two_passes && !traits.is_search();
}

ExprId RowStatistics::nowhere(const Accumulator& accumulator) {
  const DType type = builder_.kernel().vars[accumulator.running[1]].type;
  return kir::identity_of(builder_, accumulator.combiner, 1, type);
}

void RowStatistics::increase(VarId var, ExprId by) {
  builder_.assign(var, builder_.add(builder_.ref(var), by));
}

ExprId RowStatistics::deviation(const Accumulator& accumulator, VarId from) {
  return builder_.sub(operand(accumulator), builder_.ref(from));
}

ExprId RowStatistics::half_deviation(const Accumulator& accumulator, VarId from) {
  const ExprId factor = builder_.real(0.5, accumulator.type);
  const ExprId scaled = builder_.mul(builder_.ref(from), factor);
  return builder_.apply(PointwiseFn::kFma, {operand(accumulator), factor,
                                            builder_.apply(PointwiseFn::kNeg, {scaled})});
}

ExprId RowStatistics::beyond_pivot(const Accumulator& accumulator, ExprId half) {
  return builder_.apply(PointwiseFn::kFma, {half, builder_.real(2.0, accumulator.type),
                                            builder_.ref(accumulator.pivot)});
}

double RowStatistics::scale_of_halves() const {
  return std::ldexp(1.0,
                    -static_cast<int>(std::bit_width(static_cast<uint64_t>(facts_.space.columns))));
}

void RowStatistics::add_half(VarId sum, ExprId half) {
  const ExprId scale = builder_.real(scale_of_halves(), builder_.kernel().vars[sum].type);
  builder_.assign(sum, builder_.apply(PointwiseFn::kFma, {half, scale, builder_.ref(sum)}));
}

void RowStatistics::sync_between_passes(ExprId thread, int64_t pivot_threads) {
  syncs_ = true;
  thread_ = thread;
  pivot_threads_ = pivot_threads;
}

// ---- First pass

void RowStatistics::begin_chunk() {
  for (Accumulator& accumulator : accumulators_) {
    if (accumulator.combiner == Combiner::kWelford) {
      const ExprId zero = builder_.real(0.0, accumulator.type);
      accumulator.pivot = builder_.declare("pivot", zero);
      if (syncs_) continue;
      accumulator.chunk_sum = builder_.declare("chunk_sum", zero);
      accumulator.chunk_count = builder_.declare("chunk_count", zero);
    } else if (accumulator.combiner == Combiner::kLogSumExp && !syncs_) {
      accumulator.old_max = builder_.declare("old_max", builder_.ref(accumulator.running[0]));
    } else if (is_search(accumulator) && !syncs_) {
      accumulator.old_extreme =
          builder_.declare("old_extreme", builder_.ref(accumulator.running[0]));
    }
  }
}

void RowStatistics::add(ExprId lane) {
  for (const Accumulator& accumulator : accumulators_) {
    if (accumulator.combiner == Combiner::kWelford) {
      add_to_welford(accumulator, lane);
    } else if (const Combiner first = first_pass_of(accumulator.combiner);
               first != accumulator.combiner) {
      kir::emit_combine(builder_, first, {&accumulator.running[0], 1}, {{operand(accumulator)}});
    } else {
      kir::emit_combine(
          builder_, accumulator.combiner, accumulator.running,
          kir::independent_element(builder_, accumulator.combiner, operand(accumulator)));
    }
  }
}

/// Takes the pivot from the first lane of a vector. The pivot of a chunk is from its first vector,
/// because all sums are of differences from it. The pivot of a row may be from any vector; the last
/// one needs no test.
void RowStatistics::add_to_welford(const Accumulator& accumulator, ExprId lane) {
  const ExprId pivot = builder_.ref(accumulator.pivot);
  ExprId is_pivot = builder_.equal(lane, builder_.integer(0));
  if (!syncs_) {
    const ExprId is_first =
        builder_.equal(builder_.ref(accumulator.chunk_count), builder_.real(0.0, accumulator.type));
    is_pivot = builder_.both(is_pivot, is_first);
  }
  // The deviation from an infinite pivot is NaN, while the mean is infinite.
  const ExprId x = operand(accumulator);
  const ExprId is_finite = builder_.apply(PointwiseFn::kIsFinite, {x});
  builder_.assign(accumulator.pivot, builder_.select(builder_.both(is_pivot, is_finite), x, pivot));
  if (syncs_) return;
  // Takes halves first: those of equal elements are 0 however small the elements are, which no
  // other scale achieves.
  add_half(accumulator.chunk_sum, half_deviation(accumulator, accumulator.pivot));
}

void RowStatistics::end_vector(const TilePosition& at) {
  if (syncs_) return;  // The threads share the pivot of the row.
  for (const Accumulator& accumulator : accumulators_) {
    if (accumulator.combiner != Combiner::kWelford) continue;
    increase(accumulator.chunk_count,
             builder_.real(static_cast<double>(tiles_.lanes_at(at)), accumulator.type));
  }
}

// ---- Second pass

void RowStatistics::between_passes(bool is_in_order) {
  for (Accumulator& accumulator : accumulators_) {
    const DType type = accumulator.type;
    if (accumulator.combiner == Combiner::kWelford) {
      if (syncs_) continue;  // The running tuple takes the deviations from the pivot.
      const ExprId count =
          builder_.max(builder_.ref(accumulator.chunk_count), builder_.real(1.0, type));
      const ExprId scaled_count = builder_.mul(count, builder_.real(scale_of_halves(), type));
      const ExprId half_beyond = builder_.div(builder_.ref(accumulator.chunk_sum), scaled_count);
      accumulator.chunk_mean =
          builder_.declare("chunk_mean", beyond_pivot(accumulator, half_beyond));
      accumulator.chunk_m2 = builder_.declare("chunk_m2", builder_.real(0.0, type));
    } else if (accumulator.combiner == Combiner::kLogSumExp) {
      // If only -inf was seen, exponents subtract 0, so that exp(-inf - 0) adds nothing; see
      // emit_combine.
      const ExprId max = builder_.ref(accumulator.running[0]);
      const ExprId lowest = kir::identity_of(builder_, Combiner::kLogSumExp, 0, type);
      accumulator.safe_max = builder_.declare(
          "safe_max", builder_.select(builder_.equal(max, lowest), builder_.real(0.0, type), max));
      if (syncs_) continue;  // Nothing is summed yet.
      const ExprId scale = builder_.apply(
          PointwiseFn::kExp,
          {builder_.sub(builder_.ref(accumulator.old_max), builder_.ref(accumulator.safe_max))});
      const VarId sum = accumulator.running[1];
      builder_.assign(sum, builder_.mul(builder_.ref(sum), scale));
    } else if (is_search(accumulator)) {
      begin_search(accumulator, is_in_order);
    }
  }
}

void RowStatistics::begin_search(Accumulator& accumulator, bool is_in_order) {
  const ExprId extreme = builder_.ref(accumulator.running[0]);
  const ExprId is_old = kir::is_same(builder_, extreme, builder_.ref(accumulator.old_extreme));
  // After an exchange a thread searches only if the row's extreme is its own.
  ExprId is_here = is_old;
  ExprId found = nowhere(accumulator);
  if (!syncs_ && is_in_order) {
    is_here = builder_.apply(PointwiseFn::kNot, {is_old});
  } else if (!syncs_) {
    // An element of an old extreme may come before the one that was found.
    const ExprId identity =
        kir::identity_of(builder_, accumulator.combiner, 0, builder_.type_of(extreme));
    is_here = builder_.apply(PointwiseFn::kNot, {kir::is_same(builder_, extreme, identity)});
    found = builder_.select(is_old, builder_.ref(accumulator.running[1]), found);
  }
  accumulator.is_here = builder_.declare("is_here", is_here);
  if (!syncs_) accumulator.found = builder_.declare("found", found);
}

void RowStatistics::add_again() {
  for (const Accumulator& accumulator : accumulators_) {
    if (!deviates(accumulator)) continue;
    if (accumulator.combiner == Combiner::kLogSumExp) {
      const ExprId exponent = deviation(accumulator, accumulator.safe_max);
      increase(accumulator.running[1], builder_.apply(PointwiseFn::kExp, {exponent}));
      continue;
    }
    const ExprId from_mean =
        builder_.ref(builder_.declare(syncs_ ? "half_deviation" : "deviation",
                                      syncs_ ? half_deviation(accumulator, accumulator.pivot)
                                             : deviation(accumulator, accumulator.chunk_mean)));
    if (syncs_) add_half(accumulator.running[1], from_mean);
    increase(syncs_ ? accumulator.running[2] : accumulator.chunk_m2,
             builder_.mul(from_mean, from_mean));
  }
}

bool RowStatistics::deviate() const { return std::ranges::any_of(accumulators_, deviates); }

void RowStatistics::search(const std::function<void(const SearchElement&)>& for_elements) {
  for (const Accumulator& accumulator : accumulators_) {
    if (!is_search(accumulator)) continue;
    const VarId found = syncs_ ? accumulator.running[1] : accumulator.found;
    builder_.when(builder_.ref(accumulator.is_here), [&] {
      for_elements([&](const TilePosition& at, ExprId lane) {
        const ExprId column =
            builder_.add(at.first_column, builder_.cast(lane, tiles_.column_type()));
        const ExprId place = builder_.cast(column, builder_.kernel().vars[found].type);
        const ExprId is_it =
            kir::is_same(builder_, operand(accumulator), builder_.ref(accumulator.running[0]));
        // The first of equal ones is the one with the lowest index.
        builder_.assign(found, builder_.min(builder_.ref(found),
                                            builder_.select(is_it, place, nowhere(accumulator))));
      });
      if (!syncs_) builder_.assign(accumulator.running[1], builder_.ref(found));
    });
  }
}

void RowStatistics::end_chunk(bool only) {
  for (const Accumulator& accumulator : accumulators_) {
    if (accumulator.combiner != Combiner::kWelford || syncs_) continue;
    const std::vector<ExprId> chunk = {builder_.ref(accumulator.chunk_count),
                                       builder_.ref(accumulator.chunk_mean),
                                       builder_.ref(accumulator.chunk_m2)};
    if (only) {
      for (size_t i = 0; i < chunk.size(); ++i) builder_.assign(accumulator.running[i], chunk[i]);
    } else {
      kir::emit_combine(builder_, Combiner::kWelford, accumulator.running, chunk);
    }
  }
}

// ---- Results

void RowStatistics::share_pivot(const Accumulator& accumulator) {
  const DType type = accumulator.type;
  const ExprId pivot = builder_.ref(accumulator.pivot);
  const ExprId zero = builder_.real(0.0, type);
  const ExprId share =
      builder_.mul(pivot, builder_.real(1.0 / static_cast<double>(pivot_threads_), type));
  const ExprId has_part = builder_.less(thread_, builder_.integer(pivot_threads_));
  // Shares of a subnormal number are rounded and would not sum to it. If elements are so small, one
  // thread contributes the whole pivot.
  constexpr double kTiny = 0x1p-60;
  const ExprId is_tiny =
      builder_.less(builder_.apply(PointwiseFn::kAbs, {pivot}), builder_.real(kTiny, type));
  const ExprId is_first = builder_.equal(thread_, builder_.integer(0));
  const ExprId whole = builder_.select(is_first, pivot, zero);
  // The pivot stays 0 in a thread without elements.
  builder_.assign(accumulator.pivot,
                  builder_.select(has_part, builder_.select(is_tiny, whole, share), zero));
}

void RowStatistics::exchange(std::vector<RowStatistics>& rows, int64_t threads,
                             const std::string& name, const RowExchange& exchange) {
  const RowStatistics& first = rows.front();
  kir::AllReduce all = all_reduce(first.builder_, threads, name, exchange);
  for (RowStatistics& row : rows) {
    for (Accumulator& accumulator : row.accumulators_) {
      if (accumulator.combiner == Combiner::kWelford) {
        row.share_pivot(accumulator);
        all.parts.push_back({Combiner::kSum, {accumulator.pivot}});
        continue;
      }
      const Combiner sweep = first_pass_of(accumulator.combiner);
      if (sweep == accumulator.combiner) continue;
      const VarId extreme = accumulator.running[0];
      if (is_search(accumulator)) {
        accumulator.old_extreme =
            first.builder_.declare("own_extreme", first.builder_.ref(extreme));
      }
      all.parts.push_back({sweep, {extreme}});
    }
  }
  first.builder_.append(std::move(all));
}

int64_t RowStatistics::elements_of_thread(int64_t threads) const {
  const Schedule& schedule = tiles_.schedule();
  const int64_t at_once = threads * schedule.vector_width * schedule.cluster_size();
  if (schedule.row_access == RowAccess::kUnaligned || facts_.space.columns % at_once != 0) return 0;
  return facts_.space.columns / (threads * schedule.cluster_size());
}

int64_t RowStatistics::combine(const std::vector<RowStatistics>& rows, int64_t threads,
                               const std::string& name, const RowExchange& exchange) {
  const RowStatistics& first = rows.front();
  // In a row without elements every thread already has the result.
  const bool is_alone = threads == 1 && !exchange.is_shared();
  if (first.empty() || is_alone || first.facts_.space.columns == 0) return 0;
  kir::AllReduce all = all_reduce(first.builder_, threads, name, exchange);
  for (const RowStatistics& row : rows) {
    for (const Accumulator& accumulator : row.accumulators_) {
      if (row.syncs_ && takes_two_passes(row.facts_.fusion.ops[accumulator.op].kind)) {
        if (accumulator.combiner == Combiner::kWelford)
          all.parts.push_back({Combiner::kSum, {accumulator.running[1]}});
        const Combiner second = is_search(accumulator) ? Combiner::kMin : Combiner::kSum;
        all.parts.push_back({second, {accumulator.running.back()}});
      } else {
        all.parts.push_back({accumulator.combiner, accumulator.running});
        if (accumulator.combiner == Combiner::kWelford)
          all.parts.back().elements = row.elements_of_thread(threads);
      }
    }
  }
  if (all.mail.valid() && all.half != kir::ReduceHalf::kReceive)
    all.first_place = first.builder_.reserve_places(
        kir::message_places(all, kir::blocks_together(first.builder_.kernel())));
  const int64_t first_place = all.first_place;
  first.builder_.append(std::move(all));
  return first_place;
}

/// Computes mean and m2 from the scaled sum of the deviations from the pivot and the squares of
/// their halves.
void RowStatistics::move_to_mean(const Accumulator& accumulator) {
  const DType type = accumulator.type;
  const double scale = scale_of_halves();
  const auto count = static_cast<double>(facts_.space.columns);
  const ExprId scaled_sum = builder_.ref(accumulator.running[1]);
  const ExprId quarter_m2 = builder_.ref(accumulator.running[2]);
  const ExprId half_beyond = builder_.ref(builder_.declare(
      "half_beyond_pivot", builder_.div(scaled_sum, builder_.real(count * scale, type))));
  const ExprId half_sum = builder_.mul(scaled_sum, builder_.real(1.0 / scale, type));
  const ExprId m2 = builder_.mul(builder_.sub(quarter_m2, builder_.mul(half_sum, half_beyond)),
                                 builder_.real(4.0, type));
  // Rounding, and squares that underflow, may make the difference negative.
  builder_.assign(accumulator.running[2], builder_.max(m2, builder_.real(0.0, type)));
  builder_.assign(accumulator.running[1], beyond_pivot(accumulator, half_beyond));
}

void RowStatistics::define_results() {
  for (const Accumulator& accumulator : accumulators_) define_results(accumulator);
}

void RowStatistics::define_results(const Accumulator& accumulator) {
  const Op& op = facts_.fusion.ops[accumulator.op];
  const auto& running = accumulator.running;
  switch (traits_of(accumulator.combiner).tuple) {
    case TupleKind::kMoments:
      if (syncs_) move_to_mean(accumulator);
      tiles_.define_row_value(op.results[0], builder_.ref(running[1]));
      tiles_.define_row_value(op.results[1], builder_.ref(running[2]));
      break;
    case TupleKind::kScaledSum: {
      const ExprId max = builder_.ref(running[0]);
      ExprId sum = builder_.ref(running[1]);
      if (facts_.space.columns > 0) {
        // A row whose maximum is infinite sums exp(inf - inf).
        builder_.comment(
            fmt::format("{} follows its formula where the maximum is not finite", op.results[1]));
        sum = builder_.ref(builder_.declare(tiles_.name_of_value(op.results[1]),
                                            kir::sum_of_pair(builder_, max, sum)));
      }
      tiles_.define_row_value(op.results[0], max);
      tiles_.define_row_value(op.results[1], sum);
      break;
    }
    case TupleKind::kPlace:
      tiles_.define_row_value(op.results[0],
                              kir::place_of_extreme(builder_, builder_.ref(running[1])));
      break;
    case TupleKind::kIndependent:
      for (size_t i = 0; i < running.size(); ++i)
        tiles_.define_row_value(op.results[i], builder_.ref(running[i]));
      break;
  }
}

}  // namespace sinter
