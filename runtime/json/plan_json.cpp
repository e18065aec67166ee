#include "runtime/json/plan_json.h"

#include <fmt/format.h>

#include "scheduler/analysis/contraction.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/report/sweep.h"

namespace sinter {
namespace {

std::string_view text_of(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::kMemory:
      return "memory";
    case KernelOrigin::kDisk:
      return "disk";
    case KernelOrigin::kCompiled:
      return "compiled";
    case KernelOrigin::kLibrary:
      return "library";
  }
  unreachable();
}

/// Null where the rule compares no times.
Json us_or_null(double us) { return us > 0.0 ? Json(us) : Json(nullptr); }

}  // namespace

std::string_view name_of(Cut::Rule rule) {
  switch (rule) {
    case Cut::Rule::kCycle:
      return "cycle";
    case Cut::Rule::kRefused:
      return "refused";
    case Cut::Rule::kSlower:
      return "slower";
    case Cut::Rule::kNotFound:
      return "not_found";
    case Cut::Rule::kPinned:
      return "pinned";
  }
  unreachable();
}

Json to_json(const Schedule& schedule) {
  Json kept = Json::array();
  for (const KeptValue& value : schedule.kept)
    kept.push_back(
        {{"value", fmt::format("{}", value.value)}, {"residency", text_of(value.residency)}});
  Json parameters = Json::object();
  for (const auto& [name, value] : schedule.external_values()) parameters[name] = value;
  return {{"family", schedule.family},
          {"threads_per_row", schedule.threads_per_row},
          {"rows_per_block", schedule.rows_per_block},
          {"vector_width", schedule.vector_width},
          {"unroll", schedule.unroll},
          {"min_blocks_per_sm", schedule.min_blocks_per_sm},
          {"persistent_blocks", schedule.persistent_blocks},
          {"cluster_size", schedule.cluster_size()},
          {"exchange", text_of(schedule.exchange())},
          {"pipeline_stages", schedule.pipeline_stages()},
          {"rows_per_iteration", schedule.rows_per_iteration()},
          {"consumer_registers", schedule.consumer_registers()},
          {"epilogue_warps", schedule.epilogue_warps()},
          {"slice_warps", schedule.slice_warps()},
          {"prefetch_rows", schedule.prefetch_rows()},
          {"accumulators", text_of(schedule.accumulators())},
          {"rows_per_tile", schedule.rows_per_tile()},
          {"row_access", text_of(schedule.row_access)},
          {"read_priority", text_of(schedule.read_priority)},
          {"dependent_launch", text_of(schedule.dependent_launch)},
          {"finish", text_of(schedule.finish)},
          {"kept", std::move(kept)},
          {"parameters", std::move(parameters)},
          {"text", print(schedule)}};
}

Json to_json(const ResourceEstimate& estimate) {
  return {{"registers", estimate.registers},
          {"register_cap", estimate.register_cap},
          {"shared_bytes", estimate.shared_bytes},
          {"threads", estimate.threads},
          {"blocks_per_sm", estimate.blocks_per_sm},
          {"blocks", estimate.blocks},
          {"waves", estimate.waves},
          {"bytes_in_flight_per_sm", estimate.bytes_in_flight_per_sm},
          {"spilled_registers", estimate.spilled_registers}};
}

Json to_json(const Prediction& prediction) {
  return {{"total_us", prediction.total_us},
          {"launch_us", prediction.launch_us},
          {"memory_us", prediction.memory_us},
          {"l2_us", prediction.l2_us},
          {"issue_us", prediction.issue_us},
          {"special_us", prediction.special_us},
          {"shared_us", prediction.shared_us},
          {"matrix_us", prediction.matrix_us},
          {"exposed_us", prediction.exposed_us},
          {"spill_us", prediction.spill_us},
          {"second_stage_us", prediction.second_stage_us}};
}

Json to_json(const Rejection& rejection) {
  Json out = {{"subject", rejection.subject}, {"rule", rejection.rule}};
  if (!rejection.unit.empty()) {
    out["value"] = rejection.value;
    out["limit"] = rejection.limit;
    out["unit"] = rejection.unit;
  }
  if (rejection.at.valid()) out["at"] = fmt::format("{}", rejection.at);
  out["remedy"] = rejection.remedy;
  return out;
}

