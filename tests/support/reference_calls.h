#pragma once

#include <span>
#include <vector>

#include "runtime/oracle/oracle.h"

namespace sinter {

// The external calls of training_layers.h, which says what each computes. Both throw
// SinterException (InvalidArgument) for a call of another name or of shapes that do not fit.

/// The call in double, with bounds on how far a device may lie from it that accumulates in f32, in
/// any order and on tensor cores or not; for OracleOptions::external.
std::vector<OracleOutput> reference_call(const ExternalOp& op,
                                         std::span<const OracleOutput> operands);

/// The call in f32 (f64 where operands are) as a device would run it, for a callback on the host.
/// `op` has the bound sizes in its results; outputs have their types and sizes.
void run_reference_call(const ExternalOp& op, std::span<const HostTensor> inputs,
                        std::span<HostTensor> outputs);

}  // namespace sinter
