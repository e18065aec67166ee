#include "runtime/oracle/evaluator.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/match.h"
#include "fusion_ir/reduction_traits.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/bounded_reduction.h"
#include "runtime/oracle/contracted_blocks.h"
#include "runtime/oracle/contracted_row.h"
#include "runtime/oracle/element_runs.h"
#include "runtime/oracle/element_writer.h"
#include "runtime/oracle/error_model.h"
#include "runtime/oracle/row_gatherer.h"

namespace sinter {
namespace {

/// Bound of one op's result as a visitor of its kind.
class OpEvaluator {
 public:
  OpEvaluator(const Fusion& fusion, const Binding& binding, const Op& op,
              std::span<const TensorView> operands, const OracleOptions& options)
      : fusion_(fusion),
        binding_(binding),
        op_(op),
        operands_(operands),
        threads_(options.threads),
        whole_(options.whole),
        narrow_(options.narrow) {}

  using Views = std::vector<TensorView>;

  Views operator()(const InputOp&) const { unreachable(); }

  Views operator()(const ConstantOp& op) const {
    ElementWriter out = writer();
    if (is_float(type())) {
      ElementWriter::Sink(out).put(0, BoundedReal{round_to(type(), op.real), 0.0});
    } else {
      ElementWriter::Sink(out).put(0, BoundedInteger{op.integer, 0.0});
    }
    return one(out);
  }

  Views operator()(const PointwiseOp& op) const {
    if (op.fn == PointwiseFn::kSelect) return select();
    ElementWriter out = writer();
    const bool real = is_float(operands_[0].type);
    if (real && op_.operands.size() == 2 && op_.operands[0] == op_.operands[1] &&
        has_rule_for_equals(op.fn)) {
      return of_equals(op.fn);
    }
    if (info_of(op.fn).typing == Typing::kRandom) {
      each<2>(out, {&operands_[0], &operands_[1]}, [&](const auto& at) {
        return random_bounded(op.fn, operand(0).integer(at[0]), operand(1).integer(at[1]));
      });
    } else if (real && !is_float(type())) {
      each<3>(out, three(), [&](const auto& at) {
        return evaluate_test(op.fn, operand(0).real(at[0]), operand(1).real(at[1]));
      });
    } else if (real) {
      each_real(out, op.fn);
      TensorView result = out.finish();
      if (has_infinity(result) && leaves_infinities_open(op.fn)) open_infinities(op.fn, result);
      if (is_one_and_tanh(op.fn)) return {without_tanh(result)};
      return {std::move(result)};
    } else {
      const DType operand_type = operands_[0].type;
      each<3>(out, three(), [&](const auto& at) {
        return bounded_integer(op.fn, operand_type, operand(0).integer(at[0]),
                               operand(1).integer(at[1]), operand(2).integer(at[2]));
      });
    }
    return one(out);
  }

  Views operator()(const CastOp&) const {
    const TensorView& x = operands_[0];
    if (x.type == type()) return {x};
    if (keeps_elements(x)) {
      TensorView result = x;
      result.type = type();
      return {std::move(result)};
    }
    ElementWriter out = writer();
    if (is_float(x.type)) {
      each_cast(out, x, [&x](int64_t position) { return x.real(position); });
    } else {
      each_cast(out, x, [&x](int64_t position) { return x.integer(position); });
    }
    return one(out);
  }

  Views operator()(const BroadcastOp& op) const {
    TensorView result = operands_[0];
    result.sizes = sizes();
    result.strides.assign(result.sizes.size(), 0);
    for (size_t axis = 0; axis < op.axes.size(); ++axis) {
      const bool expands = operands_[0].sizes[axis] == 1;
      result.strides[static_cast<size_t>(op.axes[axis])] = expands ? 0 : operands_[0].strides[axis];
    }
    return {std::move(result)};
  }

