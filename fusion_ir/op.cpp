#include "fusion_ir/op.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "fusion_ir/philox.h"
#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

constexpr std::string_view kContractPrefix = "contract.";
/// In the order of ContractFn.
constexpr auto kContractNames =
    std::to_array<std::string_view>({"contract.sum", "contract.max", "contract.logsumexp"});
/// In the order of ContractPrecision.
constexpr auto kPrecisionNames = std::to_array<std::string_view>({"ieee", "tf32x3", "tf32"});

double sinter_ref_max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a > b ? a : b;
}
double sinter_ref_min(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a < b ? a : b;
}
double sinter_ref_div(double a, double b) { return a / b; }
double sinter_ref_rem(double a, double b) { return std::fmod(a, b); }
// Logic on doubles serves bool operands; integers go through evaluate_integer.
double sinter_ref_not(double a) { return a != 0.0 ? 0.0 : 1.0; }
double sinter_ref_and(double a, double b) { return a != 0.0 && b != 0.0 ? 1.0 : 0.0; }
double sinter_ref_or(double a, double b) { return a != 0.0 || b != 0.0 ? 1.0 : 0.0; }
double sinter_ref_xor(double a, double b) { return (a != 0.0) != (b != 0.0) ? 1.0 : 0.0; }
// Random functions go through evaluate_random: a double does not hold every i64.
double sinter_ref_philox_uniform(double, double) { unreachable(); }

constexpr std::array kPointwise = {
#define SINTER_POINTWISE(enumerator, text, arity, typing, issue, special, reference, cuda) \
  PointwiseInfo{text, arity, Typing::typing, issue, special, cuda},
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
};

constexpr auto kReduce = std::to_array<std::string_view>({
#define SINTER_REDUCE(enumerator, text) text,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
});

int64_t wrap(DType type, uint64_t bits) {
  if (type == DType::kI32) return static_cast<int32_t>(static_cast<uint32_t>(bits));
  return static_cast<int64_t>(bits);
}

}  // namespace

const PointwiseInfo& info_of(PointwiseFn fn) { return kPointwise[static_cast<size_t>(fn)]; }

DType result_type(PointwiseFn fn, DType operand) {
  switch (info_of(fn).typing) {
    case Typing::kSame:
    case Typing::kFloat:
    case Typing::kLogic:
    case Typing::kSelect:
      return operand;
    case Typing::kCompare:
    case Typing::kTest:
      return DType::kBool;
    case Typing::kRandom:
      return DType::kF32;
  }
  unreachable();
}

bool has_fast_path_form(PointwiseFn fn, DType type) {
  return (fn == PointwiseFn::kLog || fn == PointwiseFn::kLog2) && type == DType::kF32;
}

std::optional<PointwiseFn> pointwise_from_text(std::string_view text) {
  for (size_t i = 0; i < kPointwise.size(); ++i) {
    if (kPointwise[i].text == text) return static_cast<PointwiseFn>(i);
  }
  return std::nullopt;
}

std::string_view text_of(ReduceFn fn) { return kReduce[static_cast<size_t>(fn)]; }

std::optional<ReduceFn> reduce_from_text(std::string_view text) {
  for (size_t i = 0; i < kReduce.size(); ++i) {
    if (kReduce[i] == text) return static_cast<ReduceFn>(i);
  }
  return std::nullopt;
}

double evaluate(PointwiseFn fn, [[maybe_unused]] double a, [[maybe_unused]] double b,
                [[maybe_unused]] double c) {
  switch (fn) {
#define SINTER_POINTWISE(enumerator, text, arity, typing, issue, special, reference, cuda) \
  case PointwiseFn::enumerator:                                                            \
    return reference;
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
  }
  unreachable();
}

int64_t evaluate_integer(PointwiseFn fn, DType type, int64_t a, int64_t b, int64_t c) {
  const auto ua = static_cast<uint64_t>(a);
  const auto ub = static_cast<uint64_t>(b);
  switch (fn) {
    case PointwiseFn::kNeg:
      return wrap(type, 0 - ua);
    case PointwiseFn::kAbs:
      return wrap(type, a < 0 ? 0 - ua : ua);
    case PointwiseFn::kAdd:
      return wrap(type, ua + ub);
    case PointwiseFn::kSub:
      return wrap(type, ua - ub);
    case PointwiseFn::kMul:
      return wrap(type, ua * ub);
    case PointwiseFn::kDiv:
      if (b == 0) return 0;
      return b == -1 ? wrap(type, 0 - ua) : a / b;
    case PointwiseFn::kRem:
      return b == 0 || b == -1 ? 0 : a % b;
    case PointwiseFn::kMax:
      return a > b ? a : b;
    case PointwiseFn::kMin:
      return a < b ? a : b;
    case PointwiseFn::kClamp: {
      const int64_t low = a > b ? a : b;
      return low < c ? low : c;
    }
    case PointwiseFn::kNot:
      return type == DType::kBool ? static_cast<int64_t>(a == 0) : wrap(type, ~ua);
    case PointwiseFn::kAnd:
      return wrap(type, ua & ub);
    case PointwiseFn::kOr:
      return wrap(type, ua | ub);
    case PointwiseFn::kXor:
      return wrap(type, ua ^ ub);
    case PointwiseFn::kEq:
      return static_cast<int64_t>(a == b);
    case PointwiseFn::kNe:
      return static_cast<int64_t>(a != b);
    case PointwiseFn::kLt:
      return static_cast<int64_t>(a < b);
    case PointwiseFn::kLe:
      return static_cast<int64_t>(a <= b);
    case PointwiseFn::kGt:
      return static_cast<int64_t>(a > b);
    case PointwiseFn::kGe:
      return static_cast<int64_t>(a >= b);
    case PointwiseFn::kSelect:
      return a != 0 ? b : c;
    default:
      break;
  }
  unreachable();
}

