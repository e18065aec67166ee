#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sinter {

/// Which groups of a directed acyclic graph reach which, while groups merge. A group goes by the
/// number of one of its vertices.
///
/// Groups are kept in a topological order, and a question is answered by a search that goes no
/// further than the places between the two: space is that of the edges, and time that of what lies
/// there. A merge exchanges the places of those that one of the two reaches or is reached by
/// (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", JEA 11,
/// 2006).
class Reachability {
 public:
  /// `successors[v]` > v for all: the numbers are a topological order.
  explicit Reachability(std::span<const std::vector<uint32_t>> successors);

  /// True if there is a path from a to b != a.
  [[nodiscard]] bool reaches(uint32_t a, uint32_t b);
  /// True if merging a and b would close a cycle: a third group lies on a path between them.
  [[nodiscard]] bool has_between(uint32_t a, uint32_t b);
  /// Makes b part of a. Nothing may lie between them.
  void merge(uint32_t a, uint32_t b);

 private:
  /// Edges of a group, by vertex; several may lead to one group.
  using Edges = std::vector<std::vector<uint32_t>>;

  uint32_t find(uint32_t vertex);
  /// The groups that one has an edge to, other than itself; each once.
  const std::vector<uint32_t>& neighbours(Edges& edges, uint32_t group);
  bool search(uint32_t first, uint32_t last, bool direct);
  /// Marks what `from` leads to along `edges` up to a place, and lists it.
  template <class IsInside>
  std::vector<uint32_t> reached(Edges& edges, uint32_t from, const IsInside& is_inside);
  /// A mark that no group has yet.
  uint32_t fresh_mark();

  std::vector<uint32_t> parent_;  ///< Union-find of vertices; the root is the group's number.
  std::vector<uint32_t> place_;   ///< By group.
  Edges next_;                    ///< By group.
  Edges before_;                  ///< By group.
  std::vector<uint32_t> mark_;    ///< By group: the last search that met it.
  uint32_t last_mark_ = 0;
};

}  // namespace sinter
