#include "tests/support/random_fusion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "fusion_ir/composites.h"

namespace sinter {
namespace {

/// Values grow no further than this; what may exceed it is scaled down first.
constexpr double kLargestBound = 64.0;
/// exp keeps its result within the bound: e^4 < 64.
constexpr double kLargestExponent = 4.0;

/// An f32 value with a bound on its magnitude.
struct Bounded {
  ValueId id;
  double bound = 0.0;
  bool is_read = false;
};

class Generator {
 public:
  Generator(uint64_t seed, int size, const RandomFusionOptions& options)
      : options_(options),
        random_(seed),
        b_(fmt::format("random_{}_{}", seed, size)),
        rows_(b_.symbol("rows")),
        cols_(b_.symbol("cols")) {
    const size_t matrices = 1 + below(3);
    for (size_t i = 0; i < matrices; ++i) add_matrix();
    for (int i = 0; i < size; ++i) step();
    declare_outputs();
  }
  Fusion build() { return b_.build(); }

 private:
  /// Uniform enough for choices, and the same with every standard library.
  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  bool one_in(size_t n) { return below(n) == 0; }
  DType element_type() {
    constexpr std::array kTypes = {DType::kBF16, DType::kF16, DType::kF32};
    return kTypes[below(kTypes.size())];
  }

  Bounded& pick(std::vector<Bounded>& pool) {
    // Recent values more often, so that graphs grow deep as well as wide.
    const size_t n = pool.size();
    Bounded& value = pool[one_in(2) ? n - 1 - below(std::min<size_t>(n, 3)) : below(n)];
    value.is_read = true;
    return value;
  }

  void add_matrix() {
    const ValueId x = b_.input(element_type(), {rows_, cols_});
    full_.push_back({b_.cast(x, DType::kF32), kRandomInputBound});
  }

  /// Adds a value to a pool, scaled by a power of two if its bound asks for it.
  void push(std::vector<Bounded>& pool, ValueId id, double bound) {
    if (bound > kLargestBound) {
      const double scale = std::exp2(-std::ceil(std::log2(bound)));
      id = b_.mul(id, b_.constant(scale));
      bound *= scale;
    }
    pool.push_back({id, bound});
  }

  void unary(std::vector<Bounded>& pool) {
    const Bounded x = pick(pool);
    const ValueId one = b_.constant(1.0);
    switch (below(8)) {
      case 0:
        return push(pool, b_.pointwise(PointwiseFn::kTanh, {x.id}), 1.0);
      case 1:
        return push(pool, b_.neg(x.id), x.bound);
      case 2:
        return push(pool, b_.abs(x.id), x.bound);
      case 3: {
        if (x.bound > kLargestExponent) return push(pool, sigmoid(b_, x.id), 1.0);
        return push(pool, b_.exp(x.id), std::exp(x.bound));
      }
      case 4:
        return push(pool, b_.rsqrt(b_.add(b_.mul(x.id, x.id), one)), 1.0);
      case 5:
        return push(pool, b_.pointwise(PointwiseFn::kLog1p, {b_.abs(x.id)}), std::log1p(x.bound));
      case 6:
        return push(pool, b_.div(x.id, b_.constant(static_cast<double>(1 + below(4)))), x.bound);
      default:
        return push(pool, b_.cast(b_.cast(x.id, element_type()), DType::kF32), x.bound);
    }
  }

  void binary(std::vector<Bounded>& pool, const Bounded& x, const Bounded& y) {
    const double larger = std::max(x.bound, y.bound);
    switch (below(6)) {
      case 0:
        return push(pool, b_.add(x.id, y.id), x.bound + y.bound);
      case 1:
        return push(pool, b_.sub(x.id, y.id), x.bound + y.bound);
      case 2:
        return push(pool, b_.mul(x.id, y.id), x.bound * y.bound);
      case 3:
        return push(pool, b_.max(x.id, y.id), larger);
      case 4:
        return push(pool, b_.min(x.id, y.id), larger);
      default: {
        const ValueId condition = b_.pointwise(PointwiseFn::kLt, {x.id, y.id});
        return push(pool, b_.select(condition, x.id, y.id), larger);
      }
    }
  }

  void reduce() {
    const Bounded x = pick(full_);
    switch (below(4)) {
      case 0:
        return push(per_row_, b_.amax(x.id, {1}), x.bound);
      case 1:
        return push(per_row_, b_.reduce(ReduceFn::kMin, x.id, {1}), x.bound);
      case 2:
        return push(per_row_, mean(b_, x.id), x.bound);
      default: {
        const MeanVariance moments = variance(b_, x.id);
        push(per_row_, moments.mean, x.bound);
        return push(per_row_, moments.variance, x.bound * x.bound);
      }
    }
  }

