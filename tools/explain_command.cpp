#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>

#include "scheduler/plan/plan_options.h"
#include "scheduler/report/drawing.h"
#include "scheduler/report/explain.h"
#include "scheduler/report/sweep_map.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

/// Ops of a graph that is planned at other sizes to tell where another kind wins. Larger ones take
/// seconds to plan, and a search plans them ten times and more.
constexpr size_t kMostOpsSearched = 256;

Error bad_range(std::string_view text, std::string_view reason) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("'{}' is no range to sweep: {}", text, reason),
          .remedy =
              "write name=from..to, name=from..to:step or name=from..to:xfactor, for instance "
              "cols=1024..65536:x2"};
}

std::optional<int64_t> number(std::string_view digits) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Sizes of an extent from one to another, both included if they are met.
struct Range {
  int64_t from = 0;
  int64_t to = 0;
  int64_t step = 2;
  bool is_factor = true;

  /// The sizes, or as many as are too many.
  [[nodiscard]] std::vector<int64_t> sizes() const {
    std::vector<int64_t> out;
    for (int64_t size = from; static_cast<int64_t>(out.size()) <= kMaxSweepCells;) {
      out.push_back(size);
      if (is_factor ? size > to / step : step > to - size) break;
      size = is_factor ? size * step : size + step;
    }
    return out;
  }
};

/// "cols=1024..65536:x2"
Result<SweepAxis> parse_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return fail(bad_range(text, "it names no extent"));
  std::string_view bounds = text.substr(equals + 1);
  Range range;
  if (const size_t colon = bounds.find(':'); colon != std::string_view::npos) {
    std::string_view step = bounds.substr(colon + 1);
    bounds = bounds.substr(0, colon);
    range.is_factor = step.starts_with('x');
    if (range.is_factor) step.remove_prefix(1);
    const auto value = number(step);
    if (!value || *value < (range.is_factor ? 2 : 1))
      return fail(bad_range(text, "a step is at least 1, a factor at least x2"));
    range.step = *value;
  }
  const size_t dots = bounds.find("..");
  const auto from = number(bounds.substr(0, dots));
  const auto to = dots == std::string_view::npos ? from : number(bounds.substr(dots + 2));
  if (!from || !to || dots == std::string_view::npos)
    return fail(bad_range(text, "it has no two sizes"));
  if (*from < 1) return fail(bad_range(text, "sizes begin at 1"));
  if (*to < *from) return fail(bad_range(text, "it ends before it begins"));
  range.from = *from;
  range.to = *to;
  return SweepAxis{std::string(text.substr(0, equals)), range.sizes()};
}

/// Where a map lacks its second axis because the user left one extent open, that one: sizes about
/// the one it has by default.
std::optional<SweepAxis> open_axis(const Problem& problem, const ExplainArguments& arguments,
                                   const SweepAxis& first) {
  if (problem.fusion.symbols.size() != 2) return std::nullopt;
  for (const Symbol& symbol : problem.fusion.symbols) {
    if (symbol.name == first.extent) continue;
    const bool given = std::ranges::any_of(arguments.problem.extents, [&](std::string_view extent) {
      return extent.starts_with(symbol.name + "=");
    });
    const auto found = problem.extents.find(symbol.name);
    const int64_t size = found == problem.extents.end() ? symbol.hint : found->second;
    constexpr int64_t kBelow = 64;
    constexpr int64_t kAbove = 4;
    if (given || size < 1 || size > std::numeric_limits<int64_t>::max() / kAbove) break;
    const Range range{.from = std::max<int64_t>(size / kBelow, 1), .to = size * kAbove};
    return SweepAxis{symbol.name, range.sizes()};
  }
  return std::nullopt;
}

/// Writes a drawing to its file, or makes it all that the report prints.
Result<void> add_drawing(Report& report, const char* form, const std::string& path,
                         const std::string& drawing) {
  if (path.empty()) return {};
  if (path == "-") {
    report.text = drawing;
    report.json[form] = drawing;
    return {};
  }
  if (auto written = write_file(path, drawing); !written) return written;
  report.text += fmt::format("\nwritten to {}\n", path);
  report.json[form] = path;
  return {};
}

Result<Report> sweep_report(const Problem& problem, const ExplainArguments& arguments) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : arguments.sweeps) {
    auto axis = parse_axis(text);
    if (!axis) return fail(axis.error());
    axes.push_back(std::move(*axis));
  }
  if (axes.size() == 1) {
    if (auto open = open_axis(problem, arguments, axes.front())) axes.push_back(std::move(*open));
  }
  const auto swept =
      sweep(problem.fusion, problem.extents, problem.limits, std::move(axes), problem.plan_options);
  if (!swept) return fail(swept.error());
  Report report{.text = map_text(*swept), .json = to_json(*swept)};
  if (auto added = add_drawing(report, "svg", arguments.svg_file, map_svg(*swept)); !added)
    return fail(added.error());
  return report;
}

Result<Report> plan_report(const Problem& problem, const ExplainArguments& arguments) {
  auto plan = plan_problem(problem);
  if (!plan) return fail(plan.error());
  Report report{.text = explain(*plan), .json = to_json(*plan)};
  // A pin, or the plan that is followed, is the answer, whatever the extents; and who asks for a
  // drawing alone need not wait.
  const bool draws_only = arguments.dot_file == "-" || arguments.svg_file == "-";
  const bool is_searched = problem.fusion.ops.size() <= kMostOpsSearched;
  if (!is_searched && !problem.fusion.symbols.empty())
    report.text += fmt::format(
        "\nwhether another kind wins nearby was not searched: the graph has {} ops, more than {}; "
        "--sweep plans it at the sizes you name\n",
        problem.fusion.ops.size(), kMostOpsSearched);
  if (problem.plan_options.pin == SchedulePin{} && !problem.plan_options.like && !draws_only &&
      is_searched) {
    const auto changes =
        nearest_changes(problem.fusion, problem.extents, problem.limits, problem.plan_options);
    report.text += "\n" + changes_text(changes);
    report.json["another_kind_wins"] = to_json_list(changes);
  }
  if (auto added = add_drawing(report, "dot", arguments.dot_file, to_dot(*plan)); !added)
    return fail(added.error());
  if (auto added = add_drawing(report, "svg", arguments.svg_file, to_svg(*plan)); !added)
    return fail(added.error());
  return report;
}

}  // namespace

Result<Report> explain_command(const ExplainArguments& arguments) {
  auto problem = load_problem(arguments.problem);
  if (!problem) return fail(problem.error());
  if (arguments.svg_file == "-" && arguments.dot_file == "-") {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "two drawings cannot be all that is printed",
                 .remedy = "give --svg or --dot a file"});
  }
  if (!arguments.sweeps.empty()) return sweep_report(*problem, arguments);
  return plan_report(*problem, arguments);
}

}  // namespace sinter::tool
