#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "runtime/host_execution.h"
#include "scheduler/families/transpose.h"
#include "scheduler/index_checks.h"
#include "scheduler/plan_verifier.h"
#include "scheduler/random_scheduler.h"
#include "scheduler/ring.h"
#include "scheduler/row_schedule.h"
#include "tests/campaign/campaign_report.h"
#include "tests/campaign/case.h"
#include "tests/campaign/drawing.h"
#include "tests/campaign/plain_evaluator.h"
#include "tests/campaign/plain_number.h"
#include "tests/support/random_graph.h"

namespace sinter {
namespace {

PlainTensor plain(const HostTensor& tensor) {
  PlainTensor out{.type = tensor.type(), .sizes = tensor.sizes()};
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (is_float(out.type)) {
      out.real.push_back(plain_decode_float(out.type, tensor.bits(i)));
    } else {
      out.integer.push_back(plain_decode_integer(out.type, tensor.bits(i)));
    }
  }
  return out;
}

/// "swap" of random_graph.h: the operands, swapped and negated.
std::vector<PlainTensor> swap_plainly(const ExternalOp&, std::span<const PlainTensor> operands) {
  std::vector<PlainTensor> results = {operands[1], operands[0]};
  for (PlainTensor& result : results) {
    for (double& element : result.real) element = -element;
  }
  return results;
}

/// The data that one graph is tried with and what its outputs must hold.
struct Reference {
  std::vector<HostTensor> inputs;
  OracleResult expected;
};

class Check {
 public:
  Check(const Case& test_case, const Spoilers& spoilers)
      : case_(test_case),
        spoilers_(spoilers),
        chance_(test_case.seed ^ 0x636865636bULL),
        calls_(random_graph_calls()) {}

  Outcome run() {
    guarded("case", "", [&] { run_all(); });
    return std::move(out_);
  }

 private:
  // ---- Findings

  void find(std::string what, std::string where, std::string text, const Plan* plan = nullptr) {
    CaseFinding finding{
        .what = std::move(what), .where = std::move(where), .text = std::move(text)};
    if (plan != nullptr) {
      for (const SegmentPlan& segment : plan->segments)
        finding.schedules += print(segment.chosen().schedule);
    }
    out_.findings.push_back(std::move(finding));
  }
  template <class Step>
  void guarded(const std::string& what, const std::string& where, Step step) {
    try {
      step();
    } catch (const std::exception& error) {
      find(what + " throws", where, error.what());
    }
  }
  void refuse(std::string_view what, const Error& error) {
    // A defect is no refusal.
    if (ends_the_work(error)) return find(std::string(what), "", error.text());
    ++out_.refusals[fmt::format("{}: {}: {}", what, name_of(error.kind),
                                wording_of(error.message))];
  }
  void count(const std::string& feature, int64_t by = 1) { out_.features[feature] += by; }

  // ---- Steps

  void run_all() {
    count_graph();
    const auto bound = bind_extents(case_.fusion, case_.extents);
    if (!bound) return find("binding", "", bound.error().text());
    binding_ = *bound;
    // Indices that the plan keeps are outputs of this graph, behind the caller's.
    judged_ = case_.check_indices ? with_kept_indices(case_.fusion, binding_).fusion : case_.fusion;
    reference_.inputs = draw_inputs(case_.fusion, binding_, case_.data, case_.data_seed);
    bool has_oracle = false;
    guarded("oracle", "", [&] {
      reference_.expected = evaluate(judged_, binding_, reference_.inputs,
                                     {.threads = 1, .external = calls_.evaluate});
      has_oracle = true;
    });
    if (!has_oracle) return;
    guarded("plain evaluator", "", [&] { compare_evaluators(); });
    guarded("plan", "", [&] { try_plans(); });
  }

