#include "runtime/json/plan_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>
#include <utility>

#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "runtime/json/device_limits_json.h"
#include "runtime/json/json_text.h"
#include "runtime/json/plan_json.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/plan/plan_verifier.h"

namespace sinter {
namespace {

using Holds = WorkspaceTensor::Holds;

constexpr std::string_view kWhat = "the plan";
constexpr std::string_view kRemedy = "save it again with `sinter plan --save`";

constexpr std::array kHolds = {Holds::kValue,    Holds::kPartials, Holds::kOwnPartials,
                               Holds::kCounters, Holds::kMessages, Holds::kScratch};
constexpr std::array kRules = {Cut::Rule::kCycle, Cut::Rule::kRefused, Cut::Rule::kSlower,
                               Cut::Rule::kNotFound, Cut::Rule::kPinned};

std::string_view name_of(Holds holds) {
  switch (holds) {
    case Holds::kValue:
      return "value";
    case Holds::kPartials:
      return "partials";
    case Holds::kOwnPartials:
      return "own_partials";
    case Holds::kCounters:
      return "counters";
    case Holds::kMessages:
      return "messages";
    case Holds::kScratch:
      return "scratch";
  }
  unreachable();
}

// ---- Saving

Json lines_of(std::string_view text) {
  Json out = Json::array();
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <class Id>
Json numbers_of(const std::vector<Id>& ids) {
  Json out = Json::array();
  for (const Id id : ids) out.push_back(id.index);
  return out;
}

/// A kernel or call, by its place in the order of execution.
Json number_of(PlanStep step) {
  return std::visit([](auto id) { return Json(id.index); }, step);
}

Json saved(const KernelPlan& kernel) {
  Json out = {{"graph", lines_of(print(kernel.facts.fusion))}};
  Json values = Json::array();  // Pairs of the kernel's value and the plan's.
  for (const auto& [value, in_plan] : kernel.in_plan)
    values.push_back(Json::array({value.index, in_plan.index}));
  out["values"] = std::move(values);
  out["schedule"] = lines_of(print(kernel.chosen().schedule));
  out["ops"] = numbers_of(kernel.ops);
  out["is_list"] = kernel.facts.list != nullptr;
  out["is_required"] = kernel.is_required;
  out["finishes"] = kernel.finishes;
  out["is_part"] = kernel.is_part;
  out["row_parts"] = kernel.row_parts;
  out["same_as"] = kernel.same_as ? number_of(*kernel.same_as) : Json(nullptr);
  return out;
}

Json saved(const ExternalCall& call) {
  return {{"op", call.op.index}, {"before", call.before.index}};
}

Json saved(const WorkspaceTensor& tensor) {
  return {{"value", tensor.value.valid() ? Json(tensor.value.index) : Json(nullptr)},
          {"bytes", tensor.bytes},
          {"writer", number_of(tensor.writer)},
          {"holds", name_of(tensor.holds)},
          {"by_external", std::holds_alternative<CallId>(tensor.writer)},
          {"offset", tensor.offset}};
}

Json saved(const Cut& cut) {
  return {{"rule", name_of(cut.rule)},
          {"value", cut.value.index},
          {"consumer", cut.consumer.index},
          {"from", cut.from.index},
          {"to", cut.to.index},
          {"bytes", cut.bytes},
          {"why", cut.why.rule},
          {"together_us", cut.together_us},
          {"apart_us", cut.apart_us}};
}

Json saved(const IndexCheck& check) {
  return {{"take", check.take.index},
          {"index", check.index.index},
          {"limit", check.limit},
          {"kept", check.kept},
          {"name", check.name}};
}

template <class List>
Json saved_all(const List& items) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(saved(item));
  return out;
}

// ---- Loading

[[noreturn]] void refuse(std::string message) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = std::move(message),
               .remedy = std::string(kRemedy)});
}