  Views operator()(const ReduceOp& op) const {
    const TensorView& x = operands_[0];
    const bool index = is_index_reduction(op.fn);
    const bool is_divided = op.fn == ReduceFn::kSum && has_quotient();
    const bool is_of_mean = is_divided && elements_deviate();
    ElementWriter out = writer();
    each_row(op.axes, [&](const RowBlock& rows, int64_t loaded, int64_t row) {
      ElementWriter::Sink sink(out);
      if (is_float(x.type) && index) {
        sink.put(row, index_of_extreme(op.fn, rows.real_row(loaded)));
      } else if (is_float(x.type)) {
        RealRow elements = rows.real_row(loaded);
        elements.length = whole_length(op.axes, elements.length);
        elements.is_of_mean = is_of_mean;
        BoundedReal reduced = reduce_bounded(op.fn, x.type, elements);
        // A mean that is found without the sum does not overflow where the sum does.
        if (op.fn == ReduceFn::kSum && std::isinf(reduced.value) && is_divided &&
            std::ranges::none_of(elements.values, [](double e) { return std::isinf(e); })) {
          reduced.bound = kUnbounded;
        }
        sink.put(row, reduced);
      } else if (index) {
        sink.put(row, index_of_extreme(op.fn, rows.integer_row(loaded)));
      } else {
        sink.put(row, reduce_bounded(op.fn, x.type, rows.integer_row(loaded)));
      }
    });
    return one(out);
  }

  Views operator()(const WelfordOp& op) const { return pair(op.axes, welford_bounded); }
  Views operator()(const LogSumExpOp& op) const { return pair(op.axes, logsumexp_bounded); }

  Views operator()(const TupleReduceOp& op) const {
    const DType type = operands_[0].type;
    Views results;
    for (const ReductionComponent& component : op.reduction->components) {
      ElementWriter out = writer(results.size());
      each_row(op.axes, [&](const RowBlock& rows, int64_t loaded, int64_t row) {
        ElementWriter::Sink sink(out);
        if (is_float(type)) {
          sink.put(row, reduce_bounded(component, type, rows.real_row(loaded)));
        } else {
          sink.put(row, reduce_bounded(component, type, rows.integer_row(loaded)));
        }
      });
      results.push_back(out.finish());
    }
    return results;
  }

  Views operator()(const ContractOp& op) const {
    if (narrow_ && type() == DType::kF32) {
      if (const auto blocks = ContractedBlocks::make(op, operands_[0], operands_[1],
                                                     contracted_sizes(op_), threads_)) {
        ElementWriter out = writer();
        blocks->fill(out);
        return one(out);
      }
    }
    const ContractedPairs pairs(op, operands_[0], operands_[1], contracted_sizes(op_));
    const bool is_divided = op.fn == ContractFn::kSum && has_quotient();
    const ContractedRow::Sum sum{.is_divided = is_divided,
                                 .is_of_mean = is_divided && elements_deviate()};
    ElementWriter out = writer();
    out.fill(threads_, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
      ContractedRow row(pairs, op, type(), sum);
      pairs.for_each_result(begin, end, [&](int64_t element, int64_t left, int64_t right) {
        if (is_float(type())) {
          sink.put(element, row.real(left, right));
        } else {
          sink.put(element, row.integer(left, right));
        }
      });
    });
    return one(out);
  }

  Views operator()(const TakeOp& op) const {
    const TensorView& x = operands_[0];
    const auto axis = static_cast<size_t>(op.axis);
    const int64_t extent = x.sizes[axis];
    const int64_t stride = x.strides[axis];
    TensorView rows = x;  // x with the axis removed: where index 0 of each result lies
    rows.sizes.erase(rows.sizes.begin() + op.axis);
    rows.strides.erase(rows.strides.begin() + op.axis);
    ElementWriter out = writer();
    const auto pick_with = [&](auto outside, auto element) {
      each<2>(out, {&rows, &operands_[1]}, [&](const auto& at) {
        return any_of_picks(operands_[1].integer(at[1]), extent, [&](int64_t i) {
          return i >= 0 && i < extent ? element(at[0] + i * stride) : outside;
        });
      });
    };
    if (is_float(x.type)) {
      pick_with(BoundedReal{}, [&](int64_t position) { return x.real(position); });
    } else {
      pick_with(BoundedInteger{}, [&](int64_t position) { return x.integer(position); });
    }
    return one(out);
  }

  Views operator()(const ExtentOp& op) const {
    uint64_t product = 1;
    for (const Extent& extent : op.extents) {
      product *= static_cast<uint64_t>(binding_.size_of(extent));
    }
    ElementWriter out = writer();
    ElementWriter::Sink(out).put(0, BoundedInteger{static_cast<int64_t>(product), 0.0});
    return one(out);
  }