  void count_graph() {
    count(fmt::format("graph {}", name_of(case_.kind)));
    count(fmt::format("data {}", name_of(case_.data)));
    count(fmt::format("device {}", case_.device));
    std::set<std::string> seen;
    for (const Op& op : case_.fusion.ops) {
      seen.insert(fmt::format("op {}", text_of(op.kind)));
      if (const auto* input = std::get_if<InputOp>(&op.kind)) {
        if (!input->strides.empty()) seen.insert("input strides");
        if (std::ranges::find(input->strides, Extent(0)) != input->strides.end())
          seen.insert("input stride 0");
        if (input->alignment < 16) seen.insert("input alignment below 16");
      }
      if (const auto* slice = std::get_if<SliceOp>(&op.kind)) {
        if (std::ranges::any_of(slice->step, [](int64_t step) { return step > 1; }))
          seen.insert("slice with steps");
      }
      if (std::holds_alternative<TakeOp>(op.kind)) {
        const bool of_input = case_.fusion.def_as<InputOp>(op.operands[0]) != nullptr;
        seen.insert(of_input ? "take of an input" : "take of a computed value");
      }
    }
    for (const Value& value : case_.fusion.values) {
      seen.insert(fmt::format("type {}", value.type));
      seen.insert(fmt::format("rank {}", value.shape.size()));
    }
    for (const ValueId output : case_.fusion.outputs) {
      const OutputLayout layout = case_.fusion.layout_of(output);
      if (layout.alias.valid()) seen.insert("output in place");
      if (!layout.strides.empty() && !layout.alias.valid()) seen.insert("output strides");
      if (layout.alignment < 16) seen.insert("output alignment below 16");
    }
    if (case_.fusion.symbols.size() > 0) seen.insert("symbols");
    if (case_.check_indices) seen.insert("check_indices");
    if (!case_.simplify) seen.insert("not simplified");
    for (const std::string& feature : seen) count(feature);
  }

  /// The oracle against the plain evaluator.
  void compare_evaluators() {
    std::vector<PlainTensor> inputs;
    for (const HostTensor& input : reference_.inputs) inputs.push_back(plain(input));
    std::vector<PlainTensor> results = evaluate_plainly(judged_, binding_, inputs, swap_plainly);
    if (spoilers_.spoil_plain) spoilers_.spoil_plain(results);
    for (size_t i = 0; i < results.size(); ++i) compare_output(i, results[i]);
  }
  void compare_output(size_t output, const PlainTensor& result) {
    const OracleOutput& expected = reference_.expected.outputs[output];
    int64_t wrong = 0;
    std::string first;
    for (size_t i = 0; i < expected.bound.size(); ++i) {
      ++out_.elements;
      if (std::isinf(expected.bound[i])) ++out_.open_elements;
      if (agrees(expected, i, result)) continue;
      if (wrong++ > 0) continue;
      first = is_float(expected.type) ? fmt::format("{} in the oracle, {} in the plain evaluator",
                                                    expected.real[i], result.real[i])
                                      : fmt::format("{} in the oracle, {} in the plain evaluator",
                                                    expected.integer[i], result.integer[i]);
      first += fmt::format(", bound {}, at element {}", expected.bound[i], i);
    }
    if (wrong == 0) return;
    find("plain evaluator against the oracle", "",
         fmt::format("output {} ({}): {} of {} elements differ; first: {}", output, expected.value,
                     wrong, expected.bound.size(), first));
  }
  static bool agrees(const OracleOutput& expected, size_t i, const PlainTensor& result) {
    const double bound = expected.bound[i];
    if (std::isnan(bound) || bound < 0.0) return false;
    if (std::isinf(bound)) return true;
    if (!is_float(expected.type)) {
      const auto distance = static_cast<long double>(expected.integer[i]) -
                            static_cast<long double>(result.integer[i]);
      return std::fabs(distance) <= static_cast<long double>(bound);
    }
    const double a = expected.real[i];
    const double b = result.real[i];
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b || std::fabs(a - b) <= bound;
  }

  [[nodiscard]] PlanOptions options() const {
    return {.families = families_,
            .simplify = case_.simplify,
            .cutting = case_.cut_if_needed_only ? Cutting::kNeeded : Cutting::kFaster,
            .check_indices = case_.check_indices};
  }

  void try_plans() {
    const auto device = find_device(case_.device);
    if (!device) return find("device", "", case_.device + " is none");
    limits_ = *device;
    const auto planned = plan(case_.fusion, case_.extents, limits_, options());
    if (!planned) {
      // Nothing was pinned: only what no family takes may be refused.
      if (planned.error().kind != ErrorKind::kUnsupported)
        return find("plan", "", planned.error().text());
      return refuse("plan", planned.error());
    }
    count("planned");
    count_plan(*planned);
    try_schedules(*planned, "");
    if (case_.pinned_cuts > 0) try_cuts(*planned);
  }

