#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"
#include "runtime/oracle/host_tensor.h"

namespace sinter {

/// What the float inputs of a case hold. Integers and bools have kinds of their own, which depend
/// on the seed.
enum class DrawnKind : uint8_t {
  kUniform,        ///< Within kRandomInputBound (tests/support/random_fusion.h).
  kSmallIntegers,  ///< -3 ... 3: sums are exact, and extremes are tied.
  kConstant,       ///< One number in all elements of a tensor.
  kZeros,          ///< 0 and -0.
  kLargeMean,      ///< 1000 plus noise: differences cancel.
  kMasked,         ///< Uniform, with runs of -inf, some of them whole rows.
  kSpecial,        ///< Uniform, with infinities, NaN, -0, subnormals, the least and the greatest.
  kHuge,           ///< Near the greatest finite number of the type.
  kTiny,           ///< Subnormals and the least normal numbers of the type.
};
inline constexpr int kDataKinds = 9;
std::string_view name_of(DrawnKind kind);
std::optional<DrawnKind> data_kind_from(std::string_view name);

/// Tensors for the inputs of a fusion, with its strides and with addresses that are aligned as
/// promised and no better. An input's elements depend on the seed and on its name, or on its place
/// where it has none: an input keeps its data in a graph with fewer ops. Integers that a take reads
/// are mostly inside of its axis.
std::vector<HostTensor> draw_inputs(const Fusion& fusion, const Binding& binding, DrawnKind kind,
                                    uint64_t seed);

}  // namespace sinter
