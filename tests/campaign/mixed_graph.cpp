// Any ops on any types and shapes. A graph draws a few extents, which most of its shapes are made
// of, so that values meet; a step picks values, late ones more often, and adds an op with the casts
// and broadcasts that it needs. The file is long because there is a step for each kind of op; they
// are short, and stand by themselves.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "fusion_ir/training_composites.h"
#include "tests/campaign/drawing.h"
#include "tests/campaign/graph_generator.h"
#include "tests/support/random_fusion.h"

namespace sinter {
namespace {

/// In tame graphs values grow no further than this; what may exceed it is scaled down first.
constexpr double kLargestBound = 64.0;
constexpr double kLargestExponent = 4.0;  ///< e^4 < 64.
constexpr int64_t kMostRank = 5;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct Known {
  ValueId id;
  double bound = 0.0;  ///< Of the magnitude of a float, in tame graphs.
  bool is_read = false;
};

class Generator {
 public:
  Generator(uint64_t seed, GraphKind kind)
      : chance_(seed), kind_(kind), b_(fmt::format("{}_{:016x}", name_of(kind), seed)) {
    most_elements_ = chance_.one_in(24) ? 1 << 14 : 1 << 11;
    draw_extents();
    const auto inputs = static_cast<size_t>(chance_.between(1, 3));
    for (size_t i = 0; i < inputs; ++i) add_input(draw_shape());
    int64_t steps = chance_.between(2, chance_.one_in(8) ? 24 : 12);
    if (chance_.one_in(100)) steps = chance_.between(40, 80);
    for (int64_t i = 0; i < steps; ++i) step();
    declare_outputs();
  }

  DrawnGraph build() { return {.kind = kind_, .fusion = b_.build(), .extents = sizes_}; }

 private:
  // ---- Extents and shapes

  void draw_extents() {
    constexpr std::array<int64_t, 20> kUsual = {1,  2,  3,  3,  4,  5,  6,  7,  8,  9,
                                                15, 16, 17, 31, 32, 33, 40, 64, 65, 100};
    constexpr std::array<int64_t, 5> kLong = {255, 257, 512, 1000, 1024};
    // Rows of whole vectors, which bulk copies take.
    constexpr std::array<int64_t, 8> kWhole = {8, 16, 32, 64, 96, 128, 256, 512};
    const bool is_whole = kind_ == GraphKind::kRows && chance_.one_in(2);
    const auto count = static_cast<size_t>(chance_.between(2, 4));
    const bool has_symbols = chance_.one_in(3);
    const bool has_empty = chance_.one_in(14);
    for (size_t i = 0; i < count; ++i) {
      int64_t size = chance_.one_of(std::span<const int64_t>(kUsual));
      if (i + 1 == count && chance_.one_in(3))
        size = chance_.one_of(std::span<const int64_t>(kLong));
      if (i + 1 == count && chance_.one_in(40)) size = 4097;
      if (i + 1 == count && is_whole) size = chance_.one_of(std::span<const int64_t>(kWhole));
      if (i == 0 && has_empty) size = 0;
      if (has_symbols && chance_.one_in(2)) {
        const std::string name = fmt::format("n{}", i);
        extents_.push_back(b_.symbol(name));
        sizes_[name] = size;
      } else {
        extents_.emplace_back(size);
      }
    }
  }
  [[nodiscard]] int64_t size_of(const Extent& extent) const {
    return extent.is_constant() ? extent.constant()
                                : sizes_.at(b_.fusion().symbols[extent.symbol()].name);
  }
  [[nodiscard]] int64_t count_of(const Shape& shape) const {
    int64_t count = 1;
    for (const Extent& extent : shape) count *= size_of(extent);
    return count;
  }
  [[nodiscard]] bool fits(const Shape& shape) const { return count_of(shape) <= most_elements_; }
  const Extent& any_extent() { return extents_[chance_.below(extents_.size())]; }

  Shape draw_shape() {
    constexpr std::array<int, 6> kRanks = {4, 20, 44, 20, 8, 4};
    constexpr std::array<int, 6> kRanksOfRows = {2, 10, 68, 16, 4, 0};
    const size_t rank = chance_.weighted(kind_ == GraphKind::kRows ? kRanksOfRows : kRanks);
    Shape shape;
    for (size_t axis = 0; axis < rank; ++axis)
      shape.push_back(axis + 1 == rank && !chance_.one_in(3) ? extents_.back() : any_extent());
    while (!fits(shape)) shape.erase(shape.begin());
    return shape;
  }

  // ---- Values

  /// A copy: appending an op moves the tables.
  [[nodiscard]] Shape shape(ValueId id) const { return b_.fusion().values[id].shape; }
  [[nodiscard]] DType type(ValueId id) const { return b_.fusion().values[id].type; }
  [[nodiscard]] bool is_input(ValueId id) const {
    return b_.fusion().def_as<InputOp>(id) != nullptr;
  }
  [[nodiscard]] bool tame() const { return kind_ != GraphKind::kWild; }

  void add(ValueId id, double bound) {
    if (tame() && is_float(type(id)) && !(bound <= kLargestBound)) {
      if (std::isfinite(bound)) {
        // A power of two, so that scaling rounds nothing.
        id = b_.mul(id, b_.constant(std::exp2(-std::ceil(std::log2(bound / kLargestBound)))));
        bound = kLargestBound;
      } else {
        id = b_.pointwise(PointwiseFn::kTanh, {b_.cast(id, compute_type(type(id)))});
        bound = 1.0;
      }
    }
    values_.push_back({id, bound});
  }

