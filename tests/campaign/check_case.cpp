#include <algorithm>
#include <cmath>
#include <memory>
#include <ranges>
#include <set>

#include "runtime/check/host_execution.h"
#include "scheduler/analysis/index_checks.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/families/transpose.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/segmentation/work_graph.h"
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
  Check(const Case& test_case, const CheckOptions& options)
      : case_(test_case),
        asked_(options),
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
      for (const KernelPlan& kernel : plan->kernels)
        finding.schedules += print(kernel.chosen().schedule);
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
    if (!asked_.executes) return guarded("plan", "", [&] { try_plans(); });
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
    if (case_.slowness > 1) count("slowed devices");
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
    if (asked_.spoil_plain) asked_.spoil_plain(results);
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
            .contracting = case_.contract_always ? Contracting::kKernels : Contracting::kFaster,
            .check_indices = case_.check_indices};
  }

  /// The device with fewer SMs and slower, as the case says.
  [[nodiscard]] DeviceLimits weakened(DeviceLimits device) const {
    const double slowness = static_cast<double>(case_.slowness);
    double share = 1.0;
    if (case_.sm_count > 0 && case_.sm_count < device.sm_count) {
      share = static_cast<double>(case_.sm_count) / static_cast<double>(device.sm_count);
      device.sm_count = case_.sm_count;
    }
    device.clock_mhz /= slowness;
    device.memory_bytes_per_us *= share / slowness;
    device.bytes_in_flight_per_sm /= slowness;
    device.l2_bytes = static_cast<int64_t>(static_cast<double>(device.l2_bytes) * share / slowness);
    return device;
  }

  void try_plans() {
    const auto device = find_device(case_.device);
    if (!device) return find("device", "", case_.device + " is none");
    limits_ = weakened(*device);
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
    if (case_.pinned_cuts > 0 || case_.pinned_joins > 0) try_pins(*planned);
    for (int i = 0; i < case_.followed_plans; ++i) try_following();
  }

  void count_plan(const Plan& plan) {
    if (plan.kernels.size() > 1) count("several kernels");
    if (!plan.externals.empty()) count("external calls planned");
    for (const KernelPlan& kernel : plan.kernels) {
      if (kernel.facts.list) count("lists of tensors");
      if (kernel.facts.reduction_count > 1) count("chains or pairs of inner reductions");
      if (kernel.facts.has_outer()) count("outer reductions");
      if (kernel.facts.has_outer() && kernel.facts.has_reduction())
        count("inner and outer reductions in one kernel");
      if (kernel.finishes) count("finishing kernels");
      if (kernel.is_part) count("split into rows and columns");
      if (kernel.row_parts > 0 && !kernel.facts.has_outer()) count("rows in parts");
      if (kernel.row_parts > 0 && kernel.facts.has_outer()) count("columns in parts");
      if (!kernel.facts.in_place.empty()) count("kernels in place");
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
  bool replace(Plan& plan, KernelId kernel, const ProposedSchedule& by) {
    if (auto finished = plan_finish(plan, kernel, by.schedule, families_); !finished) {
      refuse("finish of a schedule", finished.error());
      return false;
    }
    plan.kernels[kernel].candidates = {by};
    return true;
  }
  /// What finishes or combines the results of another kernel has a form that they agree on.
  static bool stands_alone(const KernelPlan& kernel) {
    return !kernel.finishes && !kernel.is_part && kernel.row_parts == 0;
  }

  std::optional<Plan> with_other_families(const Plan& plan) {
    Plan own = plan;
    bool changed = false;
    // From the last, because a new finish moves the segments behind it.
    for (const KernelId i : own.kernels.ids() | std::views::reverse) {
      if (!stands_alone(own.kernels[i])) continue;
      std::map<std::string, ProposedSchedule> best;
      for (const ProposedSchedule& candidate : own.kernels[i].candidates)
        best.try_emplace(candidate.schedule.family, candidate);
      best.erase(own.kernels[i].chosen().schedule.family);
      if (best.empty()) continue;
      const auto chosen =
          std::next(best.begin(), static_cast<ptrdiff_t>(chance_.below(best.size())));
      changed = replace(own, i, chosen->second) || changed;
    }
    if (!changed) return std::nullopt;
    return own;
  }

  /// The interpreter knows of every thread of a cluster what it has seen of every other one, which
  /// takes it minutes for pipelines in clusters of as many threads as there may be. Grids of as
  /// many threads as a row may have, for each of many rows without elements, take it as long.
  static bool is_too_large(const SegmentFacts& facts, const ProposedSchedule& drawn) {
    constexpr int64_t kMostInCluster = 4096;
    const Schedule& schedule = drawn.schedule;
    if (schedule.cluster_size() > 1 &&
        schedule.cluster_size() * schedule.threads_per_block() > kMostInCluster)
      return true;
    return threads_run(facts, drawn) > kMostThreadsRun;
  }
  std::optional<ProposedSchedule> draw_schedule(const SegmentFacts& facts) {
    constexpr int kMostDraws = 8;
    // Families that few draws of any family are of.
    std::string_view family;
    if (chance_.one_in(4)) family = chance_.one_in(2) ? kTranspose : kColumn;
    if (facts.space.contraction) family = kMatmul;
    if (limits_.has_bulk_copy && facts.has_outer() && chance_.one_in(2)) family = kWarpSpecialised;
    for (int i = 0; i < kMostDraws; ++i) {
      auto drawn = random_schedule(facts, limits_, families_, chance_.bits(), family);
      if (!drawn && !family.empty()) {
        family = "";
        continue;
      }
      if (!drawn || !is_too_large(facts, *drawn)) return drawn;
      count("schedules too large to interpret drawn again");
    }
    return std::nullopt;
  }

  std::optional<Plan> with_drawn_schedules(const Plan& plan) {
    Plan own = plan;
    bool changed = false;
    for (const KernelId i : own.kernels.ids() | std::views::reverse) {
      if (!stands_alone(own.kernels[i])) continue;
      const auto drawn = draw_schedule(own.kernels[i].facts);
      if (!drawn) {
        count("no schedule drawn");
        continue;
      }
      changed = replace(own, i, *drawn) || changed;
    }
    // Only now it is known what is left to be finished.
    for (KernelPlan& kernel : own.kernels) {
      if (!stands_alone(kernel)) changed = redraw_dependent(kernel) || changed;
    }
    if (!changed) return std::nullopt;
    return own;
  }

  /// Another schedule for a kernel whose neighbour finishes or combines what it leaves, or that
  /// does so itself: it leaves nothing else, and starts and ends beside the other as planned.
  bool redraw_dependent(KernelPlan& kernel) {
    constexpr int kMostDraws = 4;
    for (int i = 0; i < kMostDraws; ++i) {
      auto drawn = draw_schedule(kernel.facts);
      if (!drawn) return false;
      if (drawn->schedule.persistent_blocks > 0) continue;
      drawn->schedule.dependent_launch = kernel.chosen().schedule.dependent_launch;
      if (!verify_schedule(kernel.facts, drawn->schedule, limits_, families_).empty()) continue;
      count("schedules drawn for parts and finishes");
      kernel.candidates = {std::move(*drawn)};
      return true;
    }
    return false;
  }

  /// Pairs of values that kernels make, instead of computing them again wherever they are needed,
  /// and what is made of them, which may be the value itself.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> pinnable(const Plan& plan) const {
    const WorkGraph graph(plan.fusion, limits_);
    std::vector<std::pair<std::string, std::string>> out;
    for (const WorkNode& node : graph.nodes()) {
      const auto name_of_result = [&](const WorkNode& made) {
        return fmt::format("{}", plan.fusion.ops[made.op].results.front());
      };
      if (node.is_external || graph.is_free(plan.fusion.ops[node.op].results.front())) continue;
      std::string after = name_of_result(node);
      for (const NodeId consumer : node.consumers) {
        if (!graph.nodes()[consumer].is_external) after = name_of_result(graph.nodes()[consumer]);
      }
      out.emplace_back(name_of_result(node), std::move(after));
    }
    return out;
  }

  void try_pins(const Plan& plan) {
    const auto values = pinnable(plan);
    if (values.empty()) return;
    const auto any = [&]() -> const auto& { return values[chance_.below(values.size())]; };
    PlanOptions pinned = options();
    std::set<std::string> cuts;
    for (int i = 0; i < case_.pinned_cuts; ++i) cuts.insert(any().first);
    for (const std::string& value : cuts) pinned.cuts.push_back({value});
    std::string pins = cuts.empty() ? "" : fmt::format("cuts at {}: ", fmt::join(cuts, ", "));
    for (int i = 0; i < case_.pinned_joins; ++i) {
      const auto& [value, after] = any();
      pinned.joins.push_back({.values = {value, after}});
      pins += fmt::format("joins of {}: ", fmt::join(pinned.joins.back().values, ", "));
    }
    guarded("plan", pins, [&] {
      const auto obeying = sinter::plan(case_.fusion, case_.extents, limits_, pinned);
      if (!obeying) {
        if (obeying.error().kind == ErrorKind::kInternalError)
          return find("plan", pins, obeying.error().text());
        return refuse("plan with pins", obeying.error());
      }
      if (case_.pinned_cuts > 0) count("pinned cuts planned");
      if (case_.pinned_joins > 0) count("pinned joins planned");
      try_schedules(*obeying, pins);
    });
  }

  /// One of the extents that a plan is followed from, drawn anew.
  ExtentValues other_extents() {
    ExtentValues out = case_.extents;
    if (out.empty()) return out;
    const auto changed = std::next(out.begin(), static_cast<ptrdiff_t>(chance_.below(out.size())));
    const int64_t size = changed->second;
    changed->second = chance_.one_of({size + 1, 2 * size, size / 2, int64_t{1}, size + 8, size});
    return out;
  }

  /// The cuts and schedules of a plan for other sizes, taken over for these.
  void try_following() {
    const ExtentValues others = other_extents();
    std::string where = "like the plan of";
    for (const auto& [name, size] : others) where += fmt::format(" {}={}", name, size);
    guarded("plan", where, [&] {
      auto model = plan(case_.fusion, others, limits_, options());
      if (!model) return refuse("plan of other sizes", model.error());
      PlanOptions alike = options();
      alike.like = std::make_shared<Plan>(std::move(*model));
      const auto followed = plan(case_.fusion, case_.extents, limits_, alike);
      if (!followed) {
        // The sizes may not do; the graph does.
        if (followed.error().kind == ErrorKind::kInvalidFusion)
          return find("plan", where, followed.error().text());
        return refuse("plan that follows another", followed.error());
      }
      count("plans of other sizes followed");
      run_plan(*followed, where);
    });
  }

  // ---- A run

  /// The family of a kernel, and what only some of its schedules have.
  void count_schedule(const KernelPlan& kernel) {
    const Schedule& schedule = kernel.chosen().schedule;
    ++out_.families[schedule.family];
    const auto option = [&](bool has, std::string_view name) {
      if (has) count(fmt::format("{}: {}", schedule.family, name));
    };
    option(kernel.row_parts > 0, "parts");
    option(kernel.finishes, "finishes");
    option(!kernel.facts.in_place.empty(), "in place");
    option(kernel.facts.space.contraction && kernel.facts.has_outer(), "reductions over the rows");
    option(schedule.cluster_size() > 1, "clusters");
    option(schedule.persistent_blocks > 0, "persistent grids");
    option(schedule.finish == Finish::kLastBlock, "last block");
    option(schedule.pipeline_stages() > 0, "pipelines");
    option(schedule.rows_per_iteration() > 1, "rows per iteration");
    option(schedule.consumer_registers() > 0, "registers of the producer's");
    option(schedule.epilogue_warps() > 0, "warps of an epilogue");
    option(schedule.prefetch_rows() > 0, "prefetched rows");
    option(schedule.rows_per_tile() > 0, "two passes");
    option(schedule.accumulators() == Residency::kShared, "accumulators in shared memory");
    option(schedule.dependent_launch != DependentLaunch::kNone, "dependent launch");
    option(schedule.row_access == RowAccess::kUnaligned, "unaligned rows");
    option(schedule.row_access == RowAccess::kScalar, "scalar access");
    for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload})
      option(std::ranges::any_of(
                 schedule.kept, [&](const KeptValue& kept) { return kept.residency == residency; }),
             fmt::format("values kept: {}", text_of(residency)));
  }

  void run_plan(const Plan& plan, const std::string& where) {
    guarded("kernels", where, [&] {
      if (asked_.see_plan) asked_.see_plan(plan);
      for (const std::string& violation : plan_violations(plan))
        find("memory of the plan", where, violation, &plan);
      for (const KernelPlan& kernel : plan.kernels) count_schedule(kernel);
      if (!asked_.executes) return;
      auto run =
          execute_on_host(plan, reference_.inputs, families_, {.seed = case_.data_seed}, calls_);
      if (!run) {
        // The interpreter's own limits are no fault of the kernel.
        if (run.error().kind == ErrorKind::kResourceExhausted)
          return refuse("interpreter", run.error());
        return find("kernels", where, run.error().text(), &plan);
      }
      if (asked_.spoil_run) asked_.spoil_run(run->outputs);
      ++out_.runs;
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
  const CheckOptions& asked_;
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

int64_t threads_run(const SegmentFacts& facts, const ProposedSchedule& proposed) {
  const Schedule& schedule = proposed.schedule;
  const int64_t threads = proposed.estimate.blocks * proposed.estimate.threads;
  if (!facts.has_outer() || !leaves_partials(facts, schedule)) return threads;
  return std::max(threads, partial_rows(facts, schedule) * partial_elements(facts));
}

void Outcome::merge(const Outcome& other) {
  findings.insert(findings.end(), other.findings.begin(), other.findings.end());
  add(refusals, other.refusals);
  add(families, other.families);
  add(features, other.features);
  runs += other.runs;
  elements += other.elements;
  open_elements += other.open_elements;
}

Outcome check_case(const Case& test_case, const CheckOptions& options) {
  return Check(test_case, options).run();
}

}  // namespace sinter
