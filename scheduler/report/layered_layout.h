#pragma once

#include <cstddef>
#include <vector>

namespace sinter {

/// A box to be placed, in pixels. Boxes of one layer form a horizontal row.
struct LayoutBox {
  double width = 0.0;
  double height = 0.0;
  size_t layer = 0;
};

/// A line from one box down to another, of a later layer.
struct LayoutLine {
  size_t from = 0;
  size_t to = 0;
};

struct LayoutPoint {
  double x = 0.0;
  double y = 0.0;
  friend bool operator==(const LayoutPoint&, const LayoutPoint&) = default;
};

struct Layout {
  std::vector<LayoutPoint> corners;  ///< Upper left corners, by box.
  /// By line: from the lower edge of its first box to the upper edge of its second. Points 2k and
  /// 2k + 1 lie above one another; from 2k + 1 to 2k + 2 the line may cross to another place.
  std::vector<std::vector<LayoutPoint>> routes;
  double width = 0.0;
  double height = 0.0;
};

/// Places boxes in layers from top to bottom (Sugiyama, Tagawa and Toda, "Methods for visual
/// understanding of hierarchical system structures", 1981). The boxes of a layer are ordered by the
/// barycentres of their neighbours, in the order with the fewest crossings found, and are placed as
/// near to the barycentres as room allows. Boxes do not overlap, and lines pass between them. Equal
/// arguments give equal layouts.
Layout lay_out(const std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines);

}  // namespace sinter