  using Filter = std::function<bool(ValueId)>;
  /// A value that the filter admits, late ones more often.
  std::optional<Known> pick(const Filter& filter) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (filter(values_[i].id)) fitting.push_back(i);
    }
    if (fitting.empty()) return std::nullopt;
    const size_t n = fitting.size();
    const size_t place =
        chance_.one_in(2) ? n - 1 - chance_.below(std::min<size_t>(n, 3)) : chance_.below(n);
    values_[fitting[place]].is_read = true;
    return values_[fitting[place]];
  }
  Known pick_any() {
    return *pick([](ValueId) { return true; });
  }
  Known pick_float() {
    if (const auto x = pick([&](ValueId id) { return is_float(type(id)); })) return *x;
    const Known x = pick_any();
    return {to_float(x.id), kLargestBound};
  }
  /// A float of values within the tame bound.
  ValueId to_float(ValueId id) {
    const DType from = type(id);
    if (is_float(from)) return id;
    if (tame() && from != DType::kBool)
      id = b_.pointwise(PointwiseFn::kRem, {id, b_.constant_integer(61, compute_type(from))});
    return b_.cast(id, chance_.one_in(8) ? DType::kF64 : DType::kF32);
  }
  Known pick_integer() {
    if (const auto x = pick([&](ValueId id) { return is_integer(type(id)); })) return *x;
    if (chance_.one_in(2)) return add_integers(draw_shape(), "i");
    const Known x = pick_any();
    return {b_.cast(x.id, chance_.one_of({DType::kI32, DType::kI64})), kUnbounded};
  }
  Known pick_bool() {
    if (const auto x = pick([&](ValueId id) { return type(id) == DType::kBool; })) return *x;
    const Known x = pick_float();
    const ValueId limit = b_.constant(0.0, compute_type(type(x.id)));
    return {b_.pointwise(PointwiseFn::kGt, {x.id, limit}), 1.0};
  }
  Known pick_with_axes() {
    if (const auto x = pick([&](ValueId id) { return !shape(id).empty(); })) return *x;
    return add_input(draw_shape_with_axes());
  }
  Shape draw_shape_with_axes() {
    Shape shape = draw_shape();
    if (shape.empty()) shape.push_back(extents_.back());
    return shape;
  }
  size_t axis_of(ValueId id) { return chance_.below(shape(id).size()); }

  // ---- Inputs

  DType input_type() {
    constexpr std::array kTypes = {DType::kF32,    DType::kF32,    DType::kF32, DType::kBF16,
                                   DType::kBF16,   DType::kF16,    DType::kF16, DType::kF64,
                                   DType::kF8E4M3, DType::kF8E5M2, DType::kI64, DType::kI32,
                                   DType::kI8,     DType::kU8,     DType::kBool};
    constexpr size_t kFloats = 10;
    return kTypes[chance_.below(kind_ == GraphKind::kRows ? 8
                                : chance_.one_in(3)       ? kTypes.size()
                                                          : kFloats)];
  }
  InputOptions input_options(DType of, const Shape& with) {
    InputOptions options;
    if (chance_.one_in(5)) {
      options.alignment = std::max<int64_t>(bytes_of(of), chance_.one_of({1, 2, 4, 8, 32}));
    }
    const bool has_symbol =
        std::ranges::any_of(with, [](const Extent& extent) { return extent.is_symbol(); });
    if (with.empty() || has_symbol || !chance_.one_in(5)) return options;
    // Rows with gaps, axes in another order, or axes along which the tensor repeats.
    Sizes reaches;
    for (const Extent& extent : with) reaches.push_back(extent.constant());
    const size_t last = with.size() - 1;
    switch (chance_.below(3)) {
      case 0:
        reaches[last] += chance_.between(1, 9);
        break;
      case 1: {
        const size_t other = chance_.below(with.size());
        std::swap(reaches[other], reaches[last]);
        Sizes strides = dense_strides(reaches);
        std::swap(strides[other], strides[last]);
        options.strides.assign(strides.begin(), strides.end());
        return options;
      }
      default: {
        Sizes strides = dense_strides(reaches);
        strides[chance_.below(with.size())] = 0;
        options.strides.assign(strides.begin(), strides.end());
        return options;
      }
    }
    const Sizes strides = dense_strides(reaches);
    options.strides.assign(strides.begin(), strides.end());
    return options;
  }
  Known add_input(const Shape& with) {
    const DType of = input_type();
    const ValueId id =
        b_.input(of, with, fmt::format("x{}", b_.fusion().inputs.size()), input_options(of, with));
    return remember(id, is_float(of) ? kRandomInputBound : kUnbounded);
  }
  Known add_integers(const Shape& with, std::string_view name) {
    const DType of = chance_.one_of({DType::kI64, DType::kI32});
    const ValueId id = b_.input(of, with, fmt::format("{}{}", name, b_.fusion().inputs.size()),
                                input_options(of, with));
    return remember(id, kUnbounded);
  }
  Known remember(ValueId id, double bound) {
    values_.push_back({id, bound});
    return values_.back();
  }
  double any_number() {
    if (tame()) return static_cast<double>(chance_.between(-8, 8)) / 4.0;
    return chance_.one_of({0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -3e38, 65504.0, 1e-40,
                           kUnbounded, -kUnbounded, std::numeric_limits<double>::quiet_NaN()});
  }
  ValueId constant_of(DType of) {
    if (is_float(of)) return b_.constant(round_to(of, any_number()), of);
    if (of == DType::kBool) return b_.constant_integer(chance_.between(0, 1), of);
    const int64_t low = of == DType::kU8 ? 0 : -3;
    return b_.constant_integer(chance_.between(low, 7), of);
  }

