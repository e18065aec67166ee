#include "tools/json.h"

#include <fmt/format.h>

namespace sinter {

Json to_json(const Mismatch& mismatch) {
  return {{"output", mismatch.output}, {"value", fmt::format("{}", mismatch.value)},
          {"index", mismatch.index},   {"expected", mismatch.expected},
          {"actual", mismatch.actual}, {"bound", mismatch.bound},
          {"count", mismatch.count},   {"total", mismatch.total},
          {"message", mismatch.text()}};
}

Json to_json(const Finding& finding) {
  return {{"kind", text_of(finding.kind)},
          {"block", finding.block},
          {"thread", finding.thread},
          {"count", finding.count},
          {"message", finding.message}};
}

Json to_json(const BufferTraffic& traffic) {
  return {{"bytes_read", traffic.bytes_read},
          {"bytes_written", traffic.bytes_written},
          {"load_sectors", traffic.load_sectors},
          {"store_sectors", traffic.store_sectors},
          {"async_sectors", traffic.async_sectors}};
}

Json to_json(const WorkCounts& work) {
  return {{"shared_bytes_read", work.shared_bytes_read},
          {"shared_bytes_written", work.shared_bytes_written},
          {"bank_conflicts", work.bank_conflicts},
          {"barriers", work.barriers},
          {"shuffles", work.shuffles}};
}

Json to_json(const NearestChange& change) {
  Json out = {{"extent", change.extent}, {"size", change.size}, {"kind", nullptr}};
  if (!change.kind.empty()) out["kind"] = change.kind;
  return out;
}

Json to_json(const Sweep& sweep) {
  Json axes = Json::array();
  for (const SweepAxis& axis : sweep.axes)
    axes.push_back({{"extent", axis.extent}, {"sizes", axis.sizes}});
  Json cells = Json::array();
  for (size_t line = 0; line < sweep.lines(); ++line) {
    for (size_t column = 0; column < sweep.axes[0].sizes.size(); ++column) {
      const SweepCell& cell = sweep.at(column, line);
      Json extents = {{sweep.axes[0].extent, sweep.axes[0].sizes[column]}};
      if (sweep.axes.size() > 1) extents[sweep.axes[1].extent] = sweep.axes[1].sizes[line];
      Json one = {{"extents", std::move(extents)}};
      if (cell.kind.empty()) {
        one["error"] = Json::parse(cell.refusal.json());
      } else {
        one["kind"] = cell.kind;
        one["schedule"] = to_json(cell.schedule);
        one["predicted_us"] = cell.predicted_us;
        one["sol"] = cell.sol;
      }
      cells.push_back(std::move(one));
    }
  }
  return {{"fusion", sweep.fusion},
          {"device", sweep.device},
          {"axes", std::move(axes)},
          {"cells", std::move(cells)}};
}

namespace {

template <class T>
Json both(const Both<T>& numbers) {
  return {{"a", numbers.a}, {"b", numbers.b}};
}

Json changes(const std::vector<FieldChange>& fields) {
  Json out = Json::object();
  for (const FieldChange& change : fields)
    out[change.field] = {{"a", change.before}, {"b", change.after}};
  return out;
}

Json both(const Both<KernelId>& kernels) {
  return {{"a", kernels.a.index}, {"b", kernels.b.index}};
}

/// The kernels and calls that only one plan has.
Json left(const Plan& plan, const std::vector<KernelId>& kernels,
          const std::vector<CallId>& calls) {
  Json out = {{"kernels", Json::array()}, {"calls", Json::array()}};
  for (const KernelId kernel : kernels) {
    const KernelPlan& segment = plan.kernels[kernel];
    out["kernels"].push_back({{"segment", kernel.index},
                              {"text", kernel_text(plan, kernel)},
                              {"predicted_us", segment.chosen().predicted.total_us},
                              {"bytes_read", segment.facts.bytes_read},
                              {"bytes_written", segment.facts.bytes_written}});
  }
  for (const CallId call : calls) out["calls"].push_back(call_text(plan, call));
  return out;
}

}  // namespace

Json to_json(const PlanDiff& diff, const Plan& a, const Plan& b) {
  Json same = Json::array();
  Json changed = Json::array();
  for (const KernelDiff& kernel : diff.kernels) {
    if (kernel.equal()) {
      same.push_back(both(kernel.segment));
      continue;
    }
    changed.push_back({{"segment", both(kernel.segment)},
                       {"same_graph", kernel.same_graph},
                       {"rows", both(kernel.rows)},
                       {"columns", both(kernel.columns)},
                       {"bytes_read", both(kernel.bytes_read)},
                       {"bytes_written", both(kernel.bytes_written)},
                       {"predicted_us", both(kernel.predicted_us)},
                       {"schedule", changes(kernel.schedule)}});
  }
  return {{"equal", diff.equal()},
          {"problem", changes(diff.problem)},
          {"same_graph", diff.same_graph},
          {"same_order", diff.same_order},
          {"predicted_us", both(diff.predicted_us)},
          {"bytes", both(diff.bytes)},
          {"workspace_bytes", both(diff.workspace_bytes)},
          {"same", std::move(same)},
          {"changed", std::move(changed)},
          {"only_in_a", left(a, diff.only_in_a, diff.calls_only_in_a)},
          {"only_in_b", left(b, diff.only_in_b, diff.calls_only_in_b)}};
}

}  // namespace sinter
