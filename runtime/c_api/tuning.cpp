#include "runtime/c_api/errors.h"
#include "runtime/c_api/plan_options.h"
#include "runtime/c_api/progress.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"
#include "runtime/c_api/tuning_object.h"
#include "runtime/driver/device_query.h"
#include "runtime/tuning/device_measurer.h"
#include "runtime/tuning/tune.h"
#include "runtime/tuning/tuning_json.h"

namespace sinter::c_api {
namespace {

TuningDatabase::Mode mode_from(int32_t mode) {
  switch (mode) {
    case SINTER_TUNING_READ:
      return TuningDatabase::Mode::kRead;
    case SINTER_TUNING_WRITE:
      return TuningDatabase::Mode::kWrite;
    case SINTER_TUNING_CREATE:
      return TuningDatabase::Mode::kCreate;
    default:
      bad_argument(fmt::format("there is no way of opening {}", mode), "use SINTER_TUNING_*");
  }
}

int32_t number_of(TuneStop stop) {
  switch (stop) {
    case TuneStop::kFinished:
      return SINTER_TUNE_FINISHED;
    case TuneStop::kBudget:
      return SINTER_TUNE_BUDGET;
    case TuneStop::kCancelled:
      return SINTER_TUNE_CANCELLED;
    case TuneStop::kDevice:
      return SINTER_TUNE_DEVICE;
  }
  unreachable();
}

/// `cancelled` outlives the options.
TuneOptions tune_options(const sinter_tune_options& given, bool& cancelled) {
  TuneOptions out;
  if (given.samples != 0) out.samples = given.samples;
  if (given.top != 0) out.top = given.top;
  if (given.budget_seconds != 0.0) out.budget_seconds = given.budget_seconds;
  if (given.progress == nullptr) return out;
  out.progress = [&given, &cancelled](const TuneProgress& at) {
    const sinter_tune_progress progress{.struct_size = sizeof(sinter_tune_progress),
                                        .segment = at.segment,
                                        .segment_count = at.kernels,
                                        .candidate = at.candidate,
                                        .candidate_count = at.candidates,
                                        .untuned_us = at.untuned_us,
                                        .best_us = at.best_us,
                                        .seconds = at.seconds,
                                        .budget_seconds = at.budget_seconds};
    cancelled |= given.progress(given.progress_data, &progress) != 0;
  };
  out.cancelled = [&cancelled] { return cancelled; };
  return out;
}

sinter_tune_info info_of(const TuneResult& result, bool is_hanging) {
  const auto measured =
      std::ranges::count_if(result.kernels, [](const TunedKernel& s) { return s.is_measured(); });
  sinter_tune_info out{.struct_size = sizeof(sinter_tune_info),
                       .segment_count = result.kernels.size(),
                       .measured_count = static_cast<size_t>(measured),
                       .wrong_count = result.wrong_results(),
                       .ended = number_of(result.stop),
                       .is_hanging = is_hanging ? 1 : 0,
                       .tuned_us = result.tuned_us().value_or(0.0),
                       .untuned_us = result.untuned_us().value_or(0.0),
                       .seconds = result.seconds,
                       .unmeasured = {}};
  if (const auto unmeasured = result.unmeasured(); !unmeasured.empty()) {
    const std::string text = fmt::format("{}: {}", result.name_of(*unmeasured.front()),
                                         unmeasured.front()->decision.because);
    text.copy(out.unmeasured, sizeof(out.unmeasured) - 1);  // Which leaves the 0 that ends it.
  }
  return out;
}

}  // namespace

std::shared_ptr<const TunedChoices> tuned_choices(const sinter_plan_options* options,
                                                  const Fusion& fusion, const ExtentValues& extents,
                                                  const DeviceLimits& limits) {
  const auto given = read_struct(options, "options");
  if (given.tuned == nullptr) return nullptr;
  const auto from = object_of<TuningDatabaseObject>(given.tuned);
  const auto key = taken(tuning_key(fusion, extents, limits, from->toolkit, given.keep_graph == 0));
  const std::lock_guard lock(from->mutex);
  return std::make_shared<const TunedChoices>(taken(from->database.find(key)));
}

extern "C" {

sinter_status sinter_tuning_database_open(sinter_runtime* runtime, const char* path, int32_t mode,
                                          sinter_tuning_database** database, sinter_error** error) {
  return guarded(error, [&] {
    require(database, "database");
    *database = nullptr;
    const auto on = object_of<RuntimeObject>(runtime);
    require(path, "path");
    const auto how = mode_from(mode);
    std::string toolkit = toolkit_identity(taken(on->compiler()));
    *database = handle_of(std::make_shared<TuningDatabaseObject>(
        taken(TuningDatabase::open(path, how)), std::move(toolkit)));
  });
}

sinter_status sinter_tuning_database_release(sinter_tuning_database* database,
                                             sinter_error** error) {
  return guarded(error, [&] { release<TuningDatabaseObject>(database); });
}

sinter_status sinter_tune(sinter_runtime* runtime, const sinter_fusion* fusion,
                          const sinter_extent* extents, size_t extent_count,
                          const sinter_plan_options* plan_options,
                          const sinter_tune_options* options, sinter_tune_info* info,
                          sinter_text** json, sinter_error** error) {
  return guarded(error, [&] {
    if (json != nullptr) *json = nullptr;
    const auto on = object_of<RuntimeObject>(runtime);
    const auto graph = object_of<FusionObject>(fusion);
    const auto sizes = extents_from(extents, extent_count);
    refuse_budget(read_struct(plan_options, "plan_options").budget_seconds, "plan_options",
                  "give sinter_tune_options::budget_seconds");
    const auto with = plan_options_from(plan_options);
    const auto given = read_struct(options, "options");
    // Refused before anything is measured; null is none.
    if (info != nullptr) fill_struct(info, "info", {});
    const auto keeps =
        given.database == nullptr ? nullptr : object_of<TuningDatabaseObject>(given.database);
    bool cancelled = false;
    const TuneOptions tuning = tune_options(given, cancelled);

    DeviceDriver& driver = *taken(on->driver());
    const NvrtcCompiler compiler = taken(on->compiler());
    const auto measurer =
        taken(DeviceMeasurer::create(driver, compiler, on->cache(),
                                     {.device = given.device,
                                      .stream = static_cast<StreamHandle>(given.stream),
                                      .seed = given.seed}));
    // The measurer has been refused if the stream is captured.
    const DeviceLimits limits = taken(query_device(driver, given.device));
    const auto result = taken(sinter::tune(graph->fusion, sizes, limits, with, *measurer, tuning));
    if (info != nullptr) fill_struct(info, "info", info_of(result, measurer->is_hanging()));
    if (keeps) {
      const auto key = taken(
          tuning_key(graph->fusion, sizes, limits, toolkit_identity(compiler), with.simplify));
      const std::lock_guard lock(keeps->mutex);
      taken(keeps->database.store(records_of(result, key, utc_now())));
    }
    if (json != nullptr) *json = text_handle(sinter::text_of(to_json(result)));
  });
}

}  // extern "C"

}  // namespace sinter::c_api
