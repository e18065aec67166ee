#include "scheduler/analysis/stages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include "fusion_ir/operand_walk.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/in_place.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/min_cut.h"

namespace sinter {
namespace {

double special_functions_of(const Fusion& fusion, ValueId value) {
  const auto* pointwise = fusion.def_as<PointwiseOp>(value);
  return pointwise == nullptr ? 0.0 : info_of(pointwise->fn).special_functions;
}

/// Collects what a stage needs, backwards from its results to the values that are available.
class Distribution {
 public:
  /// Which of a stage's parts are wanted.
  enum class Detail : uint8_t {
    kAll,
    kValues,  ///< What it loads, computes, reduces and stores, without what that costs.
  };
  Distribution(const SegmentFacts& facts, const std::vector<KeptValue>& kept,
               Detail detail = Detail::kAll)
      : facts_(facts),
        detail_(detail),
        unfused_uses_(facts.fusion.values.size(), -1),
        last_use_(facts.fusion.values.size()) {
    for (const KeptValue& value : kept) {
      if (is_kept(value)) kept_.insert(value.value);
    }
    for (const OpId id : facts.fusion.op_ids()) {
      const Op& op = facts.fusion.ops[id];
      if (is_reduction(op.kind) && !facts.is_after_rows(op.results.front())) inner_.push_back(id);
    }
  }

  StageList run() {
    StageList list = begin();
    for (int s = 0; s <= facts_.last_stage; ++s) fill_stage(list.stages[static_cast<size_t>(s)], s);
    return list;
  }

  StageList run_for_tiles() {
    StageList list = begin();
    const bool goes_again = needs_elements_again();
    for (int s = 0; s <= facts_.last_stage; ++s) {
      Stage& stage = list.stages[static_cast<size_t>(s)];
      Needed reduced = nothing_needed();
      add_reductions(stage, s, reduced);
      if (!goes_again && !stage.reductions.empty()) add_outer(stage, s, reduced);
      finish_stage(stage, s, reduced.take());
    }
    // Stages after the last reduction reduce nothing.
    while (!list.stages.empty() && list.stages.back().reductions.empty()) list.stages.pop_back();
    Stage apply;
    Needed applied = nothing_needed();
    for (int s = 0; s <= facts_.last_stage; ++s) {
      if (goes_again || s >= std::ssize(list.stages)) add_outer(apply, s, applied);
      add_outputs(apply, s, applied);
    }
    finish_stage(apply, facts_.last_stage, applied.take());
    list.tile_row_values = row_values_of(apply);
    list.stages.push_back(std::move(apply));
    return list;
  }

 private:
  const Fusion& fusion() const { return facts_.fusion; }

  /// The stages with their row values and totals.
  StageList begin() {
    for (const ValueId output : fusion().outputs) mark_used(output);
    StageList list;
    list.stages.resize(static_cast<size_t>(facts_.last_stage) + 1);
    place_row_values(list);
    place_totals(list);
    return list;
  }

  /// True if something has an element per column, accumulated or stored. Totals are then
  /// accumulated in the second pass, otherwise in the stage that reduces their elements.
  [[nodiscard]] bool needs_elements_again() const {
    const bool stores = std::ranges::any_of(fusion().outputs,
                                            [&](ValueId output) { return facts_.is_tile(output); });
    return stores || std::ranges::any_of(facts_.outer_reductions,
                                         [&](OpId id) { return !facts_.is_total(id); });
  }

