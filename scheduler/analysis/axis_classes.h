#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Classes of one axis from the outermost to the innermost. Nearly always there is one. Planning
/// calls this analysis most, so lists are kept off the heap.
using AxisList = boost::container::small_vector<uint32_t, 2>;

/// The classes of several axes, in order.
AxisList concatenated(const std::vector<AxisList>& axes);

/// The axes of a fusion's values in classes that iterate together. The classes form a union-find. A
/// class that turns out to be a product of others is split in two.
class AxisClasses {
 public:
  uint32_t fresh(int64_t size);
  /// Appends a class of its own for an axis of constant extent; none where it has one element.
  void add_fresh_axis(const Extent& extent, AxisList& out);

  /// Replaces every class by its representative and every split class by its parts.
  [[nodiscard]] AxisList resolve(const AxisList& axis) const;

  /// Makes two axes, or groups of axes, the same. False if their sizes do not divide evenly; what
  /// was unified before the failure stays so.
  bool unify(const AxisList& a, const AxisList& b);

  [[nodiscard]] int64_t size(uint32_t node) const { return nodes_[node].size; }

 private:
  struct Node {
    int64_t size = 1;
    uint32_t parent = 0;
    std::optional<std::pair<uint32_t, uint32_t>> split{};  ///< (outer, inner)
    bool is_bound = false;  ///< It counts even where its size is 1 (Extent::bound).
  };

  [[nodiscard]] uint32_t find(uint32_t node) const;
  void append(uint32_t node, AxisList& out) const;

  std::vector<Node> nodes_;
};

}  // namespace sinter
