#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"
#include "fusion_ir/infer_results.h"

namespace sinter {

struct InputOptions {
  std::vector<Extent> strides{};  ///< In elements; empty: dense row-major.
  int64_t alignment = 16;  ///< Promised alignment of the first element, in bytes: a power of two.
};

/// With an `alias` and neither strides nor an alignment of its own, the output gets the input's.
using OutputOptions = OutputLayout;

struct ContractOptions {
  ContractFn fn = ContractFn::kSum;
  ContractPrecision precision = ContractPrecision::kIeee;  ///< Of f32 operands of a sum.
};

/// Builds a Fusion op by op, inferring types and shapes. A mistake throws SinterException with an
/// InvalidFusion error that names the values, types and extents concerned. Values and symbols of
/// another builder are mistakes; a copy of a builder is the same builder.
///
/// Pointwise calls take operands of different types and shapes and make them equal with visible
/// ops: storage types are cast to their compute type, then operands to their common type (f64 > f32
/// > i64 > i32 > bool); shapes broadcast as in NumPy, aligned at the last axis, constant extent 1
/// expanding.
class FusionBuilder {
 public:
  explicit FusionBuilder(std::string name = "fusion");

  /// Declares a symbolic extent; a name can be declared once.
  Extent symbol(std::string name, int64_t hint = 0, int64_t divisible_by = 1);

  ValueId input(DType type, const Shape& shape, std::string name = "", InputOptions options = {});
  ValueId constant(double value, DType type = DType::kF32);
  ValueId constant_integer(int64_t value, DType type = DType::kI64);
  ValueId iota(const Shape& shape, int axis, DType type = DType::kI64);

  ValueId pointwise(PointwiseFn fn, std::vector<ValueId> operands, std::string name = "");
  ValueId cast(ValueId x, DType type,
               std::string name = "");  ///< Returns x itself if it has that type.
  ValueId broadcast(ValueId x, const Shape& shape, std::vector<int> axes);
  /// Gives a reduced value back the axes that were removed from `like`: the inverse shape change of
  /// a reduction over `axes`.
  ValueId broadcast_over(ValueId x, ValueId like, std::vector<int> axes);
  /// Reductions cast storage types to f32 first. Negative axes count from the end; no axes means
  /// all.
  ValueId reduce(ReduceFn fn, ValueId x, std::vector<int> axes, std::string name = "");
  struct MeanM2 {
    ValueId mean, m2;
  };
  MeanM2 welford(ValueId x, std::vector<int> axes);
  struct MaxSum {
    ValueId max, sum;
  };
  MaxSum logsumexp_pair(ValueId x, std::vector<int> axes);
  /// A reduction that the caller has described (TupleReduceOp); a result for each component. The
  /// description must outlive every graph that refers to it.
  std::vector<ValueId> reduce_tuple(const ReductionTraits& reduction, ValueId x,
                                    std::vector<int> axes);
  std::vector<ValueId> reduce_tuple(ReductionTraits&&, ValueId, std::vector<int>) = delete;
  /// A contraction by an equation as einsum has it: "bmk,bkn->bmn". A letter stands for an axis;
  /// those behind the arrow are the result's axes, in their order, and what both operands have and
  /// the result does not is reduced. Operands of different types are cast to their common compute
  /// type, but two 8-bit floats stay as they are. The result has the compute type of the operands:
  /// f32 for 16-bit and 8-bit floats, i32 for i8 and u8.
  ValueId contract(std::string_view equation, ValueId a, ValueId b, ContractOptions options = {});
  /// The same of an op that places the axes itself.
  ValueId contract(ContractOp op, ValueId a, ValueId b);
  /// The matrix product of the last two axes, as NumPy's `matmul` has it: axes before them are a
  /// batch, aligned at the last one, where constant extent 1 expands; an operand of one axis is a
  /// row on the left and a column on the right, and its axis is dropped.
  ValueId matmul(ValueId a, ValueId b, ContractOptions options = {});
  /// x w^T + bias for x[..., k], w[n, k] and bias[n], which may be an invalid id: none.
  ValueId linear(ValueId x, ValueId w, ValueId bias = {}, ContractOptions options = {});
  ValueId take(ValueId x, ValueId index, int axis);
  ValueId permute(ValueId x, std::vector<int> order);
  ValueId reshape(ValueId x, const Shape& shape);
  ValueId slice(ValueId x, std::vector<int64_t> start, std::vector<int64_t> stop,
                std::vector<int64_t> step = {});
  /// One type, equal extents beside the axis, constant ones along it. Inserts no casts.
  ValueId concatenate(std::vector<ValueId> operands, int axis);
  /// Elements before and behind x along each axis; `value` is rounded to x's type.
  ValueId pad(ValueId x, std::vector<int64_t> low, std::vector<int64_t> high, double value = 0.0);
  /// A call that the embedder runs; results as declared. Operands are passed as they are.
  std::vector<ValueId> external(std::string name, std::vector<ValueId> operands,
                                std::vector<ResultType> results,
                                std::vector<std::string> names = {});

