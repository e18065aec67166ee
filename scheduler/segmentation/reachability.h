#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sinter {

/// Reachability between groups of a directed acyclic graph while groups merge. A group is named by
/// one of its vertices.
///
/// Groups are kept in a topological order. A query is a search limited to the positions between the
/// two groups: the space is linear in the edges, the time is that of the groups and edges between
/// them. A merge reorders the groups that one of the two reaches or is reached by (Pearce and
/// Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", JEA 11, 2006).
class Reachability {
 public:
  /// `successors[v]` > v for all v: the vertex numbers are a topological order.
  explicit Reachability(std::span<const std::vector<uint32_t>> successors);

  /// True if there is a path from a to b != a.
  [[nodiscard]] bool reaches(uint32_t a, uint32_t b);
  /// True if merging a and b would close a cycle: a third group lies on a path between them.
  [[nodiscard]] bool has_between(uint32_t a, uint32_t b);
  /// Makes b part of a. No group may lie on a path between them.
  void merge(uint32_t a, uint32_t b);

 private:
  /// Edges of a group, by vertex; several may lead to one group.
  using Edges = std::vector<std::vector<uint32_t>>;

  uint32_t find(uint32_t vertex);
  /// The groups other than itself to which a group has an edge; each once.
  const std::vector<uint32_t>& neighbours(Edges& edges, uint32_t group);
  bool search(uint32_t first, uint32_t last, bool direct);
  /// Marks and lists the groups reached from `from` along `edges`, as far as `is_inside` holds.
  template <class IsInside>
  std::vector<uint32_t> reached(Edges& edges, uint32_t from, const IsInside& is_inside);
  /// A mark that no group has yet.
  uint32_t fresh_mark();

  std::vector<uint32_t> parent_;  ///< Union-find of vertices; the root is the group's number.
  std::vector<uint32_t> place_;   ///< Topological position by group.
  Edges next_;                    ///< Successors by group.
  Edges before_;                  ///< Predecessors by group.
  std::vector<uint32_t> mark_;    ///< By group: the last search that reached it.
  uint32_t last_mark_ = 0;
};

}  // namespace sinter
