#include "runtime/tuning/tuning_json.h"

#include <charconv>
#include <cmath>

#include "runtime/json/json_text.h"

namespace sinter {
namespace {

constexpr const char* kFormat = "sinter tuning";
constexpr std::string_view kImportExport = "import what `sinter tuning export` wrote";
constexpr int64_t kFormatVersion = 1;

Error refused(std::string what) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("this is no exported tuning database: {}", what),
          .remedy = std::string(kImportExport)};
}

Json to_json(const SampleSummary& summary) {
  if (summary.samples == 0) return nullptr;
  return {{"median_us", summary.median_us},
          {"error_us", summary.error_us},
          {"samples", summary.samples}};
}

Json to_json(const TuneMeasurement& measurement) {
  return {{"schedule", print(measurement.schedule)},
          {"predicted_us", measurement.predicted_us},
          {"timed", to_json(measurement.timed)},
          {"best_before", to_json(measurement.best)},
          {"registers", measurement.registers},
          {"spill_bytes", measurement.spill_bytes},
          {"worst_error_over_bound", measurement.worst_ratio},
          {"verdict", text_of(measurement.verdict)},
          {"because", measurement.because}};
}

Json to_json(const TuneResult& result, const TunedKernel& kernel) {
  Json out = {{"segment", kernel.segment.index},
              {"kernel", result.name_of(kernel)},
              {"graph", segment_text(kernel.graph)},
              {"measured", kernel.is_measured()},
              {"winner", kernel.winner},
              {"tuned_us", kernel.tuned_us},
              {"untuned_us", kernel.untuned_us},
              {"samples", kernel.samples},
              {"chosen", kernel.decision.chosen},
              {"because", kernel.decision.because}};
  for (const TuneMeasurement& measurement : kernel.measurements)
    out["measurements"].push_back(to_json(measurement));
  return out;
}

}  // namespace

std::string segment_text(uint64_t segment) { return fmt::format("{:016x}", segment); }

uint64_t segment_of(std::string_view text) {
  uint64_t out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return code == std::errc() && end == text.data() + text.size() ? out : 0;
}

Json to_json(const std::vector<TuningRecord>& records) {
  Json list = Json::array();
  for (const TuningRecord& record : records) {
    list.push_back({{"fusion", record.fusion},
                    {"graph", record.key.graph},
                    {"extents", record.key.extents},
                    {"device", record.key.device},
                    {"toolkit", record.key.toolkit},
                    {"grammar", record.key.grammar},
                    {"segment", segment_text(record.tuned.segment)},
                    {"schedule", record.tuned.schedule},
                    {"tuned_us", record.tuned.tuned_us},
                    {"untuned_us", record.tuned.untuned_us},
                    {"samples", record.tuned.samples},
                    {"measured_at", record.measured_at}});
  }
  return {{"format", kFormat}, {"version", kFormatVersion}, {"records", std::move(list)}};
}

Result<std::vector<TuningRecord>> records_from_json(std::string_view text) {
  const auto parsed = parse_json(text, "the records of a tuning database", kImportExport);
  if (!parsed) return fail(parsed.error());
  const Json& json = *parsed;
  if (!json.is_object()) return fail(refused("it is no JSON object"));
  if (json.value("format", Json()) != kFormat) return fail(refused("its format is another"));
  if (json.value("version", Json()) != kFormatVersion)
    return fail(refused("its version is another"));
  std::vector<TuningRecord> out;
  try {
    for (const Json& one : json.at("records")) {
      TuningRecord record{.key = {.graph = one.at("graph"),
                                  .extents = one.at("extents"),
                                  .device = one.at("device"),
                                  .toolkit = one.at("toolkit"),
                                  .grammar = one.at("grammar")},
                          .tuned = {.segment = segment_of(one.at("segment").get<std::string>()),
                                    .schedule = one.at("schedule"),
                                    .tuned_us = one.at("tuned_us"),
                                    .untuned_us = one.at("untuned_us"),
                                    .samples = one.at("samples")},
                          .fusion = one.at("fusion"),
                          .measured_at = one.at("measured_at")};
      if (!(record.tuned.tuned_us > 0.0) || record.tuned.segment == 0)
        return fail(refused("a record has no time or no segment"));
      out.push_back(std::move(record));
    }
  } catch (const Json::exception& exception) {
    return fail(refused(exception.what()));
  }
  return out;
}

Json to_json(const TuneResult& result) {
  const auto or_null = [](std::optional<double> us) { return us ? Json(*us) : Json(nullptr); };
  Json out = {{"fusion", result.plan.fusion.name},
              {"device", result.plan.limits.name},
              {"ended", text_of(result.stop)},
              {"seconds", result.seconds},
              {"tuned_us", or_null(result.tuned_us())},
              {"untuned_us", or_null(result.untuned_us())},
              {"unmeasured", Json::array()},
              {"wrong_results", result.wrong_results()},
              {"trouble", nullptr},
              {"kernels", Json::array()}};
  if (result.trouble) out["trouble"] = Json::parse(result.trouble->json());
  for (const TunedKernel* kernel : result.unmeasured()) {
    out["unmeasured"].push_back({{"segment", kernel->segment.index},
                                 {"kernel", result.name_of(*kernel)},
                                 {"because", kernel->decision.because}});
  }
  for (const TunedKernel& kernel : result.kernels)
    out["kernels"].push_back(to_json(result, kernel));
  return out;
}

}  // namespace sinter
