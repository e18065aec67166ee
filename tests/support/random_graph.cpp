#include "tests/support/random_graph.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "fusion_ir/fusion_builder.h"
#include "tests/support/random_fusion.h"

namespace sinter {
namespace {

/// Values grow no further than this; what may exceed it is scaled down first.
constexpr double kLargestBound = 64.0;
constexpr double kLargestExponent = 4.0;  ///< e^4 < 64.

struct Bounded {
  ValueId id;
  double bound = 0.0;
  bool is_read = false;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), b_(fmt::format("graph_{}_{}", seed, options.ops)), options_(options) {
    const size_t inputs = 1 + below(4);
    for (size_t i = 0; i < inputs; ++i) add_input();
    for (int i = 0; i < options.ops; ++i) step();
  }

  Fusion build() {
    bool any = false;
    for (const Bounded& value : values_) {
      if (value.is_read || is_input(value.id)) continue;
      b_.output(value.id, "", layout(value.id));
      any = true;
    }
    if (!any) b_.output(b_.neg(values_.back().id));
    return b_.build();
  }

 private:
  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  bool one_in(size_t n) { return below(n) == 0; }
  [[nodiscard]] bool is_input(ValueId id) const {
    return b_.fusion().def_as<InputOp>(id) != nullptr;
  }
  [[nodiscard]] const Shape& shape(ValueId id) const { return b_.fusion().values[id].shape; }

  void add(ValueId id, double bound) {
    if (bound > kLargestBound) {
      id = b_.mul(id, b_.constant(kLargestBound / bound));
      bound = kLargestBound;
    }
    values_.push_back({id, bound});
  }

  /// A value, late ones more often.
  Bounded& pick() {
    const size_t n = values_.size();
    Bounded& value = values_[one_in(2) ? n - 1 - below(std::min<size_t>(n, 3)) : below(n)];
    value.is_read = true;
    return value;
  }

  void add_input() {
    constexpr std::array kTypes = {DType::kBF16, DType::kF16, DType::kF32};
    const int64_t batch = options_.batch;
    const int64_t rows = options_.rows;
    const int64_t columns = options_.columns;
    const std::array<Shape, 6> shapes = {
        Shape{rows, columns}, Shape{rows, columns}, Shape{batch, rows, columns},
        Shape{columns},       Shape{rows},          Shape{columns, rows}};
    const size_t which = values_.empty() ? 0 : below(shapes.size());
    values_.push_back({b_.input(kTypes[below(kTypes.size())], shapes[which]), kRandomInputBound});
  }

  void step() {
    if (options_.calls && one_in(8)) return call();
    if (options_.joins && one_in(5)) return join();
    switch (below(10)) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
      case 4:
        return binary();
      case 5:
      case 6:
        return reduction();
      case 7:
        return rounding();
      case 8:
        return one_in(2) ? permutation() : slice();
      default:
        return regrouping();
    }
  }

  /// Gaps behind rows, for some.
  OutputLayout layout(ValueId id) {
    if (!options_.joins || shape(id).empty() || !one_in(3)) return {};
    Sizes reaches = Binding{}.sizes_of(shape(id));
    reaches.back() += static_cast<int64_t>(8 * below(2) + below(3));
    const Sizes strides = dense_strides(reaches);
    return {.strides = {strides.begin(), strides.end()}};
  }

  /// Two values of one shape, or twice the same, one behind the other; else a frame around one.
  void join() {
    constexpr int64_t kMostElements = 1 << 15;
    const Bounded x = pick();
    const Bounded y = one_in(3) ? x : pick();
    const Shape from = shape(x.id);
    if (from.empty() || element_count(from) > kMostElements) return unary();
    const bool fits = b_.fusion().values[x.id].type == b_.fusion().values[y.id].type;
    const auto axis = below(from.size());
    if (fits && from == shape(y.id)) {
      return add(b_.concatenate({x.id, y.id}, static_cast<int>(axis)), std::max(x.bound, y.bound));
    }
    std::vector<int64_t> low(from.size());
    std::vector<int64_t> high(from.size());
    low[axis] = static_cast<int64_t>(below(3));
    high[below(from.size())] = static_cast<int64_t>(below(9));
    add(b_.pad(x.id, low, high, 0.5), std::max(x.bound, 0.5));
  }

