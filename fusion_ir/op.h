#pragma once

// Semantics of the fusion IR.
//
// Rounding.      Arithmetic happens in f64, f32, i64, i32 or bool. f16, bf16 and the 8-bit floats
//                are storage types: a `cast` to one rounds to nearest even, a `cast` from one is
//                exact. Nothing else rounds to 16 bits, so every such rounding point is a visible
//                op. f32 arithmetic may be contracted to fused multiply-add. Logarithms of f32 are
//                within 3 ulp, and one that a kernel evaluates again need not have the same bits.
// NaN.           max, min, clamp, reduce.max and reduce.min propagate NaN. Comparisons with NaN are
//                false, `ne` is true.
// Casts.         Float to integer truncates towards zero and saturates, NaN gives 0. Integer to a
//                narrower integer, or between signed and unsigned, saturates as well: 200 becomes
//                127 in i8, -1 becomes 0 in u8. To f8 saturates to the largest finite value; to
//                bool is x != 0; bool gives 0 or 1. Whatever becomes f16, bf16 or f8 passes through
//                f32.
// Integers.      Arithmetic wraps around on overflow. Division truncates; division and remainder by
//                zero give 0.
// Broadcasting.  Only the `broadcast` op changes a shape; pointwise operands have equal shapes.
//                (The builder inserts broadcasts.)
// Reductions.    Order is unspecified but fixed for a given plan; accumulation happens in the
//                operand's type. A reduction over no elements gives its identity: sum 0, prod 1,
//                max -inf (lowest integer), min +inf, any false, all true, argmax 0. welford gives
//                (mean, m2) = (0, 0) and logsumexp gives (max, sum) = (-inf, 0). The mean and m2
//                of equal elements are exact: the element and 0. A tuple reduction applies its
//                functions to each element, then combines each component by its own function; of
//                no elements it gives the identities. f32 products may be contracted with sums.
// Contractions.  `contract` combines products, or sums, of elements of two operands over the axes
//                that both have and the result does not. `sum` adds products, `max` takes the
//                largest of sums, `logsumexp` the logarithm of the sum of exponentials of sums.
//                f16, bf16 and 8-bit floats are multiplied and accumulated in f32, i8 and u8 in
//                i32; the result has that type. Order is unspecified but fixed for a given plan.
//                No elements give the identity: 0, -inf (lowest integer), -inf. A logsumexp whose
//                sums are all -inf gives -inf. Products of f32 have the precision that the op
//                states (ContractPrecision).
// Indices.       `take` reads x at an index along one axis; an index outside [0, n) gives 0 and
//                never reads out of bounds.
// Random.        `philox_uniform` is a function of its seed and index alone: wherever and however
//                often it is computed, it gives the same number (philox.h).
// Calls.         `external` is run by the embedder. Its operands and results live in memory. Sinter
//                takes it for a pure function of its operands, so it is dropped where nothing
//                needs a result; but two calls are never merged, and nothing is folded or moved
//                through one.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/shape.h"