  // ---- Steps

  void step() {
    struct Choice {
      int weight;
      int weight_of_rows;
      void (Generator::*run)();
    };
    constexpr std::array kChoices = {
        Choice{14, 10, &Generator::unary},       Choice{14, 14, &Generator::binary},
        Choice{4, 2, &Generator::integers},      Choice{4, 2, &Generator::comparison},
        Choice{2, 1, &Generator::logic},         Choice{3, 2, &Generator::selection},
        Choice{3, 2, &Generator::ternary},       Choice{7, 6, &Generator::conversion},
        Choice{14, 14, &Generator::reduction},   Choice{4, 4, &Generator::pair_reduction},
        Choice{4, 3, &Generator::extreme_index}, Choice{4, 4, &Generator::pick_elements},
        Choice{5, 1, &Generator::slice},         Choice{4, 1, &Generator::concatenation},
        Choice{4, 1, &Generator::padding},       Choice{4, 1, &Generator::permutation},
        Choice{5, 1, &Generator::regrouping},    Choice{3, 1, &Generator::repetition},
        Choice{2, 1, &Generator::counting},      Choice{2, 1, &Generator::random_numbers},
        Choice{3, 0, &Generator::call},          Choice{4, 26, &Generator::composite},
        Choice{3, 4, &Generator::another_input}, Choice{4, 3, &Generator::contraction},
    };
    std::array<int, kChoices.size()> weights{};
    for (size_t i = 0; i < kChoices.size(); ++i)
      weights[i] = kind_ == GraphKind::kRows ? kChoices[i].weight_of_rows : kChoices[i].weight;
    (this->*kChoices[chance_.weighted(weights)].run)();
  }

  void another_input() { add_input(draw_shape()); }

  /// |x| + 0.5 in tame graphs: away from poles.
  ValueId guarded(ValueId x) {
    if (!tame() && chance_.one_in(2)) return x;
    return b_.add(b_.abs(x), b_.constant(0.5, compute_type(type(x))));
  }
  ValueId number(double value, ValueId like) {
    return b_.constant(value, compute_type(type(like)));
  }

  void unary() {
    const Known x = pick_float();
    const auto apply = [&](PointwiseFn fn, ValueId operand, double bound) {
      add(b_.pointwise(fn, {operand}), bound);
    };
    const ValueId capped = tame() ? b_.min(x.id, number(kLargestExponent, x.id))
                                  : b_.cast(x.id, compute_type(type(x.id)));
    switch (chance_.below(19)) {
      case 0:
        return apply(PointwiseFn::kNeg, x.id, x.bound);
      case 1:
        return apply(PointwiseFn::kAbs, x.id, x.bound);
      case 2:
        return apply(PointwiseFn::kExp, capped, kLargestBound);
      case 3:
        return apply(PointwiseFn::kExp2, capped, kLargestBound);
      case 4:
        return apply(PointwiseFn::kExpm1, capped, kLargestBound);
      case 5:
        return apply(PointwiseFn::kLog, guarded(x.id), kLargestBound);
      case 6:
        return apply(PointwiseFn::kLog2, guarded(x.id), kLargestBound);
      case 7:
        return apply(PointwiseFn::kLog1p, guarded(x.id), kLargestBound);
      case 8:
        return apply(PointwiseFn::kSqrt, guarded(x.id), x.bound + 1.0);
      case 9:
        return apply(PointwiseFn::kRsqrt, guarded(x.id), 2.0);
      case 10:
        return apply(PointwiseFn::kReciprocal, guarded(x.id), 2.0);
      case 11:
        return apply(PointwiseFn::kSin, x.id, 1.0);
      case 12:
        return apply(PointwiseFn::kCos, x.id, 1.0);
      case 13:
        return apply(PointwiseFn::kTanh, x.id, 1.0);
      case 14:
        return apply(PointwiseFn::kErf, x.id, 1.0);
      case 15:
        return apply(PointwiseFn::kFloor, x.id, x.bound + 1.0);
      case 16:
        return apply(PointwiseFn::kCeil, x.id, x.bound + 1.0);
      case 17:
        return apply(PointwiseFn::kTrunc, x.id, x.bound);
      default:
        return apply(PointwiseFn::kRound, x.id, x.bound + 1.0);
    }
  }

  /// Two values of one shape: the smaller is broadcast along axes that it lacks. Where their axes
  /// have nothing in common, one of its elements is.
  std::pair<ValueId, ValueId> alike(ValueId x, ValueId y) {
    const bool swaps = shape(x).size() < shape(y).size();
    if (swaps) std::swap(x, y);
    const Shape to = shape(x);
    const Shape of_y = shape(y);
    std::vector<int> axes;
    size_t from = 0;
    for (const Extent& extent : of_y) {
      while (from < to.size() && to[from] != extent) ++from;
      if (from == to.size()) break;
      axes.push_back(static_cast<int>(from++));
    }
    if (axes.size() != of_y.size()) {
      y = type(y) == DType::kBool ? b_.reduce(ReduceFn::kAny, y, {}) : b_.amax(y, {});
      axes.clear();
    }
    if (axes.size() != to.size()) y = b_.broadcast(y, to, axes);
    return swaps ? std::pair(y, x) : std::pair(x, y);
  }

