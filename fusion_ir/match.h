#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

// Questions that several passes ask about the values of a graph.

/// 0, 1, ..., rank - 1.
std::vector<int> all_axes(size_t rank);
/// The axes of 0 ... rank - 1 that are not among `axes`, ascending.
std::vector<int> other_axes(size_t rank, std::span<const int> axes);

/// The space of a contraction of operands of these shapes: the axes of its result, then the reduced
/// ones.
Shape space_of(const ContractOp& op, const Shape& left, const Shape& right);

/// Whether a tensor has no elements, in all graphs that differ in sizes of symbols alone.
bool is_always_empty(const Shape& shape);

/// The constant that every element of `value` equals, seen through broadcasts.
std::optional<ConstantOp> splat_constant(const Fusion& fusion, ValueId value);
/// True if every element is this number; +0.0 and -0.0 differ.
bool is_splat_of(const Fusion& fusion, ValueId value, double number);

/// The operands if `value` is that pointwise function of them, else nothing.
std::span<const ValueId> operands_of(const Fusion& fusion, ValueId value, PointwiseFn fn);

/// True if `value` is a broadcast to its operand's own shape: how an output copies an input.
bool is_copy(const Fusion& fusion, ValueId value);
/// True if `value` gives `reduced` back the `axes` that a reduction removed, and does nothing else.
bool broadcasts_over(const Fusion& fusion, ValueId value, ValueId reduced,
                     std::span<const int> axes);

/// True if f(a, b, ...) equals f(b, a, ...).
bool is_commutative(PointwiseFn fn);

}  // namespace sinter
