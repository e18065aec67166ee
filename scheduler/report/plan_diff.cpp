#include "scheduler/report/plan_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/report/text_table.h"

namespace sinter {
namespace {

std::string name_in(const Fusion& fusion, ValueId value) {
  const std::string& name = fusion.values[value].name;
  return name.empty() ? fmt::format("{}", value) : name;
}

ValueId plan_value(const KernelPlan& kernel, ValueId value) {
  return kernel.in_plan.empty() ? value : kernel.in_plan.at(value);
}

/// True if the same ops stand in the same places and read the same values, at any extents.
bool has_same_ops(const Fusion& a, const Fusion& b) {
  if (a.ops.size() != b.ops.size()) return false;
  return std::ranges::all_of(a.op_ids(), [&](OpId op) {
    return text_of(a.ops[op].kind) == text_of(b.ops[op].kind) &&
           a.ops[op].operands == b.ops[op].operands && a.ops[op].results == b.ops[op].results;
  });
}

/// Properties by which kernels of two plans are matched.
struct Likeness {
  uint64_t graph = 0;  ///< Structural hash.
  uint8_t role = 0;    ///< Leading, finishing, or a part.
  std::set<std::string> written{};
};

/// Matches kernels, or calls, of two plans.
template <IsId K>
class Matching {
 public:
  using Likenesses = IdVector<K, Likeness>;
  using Pair = Both<K>;
  Matching(Likenesses a, Likenesses b) : a_(std::move(a)), b_(std::move(b)) {}

  std::vector<Pair> run() {
    match([](const Likeness& a, const Likeness& b) {
      return a.graph == b.graph && !a.written.empty() && a.written == b.written;
    });
    match([](const Likeness& a, const Likeness& b) {
      return !a.written.empty() && a.written == b.written;
    });
    match([](const Likeness& a, const Likeness& b) { return a.graph == b.graph; });
    match_overlapping();
    std::ranges::sort(pairs_, {}, &Pair::a);
    return pairs_;
  }

  [[nodiscard]] std::vector<K> left_a() const { return left(a_, taken_a_); }
  [[nodiscard]] std::vector<K> left_b() const { return left(b_, taken_b_); }

 private:
  template <class Alike>
  void match(Alike alike) {
    for (const K a : a_.ids()) {
      if (taken_a_[a] != 0) continue;
      for (const K b : b_.ids()) {
        if (taken_b_[b] != 0 || a_[a].role != b_[b].role || !alike(a_[a], b_[b])) continue;
        take(a, b);
        break;
      }
    }
  }

  /// Matches items with common names, those with most in common first.
  void match_overlapping() {
    std::vector<std::pair<size_t, Pair>> found;
    for (const K a : a_.ids()) {
      for (const K b : b_.ids()) {
        if (taken_a_[a] != 0 || taken_b_[b] != 0 || a_[a].role != b_[b].role) continue;
        const auto shared = std::ranges::count_if(
            a_[a].written, [&](const std::string& name) { return b_[b].written.contains(name); });
        if (shared > 0) found.push_back({static_cast<size_t>(shared), {a, b}});
      }
    }
    std::ranges::stable_sort(found, std::ranges::greater{},
                             [](const auto& one) { return one.first; });
    for (const auto& [shared, pair] : found) {
      if (taken_a_[pair.a] == 0 && taken_b_[pair.b] == 0) take(pair.a, pair.b);
    }
  }

  void take(K a, K b) {
    taken_a_[a] = 1;
    taken_b_[b] = 1;
    pairs_.push_back({a, b});
  }
  static std::vector<K> left(const Likenesses& all, const IdMap<K, uint8_t>& taken) {
    std::vector<K> out;
    for (const K id : all.ids()) {
      if (taken[id] == 0) out.push_back(id);
    }
    return out;
  }

  Likenesses a_;
  Likenesses b_;
  IdMap<K, uint8_t> taken_a_;
  IdMap<K, uint8_t> taken_b_;
  std::vector<Pair> pairs_;
};

class Comparison {
 public:
  Comparison(const Plan& a, const Plan& b)
      : a_(a), b_(b), numbers_count_(has_same_ops(a.fusion, b.fusion)) {}

