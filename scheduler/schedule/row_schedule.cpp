#include "scheduler/schedule/row_schedule.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "fusion_ir/integers.h"
#include "fusion_ir/operand_walk.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"

namespace sinter {
namespace {

/// True if the rows of both accesses start equally far from a vector boundary, in elements.
bool same_shift(const SegmentFacts& facts, const TensorAccess& access,
                const TensorAccess& reference, int64_t width) {
  if ((access.offset - reference.offset) % width != 0) return false;
  for (size_t i = 0; i < facts.space.row_dimensions; ++i) {
    if ((access.strides[i] - reference.strides[i]) % width != 0) return false;
  }
  return true;
}

/// True if the access walks all columns contiguously, with stride 1.
bool collapses(const IterationSpace& space, const TensorAccess& access) {
  if (space.dimensions.size() == space.row_dimensions) return true;
  return access.strides.back() == 1 && has_one_stride(space, access);
}

/// True if the innermost column dimension has stride 1 and no vector straddles two of its runs.
bool contiguous(const IterationSpace& space, const TensorAccess& access, int64_t width,
                bool aligned) {
  if (space.dimensions.size() == space.row_dimensions || access.strides.back() != 1) return false;
  return collapses(space, access) || (aligned && space.dimensions.back().size % width == 0);
}

int64_t access_bytes(const TensorAccess& access, int64_t width) {
  return std::min(kMostAccessBytes, width * access.element_bytes);
}

bool aligned_everywhere(const SegmentFacts& facts, const TensorAccess& access, int64_t width) {
  const int64_t elements = access_bytes(access, width) / access.element_bytes;
  if (access.offset % elements != 0) return false;
  // Every stride beyond the innermost moves whole vectors. Columns that collapse have no such
  // stride.
  const auto& space = facts.space;
  const size_t jumps =
      collapses(space, access) ? space.row_dimensions : space.dimensions.size() - 1;
  for (size_t i = 0; i < jumps; ++i) {
    if (access.strides[i] % elements != 0) return false;
  }
  return true;
}

}  // namespace

Rejection rejected(const Schedule& schedule, std::string rule, int64_t value, int64_t limit,
                   std::string unit, std::string remedy) {
  return {.subject = schedule.family,
          .rule = std::move(rule),
          .value = static_cast<double>(value),
          .limit = static_cast<double>(limit),
          .unit = std::move(unit),
          .remedy = std::move(remedy)};
}

bool has_one_stride(const IterationSpace& space, const TensorAccess& access) {
  int64_t expected = access.strides.empty() ? 0 : access.strides.back();
  for (size_t i = space.dimensions.size(); i-- > space.row_dimensions;) {
    if (access.strides[i] != expected) return false;
    expected *= space.dimensions[i].size;
  }
  return true;
}

const TensorAccess* shift_reference(const SegmentFacts& facts) {
  const auto suits = [&](const TensorAccess& access) {
    return facts.is_full(access.value) && contiguous(facts.space, access, 1, false) &&
           access.alignment >= kMostAccessBytes;
  };
  for (const TensorAccess& access : facts.space.inputs) {
    if (suits(access)) return &access;
  }
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (facts.space.output_coverage[i].columns && suits(facts.space.outputs[i]))
      return &facts.space.outputs[i];
  }
  return nullptr;
}

AccessKind access_kind(const SegmentFacts& facts, const TensorAccess& access,
                       const Schedule& schedule) {
  const auto& space = facts.space;
  const int64_t width = schedule.vector_width;
  const bool shifted = schedule.row_access == RowAccess::kUnaligned;
  const size_t first = space.row_dimensions;
  const bool varies = std::any_of(access.strides.begin() + static_cast<ptrdiff_t>(first),
                                  access.strides.end(), [](int64_t stride) { return stride != 0; });
  if (!varies) return AccessKind::kUniform;
  if (width == 1) return AccessKind::kElement;
  if (access.strides.back() == 0) {
    const bool uniform = !shifted && space.dimensions.back().size % width == 0;
    return uniform ? AccessKind::kUniform : AccessKind::kElement;
  }
  if (!contiguous(space, access, width, !shifted)) return AccessKind::kElement;
  if (access.alignment < access_bytes(access, width)) return AccessKind::kElement;
  if (shifted) {
    const TensorAccess* reference = shift_reference(facts);
    return reference != nullptr && same_shift(facts, access, *reference, width)
               ? AccessKind::kVector
               : AccessKind::kElement;
  }
  return aligned_everywhere(facts, access, width) ? AccessKind::kVector : AccessKind::kElement;
}

