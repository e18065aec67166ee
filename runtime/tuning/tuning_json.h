#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/json/plan_json.h"
#include "runtime/tuning/tuning_database.h"

namespace sinter {

/// What a database exports: a mark, a version, and its records.
Json to_json(const std::vector<TuningRecord>& records);
/// Reads it back. Errors: InvalidArgument, with what is missing or wrong.
Result<std::vector<TuningRecord>> records_from_json(std::string_view text);

/// A segment's hash as text, sixteen hex digits, and back; 0 for other text.
std::string segment_text(uint64_t segment);
uint64_t segment_of(std::string_view text);

/// Everything that was measured, and what came of it.
Json to_json(const TuneResult& result);

}  // namespace sinter