double evaluate_random(PointwiseFn fn, int64_t a, int64_t b) {
  SINTER_CHECK(fn == PointwiseFn::kPhiloxUniform, "{}", info_of(fn).text);
  return philox_uniform(a, b);
}

bool operator==(const ConstantOp& a, const ConstantOp& b) {
  const bool same_real = (std::isnan(a.real) && std::isnan(b.real)) ||
                         std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real);
  return same_real && a.integer == b.integer;
}

std::string_view text_of(const OpKind& kind) {
  static constexpr auto kReduceNames = std::to_array<std::string_view>({
#define SINTER_REDUCE(enumerator, text) "reduce." text,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
  });
  return std::visit(
      overloaded{
          [](const InputOp&) -> std::string_view { return "input"; },
          [](const ConstantOp&) -> std::string_view { return "constant"; },
          [](const PointwiseOp& op) -> std::string_view { return info_of(op.fn).text; },
          [](const CastOp&) -> std::string_view { return "cast"; },
          [](const BroadcastOp&) -> std::string_view { return "broadcast"; },
          [](const ReduceOp& op) -> std::string_view {
            return kReduceNames[static_cast<size_t>(op.fn)];
          },
          [](const WelfordOp&) -> std::string_view { return "welford"; },
          [](const LogSumExpOp&) -> std::string_view { return "logsumexp"; },
          [](const TakeOp&) -> std::string_view { return "take"; },
          [](const ExtentOp&) -> std::string_view { return "extent"; },
          [](const IotaOp&) -> std::string_view { return "iota"; },
          [](const PermuteOp&) -> std::string_view { return "permute"; },
          [](const ReshapeOp&) -> std::string_view { return "reshape"; },
          [](const SliceOp&) -> std::string_view { return "slice"; },
          [](const ConcatenateOp&) -> std::string_view { return "concatenate"; },
          [](const PadOp&) -> std::string_view { return "pad"; },
          [](const ExternalOp&) -> std::string_view { return "external"; },
          [](const TupleReduceOp& op) -> std::string_view { return op.reduction->text; },
          [](const ContractOp& op) -> std::string_view {
            return kContractNames[static_cast<size_t>(op.fn)];
          },
      },
      kind);
}

std::span<const std::string_view> contract_texts() { return kContractNames; }
std::span<const std::string_view> precision_texts() { return kPrecisionNames; }

std::string_view text_of(ContractFn fn) {
  return kContractNames[static_cast<size_t>(fn)].substr(kContractPrefix.size());
}

std::string_view text_of(ContractPrecision precision) {
  return kPrecisionNames[static_cast<size_t>(precision)];
}

bool contract_as_they_are(DType left, DType right) {
  const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
  return left == right || (is_f8(left) && is_f8(right));
}

std::optional<ContractFn> contract_from_text(std::string_view text) {
  for (size_t i = 0; i < kContractNames.size(); ++i) {
    if (text == text_of(static_cast<ContractFn>(i))) return static_cast<ContractFn>(i);
  }
  return std::nullopt;
}

std::optional<ContractPrecision> precision_from_text(std::string_view text) {
  const auto found = std::ranges::find(kPrecisionNames, text);
  if (found == kPrecisionNames.end()) return std::nullopt;
  return static_cast<ContractPrecision>(found - kPrecisionNames.begin());
}

bool is_reduction(const OpKind& kind) {
  // Analyses ask this of every op again and again, mostly of what has no row in the table.
  const bool is_none = std::holds_alternative<PointwiseOp>(kind) ||
                       std::holds_alternative<InputOp>(kind) ||
                       std::holds_alternative<BroadcastOp>(kind);
  return !is_none && reduction_of(kind).has_value();
}

bool is_index_reduction(ReduceFn fn) { return traits_of(reduction_of(fn)).is_search(); }

bool is_index_reduction(const OpKind& kind) {
  const std::optional<Reduction> reduction = reduction_of(kind);
  return reduction && traits_of(*reduction).is_search();
}

const std::vector<int>& reduced_axes(const OpKind& kind) {
  static const std::vector<int> kNone;
  if (const auto* reduce = std::get_if<ReduceOp>(&kind)) return reduce->axes;
  if (const auto* welford = std::get_if<WelfordOp>(&kind)) return welford->axes;
  if (const auto* pair = std::get_if<LogSumExpOp>(&kind)) return pair->axes;
  if (const auto* tuple = std::get_if<TupleReduceOp>(&kind)) return tuple->axes;
  return kNone;
}

}  // namespace sinter
