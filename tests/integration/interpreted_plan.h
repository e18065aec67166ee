#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runtime/check/host_execution.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/execute/external_call.h"
#include "tests/support/fake_driver.h"

namespace sinter {

/// A compiled plan whose kernels the fake driver runs in the interpreter; a finding fails the test
/// that launches them. `wrong` is what each then does to its last buffer, which it writes.
CompiledPlan interpreted(FakeDriver& driver, Plan plan,
                         const std::function<void(std::span<std::byte>)>& wrong = {});

/// A call on memory that the host can address, as the fake driver's is. It runs at once.
ExternalCallback on_host_memory(HostCall call);

}  // namespace sinter