Json to_json(const Decision& decision) {
  Json candidates = Json::array();
  for (const Candidate& candidate : decision.candidates) {
    candidates.push_back({{"what", candidate.what},
                          {"legal", candidate.legal},
                          {"predicted", to_json(candidate.predicted)},
                          {"because", candidate.because}});
  }
  return {{"question", decision.question},
          {"chosen", decision.chosen},
          {"because", decision.because},
          {"candidates", std::move(candidates)}};
}

Json to_json(const CompiledResources& resources) {
  return {{"registers", resources.registers},
          {"spill_store_bytes", resources.spill_store_bytes},
          {"spill_load_bytes", resources.spill_load_bytes},
          {"stack_bytes", resources.stack_bytes},
          {"shared_bytes", resources.shared_bytes},
          {"barriers", resources.barriers}};
}

Json to_json(const CompileAttempt& attempt) {
  return {{"schedule", to_json(attempt.proposed.schedule)},
          {"estimate", to_json(attempt.proposed.estimate)},
          {"compiled", to_json(attempt.resources)},
          {"predicted", to_json(attempt.predicted)},
          {"verdict", attempt.verdict}};
}

Json to_json(const ProposedSchedule& proposed) {
  return {{"schedule", to_json(proposed.schedule)},
          {"estimate", to_json(proposed.estimate)},
          {"predicted", to_json(proposed.predicted)}};
}

Json to_json(const Plan& plan) {
  Json segments = Json::array();
  for (const KernelPlan& kernel : plan.kernels) {
    Json one = to_json(kernel.chosen());
    one["rows"] = kernel.facts.space.rows;
    one["columns"] = kernel.facts.space.columns;
    one["stages"] = kernel.facts.last_stage + 1;
    one["bytes_read"] = kernel.facts.bytes_read;
    one["bytes_written"] = kernel.facts.bytes_written;
    one["candidates"] = kernel.candidates.size();
    one["finishes"] = kernel.finishes;
    if (kernel.same_as) one["same_as"] = kernel.same_as->index;
    if (plan.is_segmented) {
      one["decisions"] = to_json_list(kernel.decisions);
      one["rejections"] = to_json_list(kernel.rejections);
    }
    segments.push_back(std::move(one));
  }
  Json cuts = Json::array();
  for (const Cut& cut : plan.cuts) {
    cuts.push_back({{"value", fmt::format("{}", cut.value)},
                    {"name", plan.fusion.values[cut.value].name},
                    {"from", cut.from.index},
                    {"to", cut.to.index},
                    {"bytes", cut.bytes},
                    {"rule", name_of(cut.rule)},
                    {"together_us", us_or_null(cut.together_us)},
                    {"apart_us", us_or_null(cut.apart_us)},
                    {"because", text_of(cut)}});
  }
  Json contractions = Json::array();
  for (const Contraction& contraction : contractions_of(plan)) {
    contractions.push_back({{"value", fmt::format("{}", contraction.value)},
                            {"name", plan.fusion.values[contraction.value].name},
                            {"left", fmt::format("{}", contraction.left)},
                            {"right", fmt::format("{}", contraction.right)},
                            {"batch", contraction.batch},
                            {"m", contraction.m},
                            {"n", contraction.n},
                            {"k", contraction.k},
                            {"predicted_us", contraction.predicted_us},
                            {"because", text_of(contraction, plan.fusion)}});
  }
  return {{"fusion", plan.fusion.name},
          {"device", plan.limits.name},
          {"kind", kind_of(plan)},
          {"predicted_us", plan.predicted_us()},
          {"kernels", std::move(segments)},
          {"external_calls", plan.externals.size()},
          {"workspace_bytes", plan.workspace_bytes},
          {"cuts", std::move(cuts)},
          {"contractions", std::move(contractions)},
          {"decisions", to_json_list(plan.decisions)},
          {"rejections", to_json_list(plan.rejections)}};
}

Json to_json(const CompiledPlan& compiled) {
  Json out = to_json(plan_as_compiled(compiled));
  Json kernels = Json::array();
  for (const KernelBuild& kernel : compiled.kernels) {
    kernels.push_back({{"entry", kernel.source.entry},
                       {"architecture", kernel.kernel->architecture},
                       {"origin", text_of(kernel.origin)},
                       {"compile_ms", kernel.kernel->compile_ms},
                       {"cubin_bytes", kernel.kernel->cubin.size()},
                       {"resources", to_json(kernel.kernel->resources)},
                       {"attempts", to_json_list(kernel.attempts)}});
  }
  out["compiled"] = std::move(kernels);
  return out;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sinter
