#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"

namespace sinter {

/// The number of elements along one axis: a constant >= 0, or a named symbol of the fusion that is
/// bound when a plan is made.
class Extent {
 public:
  constexpr Extent() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `{rows, 4096}` should read as a shape.
  constexpr Extent(int64_t constant) : constant_(constant) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Extent(SymbolId symbol) : symbol_(symbol) {}
  /// The size that a symbol is bound to. If it is 1 or 0 it is no constant 1 or 0: nothing
  /// broadcasts along it or leaves it out that would not do so for any other size.
  static constexpr Extent bound(int64_t size) {
    Extent out(size);
    out.is_bound_ = size < 2;
    return out;
  }

  [[nodiscard]] constexpr bool is_constant() const { return !symbol_.valid(); }
  [[nodiscard]] constexpr bool is_symbol() const { return symbol_.valid(); }
  /// The constant; meaningful only if is_constant().
  [[nodiscard]] constexpr int64_t constant() const { return constant_; }
  [[nodiscard]] constexpr SymbolId symbol() const { return symbol_; }
  /// A constant 1, which axes of other extents may stand beside.
  [[nodiscard]] constexpr bool is_one() const {
    return is_constant() && constant_ == 1 && !is_bound_;
  }
  /// A 1 or 0 of bound().
  [[nodiscard]] constexpr bool is_bound() const { return is_bound_; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;

 private:
  int64_t constant_ = 0;
  SymbolId symbol_;
  bool is_bound_ = false;
};

/// Most axes a tensor can have. Schedules and index arithmetic are per axis, so a bound keeps both
/// small; real fusions stay below it.
inline constexpr size_t kMaxRank = 8;

/// Extents from the outermost to the innermost axis. An empty shape is a scalar.
using Shape = std::vector<Extent>;

/// A named extent. `divisible_by` is a promise of the caller (checked when extents are bound);
/// `hint` is the size the scheduler assumes when none is given.
struct Symbol {
  std::string name;
  int64_t hint = 0;  ///< 0: no hint.
  int64_t divisible_by = 1;
  friend bool operator==(const Symbol&, const Symbol&) = default;
};

/// Letters, digits and underscores, not starting with a digit: what a symbol's name must be.
bool is_identifier(std::string_view text);

/// Sizes of a shape whose symbols are bound, in elements.
using Sizes = std::vector<int64_t>;

/// Row-major strides in elements of a dense tensor of these sizes.
Sizes dense_strides(std::span<const int64_t> sizes);
/// Elements from the first to past the last one of a strided tensor; 0 if it has none.
int64_t reach_of(std::span<const int64_t> sizes, std::span<const int64_t> strides);
/// Product of all sizes; 1 for a scalar. Throws an InvalidArgument error when the product does not
/// fit 63 bits.
int64_t element_count(std::span<const int64_t> sizes);
/// The same of a shape without symbols.
int64_t element_count(const Shape& shape);

}  // namespace sinter