/// The fields of one object, of which `where` says which it is.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(fmt::format("{} is no object", where_));
  }

  const Json& at(std::string_view name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse(fmt::format("{} has no field '{}'", where_, name));
    return *found;
  }
  const Json& list(std::string_view name) const {
    const Json& value = at(name);
    if (!value.is_array()) wrong(name, "a list");
    return value;
  }
  bool flag(std::string_view name) const {
    if (!at(name).is_boolean()) wrong(name, "true or false");
    return at(name).get<bool>();
  }
  std::string word(std::string_view name) const {
    if (!at(name).is_string()) wrong(name, "a text");
    return at(name).get<std::string>();
  }
  double real(std::string_view name) const {
    if (at(name).is_null()) return std::numeric_limits<double>::infinity();  // As it is written.
    if (!at(name).is_number()) wrong(name, "a number");
    return at(name).get<double>();
  }
  int64_t integer(std::string_view name) const { return whole(at(name), name); }
  /// From 0 on.
  int64_t count(std::string_view name) const {
    const int64_t number = integer(name);
    if (number < 0) wrong(name, "0 or more");
    return number;
  }
  /// From 0 on, below `end`.
  size_t place(std::string_view name, size_t end) const { return checked(at(name), name, end); }
  template <class Id>
  Id id(std::string_view name, size_t end) const {
    return Id{static_cast<uint32_t>(place(name, end))};
  }
  template <class Values>
  auto one_of(std::string_view name, const Values& values) const {
    const std::string given = word(name);
    for (const auto value : values) {
      if (given == name_of(value)) return value;
    }
    wrong(name, "a word that is known");
  }
  std::string text_of_lines(std::string_view name) const {
    std::string out;
    for (const Json& line : list(name)) {
      if (!line.is_string()) wrong(name, "a list of lines");
      out += line.get<std::string>() + "\n";
    }
    return out;
  }
  std::vector<int64_t> integers(std::string_view name) const {
    std::vector<int64_t> out;
    for (const Json& item : list(name)) out.push_back(whole(item, name));
    return out;
  }
  template <class Id>
  std::vector<Id> ids(std::string_view name, size_t end) const {
    std::vector<Id> out;
    for (const Json& item : list(name))
      out.push_back(Id{static_cast<uint32_t>(checked(item, name, end))});
    return out;
  }
  size_t checked(const Json& value, std::string_view name, size_t end) const {
    const int64_t number = whole(value, name);
    if (number < 0 || static_cast<uint64_t>(number) >= end) {
      refuse(fmt::format("'{}' of {} is {}, but there are {}", name, where_, number, end));
    }
    return static_cast<size_t>(number);
  }
  [[noreturn]] void wrong(std::string_view name, std::string_view expected) const {
    refuse(fmt::format("'{}' of {} is not {}", name, where_, expected));
  }

 private:
  int64_t whole(const Json& value, std::string_view name) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits) wrong(name, "a whole number");
    return value.get<int64_t>();
  }

  const Json& object_;
  std::string where_;
};

class Loader {
 public:
  explicit Loader(const FamilySet& families) : families_(families) {}

  Plan run(std::string_view text) {
    const Json json = taken(parse_json(text, kWhat, kRemedy));
    const Fields fields(json, std::string(kWhat));
    if (const int64_t version = fields.integer("plan_version"); version != kPlanFileVersion) {
      refuse(fmt::format("the plan's version is {}; this library reads version {}", version,
                         kPlanFileVersion));
    }
    plan_.fusion = taken(parse_fusion(fields.text_of_lines("graph")));
    check_specialised(plan_.fusion, std::string(kWhat));
    plan_.binding.symbol_sizes = fields.integers("symbol_sizes");
    plan_.limits = taken(device_limits_from_json(text_of(fields.at("device"))));
    const Json& kernels = fields.list("kernels");
    for (size_t i = 0; i < kernels.size(); ++i) plan_.kernels.push_back(kernel(kernels[i], i));
    add_steps(fields);
    add_reasons(fields);
    const std::vector<std::string> violations = plan_violations(plan_);
    if (!violations.empty()) {
      throw_error({.kind = ErrorKind::kInvalidArgument,
                   .message = fmt::format("{} breaks an invariant: {}", kWhat, violations.front()),
                   .remedy = std::string(kRemedy),
                   .log = fmt::format("{}\n", fmt::join(violations, "\n"))});
    }
    return std::move(plan_);
  }

