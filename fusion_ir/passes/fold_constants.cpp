#include "fusion_ir/passes/fold_constants.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

double as_double(DType type, const ConstantOp& constant) {
  return is_float(type) ? constant.real : static_cast<double>(constant.integer);
}

/// Integers up to here convert to double without loss.
constexpr int64_t kExactInDouble = int64_t{1} << 53;

std::optional<ConstantOp> fold_cast(DType from, DType to, const ConstantOp& constant) {
  if (from == to) return constant;
  if (to == DType::kBool) {
    return ConstantOp{.integer = static_cast<int64_t>(as_double(from, constant) != 0.0)};
  }
  if (is_float(from) || is_float(to)) {
    if (!is_float(from) &&
        (constant.integer > kExactInDouble || constant.integer < -kExactInDouble)) {
      return std::nullopt;  // Would round twice.
    }
    const double rounded = round_to(to, as_double(from, constant));
    if (is_float(to)) return ConstantOp{.real = rounded};
    // The upper bound of i64 itself is not a double below 2^63.
    if (std::fabs(rounded) > static_cast<double>(kExactInDouble)) return std::nullopt;
    return ConstantOp{.integer = static_cast<int64_t>(rounded)};
  }
  const auto value = static_cast<double>(constant.integer);
  const double lowest = to == DType::kU8 ? 0.0 : -largest_finite(to) - 1.0;
  if (to != DType::kI64 && (value < lowest || value > largest_finite(to))) return std::nullopt;
  return constant;
}

ConstantOp fold_pointwise(PointwiseFn fn, DType operand_type, DType result_type,
                          const std::vector<ConstantOp>& operands) {
  std::vector<ConstantOp> args = operands;
  args.resize(3);
  if (fn == PointwiseFn::kSelect) return args[0].integer != 0 ? args[1] : args[2];
  if (info_of(fn).typing == Typing::kRandom) {
    return {.real = evaluate_random(fn, args[0].integer, args[1].integer)};
  }
  if (!is_float(operand_type)) {
    return {.integer = evaluate_integer(fn, operand_type, args[0].integer, args[1].integer,
                                        args[2].integer)};
  }
  const double value = evaluate(fn, args[0].real, args[1].real, args[2].real);
  if (result_type == DType::kBool) return {.integer = static_cast<int64_t>(value != 0.0)};
  return {.real = round_to(result_type, value)};
}

/// The number that all of at least one constants are.
std::optional<ConstantOp> common_number(const std::vector<ConstantOp>& constants) {
  const bool equal = std::ranges::all_of(
      constants, [&](const ConstantOp& constant) { return constant == constants.front(); });
  return equal ? std::optional(constants.front()) : std::nullopt;
}

std::optional<ConstantOp> fold(const Rewriter& rewriter, OpId id,
                               std::span<const ValueId> operands) {
  const Fusion& graph = rewriter.graph();
  const Op& op = rewriter.source().ops[id];
  std::vector<ConstantOp> constants;
  for (const ValueId operand : operands) {
    const auto constant = splat_constant(graph, operand);
    if (!constant) return std::nullopt;
    constants.push_back(*constant);
  }
  const DType result_type = rewriter.source().values[op.results.front()].type;
  return std::visit(
      overloaded{
          [&](const PointwiseOp& pointwise) -> std::optional<ConstantOp> {
            return fold_pointwise(pointwise.fn, graph.values[operands.front()].type, result_type,
                                  constants);
          },
          [&](const CastOp&) -> std::optional<ConstantOp> {
            return fold_cast(graph.values[operands.front()].type, result_type, constants.front());
          },
          [&](const PermuteOp&) -> std::optional<ConstantOp> { return constants.front(); },
          [&](const ReshapeOp&) -> std::optional<ConstantOp> { return constants.front(); },
          [&](const SliceOp&) -> std::optional<ConstantOp> { return constants.front(); },
          [&](const ConcatenateOp&) { return common_number(constants); },
          [&](const PadOp& pad) {
            constants.push_back(pad.value);
            return common_number(constants);
          },
          [&](const ExtentOp& extent) -> std::optional<ConstantOp> {
            Sizes sizes;
            for (const Extent& factor : extent.extents) {
              if (!factor.is_constant()) return std::nullopt;
              sizes.push_back(factor.constant());
            }
            return ConstantOp{.integer = element_count(sizes)};
          },
          [](const auto&) -> std::optional<ConstantOp> { return std::nullopt; },
      },
      op.kind);
}

}  // namespace

std::optional<Fusion> fold_constants(const Fusion& fusion) {
  return rewrite(fusion,
                 [](Rewriter& rewriter, OpId id,
                    std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const auto constant = fold(rewriter, id, operands);
                   if (!constant) return std::nullopt;
                   const Fusion& source = rewriter.source();
                   const Value& result = source.values[source.ops[id].results.front()];
                   return std::vector{rewriter.splat(*constant, result.type, result.shape)};
                 });
}

}  // namespace sinter