  /// Row values from which the elements of a stage are computed, or which it stores for each
  /// element. Without those that are the same in all rows or read from memory.
  [[nodiscard]] std::vector<ValueId> row_values_of(const Stage& stage) const {
    std::set<ValueId> values;
    const auto add = [&](ValueId value) {
      while (!facts_.is_tile(value) && !facts_.is_read(value) && renames(value))
        value = fusion().def_of(value).operands[0];
      if (!facts_.is_tile(value) && facts_.space.dependence[value].rows) values.insert(value);
    };
    for (const ValueId value : stage.computed) {
      for (const ValueId operand : fusion().def_of(value).operands) add(operand);
    }
    for (const OpId outer : stage.outer) add(fusion().ops[outer].operands[0]);
    for (const size_t index : stage.outputs) {
      const ValueId output = fusion().outputs[index];
      add(output);
      // A store may round in place of the cast.
      if (!facts_.is_tile(output) && std::holds_alternative<CastOp>(fusion().def_of(output).kind))
        add(fusion().def_of(output).operands[0]);
    }
    return {values.begin(), values.end()};
  }

  /// True for ops whose result is their operand under other coordinates.
  [[nodiscard]] bool renames(ValueId value) const {
    const OpKind& kind = fusion().def_of(value).kind;
    return std::holds_alternative<BroadcastOp>(kind) || std::holds_alternative<PermuteOp>(kind) ||
           std::holds_alternative<ReshapeOp>(kind);
  }

  /// Marks what the outputs are computed from; the inputs behind a view are only addresses.
  void mark_used(ValueId from) {
    walk_operands(fusion(), from, [&](ValueId value) {
      if (used_[value] != 0) return false;
      used_[value] = 1;
      if (facts_.is_read(value) || facts_.is_contracted(value)) return false;
      const Op& op = fusion().def_of(value);
      if (!is_reduction(op.kind)) return true;
      // All results of a reduction become available together.
      for (const ValueId result : op.results) used_[result] = 1;
      return true;
    });
  }

  /// For gathered row values that depend on no reduction, and row values computed from them: the
  /// level of the first op that uses them; 0 if elements, outputs or totals need them from the
  /// start. A gather before the row would make a block wait for the index before it loads anything.
  /// Gathered memory is never overwritten (find_in_place).
  [[nodiscard]] std::map<ValueId, int> levels_of_gathered() const {
    std::map<ValueId, int> levels;
    for (const OpId id : fusion().op_ids()) {
      const Op& op = fusion().ops[id];
      const bool looks_up = std::holds_alternative<TakeOp>(op.kind);
      const bool follows = std::ranges::any_of(
          op.operands, [&](ValueId operand) { return levels.contains(operand); });
      const ValueId value = op.results.front();
      if ((looks_up || follows) && used_[value] != 0 && is_plain_row_value(value))
        levels[value] = std::numeric_limits<int>::max();
    }
    if (levels.empty()) return levels;
    const auto needed_at = [&](ValueId value, int level) {
      const auto found = levels.find(value);
      if (found != levels.end()) found->second = std::min(found->second, level);
    };
    for (const ValueId output : fusion().outputs) needed_at(output, facts_.level[output]);
    const auto level_that_needs = [&](const Op& op, ValueId result) {
      const auto found = levels.find(result);
      if (found != levels.end()) return found->second;
      return is_reduction(op.kind) || facts_.is_tile(result) ? 0 : facts_.level[result];
    };
    for (const OpId id : fusion().op_ids() | std::views::reverse) {
      const Op& op = fusion().ops[id];
      for (const ValueId result : op.results) {
        if (used_[result] == 0) continue;
        for (const ValueId operand : op.operands) needed_at(operand, level_that_needs(op, result));
      }
    }
    return levels;
  }

  /// True for a value with one element per row that depends on no reduction.
  [[nodiscard]] bool is_plain_row_value(ValueId value) const {
    return !facts_.is_tile(value) && facts_.level[value] == 0 && !facts_.is_after_rows(value) &&
           facts_.space.dependence[value].rows;
  }

