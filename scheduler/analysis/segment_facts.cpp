#include "scheduler/analysis/segment_facts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <span>

#include "fusion_ir/match.h"
#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/in_place.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/min_cut.h"
#include "scheduler/analysis/stages.h"

namespace sinter {
namespace {

/// Capacities of the cut are sixteenths of a byte per element.
constexpr double kUnitsPerByte = 16.0;

// A conversion between storage and compute type is one instruction (SASS: PRMT, IMAD.U32 or F2FP).
constexpr double kCastIssueSlots = 1.0;
// A reciprocal of 1 or more, as in a sigmoid (CallForm::kOneOrMore; SASS: FMUL, MUFU, FMUL).
constexpr double kOneOrMoreIssueSlots = 3.0;

/// True for exp(x) + c with c >= 1.
bool is_one_or_more(const Fusion& fusion, ValueId value) {
  const auto operands = operands_of(fusion, value, PointwiseFn::kAdd);
  if (operands.empty()) return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto constant = splat_constant(fusion, operands[i]);
    const auto* power = fusion.def_as<PointwiseOp>(operands[1 - i]);
    if (constant && constant->real >= 1.0 && power != nullptr &&
        (power->fn == PointwiseFn::kExp || power->fn == PointwiseFn::kExp2))
      return true;
  }
  return false;
}

class Facts {
 public:
  explicit Facts(SegmentFacts facts) : facts_(std::move(facts)) {}

  SegmentFacts walk() {
    find_levels();
    count_bytes();
    return std::move(facts_);
  }
  SegmentFacts keep() {
    find_kept();
    return std::move(facts_);
  }

 private:
  const Fusion& fusion() const { return facts_.fusion; }

  void find_levels() {
    for (const OpId id : fusion().op_ids()) {
      const Op& op = fusion().ops[id];
      int level = 0;
      if (!facts_.is_read(op.results.front())) {
        for (const ValueId operand : op.operands) level = std::max(level, facts_.level[operand]);
      }
      const bool after_rows = facts_.is_after_rows(op.results.front());
      const bool outer =
          is_reduction(op.kind) && after_rows && !facts_.is_after_rows(op.operands.front());
      if (outer) {
        facts_.outer_reductions.push_back(id);
        // Row values are available as soon as the stage before has reduced.
        const bool of_rows = facts_.outer_kind(id) == OuterReduction::kRowValues;
        facts_.last_stage = std::max(facts_.last_stage, of_rows ? level - 1 : level);
      }
      if (after_rows) continue;
      if (is_reduction(op.kind)) {
        ++level;
        ++facts_.reduction_count;
      }
      for (const ValueId result : op.results) {
        facts_.level[result] = level;
        if (facts_.is_tile(result)) facts_.last_stage = std::max(facts_.last_stage, level);
      }
      if (is_reduction(op.kind)) facts_.last_stage = std::max(facts_.last_stage, level - 1);
    }
    // An output that covers the columns without varying along them is still stored per element.
    for (size_t i = 0; i < fusion().outputs.size(); ++i) {
      if (facts_.space.output_coverage[i].columns && !facts_.is_after_rows(fusion().outputs[i])) {
        facts_.last_stage = std::max(facts_.last_stage, facts_.level[fusion().outputs[i]]);
      }
    }
  }

  /// For each value that only one gather reads, the gather's result.
  [[nodiscard]] std::map<ValueId, ValueId> only_gathered() const {
    std::map<ValueId, ValueId> out;
    if (facts_.space.gathers.empty()) return out;
    IdMap<ValueId, int64_t> uses(fusion().values.size());
    for (const ValueId output : fusion().outputs) ++uses[output];
    for (const Op& op : fusion().ops) {
      for (const ValueId operand : op.operands) ++uses[operand];
    }
    for (const auto& [result, gather] : facts_.space.gathers) {
      if (uses[gather.access.value] == 1) out[gather.access.value] = result;
    }
    return out;
  }