  void binary() {
    const Known x = pick_float();
    const Known y = pick_float();
    const auto [a, c] = alike(x.id, y.id);
    const double larger = std::max(x.bound, y.bound);
    switch (chance_.below(11)) {
      case 0:
      case 1:
        return add(b_.add(a, c), x.bound + y.bound);
      case 2:
        return add(b_.sub(a, c), x.bound + y.bound);
      case 3:
      case 4:
      case 5:
        return add(b_.mul(a, c), x.bound * y.bound);
      case 6:
        return add(b_.max(a, c), larger);
      case 7:
        return add(b_.min(a, c), larger);
      case 8:
        return add(b_.div(a, guarded(c)), 2.0 * x.bound);
      case 9:
        return add(b_.pointwise(PointwiseFn::kRem, {a, guarded(c)}), x.bound);
      default: {
        // 0.5 ... 64.5 to the power of -1 ... 1.
        const ValueId power = tame() ? b_.pointwise(PointwiseFn::kTanh, {c}) : c;
        return add(b_.pointwise(PointwiseFn::kPow, {guarded(a), power}), 2.0 * x.bound + 2.0);
      }
    }
  }

  void integers() {
    constexpr std::array kFns = {PointwiseFn::kAdd, PointwiseFn::kSub, PointwiseFn::kMul,
                                 PointwiseFn::kDiv, PointwiseFn::kRem, PointwiseFn::kMax,
                                 PointwiseFn::kMin, PointwiseFn::kAnd, PointwiseFn::kOr,
                                 PointwiseFn::kXor, PointwiseFn::kNeg, PointwiseFn::kAbs,
                                 PointwiseFn::kNot};
    const PointwiseFn fn = kFns[chance_.below(kFns.size())];
    const ValueId x = pick_integer().id;
    if (info_of(fn).arity == 1) return add(b_.pointwise(fn, {x}), kUnbounded);
    const auto [a, c] = alike(x, pick_integer().id);
    add(b_.pointwise(fn, {a, c}), kUnbounded);
  }

  void comparison() {
    if (chance_.one_in(4)) {
      const PointwiseFn fn = chance_.one_of({PointwiseFn::kIsNan, PointwiseFn::kIsFinite});
      const Known x = pick_float();
      return add(b_.pointwise(fn, {b_.cast(x.id, compute_type(type(x.id)))}), 1.0);
    }
    const PointwiseFn fn = chance_.one_of({PointwiseFn::kEq, PointwiseFn::kNe, PointwiseFn::kLt,
                                           PointwiseFn::kLe, PointwiseFn::kGt, PointwiseFn::kGe});
    const Known x = pick_any();
    const Known y = chance_.one_in(3) ? x : pick_any();
    const auto [a, c] = alike(x.id, y.id);
    add(b_.pointwise(fn, {a, c}), 1.0);
  }

  void logic() {
    const Known x = pick_bool();
    if (chance_.one_in(4)) return add(b_.pointwise(PointwiseFn::kNot, {x.id}), 1.0);
    const auto [a, c] = alike(x.id, pick_bool().id);
    const PointwiseFn fn = chance_.one_of({PointwiseFn::kAnd, PointwiseFn::kOr, PointwiseFn::kXor});
    add(b_.pointwise(fn, {a, c}), 1.0);
  }

  void selection() {
    const Known x = pick_any();
    const DType of = compute_type(type(x.id));
    const auto [condition, a] = alike(pick_bool().id, b_.cast(x.id, of));
    const ValueId other = b_.broadcast(constant_of(of), shape(a), {});
    add(chance_.one_in(2) ? b_.select(condition, a, other) : b_.select(condition, other, a),
        std::max(x.bound, 2.0));
  }

  void ternary() {
    const Known x = pick_float();
    const Known y = pick_float();
    const auto [a, c] = alike(x.id, y.id);
    if (chance_.one_in(2)) {
      const ValueId third = number(any_number(), a);
      return add(b_.pointwise(PointwiseFn::kFma, {a, c, third}), x.bound * y.bound + 2.0);
    }
    add(b_.pointwise(PointwiseFn::kClamp, {a, number(-1.5, a), c}),
        std::max({x.bound, y.bound, 1.5}));
  }

  void conversion() {
    const Known x = pick_any();
    const DType to = kAllDTypes[chance_.below(kAllDTypes.size())];
    ValueId from = x.id;
    double bound = x.bound;
    if (is_float(to) && !is_float(type(from))) {
      from = to_float(from);
      bound = kLargestBound;
    }
    add(b_.cast(from, to), bound);
  }

  std::vector<int> some_axes(ValueId x) {
    const auto rank = static_cast<int>(shape(x).size());
    switch (chance_.below(8)) {
      case 0:
      case 1:
      case 2:
        return {rank - 1};
      case 3:
      case 4:
        return {0};
      case 5:
        return {static_cast<int>(axis_of(x))};
      case 6:
        return {};
      default: {
        std::vector<int> axes;
        for (int axis = 0; axis < rank; ++axis) {
          if (chance_.one_in(2)) axes.push_back(axis);
        }
        return axes;
      }
    }
  }
  int64_t count_along(ValueId x, const std::vector<int>& axes) {
    if (axes.empty()) return count_of(shape(x));
    int64_t count = 1;
    for (const int axis : axes) count *= size_of(shape(x)[static_cast<size_t>(axis)]);
    return count;
  }

