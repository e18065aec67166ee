#include "tests/campaign/plain_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "fusion_ir/reduction_traits.h"
#include "tests/campaign/plain_number.h"

namespace sinter {
namespace {

bool holds_reals(DType type) {
  return type == DType::kF64 || type == DType::kF32 || type == DType::kF16 ||
         type == DType::kBF16 || type == DType::kF8E4M3 || type == DType::kF8E5M2;
}

size_t count_of(const Sizes& sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}

/// The index of an element from its row-major number, and back.
Sizes index_of(const Sizes& sizes, size_t number) {
  Sizes index(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    const auto size = static_cast<size_t>(sizes[axis]);
    index[axis] = static_cast<int64_t>(number % size);
    number /= size;
  }
  return index;
}
size_t number_of(const Sizes& sizes, const Sizes& index) {
  size_t number = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    number = number * static_cast<size_t>(sizes[axis]) + static_cast<size_t>(index[axis]);
  return number;
}

PlainTensor blank(DType type, Sizes sizes) {
  PlainTensor out{.type = type, .sizes = std::move(sizes)};
  if (holds_reals(type)) {
    out.real.resize(count_of(out.sizes));
  } else {
    out.integer.resize(count_of(out.sizes));
  }
  return out;
}

void copy_element(const PlainTensor& from, size_t source, PlainTensor& to, size_t target) {
  if (holds_reals(to.type)) {
    to.real[target] = from.real[source];
  } else {
    to.integer[target] = from.integer[source];
  }
}

/// Element numbers of x that fall into each element of the result, in row-major order.
std::vector<std::vector<size_t>> groups_of(const Sizes& sizes, const std::vector<int>& axes) {
  Sizes kept;
  std::vector<bool> is_reduced(sizes.size(), false);
  for (const int axis : axes) is_reduced[static_cast<size_t>(axis)] = true;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!is_reduced[axis]) kept.push_back(sizes[axis]);
  }
  std::vector<std::vector<size_t>> groups(count_of(kept));
  for (size_t element = 0; element < count_of(sizes); ++element) {
    const Sizes index = index_of(sizes, element);
    Sizes to;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (!is_reduced[axis]) to.push_back(index[axis]);
    }
    groups[number_of(kept, to)].push_back(element);
  }
  return groups;
}

using Group = std::vector<size_t>;

double reduce_reals(ReduceFn fn, const std::vector<double>& x, const Group& group) {
  long double sum = 0.0L;
  long double product = 1.0L;
  double most = -kInfinity;
  double least = kInfinity;
  bool has_nan = false;
  for (const size_t element : group) {
    sum += static_cast<long double>(x[element]);
    product *= static_cast<long double>(x[element]);
    has_nan = has_nan || std::isnan(x[element]);
    if (x[element] > most) most = x[element];
    if (x[element] < least) least = x[element];
  }
  switch (fn) {
    case ReduceFn::kSum:
      return static_cast<double>(sum);
    case ReduceFn::kProd:
      return static_cast<double>(product);
    case ReduceFn::kMax:
      return has_nan ? std::numeric_limits<double>::quiet_NaN() : most;
    case ReduceFn::kMin:
      return has_nan ? std::numeric_limits<double>::quiet_NaN() : least;
    default:
      throw std::logic_error("not a reduction of floats to a float");
  }
}

/// The reduction that combines elements by `combine`.
ReduceFn plain_reduction(PointwiseFn combine) {
  switch (combine) {
    case PointwiseFn::kAdd:
      return ReduceFn::kSum;
    case PointwiseFn::kMul:
      return ReduceFn::kProd;
    case PointwiseFn::kMax:
      return ReduceFn::kMax;
    case PointwiseFn::kMin:
      return ReduceFn::kMin;
    case PointwiseFn::kOr:
      return ReduceFn::kAny;
    case PointwiseFn::kAnd:
      return ReduceFn::kAll;
    default:
      throw std::logic_error("combines no elements");
  }
}

/// A function of single elements, which are all its operands.
PlainTensor of_elements(PointwiseFn fn, const PlainTensor& x) {
  PlainTensor out = x;
  for (double& value : out.real) value = plain_float_function(fn, x.type, value, value, value);
  for (int64_t& value : out.integer)
    value = plain_integer_function(fn, x.type, value, value, value);
  return out;
}