  void place_row_values(StageList& list) {
    const std::map<ValueId, int> gathered = levels_of_gathered();
    for (const OpId id : fusion().op_ids()) {
      const Op& op = fusion().ops[id];
      if (is_reduction(op.kind)) continue;
      for (const ValueId value : op.results) {
        if (facts_.is_tile(value) || used_[value] == 0 || facts_.is_after_rows(value)) continue;
        const int level = facts_.level[value];
        if (const auto found = gathered.find(value); found != gathered.end() && found->second > 0) {
          SINTER_CHECK(found->second <= facts_.last_stage + 1, "{} is needed at level {} of {}",
                       value, found->second, facts_.last_stage + 1);
          list.stages[static_cast<size_t>(found->second) - 1].gathered.push_back(value);
          continue;
        }
        auto& target =
            level == 0 ? list.row_values : list.stages[static_cast<size_t>(level) - 1].row_values;
        target.push_back(value);
      }
    }
  }

  void place_totals(StageList& list) {
    for (const OpId id : facts_.outer_reductions) {
      if (facts_.outer_kind(id) != OuterReduction::kRowValues) continue;
      const int level = facts_.level[fusion().ops[id].operands[0]];
      auto& target = level == 0 ? list.totals : list.stages[static_cast<size_t>(level) - 1].totals;
      target.push_back(id);
    }
  }

  /// The values that a stage's results need, each once.
  class Needed {
   public:
    explicit Needed(size_t values) : has_(values) { values_.reserve(values); }
    /// True if the value was not in the set.
    bool insert(ValueId value) {
      if (has_[value] != 0) return false;
      has_[value] = 1;
      values_.push_back(value);
      return true;
    }
    /// The values in ascending order.
    [[nodiscard]] std::vector<ValueId> take() {
      std::ranges::sort(values_);
      return std::move(values_);
    }

   private:
    IdMap<ValueId, uint8_t> has_;
    std::vector<ValueId> values_;
  };
  [[nodiscard]] Needed nothing_needed() const { return Needed(fusion().values.size()); }

  void fill_stage(Stage& stage, int s) {
    Needed needed = nothing_needed();
    add_reductions(stage, s, needed);
    add_outer(stage, s, needed);
    add_outputs(stage, s, needed);
    for (const ValueId value : kept_) {
      if (facts_.level[value] == s) {
        stage.kept.push_back(value);
        collect(value, s, needed);
      }
    }
    finish_stage(stage, s, needed.take());
  }

  void add_reductions(Stage& stage, int s, Needed& needed) {
    for (const OpId id : inner_) {
      const Op& op = fusion().ops[id];
      if (facts_.level[op.results.front()] - 1 != s) continue;
      stage.reductions.push_back(id);
      accumulate(stage, op, s, needed);
    }
  }

  void add_outer(Stage& stage, int s, Needed& needed) {
    for (const OpId id : facts_.outer_reductions) {
      const Op& op = fusion().ops[id];
      if (facts_.level[op.operands[0]] != s || facts_.outer_kind(id) == OuterReduction::kRowValues)
        continue;
      stage.outer.push_back(id);
      accumulate(stage, op, s, needed);
    }
  }

  void accumulate(Stage& stage, const Op& op, int s, Needed& needed) {
    collect(op.operands[0], s, needed);
    const ReductionTraits& traits = traits_of(op.kind);
    stage.issue_slots += traits.accumulate_instructions;
    stage.special_functions += traits.accumulate_special_functions;
  }

  void add_outputs(Stage& stage, int s, Needed& needed) {
    for (size_t i = 0; i < fusion().outputs.size(); ++i) {
      const ValueId output = fusion().outputs[i];
      if (facts_.is_after_rows(output)) continue;
      if (facts_.space.output_coverage[i].columns && facts_.level[output] == s) {
        stage.outputs.push_back(i);
        collect(output, s, needed);
      }
    }
  }

