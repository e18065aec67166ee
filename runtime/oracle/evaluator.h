#pragma once

#include "fusion_ir/fusion.h"
#include "runtime/oracle/oracle.h"
#include "runtime/oracle/tensor_view.h"

namespace sinter {

/// Results of one op of a fusion under a binding, given views of its operands; for every op but
/// input and external. The fusion is verified and its symbols are bound.
std::vector<TensorView> evaluate_op(const Fusion& fusion, const Binding& binding, OpId op,
                                    std::span<const TensorView> operands,
                                    const OracleOptions& options);

}  // namespace sinter