namespace sinter {

struct ReductionTraits;

enum class PointwiseFn : uint8_t {
#define SINTER_POINTWISE(enumerator, ...) enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
};

enum class ReduceFn : uint8_t {
#define SINTER_REDUCE(enumerator, text) enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
};

/// How operand and result types of a pointwise function relate; op_list.def describes each.
enum class Typing : uint8_t { kSame, kFloat, kCompare, kLogic, kTest, kSelect, kRandom };

struct PointwiseInfo {
  std::string_view text;
  int arity;
  Typing typing;
  double issue_slots;        ///< Instructions per element.
  double special_functions;  ///< Special-function results per element.
  std::string_view cuda;     ///< Spelling with {0} {1} {2}.
};

const PointwiseInfo& info_of(PointwiseFn fn);
/// Result type of a pointwise function whose operands, but for the condition of a select, are
/// `operand`.
DType result_type(PointwiseFn fn, DType operand);
/// True for a function of `type` that takes one instruction for most arguments and twenty for few,
/// so that kernels take a fast path where they can run again without it: a logarithm of f32.
bool has_fast_path_form(PointwiseFn fn, DType type);
std::optional<PointwiseFn> pointwise_from_text(std::string_view text);
std::string_view text_of(ReduceFn fn);
std::optional<ReduceFn> reduce_from_text(std::string_view text);

/// Value of a pointwise function in double; operands beyond its arity are ignored. Not for kRandom
/// functions.
double evaluate(PointwiseFn fn, double a, double b = 0.0, double c = 0.0);
/// Integer value with the wrap-around and division rules above; for the functions whose typing
/// admits integers. Shapes i32 results by truncating to 32 bits.
int64_t evaluate_integer(PointwiseFn fn, DType type, int64_t a, int64_t b = 0, int64_t c = 0);
/// Value of a kRandom function; exact in f32.
double evaluate_random(PointwiseFn fn, int64_t a, int64_t b);

/// Type and shape of one result of an op.
struct ResultType {
  DType type = DType::kF32;
  Shape shape{};
  friend bool operator==(const ResultType&, const ResultType&) = default;
};

/// A tensor the caller passes in. Strides in elements; empty means dense row-major. `alignment` is
/// promised for the address of the first element, in bytes.
struct InputOp {
  std::vector<Extent> strides{};
  int64_t alignment = 16;
  friend bool operator==(const InputOp&, const InputOp&) = default;
};

/// A scalar known when the graph is built; broadcast it to give it a shape. `real` serves float
/// types, `integer` the others.
struct ConstantOp {
  double real = 0.0;
  int64_t integer = 0;
  friend bool operator==(const ConstantOp& a,
                         const ConstantOp& b);  // NaN equals NaN, -0.0 differs from 0.0
};

struct PointwiseOp {
  PointwiseFn fn;
  friend bool operator==(const PointwiseOp&, const PointwiseOp&) = default;
};

/// Converts the element type; the target is the result's type.
struct CastOp {
  friend bool operator==(const CastOp&, const CastOp&) = default;
};

/// Result axis `axes[i]` is operand axis i; every other result axis repeats. An operand axis of
/// extent 1 may expand.
struct BroadcastOp {
  std::vector<int> axes;
  friend bool operator==(const BroadcastOp&, const BroadcastOp&) = default;
};

/// Removes `axes` (ascending, at least one).
struct ReduceOp {
  ReduceFn fn;
  std::vector<int> axes;
  friend bool operator==(const ReduceOp&, const ReduceOp&) = default;
};

/// Results (mean, m2): the mean over `axes` and the sum of squared deviations from it.
struct WelfordOp {
  std::vector<int> axes;
  friend bool operator==(const WelfordOp&, const WelfordOp&) = default;
};

/// Results (max, sum): m = max x and sum of exp(x - m) over `axes`. Where m is -inf or +inf the sum
/// follows the same formula (a row of -inf gives NaN), as the unfused graph would.
struct LogSumExpOp {
  std::vector<int> axes;
  friend bool operator==(const LogSumExpOp&, const LogSumExpOp&) = default;
};

/// Operands (x, index): picks x at `index` along `axis` and removes that axis. Index is i32 or i64,
/// shaped like the result.
struct TakeOp {
  int axis = 0;
  friend bool operator==(const TakeOp&, const TakeOp&) = default;
};

/// An i64 scalar: the product of `extents`, for formulas that need a size. Becomes a constant when
/// extents are bound.
struct ExtentOp {
  std::vector<Extent> extents;
  friend bool operator==(const ExtentOp&, const ExtentOp&) = default;
};

/// Counts 0, 1, 2, ... along `axis` of the result.
struct IotaOp {
  int axis = 0;
  friend bool operator==(const IotaOp&, const IotaOp&) = default;
};

/// Result axis i is operand axis order[i].
struct PermuteOp {
  std::vector<int> order;
  friend bool operator==(const PermuteOp&, const PermuteOp&) = default;
};

/// Same elements in row-major order under the result's shape. Each group of operand axes is merged
/// and split into a group of result axes with the same product, which the verifier checks for
/// constant extents.
struct ReshapeOp {
  friend bool operator==(const ReshapeOp&, const ReshapeOp&) = default;
};

/// Elements start, start + step, ... below stop along each axis; bounds are constants with 0 <=
/// start <= stop <= extent, step >= 1. `stop[i] < 0` stands for the axis's extent.
struct SliceOp {
  std::vector<int64_t> start, stop, step;
  friend bool operator==(const SliceOp&, const SliceOp&) = default;
};

/// The operands, at least one, one behind the other along `axis`. They have one type, and equal
/// shapes but for that axis, whose extents are constants unless there is but one operand.
struct ConcatenateOp {
  int axis = 0;
  friend bool operator==(const ConcatenateOp&, const ConcatenateOp&) = default;
};

/// The operand with low[i] elements before it along axis i and high[i] behind it, all of them
/// `value`. Both are >= 0, and 0 for an extent that is a symbol.
struct PadOp {
  std::vector<int64_t> low, high;
  ConstantOp value{};  ///< Of the operand's type.
  friend bool operator==(const PadOp&, const PadOp&) = default;
};

/// A call that the embedder runs itself: any number of operands, at least one result.
struct ExternalOp {
  std::string name;  ///< Tells the embedder what to run; not empty.
  std::vector<ResultType> results;
  friend bool operator==(const ExternalOp&, const ExternalOp&) = default;
};

/// A reduction that an embedder has described (reduction_traits.h): a result for each component.
/// The row outlives every graph, plan and kernel that names it.
struct TupleReduceOp {
  const ReductionTraits* reduction = nullptr;
  std::vector<int> axes;
  friend bool operator==(const TupleReduceOp&, const TupleReduceOp&) = default;
};

/// How a contraction combines a pair of elements a and b, and the pairs.
enum class ContractFn : uint8_t {
  kSum,        ///< Sum of a * b.
  kMax,        ///< Maximum of a + b.
  kLogSumExp,  ///< log of the sum of exp(a + b).
};

/// How exactly products of f32 are computed in a sum of them, at least. Either operand may also be
/// off by half of the smallest subnormal of TF32, 2^-137, in kTf32, and by all of it in kTf32x3.
enum class ContractPrecision : uint8_t {
  kIeee,  ///< In f32.
  /// From three products of TF32 parts: each product is off by 3 x 2^-22 of its magnitude at most.
  kTf32x3,
  kTf32,  ///< Of operands rounded to TF32: each product is off by 2^-10 + 2^-22 of its magnitude.
};

/// As they stand in .fir: "contract.sum", in the order of ContractFn; "tf32", in that of
/// ContractPrecision.
std::span<const std::string_view> contract_texts();
std::span<const std::string_view> precision_texts();
std::string_view text_of(ContractFn fn);
std::string_view text_of(ContractPrecision precision);
std::optional<ContractFn> contract_from_text(std::string_view text);
std::optional<ContractPrecision> precision_from_text(std::string_view text);

/// True if operands of these types are contracted as they are: of one type, or two 8-bit floats.
bool contract_as_they_are(DType left, DType right);

/// A contraction of two operands, as einsum has it. Its space has the axes of the result, in order,
/// and behind them the reduced ones. Axis i of the left operand is axis `left[i]` of the space, and
/// the same of the right one; each axis of the space is one of an operand. Reduced axes are ones of
/// both.
struct ContractOp {
  ContractFn fn = ContractFn::kSum;
  std::vector<int> left{}, right{};
  std::vector<int> reduced{};  ///< The last axes of the space, ascending, at least one.
  ContractPrecision precision = ContractPrecision::kIeee;
  friend bool operator==(const ContractOp&, const ContractOp&) = default;
};

/// The closed set of operations. Operands and results are held beside it, in Op.
using OpKind = std::variant<InputOp, ConstantOp, PointwiseOp, CastOp, BroadcastOp, ReduceOp,
                            WelfordOp, LogSumExpOp, TakeOp, ExtentOp, IotaOp, PermuteOp, ReshapeOp,
                            SliceOp, ConcatenateOp, PadOp, ExternalOp, TupleReduceOp, ContractOp>;

/// Text name as it stands in .fir: "add", "reduce.sum", "cast".
std::string_view text_of(const OpKind& kind);
/// True for reduce, welford, logsumexp and tuple reductions.
bool is_reduction(const OpKind& kind);
/// True for argmax and argmin.
bool is_index_reduction(ReduceFn fn);
bool is_index_reduction(const OpKind& kind);
/// Reduced axes of a reduction; empty for other ops.
const std::vector<int>& reduced_axes(const OpKind& kind);

}  // namespace sinter
