#pragma once

#include <string_view>

#include "fusion_ir/result.h"
#include "runtime/json/plan_json.h"

namespace sinter {

/// Levels of arrays and objects in JSON from outside. Nothing that Sinter writes has ten; copying
/// and printing a value recurse, so that a million levels would exhaust the stack.
inline constexpr int kDeepestJson = 64;

/// Reads JSON that comes from outside. `what` names it in messages: "the device's limits". Errors
/// (InvalidArgument, with line and column): text that is no JSON, nesting beyond kDeepestJson, a
/// number that no double holds.
Result<Json> parse_json(std::string_view text, std::string_view what, std::string_view remedy);

}  // namespace sinter
