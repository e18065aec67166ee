#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sinter {

struct ValueTag {
  static constexpr char kPrefix[] = "%v";
};
struct OpTag {
  static constexpr char kPrefix[] = "%op";
};
struct SymbolTag {
  static constexpr char kPrefix[] = "$";
};
/// Which FusionBuilder handed an id out, so that another one can refuse it. 0: none, as for the ids
/// within a graph.
struct IdOwner {
  uint32_t builder = 0;
};
/// Of ids that no builder hands out.
struct NoIdOwner {};
template <class Tag>
inline constexpr bool kIsOwned = std::is_same_v<Tag, ValueTag> || std::is_same_v<Tag, SymbolTag>;

/// A typed 32-bit index into a table. Ids of different tags do not convert into each other. The
/// owner is no part of what an id means: ids with equal indices are equal.
template <class Tag>
struct Id {
  static constexpr uint32_t kInvalid = 0xffff'ffffU;
  uint32_t index = kInvalid;
  [[no_unique_address]] std::conditional_t<kIsOwned<Tag>, IdOwner, NoIdOwner> owner{};

  [[nodiscard]] constexpr bool valid() const { return index != kInvalid; }
  friend constexpr bool operator==(Id a, Id b) { return a.index == b.index; }
  friend constexpr auto operator<=>(Id a, Id b) { return a.index <=> b.index; }
};

using ValueId = Id<ValueTag>;
using OpId = Id<OpTag>;
using SymbolId = Id<SymbolTag>;

template <class T>
concept IsId = requires(T id) {
  { id.index } -> std::convertible_to<uint32_t>;
  T::kInvalid;
};

/// The ids of the first `count` elements of a table, ascending.
template <IsId K>
auto first_ids(size_t count) {
  return std::views::iota(uint32_t{0}, static_cast<uint32_t>(count)) |
         std::views::transform([](uint32_t index) { return K{index}; });
}

/// A table that owns its elements and hands out ids in order of insertion.
template <IsId K, class V>
class IdVector {
 public:
  K push_back(V value) {
    items_.push_back(std::move(value));
    return K{static_cast<uint32_t>(items_.size() - 1)};
  }
  /// Allocates for so many elements at once.
  void reserve(size_t count) { items_.reserve(count); }
  V& operator[](K id) { return items_[id.index]; }
  const V& operator[](K id) const { return items_[id.index]; }
  V& front() { return items_.front(); }
  const V& front() const { return items_.front(); }
  V& back() { return items_.back(); }
  const V& back() const { return items_.back(); }
  [[nodiscard]] bool contains(K id) const { return id.index < items_.size(); }
  /// The id past the last element, which the next push_back() hands out.
  [[nodiscard]] K next_id() const { return K{static_cast<uint32_t>(items_.size())}; }
  /// The ids of all elements, ascending.
  [[nodiscard]] auto ids() const { return first_ids<K>(items_.size()); }
  [[nodiscard]] size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  std::vector<V> items_;
};

/// A side table keyed by id: grows on write, answers a default for ids never written.
template <IsId K, class V>
class IdMap {
 public:
  IdMap() = default;
  explicit IdMap(size_t size, V fallback = V{}) : items_(size, fallback), fallback_(fallback) {}
  V& operator[](K id) {
    if (id.index >= items_.size()) items_.resize(id.index + 1, fallback_);
    return items_[id.index];
  }
  const V& operator[](K id) const {
    return id.index < items_.size() ? items_[id.index] : fallback_;
  }
  [[nodiscard]] size_t size() const { return items_.size(); }
  friend bool operator==(const IdMap&, const IdMap&) = default;

 private:
  std::vector<V> items_;
  V fallback_{};
};

}  // namespace sinter

template <class Tag>
struct fmt::formatter<sinter::Id<Tag>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(sinter::Id<Tag> id, fmt::format_context& context) const {
    // fmt::format_to would compile the whole formatter again in every file.
    const std::string text =
        id.valid() ? fmt::format("{}{}", Tag::kPrefix, id.index) : fmt::format("{}?", Tag::kPrefix);
    return std::ranges::copy(text, context.out()).out;
  }
};

template <class Tag>
struct std::hash<sinter::Id<Tag>> {
  size_t operator()(sinter::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index); }
};