  Views operator()(const IotaOp& op) const {
    TensorView counter{.sizes = sizes()};
    counter.strides.assign(counter.sizes.size(), 0);
    counter.strides[static_cast<size_t>(op.axis)] = 1;
    ElementWriter out = writer();
    each_cast(out, counter, [](int64_t position) { return BoundedInteger{position, 0.0}; });
    return one(out);
  }

  Views operator()(const PermuteOp& op) const {
    TensorView result = operands_[0];
    for (size_t axis = 0; axis < op.order.size(); ++axis) {
      result.sizes[axis] = operands_[0].sizes[static_cast<size_t>(op.order[axis])];
      result.strides[axis] = operands_[0].strides[static_cast<size_t>(op.order[axis])];
    }
    return {std::move(result)};
  }

  Views operator()(const ReshapeOp&) const {
    const TensorView& x = operands_[0];
    ElementWriter out = writer();
    if (is_float(x.type)) {
      each<1>(x.sizes, out, {&x}, [&](const auto& at) { return x.real(at[0]); });
    } else {
      each<1>(x.sizes, out, {&x}, [&](const auto& at) { return x.integer(at[0]); });
    }
    return one(out);
  }

  Views operator()(const SliceOp& op) const {
    TensorView result = operands_[0];
    result.sizes = sizes();
    for (size_t axis = 0; axis < result.sizes.size(); ++axis) {
      result.offset += op.start[axis] * operands_[0].strides[axis];
      result.strides[axis] *= op.step[axis];
    }
    return {std::move(result)};
  }

  Views operator()(const ConcatenateOp& op) const {
    const auto axis = static_cast<size_t>(op.axis);
    ElementWriter out = writer();
    std::vector<int64_t> low(operands_[0].sizes.size(), 0);
    for (const TensorView& x : operands_) {
      put_block(out, x, low);
      low[axis] += x.sizes[axis];
    }
    return one(out);
  }

  Views operator()(const PadOp& op) const {
    ElementWriter out = writer();
    out.fill(threads_, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
      for (int64_t element = begin; element < end; ++element) {
        if (is_float(type())) {
          sink.put(element, BoundedReal{op.value.real, 0.0});
        } else {
          sink.put(element, BoundedInteger{op.value.integer, 0.0});
        }
      }
    });
    put_block(out, operands_[0], op.low);
    return one(out);
  }

  Views operator()(const ExternalOp&) const { unreachable(); }

 private:
  [[nodiscard]] const Value& value(size_t result = 0) const {
    return fusion_.values[op_.results[result]];
  }
  [[nodiscard]] DType type() const { return value().type; }
  [[nodiscard]] Sizes sizes() const { return binding_.sizes_of(value().shape); }
  [[nodiscard]] ElementWriter writer(size_t result = 0) const {
    return {value(result).type, binding_.sizes_of(value(result).shape)};
  }
  static Views one(ElementWriter& out) { return {out.finish()}; }
  /// Elements of a whole row of a reduction over `axes`, of which a gathered one has `length`: more
  /// where it removes an axis that repeats. That is outermost, so that a row repeats as a whole.
  [[nodiscard]] int64_t whole_length(std::span<const int> axes, int64_t length) const {
    if (!whole_ || axes.empty() || axes.front() != 0 || length == 0) return length;
    const Extent& outermost = fusion_.values[op_.operands[0]].shape.front();
    return length / binding_.size_of(outermost) * whole_->size_of(outermost);
  }

  static bool is_function(const OpKind& kind, std::initializer_list<PointwiseFn> functions) {
    const auto* op = std::get_if<PointwiseOp>(&kind);
    return op != nullptr && std::ranges::find(functions, op->fn) != functions.end();
  }
  static bool is_view(const OpKind& kind) {
    return std::holds_alternative<BroadcastOp>(kind) || std::holds_alternative<PermuteOp>(kind) ||
           std::holds_alternative<ReshapeOp>(kind) || std::holds_alternative<SliceOp>(kind);
  }

