#include "scheduler/segmentation/contraction_ways.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "fusion_ir/match.h"
#include "fusion_ir/passes/expand_contractions.h"
#include "fusion_ir/passes/recognize_contractions.h"
#include "fusion_ir/passes/remove_dead_values.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/segmentation/joins.h"
#include "scheduler/segmentation/segment_scheduler.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {
namespace {

/// Most elements of a contraction's space, so that counts of them, and of bytes of f32, fit 63
/// bits. What kernels walk is less (iteration_space.h).
constexpr int64_t kMostContracted = int64_t{1} << 60;

bool is_contraction(const Op& op) { return std::holds_alternative<ContractOp>(op.kind); }

/// The sizes of a contraction's space.
std::vector<int64_t> sizes_of(const Fusion& fusion, const Op& op) {
  std::vector<int64_t> sizes;
  for (const Extent& extent :
       space_of(std::get<ContractOp>(op.kind), fusion.values[op.operands[0]].shape,
                fusion.values[op.operands[1]].shape))
    sizes.push_back(extent.constant());
  return sizes;
}

std::optional<Error> check_size(const Fusion& fusion, const Op& op) {
  // An empty axis counts as one: other values of the graph have the axes beside it.
  double elements = 1.0;
  for (const int64_t size : sizes_of(fusion, op))
    elements *= static_cast<double>(std::max<int64_t>(size, 1));
  if (elements <= static_cast<double>(kMostContracted)) return std::nullopt;
  return Error{.kind = ErrorKind::kUnsupported,
               .message = fmt::format("{} of {} and {} combines {:.3g} pairs of elements",
                                      text_of(op.kind), op.operands[0], op.operands[1], elements),
               .remedy = "contract smaller tensors",
               .values = {op.results.front()},
               .limit = kMostContracted};
}

/// The families that may run a contraction.
FamilySet contracting_families(const PlanOptions& options) {
  FamilySet out;
  const SchedulePin& pin = options.pin;
  for (const Family& family : options.families) {
    if (!family.contracts || options.contracting == Contracting::kElements ||
        (pin.family && *pin.family != family.name) ||
        (pin.schedule && pin.schedule->family != family.name))
      continue;
    out.push_back(family);
  }
  return out;
}

/// Both ways of computing a contraction that is a graph of its own.
struct Ways {
  double contracted_us = 0.0;           ///< Predicted; only without a refusal.
  std::optional<double> expanded_us{};  ///< Predicted for one kernel; no value: not known.
  std::optional<Rejection> refusal{};   ///< Why no family contracts.
  [[nodiscard]] bool contracts() const {
    return !refusal && (!expanded_us || contracted_us <= *expanded_us);
  }
};

/// The contraction by the best kernel of these families.
void contract(Ways& ways, const FamilySet& families, const SegmentFacts& alone,
              const DeviceLimits& limits) {
  std::optional<double> best;
  std::optional<Rejection> first;
  for (const Family& family : families) {
    const Proposal proposal = family.propose(alone, limits);
    for (const ProposedSchedule& candidate : proposal.candidates)
      best = std::min(best.value_or(candidate.predicted.total_us), candidate.predicted.total_us);
    if (!first && !proposal.rejections.empty()) first = proposal.rejections.front();
  }
  if (best) {
    ways.contracted_us = *best;
  } else {
    ways.refusal = first.value_or(rejected_at("families", "no family offers a kernel", {}, ""));
  }
}

/// Lower bound of the time that a contraction takes element by element, where it has several rows
/// and columns. All columns of a row follow each other, so that L1 has what a row reads of its
/// operand. The operand of the columns is read for every row: from L1 if all of it fits, else from
/// L2, or from memory. The model of reductions counts an operand once, however many rows read it.
/// (M, N, K) = (2, 14336, 4096) in bf16 took 85 us on an H100 instead of 45.
double least_expanded(const SegmentFacts& contracted, const DeviceLimits& limits) {
  const IterationSpace& space = contracted.space;
  const ContractedSpace& contraction = *space.contraction;
  if (space.rows <= 1 || space.columns <= 1) return 0.0;
  const auto rows = static_cast<double>(space.rows);
  const auto columns = static_cast<double>(space.columns);
  const auto depth = static_cast<double>(contraction.contracted());
  const auto l1_bytes = static_cast<double>(unified_l1_bytes(limits));
  const auto sms = static_cast<double>(limits.sm_count);
  const double of_row = depth * static_cast<double>(contraction.rows.element_bytes);
  const double of_columns =
      columns * depth * static_cast<double>(contraction.columns.element_bytes);
  double us = 0.0;
  if (of_row > l1_bytes) us += l2_read_time(limits, rows * columns * of_row, sms);
  if (of_columns > static_cast<double>(limits.l2_bytes)) {
    us += rows * of_columns / (limits.memory_bytes_per_us * limits.read_efficiency);
  } else if (of_columns > l1_bytes) {
    us += l2_read_time(limits, rows * of_columns, sms);
  }
  return limits.cost.launch_us + us;
}

/// The contraction element by element.
void expand(Ways& ways, const SegmentFacts& alone, const DeviceLimits& limits,
            const PlanOptions& options) {
  auto facts = analyse(simplify(*expand_contractions(alone.fusion)));
  if (!facts) return;
  const auto whole = schedule_segment(std::move(*facts), limits, {.families = options.families});
  if (whole) ways.expanded_us = std::max(whole->predicted_us(), least_expanded(alone, limits));
}

/// Why no family is asked for kernels that contract.
std::string why_no_family(const PlanOptions& options) {
  if (options.contracting == Contracting::kElements) return "the options ask for it";
  return options.pin == SchedulePin{} ? "no family of the set contracts tensors"
                                      : "no pinned family contracts tensors";
}

/// The ways of the contractions of a graph, by op.
class WaysOfGraph {
 public:
  WaysOfGraph(const Fusion& fusion, const DeviceLimits& limits, const PlanOptions& options)
      : limits_(limits),
        options_(options),
        families_(contracting_families(options)),
        graph_(fusion, limits) {}

