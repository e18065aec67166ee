#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/c_api/objects.h"
#include "runtime/tuning/tuning_database.h"

namespace sinter::c_api {

/// An open database, and the toolkit that its measurements go by.
struct TuningDatabaseObject {
  static constexpr HandleKind kKind = HandleKind::kTuningDatabase;
  using Handle = sinter_tuning_database;
  TuningDatabaseObject(TuningDatabase opened, std::string toolkit_identity)
      : database(std::move(opened)), toolkit(std::move(toolkit_identity)) {}
  std::mutex mutex;  ///< Guards `database`.
  TuningDatabase database;
  const std::string toolkit;
};

/// What the database of a caller's options has about a graph; null if they name none. Throws.
std::shared_ptr<const TunedChoices> tuned_choices(const sinter_plan_options* options,
                                                  const Fusion& fusion, const ExtentValues& extents,
                                                  const DeviceLimits& limits);

}  // namespace sinter::c_api