  void reduction() {
    Known x = pick_with_axes();
    if (type(x.id) == DType::kBool) {
      return add(b_.reduce(chance_.one_of({ReduceFn::kAny, ReduceFn::kAll}), x.id, some_axes(x.id)),
                 1.0);
    }
    const std::vector<int> axes = some_axes(x.id);
    const auto count = static_cast<double>(std::max<int64_t>(count_along(x.id, axes), 1));
    if (!is_float(type(x.id))) {
      const ReduceFn fn =
          chance_.one_of({ReduceFn::kSum, ReduceFn::kProd, ReduceFn::kMax, ReduceFn::kMin});
      return add(b_.reduce(fn, b_.cast(x.id, compute_type(type(x.id))), axes), kUnbounded);
    }
    ValueId reduced{};
    switch (chance_.below(8)) {
      case 0:
      case 1:
        reduced = b_.amax(x.id, axes);
        break;
      case 2:
        reduced = b_.reduce(ReduceFn::kMin, x.id, axes);
        break;
      case 3:
        if (tame()) x = {b_.pointwise(PointwiseFn::kTanh, {x.id}), 1.0};
        reduced = b_.reduce(ReduceFn::kProd, x.id, axes);
        break;
      case 4:
        reduced = b_.sum(b_.mul(x.id, x.id), axes);
        x.bound = count * x.bound * x.bound;
        break;
      default:
        reduced = b_.sum(x.id, axes);
        if (tame()) reduced = b_.mul(reduced, number(1.0 / count, reduced));
        break;
    }
    add(reduced, std::max(x.bound, empty_bound(count_along(x.id, axes))));
    spread(x, axes);
  }
  /// What a maximum of nothing is.
  static double empty_bound(int64_t count) { return count == 0 ? kUnbounded : 0.0; }

  /// As norms do: the last value back in the shape of what was reduced.
  void spread(const Known& x, const std::vector<int>& axes) {
    if (chance_.one_in(2)) return;
    Known& reduced = values_.back();
    reduced.is_read = true;
    const double bound = reduced.bound;
    const ValueId wide = b_.broadcast_over(reduced.id, x.id, axes);
    if (chance_.one_in(2)) return add(b_.sub(x.id, wide), x.bound + bound);
    add(b_.mul(x.id, wide), x.bound * bound);
  }

  void pair_reduction() {
    const Known x = pick_with_axes();
    const ValueId from =
        is_float(type(x.id)) ? b_.cast(x.id, compute_type(type(x.id))) : to_float(x.id);
    const double bound = is_float(type(x.id)) ? x.bound : kLargestBound;
    const std::vector<int> axes = some_axes(x.id);
    const int64_t elements = count_along(x.id, axes);
    const auto count = static_cast<double>(std::max<int64_t>(elements, 1));
    if (chance_.one_in(2)) {
      const auto [mean, m2] = b_.welford(from, axes);
      if (chance_.one_in(2)) add(mean, bound);
      return add(m2, count * 4.0 * bound * bound);
    }
    const auto [most, sum] = b_.logsumexp_pair(from, axes);
    add(sum, count);
    if (chance_.one_in(2)) add(most, std::max(bound, empty_bound(elements)));
  }

  void extreme_index() {
    const Known x = pick_with_axes();
    if (type(x.id) == DType::kBool) return reduction();
    const ReduceFn fn = chance_.one_of({ReduceFn::kArgMax, ReduceFn::kArgMin});
    const int axis = chance_.one_in(3) ? static_cast<int>(axis_of(x.id))
                                       : static_cast<int>(shape(x.id).size()) - 1;
    const ValueId from = b_.cast(x.id, compute_type(type(x.id)));
    add(b_.reduce(fn, from, {axis}), kUnbounded);
    if (!chance_.one_in(3)) return;
    values_.back().is_read = true;
    add(b_.take(x.id, values_.back().id, axis), x.bound);
  }

  Shape without(const Shape& from, size_t axis) {
    Shape out = from;
    out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
    return out;
  }
  void pick_elements() {
    Known x = pick_with_axes();
    if (chance_.one_in(4)) return look_up(x);
    const size_t axis = chance_.one_in(2) ? shape(x.id).size() - 1 : axis_of(x.id);
    const Shape to = without(shape(x.id), axis);
    std::optional<Known> index;
    if (chance_.one_in(2)) {
      index = pick([&](ValueId id) {
        return shape(id) == to && (type(id) == DType::kI64 || type(id) == DType::kI32);
      });
    }
    if (!index && !to.empty() && chance_.one_in(4)) {
      const ValueId count = b_.iota(to, static_cast<int>(chance_.below(to.size())));
      index = Known{b_.pointwise(PointwiseFn::kMul, {count, b_.constant_integer(2)}), kUnbounded};
    }
    if (!index) index = add_integers(to, "index");
    add(b_.take(x.id, index->id, static_cast<int>(axis)), x.bound);
    // As losses do: beside a reduction of the same rows. Few takes are kernels of their own.
    if (chance_.one_in(4) || !is_float(type(x.id))) return;
    const int64_t length = size_of(shape(x.id)[axis]);
    add(b_.amax(x.id, {static_cast<int>(axis)}), std::max(x.bound, empty_bound(length)));
  }
  /// Rows of a table, as an embedding: an index for each of several rows.
  void look_up(const Known& table) {
    const Extent rows = any_extent();
    Shape wide = shape(table.id);
    wide.insert(wide.begin() + 1, rows);
    if (wide.size() > kMostRank || !fits(wide)) return slice();
    std::vector<int> axes = {0};
    for (size_t axis = 2; axis < wide.size(); ++axis) axes.push_back(static_cast<int>(axis));
    const ValueId repeated = b_.broadcast(table.id, wide, axes);
    const ValueId index = add_integers({rows}, "index").id;
    add(b_.take(repeated, b_.broadcast(index, without(wide, 0), {0}), 0), table.bound);
  }