  void call() {
    const Bounded x = pick();
    const Bounded y = pick();
    const auto type_of = [&](ValueId id) {
      return ResultType{b_.fusion().values[id].type, shape(id)};
    };
    const auto results = b_.external("swap", {x.id, y.id}, {type_of(y.id), type_of(x.id)});
    add(results[0], y.bound);
    add(results[1], x.bound);
  }

  void unary() {
    const Bounded x = pick();
    switch (below(4)) {
      case 0:
        return add(b_.neg(x.id), x.bound);
      case 1:
        return add(b_.pointwise(PointwiseFn::kTanh, {x.id}), 1.0);
      case 2:
        return add(b_.exp(b_.min(x.id, b_.constant(kLargestExponent))), kLargestBound);
      default:
        return add(b_.abs(x.id), x.bound);
    }
  }

  void binary() {
    const Bounded x = pick();
    const Bounded y = pick();
    const auto [a, b] = alike(x.id, y.id);
    switch (below(3)) {
      case 0:
        return add(b_.add(a, b), x.bound + y.bound);
      case 1:
        return add(b_.mul(a, b), x.bound * y.bound);
      default:
        return add(b_.max(a, b), std::max(x.bound, y.bound));
    }
  }

  /// Two values of one shape: the smaller is broadcast along axes that it lacks, and where their
  /// axes have nothing in common the mean of it is.
  std::pair<ValueId, ValueId> alike(ValueId x, ValueId y) {
    if (shape(x).size() < shape(y).size()) std::swap(x, y);
    const Shape to = shape(x);
    std::vector<int> axes;
    size_t from = 0;
    for (const Extent& extent : shape(y)) {
      while (from < to.size() && to[from] != extent) ++from;
      if (from == to.size()) break;
      axes.push_back(static_cast<int>(from++));
    }
    if (axes.size() != shape(y).size()) {
      y = b_.amax(y, {});
      axes.clear();
    }
    return {x, axes.size() == to.size() ? y : b_.broadcast(y, to, axes)};
  }

  std::vector<int> some_axes(ValueId x) {
    std::vector<int> axes;
    for (size_t axis = 0; axis < shape(x).size(); ++axis) {
      if (one_in(2)) axes.push_back(static_cast<int>(axis));
    }
    if (axes.empty()) axes.push_back(static_cast<int>(below(shape(x).size())));
    return axes;
  }

  void reduction() {
    const Bounded x = pick();
    if (shape(x.id).empty()) return add(b_.neg(x.id), x.bound);
    const std::vector<int> axes = some_axes(x.id);
    ValueId reduced = x.id;
    if (one_in(3)) {
      reduced = b_.amax(x.id, axes);
    } else {
      int64_t count = 1;
      for (const int axis : axes) count *= shape(x.id)[static_cast<size_t>(axis)].constant();
      reduced = b_.mul(b_.sum(x.id, axes), b_.constant(1.0 / static_cast<double>(count)));
    }
    if (one_in(3)) return add(reduced, x.bound);
    // As norms do: back to the shape of what was reduced.
    const ValueId again = b_.broadcast_over(reduced, x.id, axes);
    add(b_.sub(b_.cast(x.id, DType::kF32), again), 2.0 * x.bound);
  }

  void rounding() {
    const Bounded x = pick();
    const DType type = one_in(2) ? DType::kBF16 : DType::kF16;
    if (b_.fusion().values[x.id].type == type) return add(b_.neg(x.id), x.bound);
    add(b_.cast(x.id, type), x.bound);
  }

  void permutation() {
    const Bounded x = pick();
    const size_t rank = shape(x.id).size();
    if (rank < 2) return add(b_.neg(x.id), x.bound);
    std::vector<int> order;
    for (size_t axis = 0; axis < rank; ++axis) order.push_back(static_cast<int>(axis));
    std::swap(order[below(rank)], order[rank - 1]);
    add(b_.abs(b_.permute(x.id, order)), x.bound);
  }