  /// Calls visit(op), until it returns false, for every op that reads one of some values, through
  /// views or not.
  template <class Visit>
  void for_readers(std::vector<ValueId> values, Visit visit) const {
    for (const OpId id : fusion_.op_ids()) {
      const Op& reader = fusion_.ops[id];
      if (std::ranges::find_first_of(reader.operands, values) == reader.operands.end()) continue;
      if (!visit(reader)) return;
      if (is_view(reader.kind)) values.push_back(reader.results.front());
    }
  }
  /// Whether an op of a kind reads one of some values, through views or not.
  template <class Kind>
  [[nodiscard]] bool are_read_by(std::vector<ValueId> values, Kind is_kind) const {
    bool found = false;
    for_readers(std::move(values), [&](const Op& reader) {
      found = found || is_kind(reader.kind);
      return !found;
    });
    return found;
  }
  /// The same of the results of this op.
  template <class Kind>
  [[nodiscard]] bool is_read_by(Kind is_kind) const {
    return are_read_by(op_.results, is_kind);
  }
  /// Whether this sum has a quotient or a product, which a device may find without the sum.
  [[nodiscard]] bool has_quotient() const {
    return is_read_by([](const OpKind& reader) {
      return is_function(reader, {PointwiseFn::kDiv, PointwiseFn::kMul});
    });
  }
  /// Elements of all results of a sum together; nothing for other ops.
  [[nodiscard]] std::optional<int64_t> summed_elements(const Op& op) const {
    if (const auto* reduce = std::get_if<ReduceOp>(&op.kind)) {
      if (reduce->fn != ReduceFn::kSum) return std::nullopt;
      return element_count(binding_.sizes_of(fusion_.values[op.operands[0]].shape));
    }
    const auto* contract = std::get_if<ContractOp>(&op.kind);
    if (contract == nullptr || contract->fn != ContractFn::kSum) return std::nullopt;
    return element_count(contracted_sizes(op));
  }
  /// Sizes of the space of a contraction.
  [[nodiscard]] Sizes contracted_sizes(const Op& op) const {
    return binding_.sizes_of(space_of(std::get<ContractOp>(op.kind),
                                      fusion_.values[op.operands[0]].shape,
                                      fusion_.values[op.operands[1]].shape));
  }
  /// Sums of as many elements each, this one among them: what computes the same may be one value
  /// on the device, whichever way it is written.
  [[nodiscard]] std::vector<ValueId> sums_alike() const {
    const auto count = [&](ValueId value) {
      return element_count(binding_.sizes_of(fusion_.values[value].shape));
    };
    std::vector<ValueId> out;
    const std::optional<int64_t> mine = summed_elements(op_);
    for (const Op& op : fusion_.ops) {
      const std::optional<int64_t> elements = summed_elements(op);
      if (elements && elements == mine && count(op.results[0]) == count(op_.results[0]))
        out.push_back(op.results[0]);
    }
    return out;
  }
  /// Whether a quotient of this sum, or a product, is subtracted from something, or negated to be
  /// added: it may be a mean from which elements deviate.
  [[nodiscard]] bool elements_deviate() const {
    std::vector<ValueId> quotients;
    for_readers(sums_alike(), [&](const Op& reader) {
      if (is_function(reader.kind, {PointwiseFn::kDiv, PointwiseFn::kMul}))
        quotients.push_back(reader.results.front());
      return true;
    });
    return are_read_by(quotients, [](const OpKind& reader) {
      return is_function(reader, {PointwiseFn::kSub, PointwiseFn::kNeg});
    });
  }

  /// Functions of which more is known where both operands are one value.
  static bool has_rule_for_equals(PointwiseFn fn) {
    switch (fn) {
      case PointwiseFn::kSub:
      case PointwiseFn::kEq:
      case PointwiseFn::kNe:
      case PointwiseFn::kLt:
      case PointwiseFn::kLe:
      case PointwiseFn::kGt:
      case PointwiseFn::kGe:
        return true;
      default:
        return false;
    }
  }
  /// Both operands are one number of the device: what is known of x is known of the result.
  [[nodiscard]] Views of_equals(PointwiseFn fn) const {
    ElementWriter out = writer();
    if (is_float(type())) {
      each<1>(out, {&operands_[0]}, [&](const auto& at) {
        const BoundedReal x = operand(0).real(at[0]);
        return BoundedReal{x.value - x.value, std::isinf(x.bound) ? kUnbounded : 0.0};
      });
    } else {
      each<1>(out, {&operands_[0]}, [&](const auto& at) {
        const BoundedReal x = operand(0).real(at[0]);
        return BoundedInteger{static_cast<int64_t>(evaluate(fn, x.value, x.value)),
                              std::isinf(x.bound) ? 1.0 : 0.0};
      });
    }
    return one(out);
  }

