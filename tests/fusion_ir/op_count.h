#pragma once

#include <algorithm>
#include <functional>
#include <string_view>

#include "fusion_ir/fusion.h"
#include "fusion_ir/fusion_builder.h"

namespace sinter {

/// Number of ops with this text name.
inline int64_t count_ops(const Fusion& fusion, std::string_view text) {
  return std::ranges::count_if(fusion.ops, [&](const Op& op) { return text_of(op.kind) == text; });
}

/// The fusion y = make(b, x) of one [8, 32] input; y is the only output.
inline Fusion fusion_of(const std::function<ValueId(FusionBuilder&, ValueId)>& make,
                        DType type = DType::kF32, const Shape& shape = {8, 32}) {
  FusionBuilder b("under_test");
  b.output(make(b, b.input(type, shape, "x")), "y");
  return b.build();
}

/// The op that makes the first output.
inline std::string_view output_op(const Fusion& fusion) {
  return text_of(fusion.def_of(fusion.outputs.front()).kind);
}

}  // namespace sinter