  /// Reduces one axis or more; each other axis of the left operand may be a batch.
  void contraction() {
    Known a = pick_with_axes();
    if (type(a.id) == DType::kBool) a = {to_float(a.id), 1.0};
    const Shape left = shape(a.id);
    const bool of_integers = !is_float(type(a.id));
    std::string equation = "abcdefgh";
    equation.resize(left.size());
    const size_t first = chance_.one_in(2) ? left.size() - 1 : axis_of(a.id);
    Shape space = left;
    std::string right;
    std::string result;
    double pairs = 1.0;
    bool is_empty = false;
    for (size_t axis = 0; axis < left.size(); ++axis) {
      const bool is_reduced = axis == first || chance_.one_in(5);
      if (is_reduced || chance_.one_in(4)) right += equation[axis];
      if (!is_reduced) result += equation[axis];
      if (!is_reduced) continue;
      pairs *= static_cast<double>(size_of(left[axis]));
      is_empty = is_empty || size_of(left[axis]) == 0;
    }
    for (int64_t more = chance_.between(0, 2); more > 0; --more) {
      const Extent extent = any_extent();
      space.push_back(extent);
      if (space.size() > kMostRank || !fits(space)) {
        space.pop_back();
        continue;
      }
      const char letter = static_cast<char>('a' + space.size() - 1);
      right += letter;
      result += letter;
    }
    chance_.shuffle(right);
    chance_.shuffle(result);
    Shape shape_of_right;
    for (const char letter : right)
      shape_of_right.push_back(space[static_cast<size_t>(letter - 'a')]);
    std::optional<Known> b;
    if (chance_.one_in(2)) {
      b = pick([&](ValueId id) {
        return shape(id) == shape_of_right && is_float(type(id)) != of_integers &&
               type(id) != DType::kBool;
      });
    }
    if (!b) b = of_integers ? add_integers(shape_of_right, "r") : add_input(shape_of_right);
    if (!of_integers && !is_float(type(b->id))) b = Known{to_float(b->id), kLargestBound};
    ContractOptions options;
    if (chance_.one_in(3)) options.fn = ContractFn::kMax;
    if (!of_integers && chance_.one_in(3)) options.fn = ContractFn::kLogSumExp;
    // Matrix instructions multiply bf16.
    if (!of_integers && options.fn == ContractFn::kSum && chance_.one_in(2)) {
      constexpr double kRoundedUp = 1.01;
      for (Known* operand : {&a, &*b})
        *operand = {b_.cast(operand->id, DType::kBF16), kRoundedUp * operand->bound};
    }
    const bool is_f32 = type(a.id) == DType::kF32 && type(b->id) == DType::kF32;
    if (is_f32 && options.fn == ContractFn::kSum && chance_.one_in(2))
      options.precision = chance_.one_of({ContractPrecision::kTf32, ContractPrecision::kTf32x3});
    equation += "," + right + "->" + result;
    const ValueId id = b_.contract(equation, a.id, b->id, options);
    if (options.fn == ContractFn::kSum) return add(id, pairs * a.bound * b->bound);
    const double bound = a.bound + b->bound + std::log(std::max(pairs, 1.0));
    add(id, is_empty ? kUnbounded : bound);
  }

  // ---- What moves elements

  void slice() {
    const Known x = pick_with_axes();
    const Shape from = shape(x.id);
    std::vector<int64_t> start(from.size(), 0);
    std::vector<int64_t> stop(from.size(), -1);
    std::vector<int64_t> step(from.size(), 1);
    for (int cuts = chance_.one_in(3) ? 2 : 1; cuts > 0; --cuts) {
      const size_t axis = axis_of(x.id);
      const int64_t size = size_of(from[axis]);
      stop[axis] = chance_.between(chance_.one_in(10) ? 0 : size / 2, size);
      start[axis] = chance_.one_in(2) ? 0 : chance_.between(0, stop[axis] / 2);
      step[axis] = chance_.one_in(3) ? chance_.between(2, 4) : 1;
    }
    add(b_.slice(x.id, start, stop, step), x.bound);
  }

  void concatenation() {
    const Known x = pick_with_axes();
    const size_t axis = axis_of(x.id);
    const Shape from = shape(x.id);
    if (from[axis].is_symbol()) return permutation();
    std::vector<ValueId> operands = {x.id};
    double bound = x.bound;
    const auto more = static_cast<size_t>(chance_.between(chance_.one_in(8) ? 0 : 1, 3));
    for (size_t i = 0; i < more; ++i) {
      const auto other = pick([&](ValueId id) {
        const Shape with = shape(id);
        return type(id) == type(x.id) && with.size() == from.size() && with[axis].is_constant() &&
               without(with, axis) == without(from, axis);
      });
      operands.push_back(other->id);  // x is one.
      bound = std::max(bound, other->bound);
    }
    int64_t length = 0;
    for (const ValueId operand : operands) length += shape(operand)[axis].constant();
    Shape to = from;
    to[axis] = length;
    if (!fits(to)) return permutation();
    add(b_.concatenate(operands, static_cast<int>(axis)), bound);
  }