  void count_plan(const Plan& plan) {
    if (plan.segments.size() > 1) count("several kernels");
    if (!plan.externals.empty()) count("external calls planned");
    for (const SegmentPlan& segment : plan.segments) {
      if (segment.facts.list) count("lists of tensors");
      if (segment.facts.reduction_count > 1) count("chains or pairs of inner reductions");
      if (segment.facts.has_outer()) count("outer reductions");
      if (segment.facts.has_outer() && segment.facts.has_reduction())
        count("inner and outer reductions in one kernel");
      if (segment.finishes) count("finishing kernels");
      if (segment.is_part) count("split into rows and columns");
      if (segment.row_parts > 0) count("rows in parts");
      if (!segment.facts.in_place.empty()) count("kernels in place");
    }
  }

  void try_schedules(const Plan& plan, const std::string& pins) {
    run_plan(plan, pins + "chosen schedules");
    for (int i = 0; i < case_.other_families; ++i) {
      if (const auto other = with_other_families(plan))
        run_plan(*other, pins + "schedules of other families");
    }
    for (int i = 0; i < case_.drawn_schedules; ++i) {
      const std::string where = fmt::format("{}drawn schedules {}", pins, i);
      guarded("drawing schedules", where, [&] {
        if (const auto drawn = with_drawn_schedules(plan)) run_plan(*drawn, where);
      });
    }
  }

  /// Replaces the schedule of a segment, and what finishes it; false if that is refused.
  bool replace(Plan& plan, size_t segment, const ProposedSchedule& by) {
    if (auto finished = plan_finish(plan, segment, by.schedule, families_); !finished) {
      refuse("finish of a schedule", finished.error());
      return false;
    }
    plan.segments[segment].candidates = {by};
    return true;
  }
  /// What finishes or combines the results of another kernel has a form that they agree on.
  static bool stands_alone(const SegmentPlan& segment) {
    return !segment.finishes && !segment.is_part && segment.row_parts == 0;
  }

  std::optional<Plan> with_other_families(const Plan& plan) {
    Plan own = plan;
    bool changed = false;
    // From the last, because a new finish moves the segments behind it.
    for (size_t i = own.segments.size(); i-- > 0;) {
      if (!stands_alone(own.segments[i])) continue;
      std::map<std::string, ProposedSchedule> best;
      for (const ProposedSchedule& candidate : own.segments[i].candidates)
        best.try_emplace(candidate.schedule.family, candidate);
      best.erase(own.segments[i].chosen().schedule.family);
      if (best.empty()) continue;
      const auto chosen =
          std::next(best.begin(), static_cast<ptrdiff_t>(chance_.below(best.size())));
      changed = replace(own, i, chosen->second) || changed;
    }
    if (!changed) return std::nullopt;
    return own;
  }

  /// The interpreter knows of every thread of a cluster what it has seen of every other one, which
  /// takes it minutes for rings in clusters of as many threads as there may be.
  static bool is_too_large(const Schedule& schedule) {
    constexpr int64_t kMostThreads = 4096;
    return schedule.cluster_blocks > 1 &&
           schedule.cluster_blocks * schedule.threads_per_block() > kMostThreads;
  }
  std::optional<ProposedSchedule> draw_schedule(const SegmentFacts& facts) {
    constexpr int kMostDraws = 4;
    // Families that few draws of any family are of.
    const auto rare = chance_.one_of<std::string_view>({kWarpSpecialised, kTranspose, kColumn});
    std::string_view family = chance_.one_in(4) ? rare : "";
    for (int i = 0; i < kMostDraws; ++i) {
      auto drawn = random_schedule(facts, limits_, families_, chance_.bits(), family);
      if (!drawn && !family.empty()) {
        family = "";
        continue;
      }
      if (!drawn || !is_too_large(drawn->schedule)) return drawn;
      count("clusters too large to interpret drawn again");
    }
    return std::nullopt;
  }

  std::optional<Plan> with_drawn_schedules(const Plan& plan) {
    Plan own = plan;
    bool changed = false;
    for (size_t i = own.segments.size(); i-- > 0;) {
      if (!stands_alone(own.segments[i])) continue;
      const auto drawn = draw_schedule(own.segments[i].facts);
      if (!drawn) {
        count("no schedule drawn");
        continue;
      }
      changed = replace(own, i, *drawn) || changed;
    }
    if (!changed) return std::nullopt;
    return own;
  }