bool copies_async(const SegmentFacts& facts, const Schedule& schedule, ValueId value) {
  const TensorAccess& access = *facts.space.find_input(value);
  const int64_t bytes = schedule.vector_width * bytes_of(facts.fusion.values[value].type);
  return access_kind(facts, access, schedule) == AccessKind::kVector && bytes >= kLeastAsyncBytes;
}

bool stores_in_pairs(const SegmentFacts& facts, const Schedule& schedule, size_t output) {
  constexpr int64_t kElementBytes = 4;
  const TensorAccess& access = facts.space.outputs[output];
  const Dependence covers = facts.space.output_coverage[output];
  const bool in_place =
      std::ranges::find(facts.in_place, output, &InPlace::output) != facts.in_place.end();
  return !in_place && bytes_of(facts.fusion.values[access.tensor].type) == kElementBytes &&
         schedule.vector_width * kElementBytes > kMostAccessBytes &&
         schedule.pipeline_stages() == 0 && schedule.rows_per_block == 1 &&
         schedule.threads_per_row % kWarp == 0 &&
         (covers.rows || facts.space.row_dimensions == 0) && covers.columns &&
         access_kind(facts, access, schedule) == AccessKind::kVector;
}

int64_t offered_rows(const SegmentFacts& facts, int64_t block_threads, int64_t threads_per_row) {
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(facts.space.rows, 1));
  const int64_t most = std::max<int64_t>(block_threads / threads_per_row, 1);
  const int64_t of_warp = std::max<int64_t>(kWarp / threads_per_row, 1);
  return std::min(std::max(static_cast<int64_t>(std::bit_ceil(rows)), of_warp), most);
}

int64_t existing_rows(const SegmentFacts& facts, const Schedule& schedule) {
  return std::min(schedule.rows_per_block, facts.space.rows);
}

std::optional<Rejection> check_vector_width(const Schedule& schedule) {
  constexpr int64_t kWidest = 16;  // 16 one-byte elements fill one access.
  const int64_t width = schedule.vector_width;
  if (is_power_of_two(width) && width <= kWidest) return std::nullopt;
  return rejected(schedule, "the vector width is not a power of two up to 16", width, kWidest,
                  "elements", "use 1, 2, 4, 8 or 16");
}

std::optional<Rejection> refuse_unaligned_access(const Schedule& schedule) {
  if (schedule.row_access != RowAccess::kUnaligned) return std::nullopt;
  return rejected(schedule,
                  "vectors begin at the first element, wherever that lies between the boundaries "
                  "of vectors",
                  0, 0, "", "use row_access aligned");
}

std::vector<ValueId> prefetched_inputs(const SegmentFacts& facts, const Schedule& schedule) {
  std::vector<ValueId> inputs;
  if (schedule.prefetch_rows() == 0) return inputs;
  if (schedule.rows_per_tile() > 0) {
    const StageList list = distribute_two_pass(facts);
    for (const ValueId value : list.stages.back().loads) {
      if (facts.is_full(value)) inputs.push_back(value);
    }
    return inputs;
  }
  for (const KeptValue& kept : schedule.kept) {
    if (kept.residency == Residency::kRegister && facts.is_read(kept.value) &&
        facts.space.dependence[kept.value].rows)
      inputs.push_back(kept.value);
  }
  return inputs;
}

int64_t prefetched_words(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.prefetch_rows() == 0) return 0;
  const auto words_of = [&](ValueId value, int64_t elements) {
    return register_words(elements, bytes_of(facts.fusion.values[value].type));
  };
  int64_t words = 0;
  for (const ValueId value : prefetched_inputs(facts, schedule))
    words += held_batches(facts, schedule) * words_of(value, schedule.vector_width) +
             peeled_count(facts, schedule) * words_of(value, 1);
  if (schedule.rows_per_tile() > 0) return words;  // Row values are in shared memory by then.
  for (const TensorAccess& access : facts.space.inputs) {
    const Dependence dependence = facts.space.dependence[access.value];
    if (dependence.rows && !dependence.columns) words += words_of(access.value, 1);
  }
  return words;
}

