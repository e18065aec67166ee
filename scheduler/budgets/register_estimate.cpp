#include "scheduler/budgets/register_estimate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

// Registers per thread, fitted as the header says: by random descent on the mean relative error.
// Kept words are fixed at one register each, which is what the lowering declares.
constexpr double kBase = 4.3;  ///< Thread and row coordinates.

/// Several rows per block: slot, lane and the bounds test of the row.
constexpr double kSeveralRows = 9.5;

constexpr double kNoVectors = -3.3;  ///< Scalar rows need no split of batch and lane.

/// Bounds of the whole vectors and of the peeled elements of an unaligned row: median of the
/// additional registers of 228 kernels of the suite on sm_90a with 1,023, 7,169 and 50,257 columns,
/// over the same schedules with 1,024, 7,168 and 50,256. A quarter takes 8 or more.
constexpr double kEdges = 4.0;

constexpr double kTwoSweeps = 6.8;  ///< Both running and chunk statistics are alive.

/// Per element of a chunk that both passes read: ptxas starts the second pass before the first has
/// ended. Fitted to 90 kernels of cross entropy and its relatives on sm_90a, which need a quarter
/// to half a register more.
constexpr double kSweptElement = 0.4;

constexpr double kSpecialFunctions = 4.0;

/// Per stage whose loops have a slow path: elements of a vector overlap, and the state before the
/// loop stays alive to its end. Fitted to 67 kernels of divergences on sm_90a, which take 8 to 14
/// more.
constexpr double kFastPath = 10.0;

constexpr double kAccumulatorWord = 1.9;  ///< With the other operand of its combination.

constexpr double kComputedValue = 1.1;

constexpr double kUniformLoad = 4.0;  ///< With its 64-bit address.

constexpr double kElementLane = 1.3;  ///< Address arithmetic of a load element by element.

constexpr double kBatchAtOnce = 2.4;  ///< Address and predicate of each unrolled batch.

constexpr double kLoadedWord = 0.6;  ///< Full tensors; a chunk is consumed while it arrives.

constexpr double kHeldWord = 1.1;  ///< Read from shared memory.

constexpr double kColumnWord = 1.0;  ///< Weights; ptxas loads them early.

constexpr double kCollectedWord = 1.0;  ///< An output vector before its store.

/// Per element of a full input narrower than a register, in rows that accumulate columns: ptxas
/// keeps it converted. Norm gradients on sm_90a with 8, 16 and 32 elements per thread took 9, 30
/// and 60 registers more than without it, f32 ones none.
constexpr double kConvertedElement = 0.95;

// Accumulators in shared memory: fitted to 635 kernels of norm and softmax gradients for sm_80,
// sm_89 and sm_90a, of 256 to 1024 threads with 1 to 16 batches, which they miss by 4 % in the
// median where the row is unrolled and by 8 % where it is a run-time loop; and to what 252 offered
// kernels spill.
/// Accumulators in shared memory, in an unrolled row: their address, and the current vector.
constexpr double kUnrolledShared = 11.2;

/// Values narrower than a register, some of which ptxas keeps converted.
constexpr double kKeptElementBesideShared = 0.4;

constexpr double kPrefetchedWord = 0.68;  ///< Further vectors, which may be loaded late.

/// In a run-time loop: its counter and the accumulators' address, further vectors of a chunk, and
/// each lane of rows of narrow elements and of wide ones.
constexpr double kLoopedShared = 7.3;

constexpr double kChunkWord = 0.61;

constexpr double kNarrowLane = 1.4;

constexpr double kWideLane = 2.7;

/// Several rows per iteration of a consumer group: addresses; prefetched elements of a row if a
/// thread has more than kShortShare; each word of a further row's values and statistics; and each
/// kept element narrower than a register, in addition to its packed words. Fitted to 440 gradients
/// with 2 and 4 rows on sm_90a.
constexpr double kUnrolledRows = 10.0;

