#include "benchmarks/cost_model/timed_problems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "benchmarks/result_file.h"
#include "fusion_ir/error.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "tests/support/canned_fusions.h"

namespace sinter::bench {
namespace {

std::runtime_error error_of(const std::string& what, const Error& error) {
  return std::runtime_error(fmt::format("{}: {}", what, error.text()));
}

/// Facts of a graph as one segment, whatever the planner would cut today, so that the problems do
/// not depend on the constants. Nothing: it is no single segment.
std::optional<SegmentFacts> whole_facts(const std::string& name, const Fusion& fusion,
                                        const ExtentValues& values) {
  const auto binding = bind_extents(fusion, values);
  if (!binding) throw error_of(name, binding.error());
  auto facts = analyse(simplify(specialize(fusion, *binding)));
  if (!facts) return std::nullopt;
  return std::move(*facts);
}

/// The graphs of the suite, with the names of their extents.
class Suite {
 public:
  explicit Suite(std::string folder) : folder_(std::move(folder)) {
    const auto listed = nlohmann::json::parse(read_result(folder_ + "/suite.json"));
    for (const char* group : {"kernels", "quantisation"}) {
      for (const auto& kernel : listed.at(group))
        extents_[kernel.at("name")] = kernel.at("extents").get<std::vector<std::string>>();
    }
  }

  [[nodiscard]] std::optional<SegmentFacts> facts_of(const nlohmann::json& row) const {
    const std::string kernel = row.at("kernel");
    const std::string type = row.at("type");
    const std::vector<int64_t> shape = row.at("shape");
    std::string text = read_result(folder_ + "/" + kernel + ".fir");
    for (size_t at = 0; type == "f32" && (at = text.find("bf16", at)) != std::string::npos;)
      text.replace(at, 4, "f32");
    const auto fusion = parse_fusion(text);
    if (!fusion) throw error_of(kernel, fusion.error());
    const std::vector<std::string>& extents = extents_.at(kernel);
    ExtentValues values;
    for (size_t i = 0; i < shape.size(); ++i) values[extents.at(i)] = shape[i];
    // The batches of policy optimisation lie apart by a position more.
    if (shape.size() < extents.size()) values[extents.back()] = (shape[1] + 1) * shape[2];
    return whole_facts(kernel, *fusion, values);
  }

 private:
  std::string folder_;
  std::map<std::string, std::vector<std::string>> extents_;
};

/// Facts of a graph in a file of a folder, of a row that names its sizes.
std::optional<SegmentFacts> facts_of_cell(const std::string& folder, const nlohmann::json& row) {
  const std::string name = row.at("kernel");
  const auto fusion = parse_fusion(read_result(folder + "/" + name + ".fir"));
  if (!fusion) throw error_of(name, fusion.error());
  return whole_facts(name, *fusion, row.at("sizes").get<ExtentValues>());
}

class Reader {
 public:
  Reader(TimedSet& set, const std::string& benchmarks)
      : set_(set), suite_(benchmarks + "/suite"), cells_(benchmarks + "/compare/cells") {}

  void add_suite_row(const nlohmann::json& row, const std::string& date) {
    const std::string name = fmt::format(
        "{} {} {}", row.at("kernel").get<std::string>(), row.at("type").get<std::string>(),
        fmt::join(row.at("shape").get<std::vector<int64_t>>(), " x "));
    add(name, row, row.at("schedules").front(), date, [&] { return suite_.facts_of(row); });
  }

  void add_cell_row(const nlohmann::json& row, const std::string& date) {
    const std::string name =
        fmt::format("{} {}", row.at("kernel").get<std::string>(),
                    fmt::join(row.at("shape").get<std::vector<int64_t>>(), " x "));
    add(name, row, row.at("schedules").front(), date, [&] { return facts_of_cell(cells_, row); });
  }

  void add_canned_row(const nlohmann::json& row, const std::string& date) {
    if (!row.contains("schedule")) return;
    const std::string name =
        fmt::format("{} {} x {}", row.at("fusion").get<std::string>(),
                    row.at("rows").get<int64_t>(), row.at("cols").get<int64_t>());
    add(name, row, row.at("schedule"), date, [&] { return facts_of_canned(row); });
  }