  /// A full-size value made of something smaller.
  Bounded broadcast() {
    if (!per_row_.empty() && !one_in(3)) {
      const Bounded x = pick(per_row_);
      return {b_.broadcast(x.id, {rows_, cols_}, {0}), x.bound};
    }
    if (one_in(2)) {
      const double number = static_cast<double>(below(9)) / 2.0 - 2.0;
      return {b_.constant(number), std::fabs(number)};
    }
    const ValueId x = b_.cast(b_.input(element_type(), {cols_}), DType::kF32);
    return {b_.broadcast(x, {rows_, cols_}, {1}), kRandomInputBound};
  }

  void drop_some() {
    constexpr double kDropped = 0.25;
    if (!seed_) seed_ = b_.input(DType::kI64, {}, "seed");
    const ValueId offset = b_.constant_integer(static_cast<int64_t>(below(1000)));
    const Bounded x = pick(full_);
    push(full_, dropout(b_, x.id, kDropped, *seed_, offset).y, x.bound / (1.0 - kDropped));
  }

  /// Two values and a number side by side along an axis of their own, and summed over it.
  void join() {
    const Bounded x = pick(full_);
    const Bounded y = pick(full_);
    const Shape shape = {rows_, cols_, 1};
    const ValueId left = b_.reshape(x.id, shape);
    const ValueId both = b_.concatenate({left, b_.reshape(y.id, shape)}, 2);
    const double number = static_cast<double>(below(4)) / 2.0;
    const ValueId padded = b_.pad(both, {0, 0, 1}, {0, 0, 0}, number);
    push(full_, b_.sum(padded, {2}), x.bound + y.bound + number);
  }

  void pick_of_rows() {
    if (!labels_ || one_in(3)) labels_ = b_.input(DType::kI64, {rows_});
    const Bounded x = pick(full_);
    push(per_row_, b_.take(x.id, *labels_, 1), x.bound);
  }

  void step() {
    if (options_.joins && one_in(6)) return join();
    if (options_.picks && one_in(4)) return pick_of_rows();
    switch (below(9)) {
      case 0:
      case 1:
        return unary(full_);
      case 2:
      case 3: {
        const Bounded x = pick(full_);
        return binary(full_, x, pick(full_));
      }
      case 4: {
        const Bounded x = pick(full_);
        return binary(full_, x, broadcast());
      }
      case 5:
        return reduce();
      case 6: {
        if (per_row_.empty()) return reduce();
        return unary(per_row_);
      }
      case 7:
        return drop_some();
      default: {
        const Bounded x = pick(full_);
        push(full_, softmax(b_, x.id), 1.0);
      }
    }
  }

  /// Sums up what nothing has read, so that no step is in vain.
  std::optional<ValueId> gather(std::vector<Bounded>& pool) {
    std::optional<Bounded> total;
    for (const Bounded& value : pool) {
      if (value.is_read) continue;
      if (!total) {
        total = value;
        continue;
      }
      total->id = b_.mul(b_.add(total->id, value.id), b_.constant(0.5));
      total->bound = (total->bound + value.bound) / 2;
    }
    if (!total) return std::nullopt;
    return total->id;
  }

  void declare_outputs() {
    // Its own op, so that an output is never an input.
    const std::optional<ValueId> full = gather(full_);
    const ValueId last = full ? *full : full_.back().id;
    const ValueId y = b_.cast(b_.mul(last, b_.constant(0.5)), element_type());
    b_.output(y, "y");
    if (const auto row = gather(per_row_)) b_.output(b_.add(*row, b_.constant(1.0)), "row");
    if (one_in(3)) b_.output(b_.cast(b_.neg(pick(full_).id), DType::kBF16), "inner");
    if (one_in(4)) b_.output(b_.amax(pick(full_).id, {1}), "max");
  }

  RandomFusionOptions options_;
  std::mt19937_64 random_;
  FusionBuilder b_;
  Extent rows_, cols_;
  std::optional<ValueId> seed_;    ///< Of random numbers.
  std::optional<ValueId> labels_;  ///< Of the last pick.
  std::vector<Bounded> full_;
  std::vector<Bounded> per_row_;
};

}  // namespace

Fusion random_fusion(uint64_t seed, int size, const RandomFusionOptions& options) {
  return Generator(seed, size, options).build();
}

}  // namespace sinter