  PlanDiff run() {
    compare_problems();
    Matching<KernelId> kernels(kernels_of(a_), kernels_of(b_));
    const std::vector<Both<KernelId>> matched = kernels.run();
    for (const Both<KernelId>& pair : matched) out_.kernels.push_back(compared(pair));
    out_.only_in_a = kernels.left_a();
    out_.only_in_b = kernels.left_b();
    Matching<CallId> calls(calls_of(a_), calls_of(b_));
    const std::vector<Both<CallId>> matched_calls = calls.run();
    out_.calls_only_in_a = calls.left_a();
    out_.calls_only_in_b = calls.left_b();
    out_.same_order = is_same_order(matched, matched_calls);
    out_.predicted_us = {a_.predicted_us(), b_.predicted_us()};
    out_.bytes = {bytes_of_kernels(a_), bytes_of_kernels(b_)};
    out_.workspace_bytes = {a_.workspace_bytes, b_.workspace_bytes};
    return std::move(out_);
  }

 private:
  void compare_problems() {
    out_.same_graph = structurally_equal(a_.fusion, b_.fusion);
    change("fusion", a_.fusion.name, b_.fusion.name);
    change("device", a_.limits.name, b_.limits.name);
    if (a_.limits != b_.limits && a_.limits.name == b_.limits.name)
      out_.problem.push_back({"limits of the device", "one set", "another"});
    compare_tensors("input", a_.fusion.inputs, b_.fusion.inputs);
    compare_tensors("output", a_.fusion.outputs, b_.fusion.outputs);
  }

  void change(std::string what, std::string a, std::string b) {
    if (a != b) out_.problem.push_back({std::move(what), std::move(a), std::move(b)});
  }

  /// Compares by position, since callers pass tensors by position.
  void compare_tensors(const std::string& what, const std::vector<ValueId>& a,
                       const std::vector<ValueId>& b) {
    const auto text = [](const Fusion& fusion, const std::vector<ValueId>& values, size_t i) {
      if (i >= values.size()) return std::string("none");
      const Value& value = fusion.values[values[i]];
      return fmt::format("{}{}{}", value.name, value.name.empty() ? "" : " ",
                         text_of(fusion, value.type, value.shape));
    };
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
      change(fmt::format("{} {}", what, i), text(a_.fusion, a, i), text(b_.fusion, b, i));
  }

  /// Names by which values of both plans are identified; empty if a match could be a coincidence.
  [[nodiscard]] std::set<std::string> names(const Fusion& fusion,
                                            const std::vector<ValueId>& values) const {
    std::set<std::string> out;
    for (const ValueId value : values) {
      if (numbers_count_ || !fusion.values[value].name.empty()) out.insert(name_in(fusion, value));
    }
    return out;
  }

  [[nodiscard]] IdVector<KernelId, Likeness> kernels_of(const Plan& plan) const {
    IdVector<KernelId, Likeness> out;
    for (const KernelPlan& kernel : plan.kernels) {
      std::vector<ValueId> written;
      for (const ValueId output : kernel.facts.fusion.outputs)
        written.push_back(plan_value(kernel, output));
      out.push_back({.graph = structural_hash(kernel.facts.fusion),
                     .role = static_cast<uint8_t>(kernel.finishes  ? 1
                                                  : kernel.is_part ? 2
                                                                   : 0),
                     .written = names(plan.fusion, written)});
    }
    return out;
  }

  [[nodiscard]] IdVector<CallId, Likeness> calls_of(const Plan& plan) const {
    IdVector<CallId, Likeness> out;
    for (const ExternalCall& call : plan.externals) {
      const Op& op = plan.fusion.ops[call.op];
      // A graph of the call and its operands, with their kinds and types only.
      Fusion alone;
      const auto append = [&](OpKind kind, std::vector<ValueId> operands,
                              std::span<const ValueId> like) {
        const OpId id =
            alone.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
        for (const ValueId value : like) {
          const Value& info = plan.fusion.values[value];
          const auto place = static_cast<uint32_t>(alone.ops[id].results.size());
          alone.ops[id].results.push_back(alone.values.push_back(
              {.type = info.type, .shape = info.shape, .def = id, .result = place}));
        }
        return alone.ops[id].results;
      };
      for (const ValueId& operand : op.operands)
        alone.inputs.push_back(append(InputOp{}, {}, {&operand, 1}).front());
      alone.outputs = append(op.kind, alone.inputs, op.results);
      out.push_back({.graph = structural_hash(alone), .written = names(plan.fusion, op.results)});
    }
    return out;
  }

