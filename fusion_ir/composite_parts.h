#pragma once

#include <optional>

#include "fusion_ir/fusion_builder.h"

// What formulas of several ops begin and end with.
namespace sinter::composite {

inline DType type_of(const FusionBuilder& b, ValueId x) { return b.value(x).type; }

/// x in the type arithmetic happens in; integers and bool in f32.
inline ValueId to_float(FusionBuilder& b, ValueId x) {
  return b.cast(x, type_of(b, x) == DType::kF64 ? DType::kF64 : DType::kF32);
}

inline ValueId finish(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  return output ? b.cast(x, *output) : x;
}

/// A scalar of x's type.
inline ValueId number(FusionBuilder& b, double value, ValueId x) {
  return b.constant(value, type_of(b, x));
}

}  // namespace sinter::composite
