#pragma once

#include <functional>

#include "tests/campaign/case.h"

namespace sinter {

/// A smaller case for which `fails` holds as it does for this one: with fewer outputs, ops and
/// inputs, smaller sizes, plain layouts and options. Tries one change after the other and keeps
/// those under which the case still fails, until none is left or `is_over` says so.
Case minimise(Case failing, const std::function<bool(const Case&)>& fails,
              const std::function<bool()>& is_over);

}  // namespace sinter