std::optional<Rejection> check_row_access(const SegmentFacts& facts, const Schedule& schedule) {
  if (auto rejection = check_vector_width(schedule)) return rejection;
  const int64_t width = schedule.vector_width;
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  switch (schedule.row_access) {
    case RowAccess::kScalar:
      if (width != 1)
        return broken("scalar row access takes one element", width, 1, "elements",
                      "use vector_width 1");
      return std::nullopt;
    case RowAccess::kAligned:
      if (facts.space.columns % width != 0) {
        return broken("the row is not a multiple of the vector", facts.space.columns % width, 0,
                      "elements left over", "use row_access unaligned, or a narrower vector");
      }
      return std::nullopt;
    case RowAccess::kUnaligned:
      if (shift_reference(facts) == nullptr) {
        return broken(
            "no full tensor has contiguous rows on a 16-byte aligned base to shift against", 0, 1,
            "tensors", "use row_access scalar, or promise 16-byte alignment");
      }
      return std::nullopt;
  }
  unreachable();
}

int64_t most_peeled_elements(const Schedule& schedule) {
  return schedule.row_access == RowAccess::kUnaligned ? 2 * (schedule.vector_width - 1) : 0;
}

int64_t peeled_count(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t elements = std::min(most_peeled_elements(schedule), facts.space.columns);
  return divided_up(elements, schedule.threads_per_row);
}

int64_t columns_per_block(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.row_access != RowAccess::kUnaligned)
    return facts.space.columns / schedule.cluster_size();
  const int64_t vectors = facts.space.columns / schedule.vector_width;
  return divided_up(vectors, schedule.cluster_size()) * schedule.vector_width;
}

int64_t columns_of_last_block(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t others = (schedule.cluster_size() - 1) * columns_per_block(facts, schedule);
  if (schedule.row_access != RowAccess::kUnaligned) return facts.space.columns - others;
  const int64_t width = schedule.vector_width;
  const int64_t least = std::max<int64_t>(facts.space.columns - (width - 1), 0) / width * width;
  return least - others;
}

int64_t batch_count(const SegmentFacts& facts, const Schedule& schedule) {
  return divided_up(columns_per_block(facts, schedule),
                    schedule.threads_per_row * schedule.vector_width);
}

int64_t group_count(const SegmentFacts& facts, const Schedule& schedule) {
  return batch_count(facts, schedule) + peeled_count(facts, schedule);
}

int64_t elements_per_thread(const SegmentFacts& facts, const Schedule& schedule) {
  return batch_count(facts, schedule) * schedule.vector_width + peeled_count(facts, schedule);
}

boost::container::static_vector<BatchSpan, 2> batch_spans(const SegmentFacts& facts,
                                                          const Schedule& schedule) {
  boost::container::static_vector<BatchSpan, 2> spans;
  const int64_t count = batch_count(facts, schedule);
  // Batches that end inside the row wherever it starts, in every block of a cluster.
  const int64_t full = std::max<int64_t>(columns_of_last_block(facts, schedule), 0) /
                       (schedule.threads_per_row * schedule.vector_width);
  if (full > 0) spans.push_back({0, full, Predication::kNone});
  if (full < count) spans.push_back({full, count, Predication::kVector});
  return spans;
}

int64_t chunk_count(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t chunks = divided_up(batch_count(facts, schedule), schedule.unroll);
  if (peeled_count(facts, schedule) == 0) return chunks;
  const bool alone = chunk_runs(facts, schedule, schedule.unroll).back().batches == 0;
  return chunks + (alone ? 1 : 0);
}

