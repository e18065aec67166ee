#include "scheduler/report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/report/step_graph.h"
#include "scheduler/report/text_table.h"

namespace sinter {
namespace {

/// Bytes of loads in flight on an SM with its share of the blocks. A small grid gives it fewer
/// blocks than fit.
double bytes_in_flight(const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const int64_t share = (estimate.blocks + limits.sm_count - 1) / limits.sm_count;
  if (share >= estimate.blocks_per_sm) return estimate.bytes_in_flight_per_sm;
  return estimate.bytes_in_flight_per_sm * static_cast<double>(share) /
         static_cast<double>(estimate.blocks_per_sm);
}

struct Part {
  const char* name;
  double Prediction::*us;
};
constexpr std::array kParts = {
    Part{"us", &Prediction::total_us},
    Part{"launch", &Prediction::launch_us},
    Part{"memory", &Prediction::memory_us},
    Part{"L2", &Prediction::l2_us},
    Part{"issue", &Prediction::issue_us},
    Part{"special", &Prediction::special_us},
    Part{"shared", &Prediction::shared_us},
    Part{"matrix", &Prediction::matrix_us},
    Part{"waits", &Prediction::exposed_us},
    Part{"spills", &Prediction::spill_us},
    Part{"2nd stage", &Prediction::second_stage_us},
};

/// A table of the candidates that have a prediction. Parts that no candidate has are omitted.
std::string predictions_text(const Decision& decision) {
  std::vector<const Candidate*> candidates;
  for (const Candidate& candidate : decision.candidates) {
    if (candidate.legal && candidate.predicted.total_us > 0.0) candidates.push_back(&candidate);
  }
  if (candidates.empty()) return "";
  constexpr double kShown = 0.05;  // The least that rounds to 0.1.
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

std::string kept_text(const KernelPlan& kernel) {
  std::string out;
  for (const KeptValue& kept : kernel.chosen().schedule.kept) {
    const Value& value = kernel.facts.fusion.values[kept.value];
    out += fmt::format("  {}{}{} : {} lives in {}\n", kept.value, value.name.empty() ? "" : " ",
                       value.name, text_of(kernel.facts.fusion, value.type, value.shape),
                       text_of(kept.residency));
  }
  return out.empty() ? "" : "kept by the chosen schedule\n" + out;
}

/// "2 in reload, 1 in register"
std::string residencies_text(const Schedule& schedule) {
  std::string out;
  for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
    const auto count = std::ranges::count(schedule.kept, residency,
                                          [](const KeptValue& kept) { return kept.residency; });
    if (count > 0)
      out += fmt::format("{}{} in {}", out.empty() ? "" : ", ", count, text_of(residency));
  }
  return out.empty() ? "nothing" : out;
}

/// The chosen candidate, and the fastest predicted one of each other family.
std::vector<const ProposedSchedule*> best_of_families(const KernelPlan& kernel) {
  std::vector<const ProposedSchedule*> out;
  for (const ProposedSchedule& candidate : kernel.candidates) {
    const bool shown = std::ranges::any_of(out, [&](const ProposedSchedule* other) {
      return other->schedule.family == candidate.schedule.family;
    });
    if (!shown) out.push_back(&candidate);
  }
  return out;
}

std::string numbers_text(const Schedule& schedule) {
  return fmt::format("{} x {}, vector {}, unroll {}, keeps {}{}", schedule.threads_per_row,
                     schedule.rows_per_block, schedule.vector_width, schedule.unroll,
                     residencies_text(schedule), further_numbers(schedule));
}

/// The next candidates, of any family, without those in `shown` and without those that differ from
/// another one only in columns that the table does not have.
std::string runners_up_text(const KernelPlan& kernel,
                            const std::vector<const ProposedSchedule*>& shown) {
  using enum TextTable::Align;
  constexpr size_t kRunnersUp = 2;
  TextTable table({"runner-up", "threads/row x rows/block", "us", "memory", "waits"},
                  {kLeft, kLeft, kRight, kRight, kRight});
  const auto named = [](const ProposedSchedule& candidate) {
    return std::pair(candidate.schedule.family, numbers_text(candidate.schedule));
  };
  std::set<std::pair<std::string, std::string>> seen;
  for (const ProposedSchedule* candidate : shown) seen.insert(named(*candidate));
  size_t rows = 0;
  for (const ProposedSchedule& candidate : kernel.candidates) {
    const auto [name, is_new] = seen.insert(named(candidate));
    if (!is_new) continue;
    const Prediction& predicted = candidate.predicted;
    table.row({name->first, name->second, fmt::format("{:.1f}", predicted.total_us),
               fmt::format("{:.1f}", predicted.memory_us),
               fmt::format("{:.1f}", predicted.exposed_us)});
    if (++rows == kRunnersUp) break;
  }
  return table.empty() ? "" : table.text();
}

/// One line for all families that reject for the same reason.
std::string refusals_text(const std::vector<Rejection>& rejections) {
  std::vector<Rejection> different;
  for (Rejection rejection : rejections) {
    rejection.remedy.clear();  // Not needed: there is a schedule.
    const auto same = std::ranges::find_if(different, [&](Rejection other) {
      other.subject = rejection.subject;
      return other == rejection;
    });
    if (same == different.end()) {
      different.push_back(std::move(rejection));
    } else {
      same->subject += ", " + rejection.subject;
    }
  }
  std::string out;
  for (const Rejection& rejection : different)
    out += fmt::format("  refused {}\n", text_of(rejection));
  return out;
}

/// The full text of a segment: the table of families, rejections, runners-up, resources.
std::string segment_text(const KernelPlan& kernel, const Decision& decision,
                         const std::vector<Rejection>& rejections, const DeviceLimits& limits) {
  std::string out =
      fmt::format("{}: {}\n  because {}\n", decision.question, decision.chosen, decision.because);
  out += families_text(kernel, limits);
  out += refusals_text(rejections);
  out += runners_up_text(kernel, best_of_families(kernel));
  if (const std::string kept = kept_text(kernel); !kept.empty()) out += "\n" + kept;
  if (kernel.chosen().estimate.threads == 0)
    return out + "\nresources: those of the library's kernel\n";
  out += "\nresources of the chosen schedule, as estimated\n";
  return out + resources_text(kernel.chosen().estimate, limits);
}

/// A summary in two lines; `more` is appended.
std::string brief_text(const KernelPlan& kernel, const Decision& decision,
                       const std::string& more) {
  const ResourceEstimate& estimate = kernel.chosen().estimate;
  return fmt::format(
      "{}: {}\n  predicted {:.1f} us; {} of {} registers, {} shared, {} block(s) per SM, {:.2f} "
      "waves{}{}\n",
      decision.question, decision.chosen, kernel.chosen().predicted.total_us, estimate.registers,
      estimate.register_cap, bytes_text(static_cast<double>(estimate.shared_bytes)),
      estimate.blocks_per_sm, estimate.waves, more.empty() ? "" : "; ", more);
}

/// The meaning of a register estimate and its cap for the compiled kernel.
std::string registers_note(const ResourceEstimate& estimate) {
  if (estimate.spilled_registers > 0) return fmt::format("{} spill", estimate.spilled_registers);
  if (is_register_limited(estimate))
    return "the compiler has to do with fewer; one that spills may be replaced as it is compiled";
  return "the cap follows from the promised blocks per SM";
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
      static_cast<double>(estimate.register_cap), count, registers_note(estimate));
  // Warps that pass registers to each other have as many as the launch gave them, together.
  const auto launched = static_cast<double>(
      register_cap(limits, estimate.threads, std::max<int64_t>(estimate.blocks_per_sm, 1)));
  add("registers per SM", std::min(registers, launched) * threads * blocks,
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
  add("bytes in flight per SM", bytes_in_flight(estimate, limits), limits.bytes_in_flight_per_sm,
      bytes, "the budget is what saturates memory, not a limit");
  return table.text();
}

std::string families_text(const KernelPlan& kernel, const DeviceLimits& limits) {
  using enum TextTable::Align;
  const std::vector<const ProposedSchedule*> best = best_of_families(kernel);
  std::vector<std::string> headings = {""};
  for (const ProposedSchedule* candidate : best)
    headings.push_back((candidate == best.front() ? "* " : "") + candidate->schedule.family);
  std::vector<TextTable::Align> aligns(headings.size(), kRight);
  aligns.front() = kLeft;
  TextTable table(std::move(headings), std::move(aligns));
  const auto add = [&](std::string name, const auto& text) {
    std::vector<std::string> cells = {std::move(name)};
    for (const ProposedSchedule* candidate : best) cells.push_back(text(*candidate));
    table.row(std::move(cells));
  };
  using P = const ProposedSchedule&;
  add("threads/row x rows/block", [](P p) {
    return fmt::format("{} x {}", p.schedule.threads_per_row, p.schedule.rows_per_block);
  });
  add("vector, unroll",
      [](P p) { return fmt::format("{}, {}", p.schedule.vector_width, p.schedule.unroll); });
  add("keeps", [](P p) {
    const int64_t ahead = p.schedule.prefetch_rows();
    std::string text = residencies_text(p.schedule);
    if (ahead != 0) text += fmt::format(", {} row prefetched", ahead);
    if (p.schedule.accumulators() != Residency::kRegister)
      text += fmt::format(", accumulators in {}", text_of(p.schedule.accumulators()));
    return text;
  });
  const auto add_number = [&](const char* name, int64_t (Schedule::*field)() const) {
    const int64_t unused = (Schedule{}.*field)();
    if (std::ranges::any_of(best, [&](const auto* p) { return (p->schedule.*field)() != unused; }))
      add(name, [&](P p) { return fmt::format("{}", (p.schedule.*field)()); });
  };
  add_number("cluster_size", &Schedule::cluster_size);
  add_number("pipeline_stages", &Schedule::pipeline_stages);
  add_number("rows_per_iteration", &Schedule::rows_per_iteration);
  add_number("consumer_registers", &Schedule::consumer_registers);
  add_number("epilogue_warps", &Schedule::epilogue_warps);
  add_number("slice_warps", &Schedule::slice_warps);
  add_number("rows_per_tile", &Schedule::rows_per_tile);
  std::set<std::string> parameters;
  for (const ProposedSchedule* candidate : best) {
    for (const auto& [name, value] : candidate->schedule.external_values()) parameters.insert(name);
  }
  for (const std::string& name : parameters) {
    add(name, [&](P p) {
      const auto& values = p.schedule.external_values();
      const auto found = values.find(name);
      return found == values.end() ? "" : fmt::format("{}", found->second);
    });
  }
  constexpr double kShown = 0.05;  // The least that rounds to 0.1.
  for (const Part& part : kParts) {
    const bool somebody_has = std::ranges::any_of(best, [&](const ProposedSchedule* candidate) {
      return candidate->predicted.*part.us >= kShown;
    });
    const bool is_total = part.us == &Prediction::total_us;
    if (somebody_has)
      add(is_total ? "predicted us" : std::string("  ") + part.name,
          [&](P p) { return fmt::format("{:.1f}", p.predicted.*part.us); });
  }
  add("registers of cap",
      [](P p) { return fmt::format("{} of {}", p.estimate.registers, p.estimate.register_cap); });
  add("shared of " + bytes_text(static_cast<double>(limits.shared_bytes_per_block)),
      [](P p) { return bytes_text(static_cast<double>(p.estimate.shared_bytes)); });
  add("blocks per SM", [](P p) { return fmt::format("{}", p.estimate.blocks_per_sm); });
  add("waves", [](P p) { return fmt::format("{:.2f}", p.estimate.waves); });
  add("in flight of " + bytes_text(limits.bytes_in_flight_per_sm),
      [&](P p) { return bytes_text(bytes_in_flight(p.estimate, limits)); });
  return table.text();
}

std::string changes_text(std::span<const NearestChange> changes) {
  if (changes.empty())
    return fmt::format("no other kind found within a factor of {} of any extent\n", kChangeFactor);
  std::string out;
  std::string_view extent;
  for (const NearestChange& change : changes) {
    out += extent == change.extent
               ? ", "
               : fmt::format("{}{} ", out.empty() ? "another kind wins: " : "; ", change.extent);
    out += fmt::format("{} ({})", change.size, change.kind.empty() ? "none" : change.kind);
    extent = change.extent;
  }
  return out + "\n";
}

namespace {

std::string value_text(const Fusion& fusion, ValueId value) {
  const std::string& name = fusion.values[value].name;
  return fmt::format("{}{}{}", value, name.empty() ? "" : " ", name);
}

/// The tensors that each step leaves in memory: "%v3 h, partials of %v5, part of %v7".
IdMap<StepId, std::string> written_texts(const Plan& plan, const StepGraph& graph) {
  IdMap<StepId, std::string> out(graph.steps.size());
  for (const PassedTensor& tensor : graph.tensors) {
    const bool is_value = tensor.holds == PassedTensor::Holds::kValue;
    const char* what = !is_value ? "partials of " : tensor.writers.size() > 1 ? "part of " : "";
    for (const StepId writer : tensor.writers) {
      std::string& text = out[writer];
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", what,
                          value_text(plan.fusion, tensor.value));
    }
  }
  return out;
}

/// Kernels and calls in the order they run, with the bytes they move.
std::string steps_text(const Plan& plan) {
  using enum TextTable::Align;
  TextTable table({"", "runs", "rows x columns", "reads", "writes", "us", "for"},
                  {kLeft, kLeft, kRight, kRight, kRight, kRight, kLeft});
  const StepGraph graph = step_graph(plan);
  const IdMap<StepId, std::string> written = written_texts(plan, graph);
  for (const StepId step : graph.steps.ids()) {
    if (const auto* call = std::get_if<CallId>(&graph.steps[step])) {
      const Op& op = plan.fusion.ops[plan.externals[*call].op];
      table.row({"call", std::get<ExternalOp>(op.kind).name, "", "", "", "", written[step]});
      continue;
    }
    const auto id = std::get<KernelId>(graph.steps[step]);
    const KernelPlan& kernel = plan.kernels[id];
    const SegmentFacts& facts = kernel.facts;
    std::string what = kernel.chosen().schedule.family;
    if (kernel.same_as) what += fmt::format(" of {}", kernel.same_as->index);
    table.row({fmt::format("{}", id.index), std::move(what),
               fmt::format("{} x {}", facts.space.rows, facts.space.columns),
               bytes_text(static_cast<double>(facts.bytes_read)),
               bytes_text(static_cast<double>(facts.bytes_written)),
               kernel.finishes ? "" : fmt::format("{:.1f}", kernel.chosen().predicted.total_us),
               written[step]});
  }
  return table.text();
}

/// Values that pass between kernels, with the reasons.
std::string cuts_text(const Plan& plan) {
  using enum TextTable::Align;
  if (plan.cuts.empty()) return "";
  TextTable table({"from", "to", "bytes", "value", "read by", "because"},
                  {kRight, kRight, kRight, kLeft, kLeft, kLeft});
  for (const Cut& cut : plan.cuts) {
    const Op& consumer = plan.fusion.ops[cut.consumer];
    table.row({fmt::format("{}", cut.from.index), fmt::format("{}", cut.to.index),
               bytes_text(static_cast<double>(cut.bytes)), value_text(plan.fusion, cut.value),
               fmt::format("{} {}", text_of(consumer.kind),
                           value_text(plan.fusion, consumer.results.front())),
               text_of(cut)});
  }
  return "\nwhat passes through memory from kernel to kernel\n" + table.text();
}

std::string short_text(const Decision& decision) {
  return fmt::format("{}: {}\n{}", decision.question, decision.chosen,
                     decision.because.empty() ? "" : "  because " + decision.because + "\n");
}

/// For each kernel, the decisions about it. The k-th of a segment's decisions on schedules is about
/// the k-th kernel from the one that leads; decisions before it belong to it, and those after the
/// last are about the kernel that leads.
IdMap<KernelId, std::string> kernel_texts(const Plan& plan) {
  IdMap<KernelId, std::string> out(plan.kernels.size());
  for (const KernelId leading : plan.kernels.ids()) {
    const KernelPlan& segment = plan.kernels[leading];
    std::string pending;
    KernelId kernel = leading;
    for (const Decision& decision : segment.decisions) {
      if (!plan.kernels.contains(kernel) || !decision.question.starts_with("which schedule")) {
        pending += short_text(decision);
        continue;
      }
      out[kernel] += std::exchange(pending, "") + brief_text(plan.kernels[kernel], decision, "");
      kernel = kernel_after(kernel);
    }
    out[leading] += pending;
    std::vector<Rejection> refusals = segment.rejections;
    for (Rejection& refusal : refusals) refusal.remedy.clear();
    out[leading] += refusals_text(refusals);
  }
  return out;
}

std::string explain_segments(const Plan& plan) {
  std::string out =
      fmt::format("{} on {}\n{} kernels, predicted {:.1f} us; {} external calls; workspace {}\n",
                  plan.fusion.name, plan.limits.name, plan.kernels.size(), plan.predicted_us(),
                  plan.externals.size(), bytes_text(static_cast<double>(plan.workspace_bytes)));
  out += steps_text(plan) + cuts_text(plan);
  if (!plan.decisions.empty()) out += "\n" + decisions_text(plan);
  const IdMap<KernelId, std::string> texts = kernel_texts(plan);
  for (const KernelId kernel : plan.kernels.ids()) {
    if (!texts[kernel].empty()) out += fmt::format("\n{}\n{}", kernel, texts[kernel]);
  }
  return out;
}

}  // namespace

std::string explain(const Plan& plan) {
  if (plan.is_segmented) return explain_segments(plan);
  std::string out = fmt::format("{} on {}\n", plan.fusion.name, plan.limits.name);
  for (const KernelPlan& kernel : plan.kernels) {
    const SegmentFacts& facts = kernel.facts;
    out += fmt::format("{} rows x {} columns in {} stage(s); reads {}, writes {}\n",
                       facts.space.rows, facts.space.columns, facts.last_stage + 1,
                       bytes_text(static_cast<double>(facts.bytes_read)),
                       bytes_text(static_cast<double>(facts.bytes_written)));
  }
  const KernelPlan& first = plan.kernels.front();
  // Rejections of families are about the whole graph; a kernel of a part has its own graph.
  const bool in_parts = !first.in_plan.empty();
  const size_t leading = plan.leading_kernels().size();
  // Decisions on schedules are about the leading kernels, in their order.
  KernelId kernel{0};
  std::string why_finished_apart;
  for (const Decision& decision : plan.decisions) {
    if (decision.question == kWhatFinishes && plan.kernels.size() > 1) {
      why_finished_apart = decision.because;
      continue;
    }
    out += "\n";
    if (!plan.kernels.contains(kernel) || !decision.question.starts_with("which schedule")) {
      out += decision_text(decision);
      if (in_parts && &decision == &plan.decisions.front()) out += refusals_text(plan.rejections);
      continue;
    }
    const KernelPlan& planned = plan.kernels[kernel];
    const bool is_first = kernel == KernelId{0};
    kernel = kernel_after(kernel);
    if (is_first) {
      out += segment_text(planned, decision, in_parts ? std::vector<Rejection>{} : plan.rejections,
                          plan.limits);
    } else {
      out += brief_text(planned, decision, why_finished_apart);
      if (kernel.index <= leading) out += families_text(planned, plan.limits);
    }
  }
  return out;
}

}  // namespace sinter