  const Ways& of(OpId op) {
    const NodeId node = graph_.node_of(op);
    SINTER_CHECK(node != WorkGraph::kNone, "no kernel computes a contraction");
    const std::span<const NodeId> group(&node, 1);
    const auto [known, is_new] = known_.try_emplace(graph_.structure_of(group));
    if (!is_new) return known->second;
    Ways& ways = known->second;
    if (families_.empty()) {
      ways.refusal = rejected_at("families", why_no_family(options_), {}, "");
      return ways;
    }
    const auto alone = analyse(graph_.extract_graph(group, WorkGraph::LeafViews::kOps));
    if (!alone) {
      ways.refusal = alone.error();
      return ways;
    }
    contract(ways, families_, *alone, limits_);
    // A pin leaves no choice.
    const bool is_free =
        options_.pin == SchedulePin{} && options_.contracting == Contracting::kFaster;
    if (is_free) expand(ways, *alone, limits_, options_);
    return ways;
  }

 private:
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  FamilySet families_;
  WorkGraph graph_;
  std::map<uint64_t, Ways> known_;  ///< By structure.
};

Decision decision_of(const Fusion& fusion, const Op& op, const Ways& ways, bool contracts) {
  const std::vector<int64_t> sizes = sizes_of(fusion, op);
  // Ids change where the graph is expanded and simplified; names stay.
  const std::string& name = fusion.values[op.results.front()].name;
  constexpr const char* kContracted = "by a kernel that contracts";
  constexpr const char* kExpanded = "element by element";
  Decision out{.question = fmt::format("how is the {} of {}{} computed", text_of(op.kind),
                                       fmt::join(sizes, " x "),
                                       name.empty() ? "" : fmt::format(" to '{}'", name)),
               .chosen = contracts ? kContracted : kExpanded};
  const auto add = [&](const char* what, double us) {
    out.candidates.push_back(
        {.what = what, .predicted = {.total_us = us}, .legal = true, .because = ""});
  };
  if (!ways.refusal) add(kContracted, ways.contracted_us);
  if (ways.expanded_us) add(kExpanded, *ways.expanded_us);
  if (ways.refusal) {
    out.because = fmt::format("{}: {} pairs of elements are combined by pointwise ops and reduced",
                              ways.refusal->rule, fmt::join(sizes, " x "));
  } else if (!ways.expanded_us) {
    out.because = "what reads the result may join it";
  } else {
    out.because = fmt::format(
        "alone, {:.1f} us are predicted for a kernel that contracts, {:.1f} us "
        "for pointwise ops and a reduction",
        ways.contracted_us, *ways.expanded_us);
  }
  return out;
}

/// Whether the plan that is followed contracts this one of a graph's contractions by a kernel; no
/// value if that is not known: it has some of them, and none by this name.
std::optional<bool> contracts_in(const Fusion& model, const Fusion& fusion, const Op& op) {
  const auto in_model = std::ranges::count_if(model.ops, is_contraction);
  if (in_model == 0 || in_model == std::ranges::count_if(fusion.ops, is_contraction))
    return in_model > 0;
  const std::string& name = fusion.values[op.results.front()].name;
  if (name.empty()) return std::nullopt;
  return std::ranges::any_of(model.ops, [&](const Op& other) {
    return is_contraction(other) && model.values[other.results.front()].name == name;
  });
}

/// The graph simplified, or without unused ops.
Fusion tidied(Fusion fusion, const PlanOptions& options) {
  if (options.simplify) return simplify(fusion);
  auto alive = remove_dead_values(fusion);
  return alive ? std::move(*alive) : std::move(fusion);
}

/// The ways of the contractions of a simplified graph.
Result<ContractionWays> ways_of_contractions(Fusion fusion, const DeviceLimits& limits,
                                             const PlanOptions& options) {
  if (std::ranges::none_of(fusion.ops, is_contraction))
    return ContractionWays{.fusion = std::move(fusion), .decisions = {}};
  ContractionWays out{.fusion = with_places_for_joins(fusion), .decisions = {}};
  for (const Op& op : out.fusion.ops) {
    if (!is_contraction(op)) continue;
    if (auto error = check_size(out.fusion, op)) return fail(std::move(*error));
  }
  WaysOfGraph ways_of(out.fusion, limits, options);
  std::set<OpId> expanded_ops;
  for (const OpId id : out.fusion.op_ids()) {
    const Op& op = out.fusion.ops[id];
    if (!is_contraction(op)) continue;
    const Ways& ways = ways_of.of(id);
    bool contracts = ways.contracts();
    if (options.like)
      contracts =
          !ways.refusal && contracts_in(options.like->fusion, out.fusion, op).value_or(contracts);
    out.decisions.push_back(decision_of(out.fusion, op, ways, contracts));
    if (options.like) out.decisions.back().because = "the plan that is followed does it so";
    if (!contracts) expanded_ops.insert(id);
  }
  out.expands = !expanded_ops.empty();
  if (!out.expands) {
    out.fusion = std::move(fusion);
  } else if (auto expanded = expand_contractions(
                 out.fusion, [&](OpId id) { return expanded_ops.contains(id); })) {
    out.fusion = tidied(std::move(*expanded), options);
  }
  return out;
}

}  // namespace

Result<ContractionWays> choose_contraction_ways(Fusion fusion, const DeviceLimits& limits,
                                                const PlanOptions& options) {
  fusion = tidied(std::move(fusion), options);
  // A product written element by element becomes a contraction where a kernel contracts it.
  if (options.simplify && options.contracting != Contracting::kElements) {
    if (auto recognized = recognize_contractions(fusion)) {
      const bool has_others = std::ranges::any_of(fusion.ops, is_contraction);
      auto ways = ways_of_contractions(simplify(*recognized), limits, options);
      if (ways && (has_others || std::ranges::any_of(ways->fusion.ops, is_contraction)))
        return ways;
    }
  }
  return ways_of_contractions(std::move(fusion), limits, options);
}

}  // namespace sinter