  [[nodiscard]] KernelDiff compared(const Both<KernelId>& pair) const {
    const KernelPlan& a = a_.kernels[pair.a];
    const KernelPlan& b = b_.kernels[pair.b];
    KernelDiff out{.segment = pair,
                   .same_graph = structurally_equal(a.facts.fusion, b.facts.fusion),
                   .rows = {a.facts.space.rows, b.facts.space.rows},
                   .columns = {a.facts.space.columns, b.facts.space.columns},
                   .bytes_read = {a.facts.bytes_read, b.facts.bytes_read},
                   .bytes_written = {a.facts.bytes_written, b.facts.bytes_written},
                   .predicted_us = {a.chosen().predicted.total_us, b.chosen().predicted.total_us}};
    Schedule before = a.chosen().schedule;
    Schedule after = b.chosen().schedule;
    std::map<std::string, FieldChange> kept;
    for (const KeptValue& value : before.kept)
      kept[name_in(a.facts.fusion, value.value)].before = text_of(value.residency);
    for (const KeptValue& value : after.kept)
      kept[name_in(b.facts.fusion, value.value)].after = text_of(value.residency);
    before.kept.clear();
    after.kept.clear();
    out.schedule = changes_between(before, after);
    for (auto& [name, change] : kept) {
      if (change.before == change.after) continue;
      for (std::string* text : {&change.before, &change.after}) {
        if (text->empty()) *text = "none";
      }
      change.field = "persist " + name;
      out.schedule.push_back(std::move(change));
    }
    return out;
  }

  [[nodiscard]] bool is_same_order(const std::vector<Both<KernelId>>& kernels,
                                   const std::vector<Both<CallId>>& calls) const {
    std::map<PlanStep, StepId> place;  // Of each step of b.
    const IdVector<StepId, PlanStep> steps = b_.steps();
    for (const StepId id : steps.ids()) place[steps[id]] = id;
    std::map<PlanStep, PlanStep> like;
    for (const Both<KernelId>& pair : kernels) like[pair.a] = pair.b;
    for (const Both<CallId>& pair : calls) like[pair.a] = pair.b;
    StepId last{0};
    for (const PlanStep& step : a_.steps()) {
      const auto found = like.find(step);
      if (found == like.end()) continue;
      const StepId there = place.at(found->second);
      if (there < last) return false;
      last = there;
    }
    return true;
  }

  static int64_t bytes_of_kernels(const Plan& plan) {
    int64_t bytes = 0;
    for (const KernelPlan& kernel : plan.kernels)
      bytes += kernel.facts.bytes_read + kernel.facts.bytes_written;
    return bytes;
  }

