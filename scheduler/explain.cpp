#include "scheduler/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "scheduler/text_table.h"

namespace sinter {
namespace {

struct Part {
  const char* name;
  double Prediction::*us;
};
constexpr std::array kParts = {
    Part{"us", &Prediction::total_us},      Part{"launch", &Prediction::launch_us},
    Part{"memory", &Prediction::memory_us}, Part{"L2", &Prediction::l2_us},
    Part{"issue", &Prediction::issue_us},   Part{"special", &Prediction::special_us},
    Part{"shared", &Prediction::shared_us}, Part{"waits", &Prediction::exposed_us},
    Part{"spills", &Prediction::spill_us},
};

/// The candidates that have a prediction, as a table. Parts that no candidate has are left out.
std::string predictions_text(const Decision& decision) {
  std::vector<const Candidate*> candidates;
  for (const Candidate& candidate : decision.candidates) {
    if (candidate.legal && candidate.predicted.total_us > 0.0) candidates.push_back(&candidate);
  }
  if (candidates.empty()) return "";
  constexpr double kShown = 0.05;  // Rounds to 0.1.
  std::vector<Part> parts;
  std::ranges::copy_if(kParts, std::back_inserter(parts), [&](const Part& part) {
    return std::ranges::any_of(candidates, [&](const Candidate* candidate) {
      return candidate->predicted.*part.us >= kShown;
    });
  });
  using enum TextTable::Align;
  std::vector<std::string> headings = {"", "candidate"};
  std::vector<TextTable::Align> aligns = {kLeft, kLeft};
  for (const Part& part : parts) {
    headings.emplace_back(part.name);
    aligns.push_back(kRight);
  }
  headings.emplace_back("verdict");
  aligns.push_back(kLeft);
  TextTable table(std::move(headings), std::move(aligns));
  bool marked = false;
  for (const Candidate* candidate : candidates) {
    const bool chosen = !marked && candidate->what == decision.chosen;
    marked |= chosen;
    std::vector<std::string> cells = {chosen ? "*" : "", candidate->what};
    for (const Part& part : parts)
      cells.push_back(fmt::format("{:.1f}", candidate->predicted.*part.us));
    cells.push_back(candidate->because);
    table.row(std::move(cells));
  }
  return table.text();
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