  void padding() {
    const Known x = pick_with_axes();
    const Shape from = shape(x.id);
    std::vector<int64_t> low(from.size());
    std::vector<int64_t> high(from.size());
    Shape to = from;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis].is_symbol() || !chance_.one_in(2)) continue;
      low[axis] = chance_.between(0, 3);
      high[axis] = chance_.between(0, 9);
      to[axis] = from[axis].constant() + low[axis] + high[axis];
    }
    if (!fits(to)) return permutation();
    const DType of = type(x.id);
    const double value = is_float(of) ? any_number() : static_cast<double>(chance_.between(0, 1));
    add(b_.pad(x.id, low, high, value), std::max(x.bound, 2.0));
  }

  void permutation() {
    const Known x = pick_with_axes();
    std::vector<int> order;
    for (size_t axis = 0; axis < shape(x.id).size(); ++axis)
      order.push_back(static_cast<int>(axis));
    for (size_t axis = order.size(); axis-- > 1;)
      std::swap(order[axis], order[chance_.below(axis + 1)]);
    add(b_.permute(x.id, order), x.bound);
  }

  /// Two axes as one, one axis as two, an axis of 1 more or less.
  void regrouping() {
    const Known x = pick_with_axes();
    Shape to = shape(x.id);
    const size_t axis = axis_of(x.id);
    const auto at = to.begin() + static_cast<ptrdiff_t>(axis);
    switch (chance_.below(4)) {
      case 0:
        if (axis + 1 == to.size() || to[axis].is_symbol() || to[axis + 1].is_symbol()) break;
        to[axis + 1] = to[axis].constant() * to[axis + 1].constant();
        to.erase(at);
        break;
      case 1: {
        if (to[axis].is_symbol() || static_cast<int64_t>(to.size()) == kMostRank) break;
        int64_t part = chance_.one_of({2, 3, 4, 8, 32});
        if (to[axis].constant() % part != 0) part = 1;
        to[axis] = to[axis].constant() / part;
        to.insert(at + 1, Extent(part));
        break;
      }
      case 2:
        if (static_cast<int64_t>(to.size()) < kMostRank) to.insert(at, Extent(1));
        break;
      default:
        if (std::ranges::any_of(to, [](const Extent& extent) { return extent.is_symbol(); })) break;
        to = {Extent(count_of(to))};
        break;
    }
    add(b_.reshape(x.id, to), x.bound);
  }

  void repetition() {
    const Known x = pick_any();
    Shape to = shape(x.id);
    std::vector<int> axes;
    const size_t place = chance_.below(to.size() + 1);
    for (size_t axis = 0; axis < to.size(); ++axis)
      axes.push_back(static_cast<int>(axis < place ? axis : axis + 1));
    to.insert(to.begin() + static_cast<ptrdiff_t>(place), any_extent());
    if (static_cast<int64_t>(to.size()) > kMostRank || !fits(to)) return permutation();
    add(b_.broadcast(x.id, to, axes), x.bound);
  }

  void counting() {
    if (chance_.one_in(4)) {
      const Known x = pick_with_axes();
      return add(b_.element_count(x.id, some_axes(x.id)),
                 static_cast<double>(count_of(shape(x.id))));
    }
    const Shape with = draw_shape_with_axes();
    const DType of = chance_.one_of({DType::kI64, DType::kI32, DType::kF32, DType::kF64});
    const ValueId count = b_.iota(with, static_cast<int>(chance_.below(with.size())), of);
    add(count, static_cast<double>(count_of(with)));
  }

  void random_numbers() {
    const Shape with = draw_shape();
    const ValueId seed =
        chance_.one_in(2)
            ? b_.constant_integer(static_cast<int64_t>(chance_.bits()))
            : b_.input(DType::kI64, {}, fmt::format("seed{}", b_.fusion().inputs.size()));
    add(uniform(b_, with, seed, b_.constant_integer(chance_.between(0, 1000))), 1.0);
  }

  void call() {
    const Known x = pick_float();
    const Known y = pick_float();
    const auto results =
        b_.external("swap", {x.id, y.id}, {{type(y.id), shape(y.id)}, {type(x.id), shape(x.id)}});
    add(results[0], y.bound);
    add(results[1], x.bound);
  }

  // ---- Formulas of several ops

  std::optional<DType> some_output() {
    if (chance_.one_in(2)) return std::nullopt;
    return chance_.one_of({DType::kBF16, DType::kF16, DType::kF32});
  }
  /// An input for each element of the last axis.
  ValueId parameter(ValueId x) { return add_float({shape(x).back()}); }
  ValueId add_float(const Shape& with) {
    const DType of = chance_.one_of({DType::kF32, DType::kBF16, DType::kF16});
    const ValueId id = b_.input(of, with, fmt::format("w{}", b_.fusion().inputs.size()));
    return remember(id, kRandomInputBound).id;
  }

  void composite() {
    auto found = pick([&](ValueId id) { return !shape(id).empty() && is_float(type(id)); });
    if (!found) found = Known{add_float(draw_shape_with_axes()), kRandomInputBound};
    const Known x = *found;
    const auto length = static_cast<double>(size_of(shape(x.id).back()));
    switch (chance_.below(16)) {
      case 0:
      case 1:
        return add(softmax(b_, x.id, chance_.one_in(4) ? 0 : -1, some_output()), 1.0);
      case 2:
        return add(log_softmax(b_, x.id), 2.0 * x.bound + length);
      case 3:
      case 4: {
        NormOptions options{.output = some_output()};
        if (chance_.one_in(2)) options.weight = parameter(x.id);
        if (chance_.one_in(2)) options.bias = parameter(x.id);
        const LayerNorm norm = layer_norm(b_, x.id, options);
        if (chance_.one_in(3)) add(norm.rstd, 400.0);
        if (chance_.one_in(2)) norm_gradient(x, norm);
        return add(norm.y, 4.0 * std::sqrt(length) + 4.0);
      }
      case 5:
      case 6: {
        NormOptions options{.output = some_output()};
        if (chance_.one_in(2)) options.weight = parameter(x.id);
        const RmsNorm norm = rms_norm(b_, x.id, options);
        if (chance_.one_in(2)) {
          const NormBackward gradient = rms_norm_backward(b_, add_float(shape(x.id)), x.id,
                                                          norm.rstd, {.weight = options.weight});
          add(gradient.dx, kUnbounded);
          if (gradient.dweight) add(*gradient.dweight, kUnbounded);
        }
        return add(norm.y, 4.0 * std::sqrt(length));
      }
      case 7: {
        const MeanVariance moments = variance(b_, x.id, some_axes(x.id));
        add(moments.mean, x.bound);
        return add(moments.variance, 4.0 * x.bound * x.bound);
      }
      case 8: {
        const ValueId labels =
            add_integers(without(shape(x.id), shape(x.id).size() - 1), "label").id;
        const ValueId loss = cross_entropy(b_, x.id, labels);
        if (chance_.one_in(2)) add(cross_entropy_backward(b_, loss, x.id, labels), kUnbounded);
        return add(loss, 2.0 * x.bound + length);
      }
      case 9:
        return add(gelu(b_, x.id, some_output()), x.bound);
      case 10:
        return add(silu(b_, x.id, some_output()), x.bound);
      case 11: {
        const auto [y, keep] =
            dropout(b_, x.id, 0.25, b_.constant_integer(7), b_.constant_integer(3));
        if (chance_.one_in(2)) add(keep, 1.0);
        return add(y, 2.0 * x.bound);
      }
      case 12:
      case 13: {
        // Sums of all rows beside a sum of each: what pipelines are for.
        const Known dy = Known{add_float(shape(x.id)), kRandomInputBound};
        const RmsNorm norm = rms_norm(b_, x.id, {.weight = parameter(x.id)});
        const NormBackward gradient =
            rms_norm_backward(b_, dy.id, x.id, norm.rstd, {.weight = parameter(x.id)});
        add(gradient.dx, kUnbounded);
        return add(*gradient.dweight, kUnbounded);
      }
      case 14: {
        const auto [q, scale] = quantize_per_row(
            b_, x.id, {.type = chance_.one_of({DType::kI8, DType::kF8E4M3, DType::kF8E5M2})});
        add(scale, x.bound);
        return add(q, kUnbounded);
      }
      default: {
        const ValueId y = softmax(b_, x.id);
        const ValueId scaled = softmax_backward(b_, add_float(shape(x.id)), y).dx;
        return add(scaled, 8.0);
      }
    }
  }
  void norm_gradient(const Known& x, const LayerNorm& norm) {
    const NormBackward gradient =
        layer_norm_backward(b_, add_float(shape(x.id)), x.id, norm.mean, norm.rstd,
                            {.weight = parameter(x.id), .bias = true});
    add(gradient.dx, kUnbounded);
    add(*gradient.dweight, kUnbounded);
    add(*gradient.dbias, kUnbounded);
  }

  // ---- Outputs

  OutputOptions output_options(ValueId id, std::vector<ValueId>& free_inputs) {
    if (chance_.one_in(kind_ == GraphKind::kRows ? 2 : 3)) {
      const auto alike_input = std::ranges::find_if(free_inputs, [&](ValueId input) {
        return type(input) == type(id) && shape(input) == shape(id);
      });
      if (alike_input != free_inputs.end()) {
        const OutputOptions options{.alias = *alike_input};
        free_inputs.erase(alike_input);
        return options;
      }
    }
    OutputOptions options;
    if (chance_.one_in(6))
      options.alignment = std::max<int64_t>(bytes_of(type(id)), chance_.one_of({1, 2, 4, 8}));
    const bool has_symbol =
        std::ranges::any_of(shape(id), [](const Extent& extent) { return extent.is_symbol(); });
    if (shape(id).empty() || has_symbol || !chance_.one_in(6)) return options;
    Sizes reaches = Binding{}.sizes_of(shape(id));
    const size_t last = reaches.size() - 1;
    const size_t other = chance_.one_in(3) ? chance_.below(reaches.size()) : last;
    std::swap(reaches[other], reaches[last]);
    if (chance_.one_in(2)) reaches[last] += chance_.between(1, 8);
    Sizes strides = dense_strides(reaches);
    std::swap(strides[other], strides[last]);
    options.strides.assign(strides.begin(), strides.end());
    return options;
  }

  void declare_outputs() {
    // Inputs that repeat elements cannot be taken over.
    std::vector<ValueId> free_inputs;
    for (const ValueId input : b_.fusion().inputs) {
      const auto& strides = b_.fusion().def_as<InputOp>(input)->strides;
      const bool repeats = std::ranges::find(strides, Extent(0)) != strides.end();
      if (!repeats) free_inputs.push_back(input);
    }
    std::vector<ValueId> outputs;
    constexpr size_t kMostOutputs = 6;
    for (size_t i = values_.size(); i-- > 0 && outputs.size() < kMostOutputs;) {
      const Known& value = values_[i];
      const bool repeated = std::ranges::find(outputs, value.id) != outputs.end();
      if (is_input(value.id) || repeated || (value.is_read && !chance_.one_in(8))) continue;
      outputs.push_back(value.id);
    }
    if (outputs.empty()) outputs.push_back(b_.abs(pick_float().id));
    for (const ValueId output : outputs) b_.output(output, "", output_options(output, free_inputs));
  }

  Chance chance_;
  GraphKind kind_;
  FusionBuilder b_;
  int64_t most_elements_ = 0;
  std::vector<Extent> extents_;
  ExtentValues sizes_;
  std::vector<Known> values_;
};

}  // namespace

DrawnGraph draw_mixed_graph(uint64_t seed, GraphKind kind) { return Generator(seed, kind).build(); }

}  // namespace sinter