  const Plan& a_;
  const Plan& b_;
  bool numbers_count_;
  PlanDiff out_;
};

std::string size_text(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

std::string changed_text(const std::string& a, const std::string& b) {
  return a == b ? a : a + " -> " + b;
}

std::string kernel_diff_text(const KernelDiff& kernel, const Plan& a, const Plan& b) {
  std::string out =
      fmt::format("\nkernel {}{}\n",
                  changed_text(kernel_text(a, kernel.segment.a), kernel_text(b, kernel.segment.b)),
                  kernel.same_graph ? "" : ", another graph");
  const auto add = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) out += fmt::format("  {}: {} -> {}\n", what, before, after);
  };
  const auto number = [](auto value) { return fmt::format("{}", value); };
  add("rows", number(kernel.rows.a), number(kernel.rows.b));
  add("columns", number(kernel.columns.a), number(kernel.columns.b));
  if (kernel.predicted_us.differs())
    out += fmt::format("  predicted: {:.2f} us -> {:.2f} us\n", kernel.predicted_us.a,
                       kernel.predicted_us.b);
  if (kernel.bytes_read.differs())
    out += fmt::format("  reads: {} -> {}\n", size_text(kernel.bytes_read.a),
                       size_text(kernel.bytes_read.b));
  if (kernel.bytes_written.differs())
    out += fmt::format("  writes: {} -> {}\n", size_text(kernel.bytes_written.a),
                       size_text(kernel.bytes_written.b));
  for (const FieldChange& change : kernel.schedule) add(change.field, change.before, change.after);
  return out;
}

/// The kernels and calls without a match in the other plan.
std::string left_text(const Plan& plan, const std::vector<KernelId>& kernels,
                      const std::vector<CallId>& calls, char which) {
  std::string out;
  for (const KernelId kernel : kernels) {
    const KernelPlan& segment = plan.kernels[kernel];
    out += fmt::format("  kernel {}: {:.2f} us, reads {}, writes {}\n", kernel_text(plan, kernel),
                       segment.chosen().predicted.total_us, size_text(segment.facts.bytes_read),
                       size_text(segment.facts.bytes_written));
  }
  for (const CallId call : calls) out += fmt::format("  call {}\n", call_text(plan, call));
  return out.empty() ? "" : fmt::format("\nonly in {}\n{}", which, out);
}

std::string totals_text(const PlanDiff& diff, const Plan& a, const Plan& b) {
  using enum TextTable::Align;
  TextTable table({"", "a", "b"}, {kLeft, kRight, kRight});
  table.row({"kernels", fmt::format("{}", a.kernels.size()), fmt::format("{}", b.kernels.size())});
  table.row({"external calls", fmt::format("{}", a.externals.size()),
             fmt::format("{}", b.externals.size())});
  table.row({"predicted us", fmt::format("{:.1f}", diff.predicted_us.a),
             fmt::format("{:.1f}", diff.predicted_us.b)});
  table.row({"kernels move", size_text(diff.bytes.a), size_text(diff.bytes.b)});
  table.row({"workspace", size_text(diff.workspace_bytes.a), size_text(diff.workspace_bytes.b)});
  return table.text();
}

}  // namespace

bool PlanDiff::equal() const {
  return problem.empty() && same_graph && only_in_a.empty() && only_in_b.empty() &&
         calls_only_in_a.empty() && calls_only_in_b.empty() && same_order &&
         std::ranges::all_of(kernels, &KernelDiff::equal) && !predicted_us.differs() &&
         !bytes.differs() && !workspace_bytes.differs();
}

PlanDiff diff(const Plan& a, const Plan& b) { return Comparison(a, b).run(); }

std::string kernel_text(const Plan& plan, KernelId id) {
  const KernelPlan& kernel = plan.kernels[id];
  std::vector<std::string> written;
  for (const ValueId output : kernel.facts.fusion.outputs)
    written.push_back(name_in(plan.fusion, plan_value(kernel, output)));
  return fmt::format("{} {} ({})", id.index, kernel.chosen().schedule.family,
                     fmt::join(written, ", "));
}

std::string call_text(const Plan& plan, CallId call) {
  const Op& op = plan.fusion.ops[plan.externals[call].op];
  std::vector<std::string> made;
  for (const ValueId result : op.results) made.push_back(name_in(plan.fusion, result));
  return fmt::format("{} ({})", std::get<ExternalOp>(op.kind).name, fmt::join(made, ", "));
}

std::string diff_text(const PlanDiff& diff, const Plan& a, const Plan& b) {
  if (diff.equal()) return "the plans are equal\n";
  std::string out = fmt::format("a: {} on {}\nb: {} on {}\n", a.fusion.name, a.limits.name,
                                b.fusion.name, b.limits.name);
  for (const FieldChange& change : diff.problem)
    out += fmt::format("  {}: {} -> {}\n", change.field, change.before, change.after);
  if (!diff.same_graph && diff.problem.empty()) out += "  the graphs differ within\n";
  out += totals_text(diff, a, b);
  const auto same = std::ranges::count_if(diff.kernels, &KernelDiff::equal);
  if (same > 0) out += fmt::format("\n{} kernel(s) are the same in both\n", same);
  if (!diff.same_order) out += "\nwhat both have runs in another order\n";
  for (const KernelDiff& kernel : diff.kernels) {
    if (!kernel.equal()) out += kernel_diff_text(kernel, a, b);
  }
  return out + left_text(a, diff.only_in_a, diff.calls_only_in_a, 'a') +
         left_text(b, diff.only_in_b, diff.calls_only_in_b, 'b');
}

}  // namespace sinter