/// Of sums that are all -inf, -inf.
double plain_logsumexp(const std::vector<double>& x, const Group& group) {
  const double most = reduce_reals(ReduceFn::kMax, x, group);
  if (!std::isfinite(most)) return most;
  long double total = 0.0L;
  for (const size_t element : group)
    total += std::exp(static_cast<long double>(x[element]) - static_cast<long double>(most));
  return static_cast<double>(static_cast<long double>(most) + std::log(total));
}

int64_t reduce_integers(ReduceFn fn, DType type, const std::vector<int64_t>& x,
                        const Group& group) {
  int64_t result = 0;
  if (fn == ReduceFn::kProd || fn == ReduceFn::kAll) result = 1;
  if (fn == ReduceFn::kMax) result = plain_lowest(type);
  if (fn == ReduceFn::kMin) result = plain_highest(type);
  for (const size_t element : group) {
    switch (fn) {
      case ReduceFn::kSum:
        result = plain_integer_function(PointwiseFn::kAdd, type, result, x[element], 0);
        break;
      case ReduceFn::kProd:
        result = plain_integer_function(PointwiseFn::kMul, type, result, x[element], 0);
        break;
      case ReduceFn::kMax:
        result = std::max(result, x[element]);
        break;
      case ReduceFn::kMin:
        result = std::min(result, x[element]);
        break;
      case ReduceFn::kAny:
        if (x[element] != 0) result = 1;
        break;
      case ReduceFn::kAll:
        if (x[element] == 0) result = 0;
        break;
      default:
        throw std::logic_error("not a reduction of integers to an integer");
    }
  }
  return result;
}

/// Place in the group of the first extreme element; a NaN is more extreme than any number.
template <class T>
int64_t first_extreme(bool greatest, const std::vector<T>& x, const Group& group) {
  size_t best = 0;
  for (size_t place = 1; place < group.size(); ++place) {
    const T candidate = x[group[place]];
    const T holder = x[group[best]];
    const bool holder_is_nan = holder != holder;
    const bool candidate_is_nan = candidate != candidate;
    if (holder_is_nan) break;
    if (candidate_is_nan || (greatest ? candidate > holder : candidate < holder)) best = place;
  }
  return static_cast<int64_t>(best);
}

class Evaluation {
 public:
  Evaluation(const Fusion& fusion, const Binding& binding, const PlainCall& call)
      : fusion_(fusion), binding_(binding), call_(call), values_(fusion.values.size()) {}

  std::vector<PlainTensor> run(std::span<const PlainTensor> inputs) {
    size_t next_input = 0;
    for (const Op& op : fusion_.ops) {
      op_ = &op;
      if (std::holds_alternative<InputOp>(op.kind)) {
        values_[op.results[0].index] = inputs[next_input++];
      } else {
        std::visit(*this, op.kind);
      }
    }
    std::vector<PlainTensor> outputs;
    for (const ValueId output : fusion_.outputs) outputs.push_back(values_[output.index]);
    return outputs;
  }

  void operator()(const InputOp&) { throw std::logic_error("inputs are given"); }

  void operator()(const ConstantOp& op) {
    PlainTensor out = fresh();
    if (holds_reals(out.type)) {
      out.real[0] = op.real;
    } else {
      out.integer[0] = op.integer;
    }
    give(std::move(out));
  }

