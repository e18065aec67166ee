#pragma once

#include <cstddef>
#include <cstdint>

#include "fusion_ir/dtype.h"
#include "fusion_ir/op.h"

namespace sinter::interpreter {

/// Threads of a warp, which the interpreter executes together.
inline constexpr int kLanes = 32;

/// Computes one result element for each of 32 lanes. A register holds its 32 elements side by side
/// in the element's storage form; operands beyond the function's arity are ignored. The result may
/// be one of the operands.
using LaneFunction = void (*)(std::byte* result, const std::byte* a, const std::byte* b,
                              const std::byte* c);

/// The function for a pointwise expression whose operands have type `operand` (for select: the two
/// that are chosen from). f32 is computed in float, f64 in double; integers wrap. Null when the
/// function is not defined for the type.
[[nodiscard]] LaneFunction pointwise_lanes(PointwiseFn fn, DType operand);

/// Conversion between any two types, as fusion_ir/op.h defines `cast`; narrowing between integers
/// saturates, as round_to does.
[[nodiscard]] LaneFunction cast_lanes(DType from, DType to);

/// Rounds f32 to TF32 (kir::CastExpr).
[[nodiscard]] LaneFunction tf32_lanes();

/// Copies elements of 1, 2, 4 or 8 bytes.
[[nodiscard]] LaneFunction copy_lanes(int64_t element_bytes);

/// Bytes of a register that holds one element of `type` in each lane.
[[nodiscard]] inline int64_t register_bytes(DType type) { return kLanes * bytes_of(type); }

}  // namespace sinter::interpreter
