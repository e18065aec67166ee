#pragma once

#include <string>

#include "runtime/check/host_execution.h"

namespace sinter {

// Stands in for the external calls of a graph where their own work would only be in the way: at
// real extents a matmul in double takes the host minutes. Element i of result r is
//
//   sum over operands k of x_k[(i + 7 r) mod n_k] / 2^(k + 1),
//
// accumulated in f32 in their order and rounded to the result's type; n_k is the number of elements
// of operand k, and elements are counted in row-major order. Every element of every operand decides
// about some result where the result is as large, so that an error before a call is seen behind it.
// Types are f32 and bf16.

/// On the host, between kernels and in the oracle.
HostCalls stand_in_calls();

/// CUDA C++ of a kernel `entry` that does the same on a device: threads of one dimension, arguments
/// (void* result, int type, long long count, int shift, int operands, then of each of kMostOperands
/// const void* address, int type, long long count). Types are numbered 0 f32, 1 bf16.
std::string stand_in_source(const std::string& entry);
inline constexpr int kMostStandInOperands = 8;
/// The number of a type in those arguments; -1 for others.
int stand_in_type(DType type);

}  // namespace sinter