  static bool has_infinity(const TensorView& view) {
    const int64_t count = element_count(view.sizes);
    const double* const values = view.elements->real.data();
    return std::any_of(values, values + count, [](double value) { return std::isinf(value); });
  }
  /// Whether a device may get something else than an infinite result of finite operands:
  ///   - a product that overflows may be contracted with an addition that brings it back;
  ///   - a division by zero goes by the sign of the zero, which is not known of what is computed: a
  ///     sum may begin with 0.0 or with its first element, an addition be contracted.
  [[nodiscard]] bool leaves_infinities_open(PointwiseFn fn) const {
    switch (fn) {
      case PointwiseFn::kMul:
        return is_read_by([](const OpKind& reader) {
          const auto* reduce = std::get_if<ReduceOp>(&reader);
          const auto* contract = std::get_if<ContractOp>(&reader);
          return (contract != nullptr && contract->fn != ContractFn::kSum) ||
                 is_function(reader, {PointwiseFn::kAdd, PointwiseFn::kSub}) ||
                 (reduce != nullptr && reduce->fn == ReduceFn::kSum) ||
                 std::holds_alternative<WelfordOp>(reader) ||
                 std::holds_alternative<LogSumExpOp>(reader) ||
                 std::holds_alternative<TupleReduceOp>(reader);
        });
      case PointwiseFn::kDiv:
        return has_computed_zeros(op_.operands[1]);
      case PointwiseFn::kReciprocal:
      case PointwiseFn::kRsqrt:
      case PointwiseFn::kPow:
        return has_computed_zeros(op_.operands[0]);
      default:
        return false;
    }
  }
  [[nodiscard]] bool has_computed_zeros(ValueId value) const {
    while (is_view(fusion_.def_of(value).kind) ||
           std::holds_alternative<CastOp>(fusion_.def_of(value).kind)) {
      value = fusion_.def_of(value).operands.front();
    }
    const OpKind& kind = fusion_.def_of(value).kind;
    return !std::holds_alternative<InputOp>(kind) && !std::holds_alternative<ConstantOp>(kind);
  }
  /// Makes infinities of finite operands unknown; those of a quotient where the divisor is zero.
  void open_infinities(PointwiseFn fn, TensorView& result) const {
    ElementWriter out = writer();
    const bool divides = fn != PointwiseFn::kMul;
    const bool binary = op_.operands.size() > 1;
    each<2>(out, {&operand(0), &operand(1)}, [&](const auto& at) {
      const BoundedReal a = operand(0).real(at[0]);
      const BoundedReal b = binary ? operand(1).real(at[1]) : BoundedReal{};
      BoundedReal x = bounded_real(fn, type(), a, b);
      const double divisor = fn == PointwiseFn::kDiv ? b.value : a.value;
      const bool open = divides ? divisor == 0.0 : std::isfinite(a.value) && std::isfinite(b.value);
      if (std::isinf(x.value) && open) x.bound = kUnbounded;
      return x;
    });
    result = out.finish();
  }