 private:
  KernelPlan kernel(const Json& json, size_t number) {
    const std::string where = fmt::format("kernel {}", number);
    const Fields fields(json, where);
    Fusion graph = taken(parse_fusion(fields.text_of_lines("graph")));
    check_specialised(graph, where);
    const Schedule schedule = taken(parse_schedule(fields.text_of_lines("schedule")));
    auto facts =
        fields.flag("is_list") ? analyse_list(std::move(graph)) : analyse(std::move(graph));
    if (!facts) refuse_schedule(where, facts.error());
    KernelPlan out{.facts = std::move(*facts), .in_plan = {}, .candidates = {}};
    for (const Json& pair : fields.list("values")) {
      if (!pair.is_array() || pair.size() != 2) fields.wrong("values", "a list of pairs");
      const size_t own = fields.checked(pair[0], "values", out.facts.fusion.values.size());
      const size_t planned = fields.checked(pair[1], "values", plan_.fusion.values.size());
      out.in_plan[ValueId{static_cast<uint32_t>(own)}] = ValueId{static_cast<uint32_t>(planned)};
    }
    check_values(out, where);
    out.candidates = {proposed(out.facts, schedule, where)};
    out.ops = fields.ids<OpId>("ops", plan_.fusion.ops.size());
    out.is_required = fields.flag("is_required");
    out.finishes = fields.flag("finishes");
    out.is_part = fields.flag("is_part");
    out.row_parts = fields.count("row_parts");
    if (!fields.at("same_as").is_null()) out.same_as = fields.id<KernelId>("same_as", number);
    return out;
  }

  static void check_specialised(const Fusion& graph, const std::string& where) {
    if (!graph.symbols.empty())
      refuse(fmt::format("the graph of {} has extents that are no numbers", where));
  }

  /// Every tensor of a kernel is one of the plan's.
  void check_values(const KernelPlan& kernel, const std::string& where) const {
    const Fusion& graph = kernel.facts.fusion;
    const auto check = [&](ValueId value) {
      const bool is_own = kernel.in_plan.empty() && plan_.fusion.values.contains(value);
      if (!is_own && !kernel.in_plan.contains(value))
        refuse(fmt::format("{} of {} is no value of the plan", value, where));
    };
    for (const ValueId value : graph.inputs) check(value);
    for (const ValueId value : graph.outputs) check(value);
  }

  ProposedSchedule proposed(const SegmentFacts& facts, const Schedule& schedule,
                            const std::string& where) const {
    const Family* family = find_family(families_, schedule.family);
    if (family == nullptr) {
      throw_error({.kind = ErrorKind::kUnsupported,
                   .message = fmt::format("{} is of the family '{}', which is not in the set",
                                          where, schedule.family),
                   .remedy = "pass the families that it was planned with"});
    }
    const auto estimate = family->estimate(facts, schedule, plan_.limits);
    if (!estimate) refuse_schedule(where, estimate.error());
    return {schedule, *estimate, family->predict(facts, schedule, *estimate, plan_.limits)};
  }

  [[noreturn]] static void refuse_schedule(const std::string& where, const Rejection& rejection) {
    throw_error({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("{}: {}", where, sinter::text_of(rejection)),
                 .remedy = "plan the graph again for this device"});
  }