std::vector<ChunkRun> chunk_runs(const SegmentFacts& facts, const Schedule& schedule,
                                 int64_t unroll) {
  const auto spans = batch_spans(facts, schedule);
  std::vector<ChunkRun> runs;
  const auto add = [&](int64_t begin, int64_t end, int64_t batches, Predication predication) {
    if (begin < end) runs.push_back({begin, end, batches, predication});
  };
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto [begin, end, predication] = spans[i];
    if (accumulates_columns(facts)) {
      const int64_t chunk = std::min(unroll, end - begin);
      const int64_t whole = begin + (end - begin) / chunk * chunk;
      add(begin, whole, chunk, predication);
      add(whole, end, 1, predication);
      continue;
    }
    // The rest that fills no chunk forms one chunk, and a predicated end joins it, so that its
    // loads are in flight together. Not with column accumulators, which would take the registers
    // that this needs.
    const int64_t whole = begin + (end - begin) / unroll * unroll;
    add(begin, whole, unroll, predication);
    const bool ends_next = i + 2 == spans.size() && predication == Predication::kNone;
    const bool joins = ends_next && spans[i + 1].end - whole <= unroll;
    if (joins) ++i;
    add(whole, spans[i].end, spans[i].end - whole, spans[i].predication);
  }
  if (peeled_count(facts, schedule) > 0) {
    // A loop over chunks cannot contain work that is done once.
    const int64_t end = batch_count(facts, schedule);
    if (runs.empty() || !runs.back().is_one()) runs.push_back({end, end, 0, Predication::kVector});
    runs.back().edges = true;
  }
  return runs;
}

int64_t held_batches(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t batches = batch_count(facts, schedule);
  if (schedule.rows_per_tile() == 0) return batches;
  int64_t longest = 0;
  for (const BatchSpan& span : batch_spans(facts, schedule))
    longest = std::max(longest, span.end - span.begin);
  return std::min(schedule.unroll, longest);
}

DType travel_type(DType type) { return type == DType::kBool ? DType::kI32 : type; }

boost::container::static_vector<DType, kMostComponents> exchange_types(const Fusion& fusion,
                                                                       const Op& reduction) {
  const DType type = compute_type(fusion.values[reduction.operands[0]].type);
  const ReductionTraits& traits = traits_of(reduction.kind);
  boost::container::static_vector<DType, kMostComponents> types(traits.components.size(), type);
  if (!traits.is_search()) return types;
  const int axis = reduced_axes(reduction.kind).front();
  const Extent& extent = fusion.values[reduction.operands[0]].shape[static_cast<size_t>(axis)];
  // The largest i32 is no valid index, and lanes beyond the last element keep counting.
  const bool is_narrow =
      extent.is_constant() && extent.constant() <= std::numeric_limits<int32_t>::max() / 2;
  for (size_t i = 0; i < types.size(); ++i) {
    if (traits.components[i].is_index) types[i] = is_narrow ? DType::kI32 : DType::kI64;
  }
  return types;
}

int64_t sent_together(std::span<const DType> types) {
  constexpr size_t kMostElements = 4;  // Of 4 bytes.
  const auto is_word = [&](DType type) {
    return travel_type(type) == types.front() && bytes_of(type) == kRegisterBytes;
  };
  if (types.empty() || types.size() > kMostElements || !std::ranges::all_of(types, is_word))
    return 1;
  return static_cast<int64_t>(std::bit_ceil(types.size()));
}

int64_t stores_of_tuple(const Fusion& fusion, const Op& reduction) {
  const auto types = exchange_types(fusion, reduction);
  return sent_together({types.data(), types.size()}) > 1 ? 1 : static_cast<int64_t>(types.size());
}

bool keeps_in_registers(const Schedule& schedule) {
  return std::ranges::any_of(
      schedule.kept, [](const KeptValue& kept) { return kept.residency == Residency::kRegister; });
}

bool unrolls_batches(const SegmentFacts& facts, const Schedule& schedule) {
  const bool holds_row = facts.has_outer() && schedule.rows_per_tile() == 0;
  // The result of a contraction is in registers.
  return (holds_row && schedule.accumulators() == Residency::kRegister) ||
         keeps_in_registers(schedule) || facts.space.contraction.has_value();
}

bool takes_two_passes(const OpKind& kind) {
  const std::optional<Reduction> reduction = reduction_of(kind);
  return reduction && traits_of(*reduction).takes_two_passes;
}