  /// True for 1 + tanh(x) and 1 - tanh(x), also where a simplification finds them behind moves,
  /// signs and factors of 1.
  [[nodiscard]] bool is_one_and_tanh(PointwiseFn fn) const {
    if (fn != PointwiseFn::kAdd && fn != PointwiseFn::kSub) return false;
    return (comes_from_tanh(op_.operands[1]) && has_only_ones(operands_[0])) ||
           (comes_from_tanh(op_.operands[0]) && has_only_ones(operands_[1]));
  }
  /// True if all elements are exactly 1 or -1.
  static bool has_only_ones(const TensorView& x) {
    if (!x.exact()) return false;
    bool only_ones = true;
    const ElementRuns<1> runs(x.sizes, {&x});
    runs.for_each(0, runs.count(), [&](const ElementRun<1>& run) {
      const int64_t different = run.step[0] == 0 ? 1 : run.count;
      for (int64_t i = 0; only_ones && i < different; ++i)
        only_ones = std::fabs(x.real(run.position[0] + i * run.step[0]).value) == 1.0;
    });
    return only_ones;
  }
  /// True for tanh(x), its negative, and what only moves its elements.
  [[nodiscard]] bool comes_from_tanh(ValueId value) const {
    const Op& op = fusion_.def_of(value);
    const auto any_operand = [&] {
      return std::ranges::any_of(op.operands,
                                 [&](ValueId operand) { return comes_from_tanh(operand); });
    };
    if (const auto* function = std::get_if<PointwiseOp>(&op.kind)) {
      if (function->fn == PointwiseFn::kTanh) return true;
      if (function->fn == PointwiseFn::kNeg) return any_operand();
      const bool has_one = std::ranges::any_of(op.operands, [&](ValueId operand) {
        return is_splat_of(fusion_, operand, 1.0) || is_splat_of(fusion_, operand, -1.0);
      });
      return has_one && is_function(op.kind, {PointwiseFn::kMul, PointwiseFn::kDiv}) &&
             any_operand();
    }
    const bool moves =
        std::holds_alternative<CastOp>(op.kind) || std::holds_alternative<BroadcastOp>(op.kind) ||
        std::holds_alternative<ReshapeOp>(op.kind) || std::holds_alternative<PermuteOp>(op.kind) ||
        std::holds_alternative<SliceOp>(op.kind) || std::holds_alternative<ConcatenateOp>(op.kind);
    return moves && any_operand();
  }
  /// 1 + tanh(x), with what a device may be off that finds it without tanh(x).
  [[nodiscard]] TensorView without_tanh(const TensorView& sum) const {
    ElementWriter out = writer();
    each<1>(out, {&sum}, [&](const auto& at) {
      BoundedReal x = sum.real(at[0]);
      x.bound += one_and_tanh_error(type(), std::fabs(x.value));
      return x;
    });
    return out.finish();
  }

  /// True if a cast to this op's type changes no element and no bound. What is of a storage-only
  /// type was rounded to it; doubles are never rounded.
  [[nodiscard]] bool keeps_elements(const TensorView& x) const {
    if (!is_float(x.type) || !is_float(type())) return false;
    return type() == DType::kF64 ||
           (is_storage_only(x.type) && x.exact() && casts_exactly(x.type, type()));
  }

  /// Operand i, or the first again where the op has fewer.
  [[nodiscard]] const TensorView& operand(size_t i) const {
    return operands_[i < operands_.size() ? i : 0];
  }
  [[nodiscard]] std::array<const TensorView*, 3> three() const {
    return {&operand(0), &operand(1), &operand(2)};
  }