  void add_steps(const Fields& fields) {
    const size_t kernels = plan_.kernels.size();
    const size_t values = plan_.fusion.values.size();
    for (const Json& json : fields.list("calls")) {
      const Fields call(json, "a call");
      plan_.externals.push_back({.op = call.id<OpId>("op", plan_.fusion.ops.size()),
                                 .before = call.id<KernelId>("before", kernels + 1)});
    }
    for (const Json& json : fields.list("placements")) {
      const Fields placed(json, "a placement");
      const auto value = placed.id<ValueId>("value", values);
      const std::vector<int64_t> strides = placed.integers("strides");
      if (strides.size() != plan_.fusion.values[value].shape.size())
        refuse(fmt::format("the placement of {} has {} strides", value, strides.size()));
      plan_.placements[value] = {.in = placed.id<ValueId>("in", values),
                                 .offset = placed.integer("offset"),
                                 .strides = Sizes(strides.begin(), strides.end())};
    }
    for (const Json& json : fields.list("workspace")) {
      const Fields tensor(json, "a workspace tensor");
      plan_.workspace.push_back(
          {.value = tensor.at("value").is_null() ? ValueId{} : tensor.id<ValueId>("value", values),
           .bytes = tensor.count("bytes"),
           .writer = writer(tensor),
           .holds = tensor.one_of("holds", kHolds),
           .offset = tensor.count("offset")});
    }
    plan_.workspace_bytes = fields.count("workspace_bytes");
  }

  PlanStep writer(const Fields& tensor) const {
    if (tensor.flag("by_external")) return tensor.id<CallId>("writer", plan_.externals.size());
    return tensor.id<KernelId>("writer", plan_.kernels.size());
  }

  void add_reasons(const Fields& fields) {
    const size_t values = plan_.fusion.values.size();
    plan_.is_segmented = fields.flag("is_segmented");
    plan_.free_ops = fields.ids<OpId>("free_ops", plan_.fusion.ops.size());
    plan_.checks_indices = fields.flag("checks_indices");
    for (const Json& json : fields.list("index_checks")) {
      const Fields check(json, "an index check");
      plan_.index_checks.push_back({.take = check.id<ValueId>("take", values),
                                    .index = check.id<ValueId>("index", values),
                                    .limit = check.integer("limit"),
                                    .kept = check.place("kept", plan_.fusion.outputs.size()),
                                    .name = check.word("name")});
    }
    for (const Json& json : fields.list("cuts")) {
      const Fields cut(json, "a cut");
      plan_.cuts.push_back({.rule = cut.one_of("rule", kRules),
                            .value = cut.id<ValueId>("value", values),
                            .consumer = cut.id<OpId>("consumer", plan_.fusion.ops.size()),
                            .from = cut.id<KernelId>("from", plan_.kernels.size()),
                            .to = cut.id<KernelId>("to", plan_.kernels.size()),
                            .bytes = cut.integer("bytes"),
                            .why = {.subject = "", .rule = cut.word("why"), .remedy = ""},
                            .together_us = cut.real("together_us"),
                            .apart_us = cut.real("apart_us")});
    }
  }

  const FamilySet& families_;
  Plan plan_;
};

}  // namespace

std::string save_plan(const Plan& plan) {
  Json placements = Json::array();
  for (const auto& [value, placed] : plan.placements) {
    placements.push_back({{"value", value.index},
                          {"in", placed.in.index},
                          {"offset", placed.offset},
                          {"strides", std::vector(placed.strides.begin(), placed.strides.end())}});
  }
  const Json out = {{"plan_version", kPlanFileVersion},
                    {"graph", lines_of(print(plan.fusion))},
                    {"symbol_sizes", plan.binding.symbol_sizes},
                    {"device", to_json(plan.limits)},
                    {"kernels", saved_all(plan.kernels)},
                    {"calls", saved_all(plan.externals)},
                    {"placements", std::move(placements)},
                    {"workspace", saved_all(plan.workspace)},
                    {"workspace_bytes", plan.workspace_bytes},
                    {"is_segmented", plan.is_segmented},
                    {"cuts", saved_all(plan.cuts)},
                    {"free_ops", numbers_of(plan.free_ops)},
                    {"checks_indices", plan.checks_indices},
                    {"index_checks", saved_all(plan.index_checks)}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Plan> load_plan(std::string_view text, const FamilySet& families) {
  return as_result([&]() -> Result<Plan> { return Loader(families).run(text); });
}

}  // namespace sinter
