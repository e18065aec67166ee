#include "scheduler/segmentation/segment_pins.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/printer.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/reachability.h"

namespace sinter {
namespace {

constexpr size_t kMostNamed = 6;  ///< Most values that an error lists.

/// "%v3 h, %v7": at most kMostNamed of them.
std::string listed(const Fusion& fusion, const std::vector<ValueId>& values) {
  std::vector<std::string> out;
  for (const ValueId value : values) {
    if (out.size() < kMostNamed) out.push_back(pinned_text(fusion, value));
  }
  const bool has_more = values.size() > kMostNamed;
  return fmt::format("{}{}", fmt::join(out, ", "), has_more ? ", ..." : "");
}

Error invalid(std::string message, std::string remedy, std::vector<ValueId> values,
              std::vector<OpId> ops = {}) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy),
          .values = std::move(values),
          .ops = std::move(ops)};
}

/// "%v12" as an id; no value for other texts.
std::optional<ValueId> parse_id(std::string_view text, const Fusion& fusion) {
  if (!text.starts_with("%v")) return std::nullopt;
  uint32_t index = 0;
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data() + 2, last, index);
  if (code != std::errc() || end != last || index >= fusion.values.size()) return std::nullopt;
  return ValueId{index};
}

/// The value of a graph that has this name, or else this id.
Result<ValueId> find_value(const Fusion& fusion, const std::string& text) {
  std::vector<ValueId> found;
  std::vector<ValueId> named;
  for (const ValueId value : fusion.value_ids()) {
    const std::string& name = fusion.values[value].name;
    if (!name.empty() && fusion.def_as<InputOp>(value) == nullptr) named.push_back(value);
    if (!text.empty() && name == text) found.push_back(value);
  }
  if (found.empty()) {
    if (const auto id = parse_id(text, fusion)) found.push_back(*id);
  }
  if (found.size() == 1) return found.front();
  if (!found.empty()) {
    return fail(
        invalid(fmt::format("{} values of the simplified graph are named '{}'", found.size(), text),
                fmt::format("pin one by its id: {}", listed(fusion, found)), found));
  }
  std::vector<std::string_view> names;
  for (const ValueId value : named) names.push_back(fusion.values[value].name);
  return fail(
      invalid(fmt::format("no value of the simplified graph is named '{}'", text),
              suggestion(text, names,
                         named.empty()
                             ? "pin a value by its id, as %v3, in the simplified graph"
                             : fmt::format("pin a value by its id in the simplified graph, or one "
                                           "of {}",
                                           listed(fusion, named))),
              {}));
}

}  // namespace

std::string pinned_text(const Fusion& fusion, ValueId value) {
  const std::string& name = fusion.values[value].name;
  return fmt::format("{}{}{}", value, name.empty() ? "" : " ", name);
}

class PinResolver {
 public:
  PinResolver(const WorkGraph& graph, const PlanOptions& options,
              const std::vector<std::vector<NodeId>>& ties)
      : graph_(graph), fusion_(graph.fusion()), options_(options), ties_(ties) {}

  Result<SegmentPins> run() {
    out_.graph_ = &graph_;
    for (const CutPin& cut : options_.cuts) {
      if (auto added = add_cut(cut); !added) return fail(added.error());
    }
    for (const GroupPin& join : options_.joins) {
      if (auto added = add_join(join); !added) return fail(added.error());
    }
    for (const WorkGraph::Bound& bound : graph_.bound()) out_.groups_.push_back(bound.nodes);
    std::ranges::copy(ties_, std::back_inserter(out_.groups_));
    unite_shared();
    for (const std::vector<NodeId>& group : out_.groups_) {
      if (auto checked = check(group); !checked) return fail(checked.error());
    }
    if (auto checked = check_order(); !checked) return fail(checked.error());
    return std::move(out_);
  }

 private:
  Result<void> add_cut(const CutPin& pin) {
    const auto value = find_value(fusion_, pin.value);
    if (!value) return fail(value.error());
    if (auto made = check_made(*value, Wish::kMemory); !made) return made;
    out_.cuts_.insert(*value);
    return {};
  }

  Result<void> add_join(const GroupPin& pin) {
    if (pin.values.empty())
      return fail(invalid("a pinned group has no values", "name those that one kernel makes", {}));
    std::vector<NodeId> nodes;
    for (const std::string& text : pin.values) {
      const auto value = find_value(fusion_, text);
      if (!value) return fail(value.error());
      if (auto made = check_made(*value, Wish::kTogether); !made) return made;
      const OpId op = fusion_.values[*value].def;
      const NodeId node = graph_.node_of(op);
      if (graph_.nodes()[node].is_external) {
        return fail(invalid(fmt::format("{} is pinned to be made with others, but comes from the "
                                        "external call '{}'",
                                        pinned_text(fusion_, *value),
                                        std::get<ExternalOp>(fusion_.ops[op].kind).name),
                            instead(*value), {*value}, {op}));
      }
      nodes.push_back(node);
    }
    std::ranges::sort(nodes);
    nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
    out_.groups_.push_back(graph_.closed(nodes));
    return {};
  }