  /// Loads and evaluates what the stage's results need.
  void finish_stage(Stage& stage, int s, const std::vector<ValueId>& needed) {
    stage.computed.reserve(needed.size());
    for (const ValueId value : needed) {
      if (available(value, s) || facts_.is_contracted(value)) continue;
      if (facts_.is_read(value)) {
        stage.loads.push_back(value);
      } else {
        stage.computed.push_back(value);
        stage.issue_slots += issue_slots_of(fusion(), value);
        stage.special_functions += special_functions_of(fusion(), value);
      }
    }
    if (detail_ == Detail::kValues) return;
    stage.fused_products = count_fused_products(stage);
    stage.live_values = peak_live(stage);
  }

  /// True for a value whose last instruction is an f32 multiplication. A logarithm is one: the
  /// logarithm to another base times a constant.
  [[nodiscard]] bool is_product(ValueId value) const {
    const auto* op = fusion().def_as<PointwiseOp>(value);
    return op != nullptr && (op->fn == PointwiseFn::kMul || op->fn == PointwiseFn::kLog) &&
           compute_type(fusion().values[value].type) == DType::kF32;
  }

  /// True for an op that adds one of its operands to another value.
  [[nodiscard]] bool adds(const OpKind& kind) const {
    if (const auto* op = std::get_if<PointwiseOp>(&kind))
      return op->fn == PointwiseFn::kAdd || op->fn == PointwiseFn::kSub;
    const auto* reduce = std::get_if<ReduceOp>(&kind);
    return reduce != nullptr && reduce->fn == ReduceFn::kSum;
  }

  /// Products of a stage that take no instruction of their own: every use adds them to another
  /// value, as a multiply-add. An addition fuses with one of its operands.
  [[nodiscard]] int64_t count_fused_products(const Stage& stage) {
    constexpr int64_t kTakesOne = -1;  // No product, or one that takes an instruction.
    IdMap<ValueId, int64_t>& uses = unfused_uses_;
    for (const ValueId value : stage.computed) uses[value] = is_product(value) ? 0 : kTakesOne;
    const auto for_each_user = [&](const auto& visit) {
      for (const ValueId value : stage.computed) visit(fusion().def_of(value));
      for (const OpId id : stage.reductions) visit(fusion().ops[id]);
      for (const OpId id : stage.outer) visit(fusion().ops[id]);
    };
    for_each_user([&](const Op& user) {
      const bool is_addition = adds(user.kind);
      for (const ValueId operand : user.operands) {
        if (uses[operand] != kTakesOne) uses[operand] = is_addition ? uses[operand] + 1 : kTakesOne;
      }
    });
    for (const size_t output : stage.outputs) uses[fusion().outputs[output]] = kTakesOne;
    for (const ValueId kept : stage.kept) uses[kept] = kTakesOne;
    for_each_user([&](const Op& user) {
      const auto product = std::ranges::find_if(
          user.operands, [&](ValueId operand) { return uses[operand] != kTakesOne; });
      if (product != user.operands.end()) --uses[*product];
    });
    int64_t fused = 0;
    for (const ValueId value : stage.computed) {
      fused += uses[value] == 0 ? 1 : 0;
      uses[value] = kTakesOne;
    }
    return fused;
  }

  /// True if an earlier stage keeps the value.
  [[nodiscard]] bool available(ValueId value, int s) const {
    return kept_.contains(value) && facts_.level[value] < s;
  }

  /// A chain of operands may be as long as memory allows, so the walk has an explicit stack.
  void collect(ValueId from, int s, Needed& needed) {
    open_.push_back(from);
    while (!open_.empty()) {
      const ValueId value = open_.back();
      open_.pop_back();
      if (!facts_.is_tile(value) || !needed.insert(value) || available(value, s) ||
          facts_.is_read(value) || facts_.is_contracted(value))
        continue;
      const Op& op = fusion().def_of(value);
      // A gather reads its operand at the index.
      const size_t first = std::holds_alternative<TakeOp>(op.kind) ? 1 : 0;
      const size_t last = first == 1 ? 2 : op.operands.size();
      for (size_t i = first; i < last; ++i) open_.push_back(op.operands[i]);
    }
  }