  /// Puts rule(positions) for every element of `sizes`, where positions[i] is its place in
  /// views[i].
  template <size_t N, class Rule>
  void each(std::span<const int64_t> sizes, ElementWriter& out,
            const std::array<const TensorView*, N>& views, Rule rule) const {
    const ElementRuns<N> runs(sizes, views);
    out.fill(threads_, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
      runs.for_each(begin, end, [&](const ElementRun<N>& run) {
        std::array<int64_t, N> at = run.position;
        for (int64_t element = run.first; element < run.first + run.count; ++element) {
          sink.put(element, rule(at));
          for (size_t i = 0; i < N; ++i) at[i] += run.step[i];
        }
      });
    });
  }
  template <size_t N, class Rule>
  void each(ElementWriter& out, const std::array<const TensorView*, N>& views, Rule rule) const {
    each<N>(sizes(), out, views, rule);
  }

  /// Puts the elements of x where they stand in a result of which x is a part that begins at `low`.
  void put_block(ElementWriter& out, const TensorView& x, const std::vector<int64_t>& low) const {
    TensorView place{.type = type(), .sizes = x.sizes, .strides = dense_strides(sizes())};
    for (size_t axis = 0; axis < low.size(); ++axis)
      place.offset += low[axis] * place.strides[axis];
    const ElementRuns<2> runs(x.sizes, {&x, &place});
    for_each_range(runs.count(), kElementsPerRange, threads_, [&](int64_t begin, int64_t end) {
      ElementWriter::Sink sink(out);
      runs.for_each(begin, end, [&](const ElementRun<2>& run) {
        std::array<int64_t, 2> at = run.position;
        for (int64_t i = 0; i < run.count; ++i, at[0] += run.step[0], at[1] += run.step[1]) {
          if (is_float(type())) {
            sink.put(at[1], x.real(at[0]));
          } else {
            sink.put(at[1], x.integer(at[0]));
          }
        }
      });
    });
  }

  /// A function from reals to a real, run by run.
  void each_real(ElementWriter& out, PointwiseFn fn) const {
    const ElementRuns<3> runs(sizes(), three());
    out.fill(threads_, [&](ElementWriter::Sink& sink, int64_t begin, int64_t end) {
      runs.for_each(begin, end, [&](const ElementRun<3>& run) {
        std::array<RealRun, 3> operands{};
        for (size_t i = 0; i < 3; ++i)
          operands[i] = operand(i).real_run(run.position[i], run.step[i]);
        sink.note_inexact(bounded_reals(fn, type(), operands, run.count, sink.reals() + run.first,
                                        sink.bounds() + run.first));
      });
    });
  }

  /// Casts element(position) for every element of x.
  template <class Element>
  void each_cast(ElementWriter& out, const TensorView& x, Element element) const {
    const DType to = type();
    if (is_float(to)) {
      each<1>(out, {&x}, [&](const auto& at) { return cast_to_real(to, element(at[0])); });
    } else {
      each<1>(out, {&x}, [&](const auto& at) { return cast_to_integer(to, element(at[0])); });
    }
  }

  [[nodiscard]] Views select() const {
    ElementWriter out = writer();
    if (is_float(type())) {
      each<3>(out, three(), [&](const auto& at) {
        return select_bounded(operand(0).integer(at[0]), operand(1).real(at[1]),
                              operand(2).real(at[2]));
      });
    } else {
      each<3>(out, three(), [&](const auto& at) {
        return select_bounded(operand(0).integer(at[0]), operand(1).integer(at[1]),
                              operand(2).integer(at[2]));
      });
    }
    return one(out);
  }

  /// Calls body(rows, loaded, row) for every row of a reduction over `axes` of the first operand:
  /// `row` is its number among all, `loaded` that in the gathered `rows`.
  template <class Body>
  void each_row(std::span<const int> axes, Body body) const {
    const ReductionRows rows(operands_[0], axes);
    const int64_t blocks_per_range = std::max<int64_t>(
        1, kElementsPerRange / std::max<int64_t>(rows.length() * rows.block(), 1));
    for_each_range(rows.count(), blocks_per_range * rows.block(), threads_,
                   [&](int64_t begin, int64_t end) {
                     RowBlock block(rows);
                     for (int64_t first = begin; first < end; first += rows.block()) {
                       const int64_t count = std::min(rows.block(), end - first);
                       block.load(first, count);
                       for (int64_t i = 0; i < count; ++i) body(block, i, first + i);
                     }
                   });
  }

  template <class Rule>
  [[nodiscard]] Views pair(std::span<const int> axes, Rule rule) const {
    ElementWriter first = writer(0);
    ElementWriter second = writer(1);
    each_row(axes, [&](const RowBlock& rows, int64_t loaded, int64_t row) {
      const BoundedPair result = rule(operands_[0].type, rows.real_row(loaded));
      ElementWriter::Sink(first).put(row, result.first);
      ElementWriter::Sink(second).put(row, result.second);
    });
    return {first.finish(), second.finish()};
  }

  /// The element at an index; where the index is uncertain, a bound that covers every element it
  /// may pick, the zero outside the axis included.
  template <class Pick>
  static auto any_of_picks(BoundedInteger index, int64_t extent, Pick pick) {
    auto result = pick(index.value);
    if (index.bound == 0.0) return result;
    const double low = static_cast<double>(index.value) - index.bound;
    const double high = static_cast<double>(index.value) + index.bound;
    for (int64_t i = -1; i <= extent; ++i) {  // -1 and extent stand for all beyond
      const auto at = static_cast<double>(i);
      const bool possible = i < 0 ? low < 0.0 : i == extent ? high >= at : at >= low && at <= high;
      if (possible) result = select_bounded({1, 1.0}, result, pick(i));
    }
    return result;
  }

  const Fusion& fusion_;
  const Binding& binding_;
  const Op& op_;
  std::span<const TensorView> operands_;
  int threads_;
  const std::optional<Binding>& whole_;
  bool narrow_;
};

}  // namespace

std::vector<TensorView> evaluate_op(const Fusion& fusion, const Binding& binding, OpId op,
                                    std::span<const TensorView> operands,
                                    const OracleOptions& options) {
  return std::visit(OpEvaluator(fusion, binding, fusion.ops[op], operands, options),
                    fusion.ops[op].kind);
}

}  // namespace sinter
