#include "scheduler/analysis/axis_classes.h"

#include <algorithm>

namespace sinter {

AxisList concatenated(const std::vector<AxisList>& axes) {
  AxisList out;
  for (const AxisList& axis : axes) out.insert(out.end(), axis.begin(), axis.end());
  return out;
}

uint32_t AxisClasses::fresh(int64_t size) {
  nodes_.push_back({.size = size, .parent = static_cast<uint32_t>(nodes_.size())});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

void AxisClasses::add_fresh_axis(const Extent& extent, AxisList& out) {
  if (extent.is_one()) return;
  SINTER_CHECK(extent.is_constant(), "the scheduler works on specialised fusions");
  out.push_back(fresh(extent.constant()));
  nodes_[out.back()].is_bound = extent.is_bound();
}

AxisList AxisClasses::resolve(const AxisList& axis) const {
  AxisList out;
  for (const uint32_t node : axis) append(node, out);
  return out;
}

bool AxisClasses::unify(const AxisList& a, const AxisList& b) {
  AxisList left = resolve(a);
  AxisList right = resolve(b);
  while (!left.empty() && !right.empty()) {
    const uint32_t x = left.back();
    const uint32_t y = right.back();
    left.pop_back();
    right.pop_back();
    if (x == y) continue;
    if (nodes_[x].size == nodes_[y].size) {
      nodes_[std::max(x, y)].parent = std::min(x, y);
      nodes_[std::min(x, y)].is_bound |= nodes_[std::max(x, y)].is_bound;
      continue;
    }
    const bool x_is_larger = nodes_[x].size > nodes_[y].size;
    const uint32_t large = x_is_larger ? x : y;
    const uint32_t small = x_is_larger ? y : x;
    if (nodes_[small].size == 0 || nodes_[large].size % nodes_[small].size != 0) return false;
    const uint32_t outer = fresh(nodes_[large].size / nodes_[small].size);
    nodes_[large].split = {outer, small};
    (x_is_larger ? left : right).push_back(outer);
  }
  const auto is_one = [&](uint32_t node) { return nodes_[node].size == 1; };
  return std::ranges::all_of(left, is_one) && std::ranges::all_of(right, is_one);
}

uint32_t AxisClasses::find(uint32_t node) const {
  while (nodes_[node].parent != node) node = nodes_[node].parent;
  return node;
}

void AxisClasses::append(uint32_t node, AxisList& out) const {
  const Node& representative = nodes_[find(node)];
  if (!representative.split) {
    if (representative.size != 1 || representative.is_bound) out.push_back(find(node));
    return;
  }
  append(representative.split->first, out);
  append(representative.split->second, out);
}

}  // namespace sinter