  void try_cuts(const Plan& plan) {
    std::vector<std::string> computed;
    for (const Op& op : plan.fusion.ops) {
      if (op.operands.empty()) continue;
      for (const ValueId result : op.results) computed.push_back(fmt::format("{}", result));
    }
    if (computed.empty()) return;
    PlanOptions with_cuts = options();
    std::set<std::string> values;
    for (int i = 0; i < case_.pinned_cuts; ++i)
      values.insert(computed[chance_.below(computed.size())]);
    for (const std::string& value : values) with_cuts.cuts.push_back({value});
    const std::string pins = fmt::format("cuts at {}: ", fmt::join(values, ", "));
    guarded("plan", pins, [&] {
      const auto cut = sinter::plan(case_.fusion, case_.extents, limits_, with_cuts);
      if (!cut) {
        if (cut.error().kind == ErrorKind::kInternalError)
          return find("plan", pins, cut.error().text());
        return refuse("plan with pinned cuts", cut.error());
      }
      count("pinned cuts planned");
      try_schedules(*cut, pins);
    });
  }

  // ---- A run

  void run_plan(const Plan& plan, const std::string& where) {
    guarded("kernels", where, [&] {
      for (const std::string& violation : plan_violations(plan))
        find("memory of the plan", where, violation, &plan);
      auto run =
          execute_on_host(plan, reference_.inputs, families_, {.seed = case_.data_seed}, calls_);
      if (!run) {
        // The interpreter's own limits are no fault of the kernel.
        if (run.error().kind == ErrorKind::kResourceExhausted)
          return refuse("interpreter", run.error());
        return find("kernels", where, run.error().text(), &plan);
      }
      if (spoilers_.spoil_run) spoilers_.spoil_run(run->outputs);
      ++out_.runs;
      for (const SegmentPlan& segment : plan.segments)
        ++out_.families[segment.chosen().schedule.family];
      judge_run(plan, *run, where);
    });
  }

  void judge_run(const Plan& plan, const HostRun& run, const std::string& where) {
    for (const Finding& finding : run.report.findings)
      find(fmt::format("interpreter: {}", text_of(finding.kind)), where, finding.message, &plan);
    std::vector<const HostTensor*> tensors;
    for (const HostTensor& output : run.outputs) tensors.push_back(&output);
    for (const HostTensor& indices : run.kept_indices) tensors.push_back(&indices);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (const auto mismatch = compare(reference_.expected, i, *tensors[i]))
        find("kernels against the oracle", where, mismatch->text(), &plan);
      if (!tensors[i]->padding_intact())
        find("writes between elements", where, fmt::format("of output {}", i), &plan);
    }
    check_outside(plan, run, where);
  }

  /// What a plan that checks indices reports, counted again from the oracle's indices.
  void check_outside(const Plan& plan, const HostRun& run, const std::string& where) {
    int64_t reported = 0;
    for (const OutsideIndices& found : run.outside) reported += found.outside;
    int64_t counted = 0;
    for (const IndexCheck& check : plan.index_checks) {
      const size_t output = case_.fusion.outputs.size() + check.kept;
      const OracleOutput& indices = reference_.expected.outputs.at(output);
      for (size_t i = 0; i < indices.integer.size(); ++i) {
        if (indices.bound[i] != 0.0) return;  // What a device has there is open.
        if (indices.integer[i] < 0 || indices.integer[i] >= check.limit) ++counted;
      }
    }
    if (reported == counted) return;
    find("check of indices", where,
         fmt::format("{} indices are reported outside, {} are", reported, counted), &plan);
  }

  const Case& case_;
  const Spoilers& spoilers_;
  Chance chance_;
  HostCalls calls_;
  FamilySet families_ = builtin_families();
  DeviceLimits limits_;
  Binding binding_;
  Fusion judged_;
  Reference reference_;
  Outcome out_;
};

void add(std::map<std::string, int64_t>& to, const std::map<std::string, int64_t>& from) {
  for (const auto& [name, number] : from) to[name] += number;
}

}  // namespace

void Outcome::merge(const Outcome& other) {
  findings.insert(findings.end(), other.findings.begin(), other.findings.end());
  add(refusals, other.refusals);
  add(families, other.families);
  add(features, other.features);
  runs += other.runs;
  elements += other.elements;
  open_elements += other.open_elements;
}

Outcome check_case(const Case& test_case, const Spoilers& spoilers) {
  return Check(test_case, spoilers).run();
}

}  // namespace sinter