  void slice() {
    const Bounded x = pick();
    const size_t rank = shape(x.id).size();
    if (rank == 0) return add(b_.neg(x.id), x.bound);
    std::vector<int64_t> start(rank, 0);
    std::vector<int64_t> stop;
    for (const Extent& extent : shape(x.id)) stop.push_back(extent.constant());
    const size_t axis = below(rank);
    if (stop[axis] < 2) return add(b_.neg(x.id), x.bound);
    (one_in(2) ? start : stop)[axis] = stop[axis] / 2;
    add(b_.neg(b_.slice(x.id, start, stop)), x.bound);
  }

  /// All axes as one, or one axis as two.
  void regrouping() {
    const Bounded x = pick();
    const Shape from = shape(x.id);
    if (from.empty()) return add(b_.neg(x.id), x.bound);
    Shape to;
    if (from.size() == 1) {
      const int64_t size = from[0].constant();
      const int64_t part = size % 2 == 0 ? 2 : 1;
      to = {size / part, part};
    } else {
      int64_t size = 1;
      for (const Extent& extent : from) size *= extent.constant();
      to = {size};
    }
    add(b_.abs(b_.reshape(x.id, to)), x.bound);
  }

  std::mt19937_64 random_;
  FusionBuilder b_;
  RandomGraphOptions options_;
  std::vector<Bounded> values_;
};

}  // namespace

Fusion random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).build();
}

HostCalls random_graph_calls() {
  const auto run = [](const ExternalOp&, std::span<const HostTensor> inputs,
                      std::span<HostTensor> outputs) {
    for (size_t i = 0; i < 2; ++i) {
      for (int64_t element = 0; element < outputs[i].count(); ++element)
        outputs[i].set(element, -inputs[1 - i].get(element));
    }
  };
  const auto evaluate = [](const ExternalOp&, std::span<const OracleOutput> operands) {
    std::vector<OracleOutput> results = {operands[1], operands[0]};
    for (OracleOutput& result : results) {
      for (double& element : result.real) element = -element;
    }
    return results;
  };
  return {.run = run, .evaluate = evaluate};
}

Fusion shuffled(const Fusion& fusion, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<OpId> ready;
  Fusion out{.name = fusion.name,
             .symbols = fusion.symbols,
             .values = {},
             .ops = {},
             .inputs = {},
             .outputs = {}};
  IdMap<ValueId, ValueId> made(fusion.values.size());
  const auto place = [&](OpId id) {
    Op op = fusion.ops[id];
    for (ValueId& operand : op.operands) operand = made[operand];
    const OpId placed = out.ops.push_back({.kind = op.kind, .operands = op.operands});
    for (const ValueId result : op.results) {
      Value value = fusion.values[result];
      value.def = placed;
      made[result] = out.values.push_back(value);
      out.ops[placed].results.push_back(made[result]);
    }
    if (std::holds_alternative<InputOp>(op.kind)) out.inputs.push_back(out.ops[placed].results[0]);
  };
  std::vector<uint8_t> done(fusion.ops.size());
  // Inputs keep their order: it is that in which tensors are passed.
  for (const ValueId input : fusion.inputs) {
    place(fusion.values[input].def);
    done[fusion.values[input].def.index] = 1;
  }
  while (true) {
    ready.clear();
    for (const OpId op : fusion.op_ids()) {
      if (done[op.index] != 0) continue;
      const bool can = std::ranges::all_of(fusion.ops[op].operands, [&](ValueId operand) {
        return done[fusion.values[operand].def.index] != 0;
      });
      if (can) ready.push_back(op);
    }
    if (ready.empty()) break;
    const OpId next = ready[static_cast<size_t>(random() % ready.size())];
    place(next);
    done[next.index] = 1;
  }
  for (const ValueId output : fusion.outputs)
    out.add_output(made[output], fusion.layout_of(output));
  return out;
}

}  // namespace sinter