  void operator()(const PointwiseOp& op) {
    PlainTensor out = fresh();
    const size_t arity = op_->operands.size();
    const PlainTensor& a = operand(0);
    const PlainTensor& b = operand(arity > 1 ? 1 : 0);
    const PlainTensor& c = operand(arity > 2 ? 2 : 0);
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      if (op.fn == PointwiseFn::kSelect) {
        copy_element(a.integer[i] != 0 ? b : c, i, out, i);
      } else if (op.fn == PointwiseFn::kPhiloxUniform) {
        out.real[i] = plain_philox_uniform(a.integer[i], b.integer[i]);
      } else if (!holds_reals(a.type)) {
        out.integer[i] =
            plain_integer_function(op.fn, a.type, a.integer[i], b.integer[i], c.integer[i]);
      } else if (holds_reals(out.type)) {
        out.real[i] = plain_float_function(op.fn, out.type, a.real[i], b.real[i], c.real[i]);
      } else {
        out.integer[i] = plain_float_test(op.fn, a.real[i], b.real[i]) ? 1 : 0;
      }
    }
    give(std::move(out));
  }

  void operator()(const CastOp&) {
    PlainTensor out = fresh();
    const PlainTensor& x = operand(0);
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      if (holds_reals(out.type)) {
        out.real[i] = holds_reals(x.type) ? plain_cast_to_float(out.type, x.real[i])
                                          : plain_cast_to_float(out.type, x.integer[i]);
      } else {
        out.integer[i] = holds_reals(x.type) ? plain_cast_to_integer(out.type, x.real[i])
                                             : plain_cast_to_integer(out.type, x.integer[i]);
      }
    }
    give(std::move(out));
  }

  void operator()(const BroadcastOp& op) {
    move_elements([&](const Sizes& index) {
      const Sizes& sizes = operand(0).sizes;
      Sizes from(sizes.size());
      for (size_t axis = 0; axis < sizes.size(); ++axis) {
        const int64_t at = index[static_cast<size_t>(op.axes[axis])];
        from[axis] = sizes[axis] == 1 ? 0 : at;
      }
      return from;
    });
  }

  void operator()(const ReduceOp& op) {
    PlainTensor out = fresh();
    const PlainTensor& x = operand(0);
    const auto groups = groups_of(x.sizes, op.axes);
    const bool finds_index = op.fn == ReduceFn::kArgMax || op.fn == ReduceFn::kArgMin;
    const bool greatest = op.fn == ReduceFn::kArgMax;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (finds_index) {
        out.integer[i] = holds_reals(x.type) ? first_extreme(greatest, x.real, groups[i])
                                             : first_extreme(greatest, x.integer, groups[i]);
      } else if (holds_reals(x.type)) {
        out.real[i] = plain_cast_to_float(x.type, reduce_reals(op.fn, x.real, groups[i]));
      } else {
        out.integer[i] = reduce_integers(op.fn, x.type, x.integer, groups[i]);
      }
    }
    give(std::move(out));
  }

  void operator()(const WelfordOp& op) {
    PlainTensor mean = fresh(0);
    PlainTensor m2 = fresh(1);
    const PlainTensor& x = operand(0);
    const auto groups = groups_of(x.sizes, op.axes);
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].empty()) continue;  // Both are 0.
      long double sum = 0.0L;
      for (const size_t element : groups[i]) sum += static_cast<long double>(x.real[element]);
      long double middle = sum / static_cast<long double>(groups[i].size());
      // Thousands of doubles have more bits together than a long double: what the sum has rounded
      // is added, so that equal elements have their own mean.
      if (std::isfinite(middle)) {
        long double rest = 0.0L;
        for (const size_t element : groups[i])
          rest += static_cast<long double>(x.real[element]) - middle;
        middle += rest / static_cast<long double>(groups[i].size());
      }
      long double squares = 0.0L;
      for (const size_t element : groups[i]) {
        const long double deviation = static_cast<long double>(x.real[element]) - middle;
        squares += deviation * deviation;
      }
      mean.real[i] = plain_cast_to_float(x.type, static_cast<double>(middle));
      m2.real[i] = plain_cast_to_float(x.type, static_cast<double>(squares));
    }
    give(std::move(mean), 0);
    give(std::move(m2), 1);
  }

  void operator()(const LogSumExpOp& op) {
    PlainTensor most = fresh(0);
    PlainTensor sum = fresh(1);
    const PlainTensor& x = operand(0);
    const auto groups = groups_of(x.sizes, op.axes);
    for (size_t i = 0; i < groups.size(); ++i) {
      const double m = reduce_reals(ReduceFn::kMax, x.real, groups[i]);
      long double total = 0.0L;
      for (const size_t element : groups[i])
        total += std::exp(static_cast<long double>(x.real[element]) - static_cast<long double>(m));
      most.real[i] = m;
      sum.real[i] = plain_cast_to_float(x.type, static_cast<double>(total));
    }
    give(std::move(most), 0);
    give(std::move(sum), 1);
  }

  void operator()(const TupleReduceOp& op) {
    const PlainTensor& x = operand(0);
    const auto groups = groups_of(x.sizes, op.axes);
    for (size_t result = 0; result < op.reduction->components.size(); ++result) {
      const ReductionComponent& component = op.reduction->components[result];
      const PlainTensor mapped = component.element ? of_elements(*component.element, x) : x;
      const ReduceFn fn = plain_reduction(component.combine.value());
      PlainTensor out = fresh(result);
      for (size_t i = 0; i < groups.size(); ++i) {
        if (holds_reals(x.type)) {
          out.real[i] = plain_cast_to_float(x.type, reduce_reals(fn, mapped.real, groups[i]));
        } else {
          out.integer[i] = reduce_integers(fn, x.type, mapped.integer, groups[i]);
        }
      }
      give(std::move(out), result);
    }
  }

  void operator()(const ContractOp& op) {
    PlainTensor out = fresh();
    const PlainTensor& left = operand(0);
    const PlainTensor& right = operand(1);
    Sizes reduced;
    for (const int axis : op.reduced) {
      for (size_t i = 0; i < op.left.size(); ++i) {
        if (op.left[i] == axis) reduced.push_back(left.sizes[i]);
      }
    }
    const auto place = [](const PlainTensor& x, const std::vector<int>& axes, const Sizes& at) {
      Sizes index;
      for (const int axis : axes) index.push_back(at[static_cast<size_t>(axis)]);
      return number_of(x.sizes, index);
    };
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      std::vector<double> reals;
      std::vector<int64_t> integers;
      for (size_t k = 0; k < count_of(reduced); ++k) {
        Sizes at = index_of(out.sizes, i);
        const Sizes behind = index_of(reduced, k);
        at.insert(at.end(), behind.begin(), behind.end());
        const size_t a = place(left, op.left, at);
        const size_t b = place(right, op.right, at);
        const PointwiseFn fn = op.fn == ContractFn::kSum ? PointwiseFn::kMul : PointwiseFn::kAdd;
        if (holds_reals(left.type)) {
          reals.push_back(plain_float_function(fn, out.type, left.real[a], right.real[b], 0.0));
        } else {
          integers.push_back(
              plain_integer_function(fn, out.type, left.integer[a], right.integer[b], 0));
        }
      }
      Group all(std::max(reals.size(), integers.size()));
      std::iota(all.begin(), all.end(), size_t{0});
      const ReduceFn reduction = op.fn == ContractFn::kSum ? ReduceFn::kSum : ReduceFn::kMax;
      if (!holds_reals(out.type)) {
        out.integer[i] = reduce_integers(reduction, out.type, integers, all);
      } else if (op.fn == ContractFn::kLogSumExp) {
        out.real[i] = plain_cast_to_float(out.type, plain_logsumexp(reals, all));
      } else {
        out.real[i] = plain_cast_to_float(out.type, reduce_reals(reduction, reals, all));
      }
    }
    give(std::move(out));
  }

  void operator()(const TakeOp& op) {
    PlainTensor out = fresh();
    const PlainTensor& x = operand(0);
    const PlainTensor& index = operand(1);
    const auto axis = static_cast<size_t>(op.axis);
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      if (index.integer[i] < 0 || index.integer[i] >= x.sizes[axis]) continue;  // It is 0.
      Sizes from = index_of(out.sizes, i);
      from.insert(from.begin() + op.axis, index.integer[i]);
      copy_element(x, number_of(x.sizes, from), out, i);
    }
    give(std::move(out));
  }

  void operator()(const ExtentOp& op) {
    PlainTensor out = fresh();
    uint64_t product = 1;
    for (const Extent& extent : op.extents) product *= static_cast<uint64_t>(size_of(extent));
    out.integer[0] = static_cast<int64_t>(product);
    give(std::move(out));
  }

  void operator()(const IotaOp& op) {
    PlainTensor out = fresh();
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      const int64_t at = index_of(out.sizes, i)[static_cast<size_t>(op.axis)];
      if (holds_reals(out.type)) {
        out.real[i] = plain_cast_to_float(out.type, at);
      } else {
        out.integer[i] = plain_cast_to_integer(out.type, at);
      }
    }
    give(std::move(out));
  }

  void operator()(const PermuteOp& op) {
    move_elements([&](const Sizes& index) {
      Sizes from(index.size());
      for (size_t axis = 0; axis < index.size(); ++axis)
        from[static_cast<size_t>(op.order[axis])] = index[axis];
      return from;
    });
  }

  void operator()(const ReshapeOp&) {
    PlainTensor out = fresh();
    for (size_t i = 0; i < count_of(out.sizes); ++i) copy_element(operand(0), i, out, i);
    give(std::move(out));
  }

  void operator()(const SliceOp& op) {
    move_elements([&](const Sizes& index) {
      Sizes from(index.size());
      for (size_t axis = 0; axis < index.size(); ++axis)
        from[axis] = op.start[axis] + index[axis] * op.step[axis];
      return from;
    });
  }

  void operator()(const ConcatenateOp& op) {
    PlainTensor out = fresh();
    const auto axis = static_cast<size_t>(op.axis);
    int64_t before = 0;
    for (size_t k = 0; k < op_->operands.size(); ++k) {
      put_at(operand(k), axis, before, out);
      before += operand(k).sizes[axis];
    }
    give(std::move(out));
  }

  void operator()(const PadOp& op) {
    PlainTensor out = fresh();
    std::ranges::fill(out.real, op.value.real);
    std::ranges::fill(out.integer, op.value.integer);
    const PlainTensor& x = operand(0);
    for (size_t i = 0; i < count_of(x.sizes); ++i) {
      Sizes to = index_of(x.sizes, i);
      for (size_t axis = 0; axis < to.size(); ++axis) to[axis] += op.low[axis];
      copy_element(x, i, out, number_of(out.sizes, to));
    }
    give(std::move(out));
  }

  void operator()(const ExternalOp& op) {
    if (!call_) throw std::logic_error("nothing runs external calls");
    ExternalOp bound = op;
    for (ResultType& result : bound.results) {
      for (Extent& extent : result.shape) extent = Extent(size_of(extent));
    }
    std::vector<PlainTensor> operands;
    for (size_t i = 0; i < op_->operands.size(); ++i) operands.push_back(operand(i));
    std::vector<PlainTensor> results = call_(bound, operands);
    for (size_t i = 0; i < results.size(); ++i) give(std::move(results[i]), i);
  }

 private:
  [[nodiscard]] int64_t size_of(const Extent& extent) const {
    return extent.is_symbol() ? binding_.symbol_sizes.at(extent.symbol().index) : extent.constant();
  }
  [[nodiscard]] const PlainTensor& operand(size_t i) const {
    return values_[op_->operands.at(i).index];
  }
  /// A result of the op, all 0.
  [[nodiscard]] PlainTensor fresh(size_t result = 0) const {
    const Value& value = fusion_.values[op_->results.at(result)];
    Sizes sizes;
    for (const Extent& extent : value.shape) sizes.push_back(size_of(extent));
    return blank(value.type, std::move(sizes));
  }
  void give(PlainTensor tensor, size_t result = 0) {
    values_[op_->results.at(result).index] = std::move(tensor);
  }
  /// The result of an op that moves elements; `source` says where in the operand an index lies.
  template <class Source>
  void move_elements(Source source) {
    PlainTensor out = fresh();
    for (size_t i = 0; i < count_of(out.sizes); ++i) {
      const Sizes from = source(index_of(out.sizes, i));
      copy_element(operand(0), number_of(operand(0).sizes, from), out, i);
    }
    give(std::move(out));
  }
  static void put_at(const PlainTensor& x, size_t axis, int64_t before, PlainTensor& out) {
    for (size_t i = 0; i < count_of(x.sizes); ++i) {
      Sizes to = index_of(x.sizes, i);
      to[axis] += before;
      copy_element(x, i, out, number_of(out.sizes, to));
    }
  }

  const Fusion& fusion_;
  const Binding& binding_;
  const PlainCall& call_;
  const Op* op_ = nullptr;
  std::vector<PlainTensor> values_;  ///< By value id.
};

}  // namespace

std::vector<PlainTensor> evaluate_plainly(const Fusion& fusion, const Binding& binding,
                                          std::span<const PlainTensor> inputs,
                                          const PlainCall& call) {
  return Evaluation(fusion, binding, call).run(inputs);
}

}  // namespace sinter
