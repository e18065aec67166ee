#include <algorithm>
#include <array>
#include <vector>

#include "fusion_ir/fusion_builder.h"
#include "tests/campaign/drawing.h"
#include "tests/campaign/graph_generator.h"

namespace sinter {
namespace {

/// Elements of a tensor at most; of a long row at least twice what a part has (row_parts.h).
constexpr int64_t kMostElements = 1 << 14;

class LongGraph {
 public:
  explicit LongGraph(uint64_t seed) : chance_(seed), b_(fmt::format("long_{:016x}", seed)) {
    draw_shape();
    draw_elements();
    const auto reductions = static_cast<size_t>(chance_.between(1, 3));
    for (size_t i = 0; i < reductions; ++i) reduce();
    const std::vector<ValueId> reduced = results_;
    if (chance_.one_in(2)) combine(reduced);
    for (const ValueId result : results_) b_.output(result);
    // Elements that wait for the reductions are in no parts; their rows are long all the same.
    if (chance_.one_in(6)) wait_for(chance_.one_of(std::span<const ValueId>(reduced)));
  }

  DrawnGraph build() { return {.kind = GraphKind::kLong, .fusion = b_.build(), .extents = sizes_}; }

 private:
  Extent extent(std::string_view name, int64_t size, bool as_symbol) {
    if (!as_symbol) return size;
    sizes_[std::string(name)] = size;
    return b_.symbol(std::string(name));
  }

  /// A row's length: a power of two, with other factors, or a prime, which splits into no equal
  /// parts.
  int64_t long_length() {
    return chance_.one_of<int64_t>({2048, 2049, 3000, 4096, 4099, 6144, 8191, 8192});
  }

  void draw_shape() {
    const bool has_symbols = chance_.one_in(4);
    const int64_t few = chance_.between(1, 4);
    if (chance_.one_in(2)) {
      const int64_t length = long_length();
      const Extent kept = extent("kept", std::min(few, kMostElements / length), has_symbols);
      const Extent row = extent("row", length, has_symbols);
      switch (chance_.below(4)) {
        case 0:
          shape_ = {row};
          axes_ = {0};
          return;
        case 1:  // Two axes at once.
          shape_ = {kept, 16, length / 16};
          axes_ = {1, 2};
          return;
        case 2:  // The kept axis between them.
          shape_ = {8, kept, length / 8};
          axes_ = {0, 2};
          return;
        default:
          shape_ = {kept, row};
          axes_ = {1};
          return;
      }
    }
    const int64_t length = chance_.one_of<int64_t>({257, 512, 1000, 1024, 2048});
    const int64_t columns = chance_.one_of<int64_t>({1, 2, 7, 8, 17, 32, 40, 64});
    const int64_t most = kMostElements / (length * few);
    const Extent rows = extent("rows", length, has_symbols);
    const Extent kept = extent("columns", std::min(columns, most), has_symbols);
    switch (chance_.below(4)) {
      case 0:
      case 3:  // Columns of two strides, of which blocks leave no partial results.
        shape_ = {few, rows, kept};
        axes_ = {1};
        return;
      case 1:
        shape_ = {few, rows, kept};
        axes_ = {0, 1};
        return;
      default:
        shape_ = {rows, kept};
        axes_ = {0};
        return;
    }
  }

  DType any_type() {
    return chance_.one_of({DType::kF32, DType::kF32, DType::kBF16, DType::kF16, DType::kF64});
  }
  ValueId input(const Shape& shape, std::string_view name) {
    InputOptions options;
    const DType type = any_type();
    if (chance_.one_in(6)) options.alignment = bytes_of(type);
    return b_.input(type, shape, fmt::format("{}{}", name, b_.fusion().inputs.size()), options);
  }
  /// An input whose first and last axes lie the other way round in memory.
  ValueId transposed_input() {
    Shape turned = shape_;
    std::swap(turned.front(), turned.back());
    std::vector<int> order;
    for (int axis = 0; axis < std::ssize(shape_); ++axis) order.push_back(axis);
    std::swap(order.front(), order.back());
    return b_.permute(input(turned, "t"), order);
  }