constexpr double kUnrolledPrefetch = 0.5;

constexpr int64_t kShortShare = 16;

constexpr double kSideRowWord = 0.9;

constexpr double kSideElement = 0.25;

/// Batches whose loads are issued before the first is used.
int64_t count_batches_at_once(const SegmentFacts& facts, const Schedule& schedule) {
  if (!facts.has_reduction() || schedule.unroll == 1) return schedule.unroll;
  int64_t longest = 1;
  for (const BatchSpan& span : batch_spans(facts, schedule))
    longest = std::max(longest, span.end - span.begin);
  return std::min(schedule.unroll, longest);
}

class Model {
 public:
  Model(const SegmentFacts& facts, const Schedule& schedule, const AccessKinds& kinds)
      : facts_(facts),
        schedule_(schedule),
        kinds_(kinds),
        batches_(held_batches(facts, schedule)),
        batches_at_once_(count_batches_at_once(facts, schedule)),
        is_in_registers_(schedule.kept.empty() ? 0 : facts.fusion.values.size()),
        is_in_shared_(is_in_registers_.size()) {
    for (const KeptValue& kept : schedule.kept) {
      if (kept.residency == Residency::kRegister) is_in_registers_[kept.value] = 1;
      if (kept.residency == Residency::kShared) is_in_shared_[kept.value] = 1;
      if (kept.residency == Residency::kRegister)
        kept_words_ += batches_ * words_of(kept.value, schedule.vector_width) +
                       peeled_count(facts, schedule) * words_of(kept.value, 1);
    }
    kept_words_ += prefetched_words(facts, schedule);
    if (!facts.has_outer()) return;
    if (schedule.accumulators() == Residency::kShared) {
      accumulating_ = beside_shared();
      return;
    }
    kept_words_ += accumulator_words(facts, batches_ * schedule.vector_width);
    // The terms of pipelines cover that.
    if (std::holds_alternative<WarpSpecialisedParameters>(schedule.parameters)) return;
    if (schedule.rows_per_tile() > 0) return;  // A run-time loop converts elements as it uses them.
    for (const TensorAccess& access : facts.space.inputs) {
      if (!facts.is_full(access.value) || words_of(access.value, 2) == 2) continue;
      converted_ += kConvertedElement * static_cast<double>(batches_ * schedule.vector_width);
    }
  }

  /// Registers for accumulators of further batches, which ptxas may prefetch.
  double prefetched_registers() const {
    if (schedule_.accumulators() != Residency::kShared || !unrolls_batches(facts_, schedule_))
      return 0.0;
    return kPrefetchedWord *
           static_cast<double>(batch_words() * std::max<int64_t>(batches_ - 1, 0));
  }

  /// Batches that a thread holds, and of which the widest stage depends; 0 if it holds none.
  int64_t held() const { return kept_words_ > 0 ? batches_ : 0; }
  int64_t batches_at_once() const { return batches_at_once_; }

  /// Most words that a stage loads at once.
  int64_t widest_words(const StageList& list) const {
    int64_t widest = 0;
    for (const Stage& stage : list.stages) {
      int64_t words = 0;
      for (const ValueId value : stage.loads) {
        if (arrives_in_chunks(value))
          words += words_of(value, schedule_.vector_width) * batches_at_once_;
      }
      widest = std::max(widest, words);
    }
    return widest;
  }
  int64_t tile_registers(int64_t widest_words) const { return kept_words_ + widest_words; }

  /// Registers of the widest stage.
  double widest(const StageList& list) const {
    double widest = 0.0;
    for (const Stage& stage : list.stages) widest = std::max(widest, of_stage(stage));
    return widest;
  }
  double registers(const StageList& list, double widest) const {
    double registers =
        kBase + static_cast<double>(kept_words_) + converted_ + accumulating_ + widest;
    if (schedule_.rows_per_block > 1) registers += kSeveralRows;
    if (schedule_.rows_per_iteration() > 1) registers += of_unrolled_rows(list);
    if (schedule_.vector_width == 1) registers += kNoVectors;
    if (schedule_.row_access == RowAccess::kUnaligned && facts_.has_reduction())
      registers += kEdges;
    return registers;
  }