  ValueId neg(ValueId x) { return pointwise(PointwiseFn::kNeg, {x}); }
  ValueId exp(ValueId x) { return pointwise(PointwiseFn::kExp, {x}); }
  ValueId log(ValueId x) { return pointwise(PointwiseFn::kLog, {x}); }
  ValueId sqrt(ValueId x) { return pointwise(PointwiseFn::kSqrt, {x}); }
  ValueId rsqrt(ValueId x) { return pointwise(PointwiseFn::kRsqrt, {x}); }
  ValueId abs(ValueId x) { return pointwise(PointwiseFn::kAbs, {x}); }
  ValueId add(ValueId a, ValueId b) { return pointwise(PointwiseFn::kAdd, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return pointwise(PointwiseFn::kSub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return pointwise(PointwiseFn::kMul, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return pointwise(PointwiseFn::kDiv, {a, b}); }
  ValueId max(ValueId a, ValueId b) { return pointwise(PointwiseFn::kMax, {a, b}); }
  ValueId min(ValueId a, ValueId b) { return pointwise(PointwiseFn::kMin, {a, b}); }
  ValueId select(ValueId condition, ValueId a, ValueId b) {
    return pointwise(PointwiseFn::kSelect, {condition, a, b});
  }
  ValueId sum(ValueId x, std::vector<int> axes) {
    return reduce(ReduceFn::kSum, x, std::move(axes));
  }
  ValueId amax(ValueId x, std::vector<int> axes) {
    return reduce(ReduceFn::kMax, x, std::move(axes));
  }

  /// Names a value for printed text and emitted code.
  ValueId named(ValueId x, std::string name);
  /// Declares an output. A value can be an output once; an input cannot.
  void output(ValueId x, std::string name = "", OutputOptions options = {});

  /// Number of elements along `axes` of `like` as an f32 scalar (an `extent` op and a cast); used
  /// by means and variances.
  ValueId element_count(ValueId like, const std::vector<int>& axes);

  [[nodiscard]] const Fusion& fusion() const { return fusion_; }
  /// A value made so far. Throws for ids that are none of this builder's.
  [[nodiscard]] const Value& value(ValueId id) const;
  /// Axes of x, which count from the end where they are negative, ascending from 0; none stand for
  /// all. Throws for axes that x does not have and repeated ones.
  [[nodiscard]] std::vector<int> axes_of(ValueId x, std::vector<int> axes) const;
  /// Verifies and returns the graph. Throws when it has no outputs.
  [[nodiscard]] Fusion build() const;

  /// Appends an op with inferred result types and shapes; the low-level entry used by parser and
  /// rewriter. Throws as above.
  std::vector<ValueId> append(OpKind kind, std::vector<ValueId> operands, DType type_hint,
                              const Shape& shape_hint, std::vector<std::string> names = {});

 private:
  /// The same without their owner, as a graph holds them. Throw for another builder's.
  [[nodiscard]] ValueId own(ValueId id) const;
  [[nodiscard]] Extent own(const Extent& extent) const;
  void own_all(std::vector<Extent>& extents) const;
  void own_all(OpKind& kind) const;

  Fusion fusion_;
  IdOwner owner_;
  std::set<std::string, std::less<>> symbol_names_;
  std::set<ValueId> outputs_;
  std::set<ValueId> aliased_;  ///< Inputs in which outputs lie.
};

}  // namespace sinter
