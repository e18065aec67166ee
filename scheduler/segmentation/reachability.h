#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sinter {

/// Which groups of a directed acyclic graph reach which, as rows of bits that stay right while
/// groups merge. A group goes by the number of one of its vertices.
///
/// Space is count^2 / 4 bytes. A merge takes a row operation for each group that reaches exactly
/// one of the two, or is reached by exactly one: few, where the two are close.
class Reachability {
 public:
  /// `successors[v]` > v for all: the numbers are a topological order.
  explicit Reachability(std::span<const std::vector<uint32_t>> successors);

  /// True if there is a path from a to b != a.
  [[nodiscard]] bool reaches(uint32_t a, uint32_t b) const { return has(row(down_, a), b); }
  /// True if merging a and b would close a cycle: a third group lies on a path between them.
  [[nodiscard]] bool has_between(uint32_t a, uint32_t b) const;
  /// Makes b part of a. Nothing may lie between them.
  void merge(uint32_t a, uint32_t b);

 private:
  using Word = uint64_t;
  using Rows = std::vector<Word>;
  static constexpr uint32_t kBits = 64;

  [[nodiscard]] std::span<Word> row(Rows& rows, uint32_t v) const {
    return {rows.data() + v * words_, words_};
  }
  [[nodiscard]] std::span<const Word> row(const Rows& rows, uint32_t v) const {
    return {rows.data() + v * words_, words_};
  }
  static bool has(std::span<const Word> row, uint32_t v) {
    return (row[v / kBits] >> (v % kBits) & 1U) != 0;
  }
  static void set(std::span<Word> row, uint32_t v) { row[v / kBits] |= Word{1} << (v % kBits); }
  static void clear(std::span<Word> row, uint32_t v) {
    row[v / kBits] &= ~(Word{1} << (v % kBits));
  }
  static void unite(std::span<Word> into, std::span<const Word> from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] |= from[i];
  }
  /// Adds `a` and its row in `rows` to the rows of those that `back` tells for b and not for a.
  void spread(Rows& rows, const Rows& back, uint32_t a, uint32_t b);

  size_t words_;
  Rows down_;   ///< By group: what it reaches.
  Rows up_;     ///< By group: what reaches it.
  Rows alive_;  ///< Numbers that stand for a group.
};

}  // namespace sinter