 private:
  [[nodiscard]] bool is_in_registers(ValueId value) const {
    return std::as_const(is_in_registers_)[value] != 0;
  }
  [[nodiscard]] bool is_in_shared(ValueId value) const {
    return std::as_const(is_in_shared_)[value] != 0;
  }

  /// True for values loaded from memory into registers chunk by chunk.
  bool arrives_in_chunks(ValueId value) const {
    return facts_.is_full(value) && !is_in_registers(value) && !is_in_shared(value);
  }

  int64_t words_of(ValueId value, int64_t elements) const {
    return register_words(elements, bytes_of(facts_.fusion.values[value].type));
  }

  /// Words of the accumulators of one of a thread's vectors.
  int64_t batch_words() const {
    return accumulator_column_bytes(facts_) * schedule_.vector_width / kRegisterBytes;
  }

  /// Registers that accumulators in shared memory need.
  double beside_shared() const {
    const auto width = static_cast<double>(schedule_.vector_width);
    if (!unrolls_batches(facts_, schedule_)) {
      const bool narrow = facts_.narrowest_tile_bytes < kRegisterBytes;
      return kLoopedShared +
             kChunkWord * static_cast<double>(batch_words() * (batches_at_once_ - 1)) +
             (narrow ? kNarrowLane : kWideLane) * width;
    }
    double converted = 0.0;
    for (const KeptValue& kept : schedule_.kept) {
      if (kept.residency == Residency::kRegister &&
          bytes_of(facts_.fusion.values[kept.value].type) < kRegisterBytes)
        converted += kKeptElementBesideShared * static_cast<double>(batches_) * width;
    }
    return kUnrolledShared + converted + prefetched_registers();
  }

  /// Registers of a consumer group for the rows of an iteration beyond the first.
  double of_unrolled_rows(const StageList& list) const {
    double row = 0.0;
    for (const KeptValue& kept : schedule_.kept) {
      if (kept.residency != Residency::kRegister || !facts_.space.dependence[kept.value].rows)
        continue;
      const int64_t elements = batches_ * schedule_.vector_width;
      const int64_t words = batches_ * words_of(kept.value, schedule_.vector_width);
      row += static_cast<double>(words);
      if (words < elements) row += kSideElement * static_cast<double>(elements);
    }
    int64_t words = 0;
    for (const TensorAccess& access : facts_.space.inputs) {
      // The next row's values are in flight while the current row's are in use.
      const Dependence dependence = facts_.space.dependence[access.value];
      if (dependence.rows && !dependence.columns) words += 2 * words_of(access.value, 1);
    }
    for (const Stage& stage : list.stages) {
      for (const ValueId value : stage.row_values) words += words_of(value, 1);
      for (const OpId reduction : stage.reductions) {
        for (const DType type : exchange_types(facts_.fusion, facts_.fusion.ops[reduction]))
          words += register_words(1, bytes_of(type));
      }
    }
    row += kSideRowWord * static_cast<double>(words);
    const int64_t ahead = std::max<int64_t>(batches_ * schedule_.vector_width - kShortShare, 0);
    return kUnrolledRows + kUnrolledPrefetch * static_cast<double>(ahead) +
           static_cast<double>(schedule_.rows_per_iteration() - 1) * row;
  }