  enum class Wish : uint8_t { kMemory, kTogether };

  /// Rejects a value that no node makes, and one that its readers would recompute instead of
  /// reading it.
  [[nodiscard]] Result<void> check_made(ValueId value, Wish wish) const {
    const Op& op = fusion_.def_of(value);
    const bool has_node = graph_.maker_of(value) != WorkGraph::kNone;
    const bool is_free = graph_.is_free(value);
    if (has_node && (!is_free || wish == Wish::kTogether)) return {};
    std::string reason = "nothing needs it";
    if (std::holds_alternative<InputOp>(op.kind)) {
      reason = "it is an input, which no kernel makes";
    } else if (is_free) {
      reason = fmt::format("every kernel that needs it computes it again ({})", text_of(op.kind));
    }
    return fail(invalid(
        fmt::format("{} is pinned to {}, but {}", pinned_text(fusion_, value),
                    wish == Wish::kMemory ? "go through memory" : "be made with others", reason),
        instead(value), {value}, {fusion_.values[value].def}));
  }

  /// Values that could be pinned instead of a value: its operands and its users, found through free
  /// ops.
  [[nodiscard]] std::string instead(ValueId value) const {
    const auto users = users_of(fusion_);
    std::set<ValueId> near;
    const auto operands = [&](ValueId of) { return fusion_.def_of(of).operands; };
    const auto results = [&](ValueId of) {
      std::vector<ValueId> out;
      for (const OpId user : users[of])
        std::ranges::copy(fusion_.ops[user].results, std::back_inserter(out));
      return out;
    };
    add_owned(value, operands, near);
    add_owned(value, results, near);
    if (near.empty()) return "leave the pin out";
    return fmt::format("pin one of {} instead", listed(fusion_, {near.begin(), near.end()}));
  }

  /// Adds the nearest values that nodes own, found from a value through free ones.
  template <class Neighbours>
  void add_owned(ValueId from, Neighbours neighbours, std::set<ValueId>& near) const {
    std::vector<ValueId> open = {from};
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!seen.insert(value).second) continue;
      for (const ValueId other : neighbours(value)) {
        const NodeId node = graph_.maker_of(other);
        if (graph_.is_free(other)) {
          open.push_back(other);
        } else if (node != WorkGraph::kNone && !graph_.nodes()[node].is_external) {
          near.insert(other);
        }
      }
    }
  }

  void unite_shared() {
    std::vector<std::vector<NodeId>>& groups = out_.groups_;
    for (size_t a = 0; a < groups.size(); ++a) {
      for (size_t b = a + 1; b < groups.size();) {
        std::vector<NodeId> shared;
        std::ranges::set_intersection(groups[a], groups[b], std::back_inserter(shared));
        if (shared.empty()) {
          ++b;
          continue;
        }
        std::vector<NodeId> both;
        std::ranges::set_union(groups[a], groups[b], std::back_inserter(both));
        groups[a] = graph_.closed(both);
        groups.erase(groups.begin() + static_cast<ptrdiff_t>(b));
        b = a + 1;  // The union may share nodes with earlier groups.
      }
    }
  }

  [[nodiscard]] std::vector<ValueId> made_by(const std::vector<NodeId>& group) const {
    std::vector<ValueId> out;
    for (const NodeId node : group)
      out.push_back(fusion_.ops[graph_.nodes()[node].op].results.front());
    return out;
  }

  /// Rejects groups with calls or pinned cuts between their nodes.
  [[nodiscard]] Result<void> check(const std::vector<NodeId>& group) const {
    for (const NodeId node : group) {
      const OpId op = graph_.nodes()[node].op;
      if (!graph_.nodes()[node].is_external) continue;
      return fail(invalid(
          fmt::format("the external call '{}' lies between values that are pinned to one kernel",
                      std::get<ExternalOp>(fusion_.ops[op].kind).name),
          "join what lies before the call, or what lies behind it", {made_by(group)}, {op}));
    }
    for (const ValueId cut : out_.cuts_) {
      if (!cuts_through(cut, group)) continue;
      return fail(invalid(
          fmt::format("{} is pinned to go through memory, and to be made and read in one kernel",
                      pinned_text(fusion_, cut)),
          "leave one of both pins out", {cut}, {fusion_.values[cut].def}));
    }
    return {};
  }

  [[nodiscard]] bool cuts_through(ValueId cut, const std::vector<NodeId>& group) const {
    const NodeId producer = graph_.maker_of(cut);
    return std::ranges::binary_search(group, producer) &&
           std::ranges::any_of(graph_.readers(cut), [&](NodeId reader) {
             return std::ranges::binary_search(group, reader);
           });
  }

  /// Rejects groups that read from each other.
  [[nodiscard]] Result<void> check_order() const {
    std::vector<NodeId> group_of(graph_.size());
    for (NodeId node = 0; node < graph_.size(); ++node) group_of[node] = node;
    for (const std::vector<NodeId>& group : out_.groups_) {
      for (const NodeId node : group) group_of[node] = group.front();
    }
    std::vector<std::set<NodeId>> next(graph_.size());
    std::vector<size_t> waits(graph_.size());
    for (NodeId node = 0; node < graph_.size(); ++node) {
      for (const NodeId producer : graph_.nodes()[node].producers) {
        const NodeId from = group_of[producer];
        const NodeId to = group_of[node];
        if (from != to && next[from].insert(to).second) ++waits[to];
      }
    }
    std::vector<NodeId> ready;
    for (NodeId node = 0; node < graph_.size(); ++node) {
      if (group_of[node] == node && waits[node] == 0) ready.push_back(node);
    }
    while (!ready.empty()) {
      const NodeId group = ready.back();
      ready.pop_back();
      for (const NodeId later : next[group]) {
        if (--waits[later] == 0) ready.push_back(later);
      }
    }
    for (const std::vector<NodeId>& group : out_.groups_) {
      if (waits[group.front()] == 0) continue;
      return fail(invalid("pinned groups would wait for each other: each reads what another makes",
                          "pin them as one group, or leave one of them out", made_by(group)));
    }
    return {};
  }

  const WorkGraph& graph_;
  const Fusion& fusion_;
  const PlanOptions& options_;
  const std::vector<std::vector<NodeId>>& ties_;
  SegmentPins out_;
};