  void draw_elements() {
    x_ = chance_.one_in(6) ? transposed_input() : input(shape_, "x");
    for (int64_t steps = chance_.between(0, 3); steps > 0; --steps) {
      switch (chance_.below(6)) {
        case 0:
          x_ = b_.mul(x_, input(shape_, "x"));
          break;
        case 1:
          x_ = b_.add(x_, b_.broadcast(input({shape_.back()}, "w"), shape_,
                                       {static_cast<int>(shape_.size()) - 1}));
          break;
        case 2:
          x_ = b_.abs(x_);
          break;
        case 3:
          x_ = b_.mul(x_, x_);
          break;
        case 4:
          x_ = b_.pointwise(PointwiseFn::kTanh, {b_.cast(x_, compute_type(type_of(x_)))});
          break;
        default:
          x_ = b_.cast(x_, any_type());
          break;
      }
    }
  }
  [[nodiscard]] DType type_of(ValueId id) const { return b_.value(id).type; }

  void reduce() {
    const ValueId wide = b_.cast(x_, compute_type(type_of(x_)));
    switch (chance_.below(10)) {
      case 0:
        return add(b_.amax(x_, axes_));
      case 1:
        return add(b_.reduce(ReduceFn::kMin, x_, axes_));
      case 2:
        return add(b_.sum(b_.abs(x_), axes_));
      case 3: {
        const auto [mean, m2] = b_.welford(wide, axes_);
        add(mean);
        return add(m2);
      }
      case 4: {
        const auto [most, sum] = b_.logsumexp_pair(wide, axes_);
        add(most);
        return add(sum);
      }
      case 5:
      case 6:
        if (axes_.size() > 1) return add(b_.sum(x_, axes_));
        return add(b_.reduce(chance_.one_of({ReduceFn::kArgMax, ReduceFn::kArgMin}), wide, axes_));
      case 7: {
        const ValueId limit = b_.constant(0.25, type_of(wide));
        return add(b_.reduce(chance_.one_of({ReduceFn::kAny, ReduceFn::kAll}),
                             b_.pointwise(PointwiseFn::kGt, {wide, limit}), axes_));
      }
      case 8: {
        const ValueId floor = b_.pointwise(PointwiseFn::kFloor, {wide});
        return add(b_.sum(b_.cast(floor, DType::kI64), axes_));
      }
      default:
        return add(b_.sum(x_, axes_));
    }
  }
  void add(ValueId result) { results_.push_back(result); }

  /// What losses and norms make of their sums, in the place of some of them.
  void combine(const std::vector<ValueId>& reduced) {
    const ValueId a = to_f32(chance_.one_of(std::span<const ValueId>(reduced)));
    const ValueId c = to_f32(chance_.one_of(std::span<const ValueId>(reduced)));
    results_.pop_back();
    add(b_.cast(b_.sub(b_.mul(a, b_.constant(0.5)), c),
                chance_.one_of({DType::kF32, DType::kBF16})));
  }
  ValueId to_f32(ValueId id) { return b_.cast(id, DType::kF32); }

  void wait_for(ValueId reduced) {
    const ValueId wide = b_.broadcast_over(to_f32(reduced), x_, axes_);
    b_.output(b_.sub(to_f32(x_), wide));
  }

  Chance chance_;
  FusionBuilder b_;
  ExtentValues sizes_;
  Shape shape_;
  std::vector<int> axes_;  ///< That are reduced.
  ValueId x_;              ///< What is reduced.
  std::vector<ValueId> results_;
};

}  // namespace

DrawnGraph draw_long_graph(uint64_t seed) { return LongGraph(seed).build(); }

}  // namespace sinter
