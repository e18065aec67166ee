#pragma once

#include <nlohmann/json.hpp>

#include "tests/campaign/case.h"

namespace sinter {

nlohmann::json to_json(const Outcome& outcome);
/// Throws nlohmann::json::exception for text that to_json() did not make.
Outcome outcome_from(const nlohmann::json& json);

}  // namespace sinter