Result<SegmentPins> SegmentPins::resolve(const WorkGraph& graph, const PlanOptions& options,
                                         const std::vector<std::vector<NodeId>>& ties) {
  return PinResolver(graph, options, ties).run();
}

std::optional<Rejection> SegmentPins::forbids(std::span<const NodeId> group) const {
  const auto has = [&](NodeId node) { return std::ranges::binary_search(group, node); };
  for (const ValueId cut : cuts_) {
    if (!has(graph_->maker_of(cut))) continue;
    if (std::ranges::none_of(graph_->readers(cut), has)) continue;
    return Rejection{
        .subject = "segmentation",
        .rule = std::string(kPinnedCutRule),
        .at = cut,
        .remedy = fmt::format("leave the pin of {} out", pinned_text(graph_->fusion(), cut))};
  }
  for (const std::vector<NodeId>& pinned : groups_) {
    const auto count = static_cast<size_t>(std::ranges::count_if(pinned, has));
    if (count == 0 || count == pinned.size()) continue;
    return Rejection{.subject = "segmentation",
                     .rule = "it has a part of what has to be one kernel",
                     .value = static_cast<double>(count),
                     .limit = static_cast<double>(pinned.size()),
                     .unit = "ops",
                     .remedy = "leave the pin or the alias of an output out"};
  }
  return std::nullopt;
}

std::vector<Decision> pin_decisions(const WorkGraph& graph, const PlanOptions& options,
                                    const std::vector<KernelId>& segment_of) {
  const Fusion& fusion = graph.fusion();
  const auto runner = [&](NodeId node) {
    const WorkNode& work = graph.nodes()[node];
    if (!work.is_external) return fmt::format("{}", segment_of[node]);
    return fmt::format("call {}", std::get<ExternalOp>(fusion.ops[work.op].kind).name);
  };
  std::vector<Decision> out;
  for (const CutPin& pin : options.cuts) {
    const ValueId value = *find_value(fusion, pin.value);
    std::set<std::string> readers;
    for (const NodeId reader : graph.readers(value)) readers.insert(runner(reader));
    out.push_back(
        {.question = fmt::format("how does {} reach its readers", pinned_text(fusion, value)),
         .chosen = "through memory",
         .because = fmt::format("it is pinned; made by {}{}{}", runner(graph.maker_of(value)),
                                readers.empty() ? "" : ", read by ", fmt::join(readers, ", "))});
  }
  for (const GroupPin& pin : options.joins) {
    std::vector<ValueId> values;
    for (const std::string& text : pin.values) values.push_back(*find_value(fusion, text));
    out.push_back({.question = fmt::format("what makes {}", listed(fusion, values)),
                   .chosen = runner(graph.maker_of(values.front())),
                   .because = "they are pinned to run together"});
  }
  return out;
}

}  // namespace sinter