namespace {

/// What it takes to evaluate a value a second time.
struct SecondLook {
  bool reads_row = false;     ///< Row-wide inputs, from memory or a pipeline.
  bool reads_shared = false;  ///< Values kept in shared memory, or inputs along the columns.
  bool converts = false;      ///< Kept elements in registers need a conversion to the compute type.
};

/// Adds to `out` what it takes to evaluate `value`, an operand of a reduction of stage `s`, again.
/// `seen` marks values that were visited.
void look_beneath(const SegmentFacts& facts, const Schedule& schedule, ValueId value, size_t s,
                  IdMap<ValueId, uint8_t>& seen, SecondLook& out) {
  walk_operands(facts.fusion, value, [&](ValueId operand) {
    if (!facts.is_tile(operand) || std::exchange(seen[operand], 1) != 0) return false;
    const DType type = facts.fusion.values[operand].type;
    const auto kept = std::ranges::find(schedule.kept, operand, &KeptValue::value);
    const bool stays = kept != schedule.kept.end() && is_kept(*kept);
    const int level = facts.is_read(operand) ? -1 : facts.level[operand];
    if (stays && kept->residency == Residency::kRegister && level <= static_cast<int>(s)) {
      out.converts |= compute_type(type) != type;
      return false;
    }
    if (stays && level < static_cast<int>(s)) {
      out.reads_shared = true;
      return false;
    }
    if (facts.is_read(operand)) {
      (facts.is_full(operand) ? out.reads_row : out.reads_shared) = true;
      return false;
    }
    return true;
  });
}

}  // namespace

bool passes_over_whole_row(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                           size_t s) {
  SecondLook look;
  IdMap<ValueId, uint8_t> seen;
  bool has_any = false;
  for (const OpId id : stage.reductions) {
    const Op& op = facts.fusion.ops[id];
    if (!takes_two_passes(op.kind)) continue;
    has_any = true;
    look_beneath(facts, schedule, op.operands[0], s, seen, look);
  }
  if (!has_any || look.reads_row) return false;
  const int64_t elements = batch_count(facts, schedule) * schedule.vector_width;
  return look.reads_shared || !look.converts || elements <= kMostConvertedTwice;
}

bool syncs_between_passes(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                          size_t s) {
  const auto is_welford = [&](OpId id) {
    return traits_of(facts.fusion.ops[id].kind).tuple == TupleKind::kMoments;
  };
  // Synchronising the blocks of a cluster takes longer than merging.
  return schedule.threads_per_row > 1 && schedule.cluster_size() == 1 &&
         schedule.pipeline_stages() == 0 && facts.space.columns > 0 &&
         passes_over_whole_row(facts, schedule, stage, s) &&
         (pivot_bears_outlier(facts, schedule) ||
          std::ranges::none_of(stage.reductions, is_welford));
}

int64_t pivot_threads(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t vectors = columns_of_last_block(facts, schedule) / schedule.vector_width;
  // If a row may have no whole vector, the first thread has a peeled element.
  const int64_t threads = std::clamp<int64_t>(vectors, 1, schedule.threads_per_row);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(threads)));
}

bool pivot_bears_outlier(const SegmentFacts& facts, const Schedule& schedule) {
  // Suppose that of n elements all are 0 but one, x, and that x is one of the t elements whose
  // mean, x / t, is the pivot. The squares from the pivot sum to x^2 (n / t^2 + 1 - 2 / t), those
  // from the mean to m2 = x^2 (1 - 1 / n). Sums are of quarters of squares: they stay below m2 up
  // to n = 3 t^2.
  constexpr int64_t kMostElements = 3;  // Times the square of the threads.
  const int64_t threads = pivot_threads(facts, schedule);
  return facts.space.columns <= kMostElements * threads * threads;
}

int64_t rows_at_once(const Schedule& schedule) {
  return partial_rows(schedule) * schedule.rows_per_block;
}

int64_t balanced_blocks(int64_t items, int64_t most) {
  if (items <= 0 || most <= 1) return 1;
  const int64_t rounds = (items + most - 1) / most;
  return (items + rounds - 1) / rounds;
}

StageList stages_of(const SegmentFacts& facts, const Schedule& schedule) {
  return schedule.rows_per_tile() > 0 ? distribute_two_pass(facts)
                                      : distribute(facts, schedule.kept);
}

}  // namespace sinter