  double of_stage(const Stage& stage) const {
    const auto at_once = static_cast<double>(batches_at_once_);
    double registers =
        kBatchAtOnce * at_once + kComputedValue * static_cast<double>(stage.computed.size());
    for (const ValueId value : stage.loads) registers += of_load(value, at_once);
    for (const size_t output : stage.outputs) {
      const DType type = compute_type(facts_.fusion.values[facts_.fusion.outputs[output]].type);
      registers += kCollectedWord *
                   static_cast<double>(register_words(schedule_.vector_width, bytes_of(type)));
    }
    bool two_passes = false;
    for (const OpId reduction : stage.reductions) {
      const Op& op = facts_.fusion.ops[reduction];
      two_passes = two_passes || takes_two_passes(op.kind);
      for (const DType type : exchange_types(facts_.fusion, op))
        registers += kAccumulatorWord * static_cast<double>(register_words(1, bytes_of(type)));
    }
    if (two_passes) {
      registers += kTwoSweeps;
      for (const ValueId value : stage.loads) {
        if (arrives_in_chunks(value))
          registers += kSweptElement * at_once * static_cast<double>(schedule_.vector_width);
      }
    }
    if (stage.special_functions == 0.0) return registers;
    registers += kSpecialFunctions;
    // Every function with a fast path is a special function.
    if (std::ranges::any_of(stage.computed,
                            [&](ValueId value) { return is_fast_path(facts_.fusion, value); }))
      registers += kFastPath;
    return registers;
  }

  double of_load(ValueId value, double at_once) const {
    if (is_in_registers(value)) return 0.0;
    const auto words = static_cast<double>(words_of(value, schedule_.vector_width));
    // Inputs in shared memory were copied there without passing through registers.
    if (is_in_shared(value)) return kHeldWord * words * at_once;
    const AccessKind kind = kinds_.of_input(facts_, value);
    if (kind == AccessKind::kUniform) return kUniformLoad;
    double registers = kind == AccessKind::kElement
                           ? kElementLane * static_cast<double>(schedule_.vector_width)
                           : 0.0;
    if (facts_.is_full(value)) return registers + kLoadedWord * words * at_once;
    // A row in registers is fully unrolled.
    const double batches = kept_words_ > 0 ? static_cast<double>(batches_) : at_once;
    return registers + kColumnWord * words * batches;
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const AccessKinds& kinds_;
  const int64_t batches_;
  const int64_t batches_at_once_;
  // By value, since stages load dozens of values of which as many are kept.
  IdMap<ValueId, uint8_t> is_in_registers_;
  IdMap<ValueId, uint8_t> is_in_shared_;
  int64_t kept_words_ = 0;
  double converted_ = 0.0;
  double accumulating_ = 0.0;
};

}  // namespace

int64_t estimate_registers(const SegmentFacts& facts, const Schedule& schedule,
                           const StageList& list) {
  const AccessKinds kinds(facts, schedule);
  return StageRegisters(facts, list, kinds).estimate(schedule).registers;
}

int64_t estimate_tile_registers(const SegmentFacts& facts, const Schedule& schedule,
                                const StageList& list) {
  const AccessKinds kinds(facts, schedule);
  return StageRegisters(facts, list, kinds).estimate(schedule).tile;
}

int64_t estimate_prefetch_registers(const SegmentFacts& facts, const Schedule& schedule) {
  const AccessKinds kinds(facts, schedule);
  return static_cast<int64_t>(Model(facts, schedule, kinds).prefetched_registers());
}

RegisterEstimate StageRegisters::estimate(const Schedule& schedule) {
  const Model model(facts_, schedule, kinds_);
  auto known = std::ranges::find_if(known_, [&](const Known& other) {
    return other.batches == model.held() && other.batches_at_once == model.batches_at_once() &&
           other.kept == schedule.kept;
  });
  if (known == known_.end()) {
    known_.push_back({.kept = schedule.kept,
                      .batches = model.held(),
                      .batches_at_once = model.batches_at_once(),
                      .widest = model.widest(list_),
                      .widest_words = model.widest_words(list_)});
    known = std::prev(known_.end());
  }
  return {.registers = static_cast<int64_t>(std::ceil(model.registers(list_, known->widest))),
          .tile = model.tile_registers(known->widest_words),
          .prefetched = static_cast<int64_t>(model.prefetched_registers())};
}

}  // namespace sinter