  void count_bytes() {
    const auto bytes = [&](ValueId value) {
      return element_count(fusion().values[value].shape) * bytes_of(fusion().values[value].type);
    };
    // A slice reads only its own elements, and several slices of a tensor read at most all of it. A
    // broadcast view reads each element once.
    std::map<ValueId, int64_t> read;
    const auto count = [&](ValueId tensor, int64_t of_access) {
      int64_t& counted = read[tensor];
      counted += std::min(of_access, bytes(tensor) - counted);
    };
    const std::map<ValueId, ValueId> picked = only_gathered();
    for (const TensorAccess& access : facts_.space.inputs) {
      const auto only = picked.find(access.value);
      count(access.tensor, bytes(only == picked.end() ? access.value : only->second));
    }
    if (const auto& contraction = facts_.space.contraction) {
      for (const TensorAccess* operand : {&contraction->rows, &contraction->columns})
        count(operand->tensor, bytes(operand->value));
    }
    for (const auto& [tensor, counted] : read) facts_.bytes_read += counted;
    for (const ValueId output : fusion().outputs) facts_.bytes_written += bytes(output);

    facts_.widest_tile_bytes = 1;
    facts_.narrowest_tile_bytes = 8;
    const auto count_tile = [&](ValueId value) {
      const int64_t size = bytes_of(fusion().values[value].type);
      facts_.widest_tile_bytes = std::max(facts_.widest_tile_bytes, size);
      facts_.narrowest_tile_bytes = std::min(facts_.narrowest_tile_bytes, size);
    };
    bool any = false;
    for (const TensorAccess& access : facts_.space.inputs) {
      const Dependence dependence = facts_.space.dependence[access.value];
      if (!dependence.columns || (!dependence.rows && facts_.space.row_dimensions > 0)) continue;
      count_tile(access.value);
      any = true;
    }
    for (size_t i = 0; i < fusion().outputs.size(); ++i) {
      if (!facts_.space.output_coverage[i].columns) continue;
      count_tile(fusion().outputs[i]);
      any = true;
    }
    if (!any) facts_.widest_tile_bytes = facts_.narrowest_tile_bytes = 4;
  }

  /// Solves one cut per barrier and unites them. A value kept across barrier s must exist before it
  /// (level below s).
  void find_kept() {
    std::set<ValueId> kept;
    const std::vector<std::vector<ValueId>> crossing = find_crossing();
    for (int barrier = 1; barrier <= facts_.last_stage; ++barrier) {
      const std::vector<ValueId> cut = cut_at(barrier, crossing[static_cast<size_t>(barrier)]);
      kept.insert(cut.begin(), cut.end());
    }
    // A value kept for a later barrier may make a value of an earlier one unnecessary.
    std::vector<KeptValue> united;
    for (const ValueId value : kept) united.push_back({value, Residency::kRegister});
    const std::vector<bool> needed = needed_later(facts_, united);
    for (size_t i = 0; i < united.size(); ++i) {
      if (needed[i]) facts_.kept.push_back(united[i].value);
    }
    if (!facts_.has_outer()) keep_what_is_read_again();
    for (const ValueId value : facts_.kept) {
      facts_.kept_bytes_per_column += bytes_of(fusion().values[value].type);
    }
  }

  /// Removes values from the cut that a single stage reads, and those computed only from such
  /// values. Keeping them costs registers and saves no traffic. If no value is read again, the cut
  /// stays, so that its inputs are loaded before the barrier. Segments with outer reductions are
  /// excluded; they were not timed. Measurement: docs/experiments/constants_cost.md.
  void keep_what_is_read_again() {
    const IdMap<ValueId, NeedingStages> needing = find_needing_stages();
    // Ops are in topological order, so operands come first.
    IdMap<ValueId, uint8_t> comes_again(fusion().values.size());
    for (const OpId id : fusion().op_ids()) {
      const Op& op = fusion().ops[id];
      for (const ValueId result : op.results) {
        comes_again[result] = facts_.is_read(result)
                                  ? facts_.is_full(result) && needing[result].several
                                  : std::ranges::any_of(op.operands, [&](ValueId operand) {
                                      return comes_again[operand] != 0;
                                    });
      }
    }
    const auto is_read_once = [&](ValueId value) { return comes_again[value] == 0; };
    if (!std::ranges::all_of(facts_.kept, is_read_once)) std::erase_if(facts_.kept, is_read_once);
  }

  /// The stages that need a tile value if every stage computes all from what it reads.
  struct NeedingStages {
    int first = -1;        ///< One of them; -1: none.
    bool several = false;  ///< Another one needs it too.

    void add(const NeedingStages& others) {
      several |= others.several || (first >= 0 && others.first >= 0 && first != others.first);
      if (first < 0) first = others.first;
    }
  };

  /// As distribute() without kept values does, but with one walk for all stages.
  [[nodiscard]] IdMap<ValueId, NeedingStages> find_needing_stages() const {
    IdMap<ValueId, NeedingStages> out(fusion().values.size());
    const auto needed_by = [&](ValueId value, int stage) {
      if (facts_.is_tile(value)) out[value].add({.first = stage});
    };
    for (size_t i = 0; i < fusion().outputs.size(); ++i) {
      const ValueId output = fusion().outputs[i];
      if (facts_.space.output_coverage[i].columns && !facts_.is_after_rows(output))
        needed_by(output, facts_.level[output]);
    }
    for (const OpId id : fusion().op_ids() | std::views::reverse) {
      const Op& op = fusion().ops[id];
      const ValueId result = op.results.front();
      if (facts_.is_after_rows(result)) continue;
      if (is_reduction(op.kind)) {
        needed_by(op.operands[0], facts_.level[result] - 1);
        continue;
      }
      if (facts_.is_read(result)) continue;
      // A gather reads its operand at the index.
      const bool takes = std::holds_alternative<TakeOp>(op.kind);
      for (const ValueId operand : takes ? std::span(&op.operands[1], 1) : std::span(op.operands)) {
        if (facts_.is_tile(operand)) out[operand].add(out[result]);
      }
    }
    return out;
  }

