#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// What the typing rules of all ops ask about operands, types, extents and axes. Each question is
/// answered with the error (InvalidFusion) where the rule does not hold. The rules of each single
/// op are in infer_results.cpp.
class TypingChecks {
 public:
  /// Empty when the rule holds.
  using Check = std::optional<Error>;

  /// `op` is its name in messages. Fusion, operands and shape outlive the checks.
  TypingChecks(const Fusion& fusion, std::string_view op, std::span<const ValueId> operands,
               DType type_hint, const Shape& shape_hint)
      : fusion_(fusion),
        op_(op),
        operands_(operands),
        type_hint_(type_hint),
        shape_hint_(shape_hint) {}

  /// How an input or output of the hinted type and shape lies in memory.
  [[nodiscard]] Check layout(std::string_view what, const std::vector<Extent>& strides,
                             int64_t alignment) const;

 protected:
  [[nodiscard]] DType type(size_t i) const { return fusion_.values[operands_[i]].type; }
  [[nodiscard]] const Shape& shape(size_t i) const { return fusion_.values[operands_[i]].shape; }
  [[nodiscard]] std::string text(size_t i) const { return text_of(fusion_, type(i), shape(i)); }

  [[nodiscard]] Error error(std::string message, std::string remedy) const;

  [[nodiscard]] Check check_constant(const ConstantOp& constant, DType type) const;
  [[nodiscard]] Check check_type(size_t i, bool (*admitted)(DType), std::string_view text) const;
  [[nodiscard]] Check check_extents(std::span<const Extent> extents, std::string_view what) const;
  [[nodiscard]] Check check_shape(const Shape& shape) const;
  /// Strictly ascending axes below `rank`.
  [[nodiscard]] Check check_axes(const std::vector<int>& axes, size_t rank) const;
  [[nodiscard]] Check check_reduced(const std::vector<int>& axes) const;

  const Fusion& fusion_;
  std::string_view op_;
  std::span<const ValueId> operands_;
  DType type_hint_;
  const Shape& shape_hint_;
};

}  // namespace sinter
