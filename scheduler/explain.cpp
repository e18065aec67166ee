#include "scheduler/explain.h"

#include <fmt/format.h>

#include "scheduler/text_table.h"

namespace sinter {
namespace {

std::string microseconds(double us) { return fmt::format("{:.1f}", us); }

/// The candidates that have a prediction, as a table.
std::string predictions_text(const Decision& decision) {
  using enum TextTable::Align;
  TextTable table(
      {"", "candidate", "us", "launch", "memory", "issue", "special", "shared", "waits", "spills",
       "verdict"},
      {kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kLeft});
  bool marked = false;
  for (const Candidate& candidate : decision.candidates) {
    const Prediction& p = candidate.predicted;
    if (!candidate.legal || p.total_us <= 0.0) continue;
    const bool chosen = !marked && candidate.what == decision.chosen;
    marked |= chosen;
    table.row({chosen ? "*" : "", candidate.what, microseconds(p.total_us),
               microseconds(p.launch_us), microseconds(p.memory_us), microseconds(p.issue_us),
               microseconds(p.special_us), microseconds(p.shared_us), microseconds(p.exposed_us),
               microseconds(p.spill_us), candidate.because});
  }
  return table.empty() ? "" : table.text();
}

std::string decision_text(const Decision& decision) {
  std::string out = fmt::format("{}: {}\n", decision.question, decision.chosen);
  if (!decision.because.empty()) out += fmt::format("  because {}\n", decision.because);
  for (const Candidate& candidate : decision.candidates) {
    if (candidate.legal && candidate.predicted.total_us <= 0.0)
      out += fmt::format("  {}: {}\n", candidate.what, candidate.because);
  }
  out += predictions_text(decision);
  for (const Candidate& candidate : decision.candidates) {
    if (!candidate.legal) out += fmt::format("  refused {}\n", candidate.because);
  }
  return out;
}

std::string kept_text(const SegmentPlan& segment) {
  std::string out;
  for (const PersistentValue& kept : segment.chosen().schedule.persistent) {
    const Value& value = segment.facts.fusion.values[kept.value];
    out += fmt::format("  {}{}{} : {} lives in {}\n", kept.value, value.name.empty() ? "" : " ",
                       value.name, text_of(segment.facts.fusion, value.type, value.shape),
                       text_of(kept.residency));
  }
  return out.empty() ? "" : "kept by the chosen schedule\n" + out;
}

}  // namespace

std::string decisions_text(const Plan& plan) {
  std::string out;
  for (const Decision& decision : plan.decisions)
    out += (out.empty() ? "" : "\n") + decision_text(decision);
  return out;
}

std::string resources_text(const ResourceEstimate& estimate, const DeviceLimits& limits) {
  using enum TextTable::Align;
  TextTable table({"resource", "taken", "budget", "", ""}, {kLeft, kRight, kRight, kLeft, kLeft});
  const auto add = [&](std::string name, double used, double limit, const auto& text,
                       std::string note) {
    table.row({std::move(name), text(used), text(limit), bar(used, limit), std::move(note)});
  };
  const auto count = [](double value) { return fmt::format("{:.0f}", value); };
  const auto bytes = [](double value) { return bytes_text(value); };
  const auto blocks = static_cast<double>(estimate.blocks_per_sm);
  const auto threads = static_cast<double>(estimate.threads);
  const auto registers = static_cast<double>(std::min(estimate.registers, estimate.register_cap));
  const auto shared = static_cast<double>(estimate.shared_bytes);
  add("registers per thread", static_cast<double>(estimate.registers),
      static_cast<double>(estimate.register_cap), count,
      estimate.spilled_registers > 0 ? fmt::format("{} spill", estimate.spilled_registers)
                                     : "the cap follows from the promised blocks per SM");
  add("registers per SM", registers * threads * blocks,
      static_cast<double>(limits.registers_per_sm), count, "");
  add("shared bytes per block", shared, static_cast<double>(limits.shared_bytes_per_block), bytes,
      "");
  add("shared bytes per SM", (shared + static_cast<double>(limits.shared_bytes_reserved)) * blocks,
      static_cast<double>(limits.shared_bytes_per_sm), bytes,
      fmt::format("with {} B reserved per block", limits.shared_bytes_reserved));
  add("threads per SM", threads * blocks, static_cast<double>(limits.threads_per_sm), count,
      fmt::format("{} per block", estimate.threads));
  add("blocks per SM", blocks, static_cast<double>(limits.blocks_per_sm), count,
      fmt::format("{} in the grid, {:.2f} waves", estimate.blocks, estimate.waves));
  add("bytes in flight per SM", estimate.bytes_in_flight_per_sm, limits.bytes_in_flight_per_sm,
      bytes, "the budget is what saturates memory; more is good");
  return table.text();
}

std::string explain(const Plan& plan) {
  std::string out = fmt::format("{} on {}\n", plan.fusion.name, plan.limits.name);
  for (const SegmentPlan& segment : plan.segments) {
    const SegmentFacts& facts = segment.facts;
    out += fmt::format("{} rows x {} columns in {} stage(s); reads {}, writes {}\n",
                       facts.space.rows, facts.space.columns, facts.last_stage + 1,
                       bytes_text(static_cast<double>(facts.bytes_read)),
                       bytes_text(static_cast<double>(facts.bytes_written)));
  }
  out += "\n" + decisions_text(plan);
  for (const SegmentPlan& segment : plan.segments) {
    if (const std::string kept = kept_text(segment); !kept.empty()) out += "\n" + kept;
    out += "\nresources of the chosen schedule, as estimated\n";
    out += resources_text(segment.chosen().estimate, plan.limits);
  }
  return out;
}

}  // namespace sinter