  /// True for a value that varies along every dimension. A tensor with stride 0 along a dimension,
  /// such as a column vector, is read again from cache.
  [[nodiscard]] bool worth_keeping(ValueId value) const {
    if (!facts_.is_full(value)) return false;
    const TensorAccess* access = facts_.space.find_input(value);
    if (access == nullptr) return true;
    for (size_t i = 0; i < access->strides.size(); ++i) {
      if (access->strides[i] == 0 && facts_.space.dimensions[i].size > 1) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_early(ValueId value, int barrier) const {
    return facts_.is_tile(value) && facts_.level[value] < barrier;
  }
  /// Units of the cut per element: to keep a value, and to compute it from its operands.
  [[nodiscard]] int64_t units_to_keep(ValueId value) const {
    const int64_t bytes = worth_keeping(value) ? bytes_of(fusion().values[value].type) : 0;
    return std::lround(static_cast<double>(bytes) * kUnitsPerByte);
  }
  [[nodiscard]] int64_t units_to_compute(ValueId value) const {
    if (facts_.is_read(value) || facts_.is_contracted(value)) return FlowEdge::kUnlimited;
    return std::lround(issue_slots_of(fusion(), value) * kBytesPerIssueSlot * kUnitsPerByte);
  }

  /// For each barrier, the values available before it and needed after it, ascending.
  [[nodiscard]] std::vector<std::vector<ValueId>> find_crossing() const {
    std::vector<std::vector<ValueId>> out(static_cast<size_t>(facts_.last_stage) + 1);
    for (const OpId id : fusion().op_ids()) {
      const Op& op = fusion().ops[id];
      const ValueId result = op.results.front();
      if (facts_.is_read(result) || std::holds_alternative<TakeOp>(op.kind)) continue;
      // Outer reductions read their operand in the stage that computes it.
      if (facts_.is_after_rows(result)) continue;
      const bool reduces = is_reduction(op.kind);
      if (!reduces && !facts_.is_tile(result)) continue;
      // The operand of a late reduction may itself be early.
      const int needed = facts_.level[result] - (reduces ? 1 : 0);
      for (const ValueId operand : op.operands) {
        if (!facts_.is_tile(operand)) continue;
        for (int barrier = facts_.level[operand] + 1; barrier <= needed; ++barrier)
          out[static_cast<size_t>(barrier)].push_back(operand);
      }
    }
    for (std::vector<ValueId>& values : out) {
      std::ranges::sort(values);
      values.erase(std::ranges::unique(values).begin(), values.end());
    }
    return out;
  }

  /// A value in the network of a barrier's cut.
  struct CutVertex {
    ValueId value;
    uint32_t in = 0;  ///< Vertex of the value's computation; the vertex of its kept copy follows.
    int64_t units = FlowEdge::kUnlimited;  ///< Least units to recompute a crossing value from it.
  };

  /// Values to keep across a barrier: the minimum cut between inputs and the crossing values.
  /// Keeping all crossing values is a cut too, so the network stops at a value from which
  /// recomputing costs more than that; this value counts as read.
  [[nodiscard]] std::vector<ValueId> cut_at(int barrier,
                                            const std::vector<ValueId>& crossing) const {
    if (crossing.empty()) return {};
    constexpr uint32_t kSource = 0;
    constexpr uint32_t kSink = 1;
    uint32_t count = 2;
    std::vector<FlowEdge> edges;
    // By op; visited from the last to the first: operands come before what is computed from them.
    uint32_t last = 0;
    for (const ValueId value : crossing) last = std::max(last, fusion().values[value].def.index);
    std::vector<CutVertex> waiting(last + 1);
    const auto reach = [&](ValueId value, int64_t units) {
      CutVertex& vertex = waiting[fusion().values[value].def.index];
      if (!vertex.value.valid()) {
        vertex.value = value;
        vertex.in = count;
        count += 2;
      }
      vertex.units = std::min(vertex.units, units);
      return vertex.in;
    };
    int64_t most = 0;
    for (const ValueId value : crossing) {
      edges.push_back({reach(value, 0) + 1, kSink, FlowEdge::kUnlimited});
      most += units_to_keep(value);
    }
    std::vector<CutVertex> vertices;
    while (!waiting.empty()) {
      const CutVertex vertex = waiting.back();
      waiting.pop_back();
      if (!vertex.value.valid()) continue;
      vertices.push_back(vertex);
      const int64_t again = units_to_compute(vertex.value);
      const bool is_source = again == FlowEdge::kUnlimited || vertex.units + again > most;
      edges.push_back({vertex.in, vertex.in + 1, units_to_keep(vertex.value)});
      edges.push_back({kSource, vertex.in, is_source ? FlowEdge::kUnlimited : again});
      const Op& op = fusion().def_of(vertex.value);
      if (is_source || std::holds_alternative<TakeOp>(op.kind)) continue;
      for (const ValueId operand : op.operands) {
        if (is_early(operand, barrier))
          edges.push_back(
              {reach(operand, vertex.units + again) + 1, vertex.in, FlowEdge::kUnlimited});
      }
    }
    const std::vector<bool> near = minimum_cuts(count, edges, kSource, kSink).nearest_source;
    std::vector<ValueId> cut;
    for (const CutVertex& vertex : vertices) {
      if (worth_keeping(vertex.value) && near[vertex.in] && !near[vertex.in + 1])
        cut.push_back(vertex.value);
    }
    return cut;
  }

  SegmentFacts facts_;
};

}  // namespace

bool is_fast_path(const Fusion& fusion, ValueId value) {
  const auto* op = std::get_if<PointwiseOp>(&fusion.def_of(value).kind);
  return op != nullptr && has_fast_path_form(op->fn, compute_type(fusion.values[value].type));
}

double issue_slots_of(const OpKind& kind) {
  if (const auto* pointwise = std::get_if<PointwiseOp>(&kind))
    return info_of(pointwise->fn).issue_slots;
  return std::holds_alternative<CastOp>(kind) ? kCastIssueSlots : 0.0;
}

double issue_slots_of(const Fusion& fusion, ValueId value) {
  const Op& op = fusion.def_of(value);
  const auto* function = std::get_if<PointwiseOp>(&op.kind);
  const bool is_short = function != nullptr && function->fn == PointwiseFn::kReciprocal &&
                        compute_type(fusion.values[value].type) == DType::kF32 &&
                        is_one_or_more(fusion, op.operands.front());
  return is_short ? kOneOrMoreIssueSlots : issue_slots_of(op.kind);
}

double element_instructions(const OpKind& kind) { return std::max(1.0, issue_slots_of(kind)); }

bool SegmentFacts::reads_tensor(ValueId input) const {
  if (space.contraction &&
      (space.contraction->rows.tensor == input || space.contraction->columns.tensor == input))
    return true;
  return std::ranges::any_of(space.inputs,
                             [&](const TensorAccess& access) { return access.tensor == input; });
}

tl::expected<SegmentFacts, Rejection> analyse_walk(Fusion fusion) {
  auto space = iteration_space(fusion);
  if (!space) return tl::make_unexpected(space.error());
  SegmentFacts facts;
  facts.fusion = std::move(fusion);
  facts.space = std::move(*space);
  facts = Facts(std::move(facts)).walk();
  if (facts.fusion.layouts.empty()) return facts;
  auto in_place = find_in_place(facts);
  if (!in_place) return tl::make_unexpected(in_place.error());
  facts.in_place = std::move(*in_place);
  return facts;
}

SegmentFacts find_kept_values(SegmentFacts walk) { return Facts(std::move(walk)).keep(); }

tl::expected<SegmentFacts, Rejection> analyse(Fusion fusion) {
  auto walk = analyse_walk(std::move(fusion));
  if (!walk) return walk;
  return find_kept_values(std::move(*walk));
}

std::optional<Rejection> check_arguments(const SegmentFacts& facts) {
  if (facts.list) return std::nullopt;
  // Most segments have few tensors even if each access were of another one.
  const int64_t operands = facts.space.contraction ? 2 : 0;
  if (std::ssize(facts.fusion.outputs) + std::ssize(facts.space.inputs) + operands <=
      kMostArgumentTensors)
    return std::nullopt;
  std::set<ValueId> tensors(facts.fusion.outputs.begin(), facts.fusion.outputs.end());
  for (const TensorAccess& access : facts.space.inputs) tensors.insert(access.tensor);
  if (const auto& contraction = facts.space.contraction)
    tensors.insert({contraction->rows.tensor, contraction->columns.tensor});
  if (std::ssize(tensors) <= kMostArgumentTensors) return std::nullopt;
  return Rejection{.subject = "segment",
                   .rule = std::string(kArgumentsRule),
                   .value = static_cast<double>(tensors.size()),
                   .limit = static_cast<double>(kMostArgumentTensors),
                   .unit = "tensors",
                   .at = *std::next(tensors.begin(), kMostArgumentTensors),
                   .remedy = "none needed: its parts run one after the other"};
}

}  // namespace sinter