  void finish() {
    for (auto& [place, problem] : problems_) {
      if (!problem || problem->timed.size() < 2) continue;
      // What spilled once may not any more: another compiler, or another lowering.
      std::erase_if(problem->spilled, [&](const TimedSchedule& spilled) {
        return std::ranges::find(problem->timed, spilled.schedule, &TimedSchedule::schedule) !=
               problem->timed.end();
      });
      set_.problems.push_back(std::move(*problem));
    }
  }

 private:
  /// Leaves out what failed, or is of a schedule that is no longer legal or is expected to spill.
  template <class Facts>
  void add(const std::string& name, const nlohmann::json& row, const std::string& text,
           const std::string& date, const Facts& facts_of) {
    const auto us = row.at("us").get<double>();
    if (us <= 0.0) return;
    auto schedule = parse_schedule(text);
    if (!schedule) return;
    const Family* family = find_family(set_.families, schedule->family);
    if (family == nullptr || is_outdated(*schedule, date)) return;
    const auto [known, is_new] = problems_.try_emplace({row.contains("sizes"), name});
    if (is_new) {
      if (auto facts = facts_of())
        known->second =
            TimedProblem{.name = name, .key = key_of(row), .facts = std::move(*facts), .timed = {}};
    }
    if (!known->second) return;
    TimedProblem& problem = *known->second;
    // A spill costs what the compiler made of it, which the estimate does not know.
    const bool spills = row.value("spill_bytes", int64_t{0}) != 0;
    std::vector<TimedSchedule>& timed = spills ? problem.spilled : problem.timed;
    const auto same = std::ranges::find(timed, *schedule, &TimedSchedule::schedule);
    if (same != timed.end()) {
      same->us = std::min(same->us, us);
      return;
    }
    const auto estimate = family->estimate(problem.facts, *schedule, set_.limits);
    if (!estimate || estimate->spilled_registers > 0) return;
    timed.push_back(
        {.schedule = std::move(*schedule), .estimate = *estimate, .family = family, .us = us});
  }

  static nlohmann::json key_of(const nlohmann::json& row) {
    nlohmann::json key;
    for (const char* field : {"kernel", "type", "shape", "fusion", "rows", "cols"})
      if (row.contains(field)) key[field] = row.at(field);
    return key;
  }

  /// Rows that start anywhere and stay in shared memory have been loaded in another way since.
  static bool is_outdated(const Schedule& schedule, const std::string& date) {
    return date < "2026-11-25" && schedule.row_access == RowAccess::kUnaligned &&
           std::ranges::any_of(schedule.kept, [](const KeptValue& kept) {
             return kept.residency == Residency::kShared;
           });
  }

  TimedSet& set_;
  Suite suite_;
  std::string cells_;
  /// By name, those of cells last: the parts and folds of the others do not depend on them.
  /// Nothing: no single segment.
  std::map<std::pair<bool, std::string>, std::optional<TimedProblem>> problems_;
};

}  // namespace

std::optional<SegmentFacts> facts_of_canned(const nlohmann::json& row) {
  const std::string name = row.at("fusion");
  const CannedFusion* canned = find_canned_fusion(name);
  if (canned == nullptr) throw std::runtime_error(name + " is no canned fusion");
  return whole_facts(
      name, canned->build(),
      {{"rows", row.at("rows").get<int64_t>()}, {"cols", row.at("cols").get<int64_t>()}});
}

TimedSet read_timed_set(const std::string& list, const std::string& benchmarks) {
  const auto listed = nlohmann::json::parse(read_result(list));
  const std::string device = listed.at("device");
  const auto limits = find_device(device);
  if (!limits) throw std::runtime_error(list + ": there is no device " + device);
  TimedSet set{.limits = *limits, .families = scheduling_families(), .problems = {}};
  Reader reader(set, benchmarks);
  for (const std::string_view format : {"suite", "canned", "cells"}) {
    for (const std::string& name : listed.value(format, std::vector<std::string>{})) {
      const auto file = nlohmann::json::parse(read_result(benchmarks + "/results/" + name));
      const std::string date = file.value("run", nlohmann::json::object()).value("date", "");
      for (const auto& row : file.at("results")) {
        if (format == "suite")
          reader.add_suite_row(row, date);
        else if (format == "canned")
          reader.add_canned_row(row, date);
        else
          reader.add_cell_row(row, date);
      }
    }
  }
  reader.finish();
  return set;
}

Prediction predicted(const TimedProblem& problem, const TimedSchedule& timed,
                     const DeviceLimits& limits) {
  return timed.family->predict(problem.facts, timed.schedule, timed.estimate, limits);
}

}  // namespace sinter::bench
