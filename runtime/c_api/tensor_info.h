#pragma once

#include <string>

#include "runtime/c_api/sinter_c.h"
#include "scheduler/plan/plan.h"

namespace sinter::c_api {

/// Which tensor of an execution is meant.
struct TensorRole {
  bool is_output = false;
  size_t index = 0;
};

/// The value of the graph that it holds. The index must be one.
ValueId value_of(const Fusion& fusion, TensorRole role);
/// "output 1 'y' (%v17)"
std::string name_of(const Fusion& fusion, TensorRole role);
/// Refuses an index that is none.
sinter_tensor_info info_of(const Plan& plan, TensorRole role);

}  // namespace sinter::c_api