  /// Most values alive at once when the stage is evaluated in order. A value dies after its last
  /// use in the stage.
  [[nodiscard]] int64_t peak_live(const Stage& stage) {
    IdMap<ValueId, size_t>& last_use = last_use_;
    for (const ValueId value : stage.computed) last_use[value] = 0;
    for (size_t i = 0; i < stage.computed.size(); ++i) {
      for (const ValueId operand : fusion().def_of(stage.computed[i]).operands)
        last_use[operand] = i + 1;
    }
    for (const OpId id : stage.outer)
      last_use[fusion().ops[id].operands[0]] = stage.computed.size() + 1;
    for (const OpId id : stage.reductions)
      last_use[fusion().ops[id].operands[0]] = stage.computed.size() + 1;
    for (const size_t output : stage.outputs)
      last_use[fusion().outputs[output]] = stage.computed.size() + 1;
    std::vector<int64_t> ends(stage.computed.size() + 1);  // Values that die after each step.
    int64_t peak = 0;
    int64_t alive = 0;
    for (size_t i = 0; i < stage.computed.size(); ++i) {
      peak = std::max(peak, ++alive);
      const size_t last = last_use[stage.computed[i]];
      if (last <= stage.computed.size()) ++ends[std::max(last, i + 1)];
      alive -= ends[i + 1];
    }
    return peak;
  }

  const SegmentFacts& facts_;
  const Detail detail_;
  std::set<ValueId> kept_;
  std::vector<OpId> inner_;    ///< Inner reductions.
  std::vector<ValueId> open_;  ///< Stack of collect().
  IdMap<ValueId, uint8_t> used_;
  // Of the current stage, in tables that all stages share:
  IdMap<ValueId, int64_t> unfused_uses_;  ///< Unfused uses of its products; -1 for others.
  IdMap<ValueId, size_t> last_use_;       ///< Last use of each value it computes.
};

/// For every value, whether a stage reads elements of it to evaluate, reduce and store others.
IdMap<ValueId, uint8_t> elements_read(const SegmentFacts& facts, const Stage& stage) {
  IdMap<ValueId, uint8_t> read(facts.fusion.values.size());
  const auto add = [&](ValueId value) {
    if (facts.is_tile(value)) read[value] = 1;
  };
  for (const ValueId value : stage.computed) {
    for (const ValueId operand : facts.fusion.def_of(value).operands) add(operand);
  }
  for (const OpId outer : stage.outer) add(facts.fusion.ops[outer].operands[0]);
  for (const OpId reduction : stage.reductions) add(facts.fusion.ops[reduction].operands[0]);
  for (const size_t output : stage.outputs) add(facts.fusion.outputs[output]);
  return read;
}

}  // namespace

StageList distribute(const SegmentFacts& facts, const std::vector<KeptValue>& kept) {
  return Distribution(facts, kept).run();
}

StageList distribute_two_pass(const SegmentFacts& facts) {
  return Distribution(facts, {}).run_for_tiles();
}

std::vector<bool> needed_later(const SegmentFacts& facts, const std::vector<KeptValue>& kept) {
  std::vector<bool> needed(kept.size(), false);
  const StageList list = Distribution(facts, kept, Distribution::Detail::kValues).run();
  for (size_t s = 0; s < list.stages.size(); ++s) {
    const IdMap<ValueId, uint8_t> read = elements_read(facts, list.stages[s]);
    for (size_t i = 0; i < kept.size(); ++i) {
      const ValueId value = kept[i].value;
      if (read[value] == 0) continue;
      // If blocks walk over rows, later rows need the values that all rows share.
      const bool is_common = facts.has_outer() && !facts.space.dependence[value].rows;
      if (facts.level[value] < static_cast<int>(s) || is_common) needed[i] = true;
    }
  }
  return needed;
}

}  // namespace sinter
