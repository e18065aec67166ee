#include "scheduler/report/layered_layout.h"

#include <gmock/gmock.h>

#include <random>

namespace sinter::layered_layout_test {

/// Boxes of random sizes in random layers, and lines between them.
struct RandomGraph {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutLine> lines;

  RandomGraph(uint64_t seed, size_t count) {
    std::mt19937_64 random(seed);
    const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
    for (size_t i = 0; i < count; ++i)
      boxes.push_back({.width = 20.0 + static_cast<double>(below(200)),
                       .height = 10.0 + static_cast<double>(below(60)),
                       .layer = below(1 + count / 4)});
    for (size_t i = 0; i < count * 2; ++i) {
      const size_t a = below(count);
      const size_t b = below(count);
      if (boxes[a].layer == boxes[b].layer) continue;
      lines.push_back(boxes[a].layer < boxes[b].layer ? LayoutLine{a, b} : LayoutLine{b, a});
    }
  }
};

class LayeredLayout : public ::testing::TestWithParam<uint64_t> {
 protected:
  RandomGraph graph_{GetParam(), 4 + GetParam() * 3};
  Layout layout_ = lay_out(graph_.boxes, graph_.lines);
};

TEST_P(LayeredLayout, BoxesDoNotOverlapAndLieInThePicture) {
  constexpr double kRounding = 1e-6;
  for (size_t a = 0; a < graph_.boxes.size(); ++a) {
    const LayoutPoint& corner = layout_.corners[a];
    EXPECT_GE(corner.x, -kRounding);
    EXPECT_GE(corner.y, -kRounding);
    EXPECT_LE(corner.x + graph_.boxes[a].width, layout_.width + kRounding);
    EXPECT_LE(corner.y + graph_.boxes[a].height, layout_.height + kRounding);
    for (size_t b = 0; b < a; ++b) {
      const LayoutPoint& other = layout_.corners[b];
      const bool apart = corner.x + graph_.boxes[a].width <= other.x + kRounding ||
                         other.x + graph_.boxes[b].width <= corner.x + kRounding ||
                         corner.y + graph_.boxes[a].height <= other.y + kRounding ||
                         other.y + graph_.boxes[b].height <= corner.y + kRounding;
      EXPECT_TRUE(apart) << a << " and " << b;
    }
  }
}

TEST_P(LayeredLayout, LinesRunDownFromBoxToBoxPastAllOthers) {
  for (size_t i = 0; i < graph_.lines.size(); ++i) {
    const std::vector<LayoutPoint>& route = layout_.routes[i];
    const auto [from, to] = graph_.lines[i];
    EXPECT_DOUBLE_EQ(route.front().y, layout_.corners[from].y + graph_.boxes[from].height);
    EXPECT_DOUBLE_EQ(route.back().y, layout_.corners[to].y);
    ASSERT_EQ(route.size() % 2, 0U);
    for (size_t p = 0; p + 1 < route.size(); ++p) {
      EXPECT_LE(route[p].y, route[p + 1].y);
      if (p % 2 != 0) continue;
      EXPECT_EQ(route[p].x, route[p + 1].x);
      for (size_t box = 0; box < graph_.boxes.size(); ++box) {
        if (box == from || box == to) continue;
        const LayoutPoint& corner = layout_.corners[box];
        const bool beside =
            route[p].x < corner.x || route[p].x > corner.x + graph_.boxes[box].width ||
            route[p + 1].y <= corner.y || route[p].y >= corner.y + graph_.boxes[box].height;
        EXPECT_TRUE(beside) << "line " << i << " and box " << box;
      }
    }
  }
}

TEST_P(LayeredLayout, IsTheSameEveryTime) {
  const Layout again = lay_out(graph_.boxes, graph_.lines);
  EXPECT_EQ(again.corners, layout_.corners);
  EXPECT_EQ(again.routes, layout_.routes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayeredLayout, ::testing::Range<uint64_t>(0, 20));

TEST(LayeredLayoutTest, NothingHasNoSize) {
  const Layout layout = lay_out({}, {});
  EXPECT_EQ(layout.width, 0.0);
  EXPECT_EQ(layout.height, 0.0);
}

TEST(LayeredLayoutTest, AChainIsStraight) {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutLine> lines;
  for (size_t i = 0; i < 5; ++i) {
    boxes.push_back({.width = 40.0 + 20.0 * static_cast<double>(i % 2), .height = 10, .layer = i});
    if (i > 0) lines.push_back({i - 1, i});
  }
  const Layout layout = lay_out(boxes, lines);
  for (size_t i = 0; i < boxes.size(); ++i)
    EXPECT_DOUBLE_EQ(layout.corners[i].x + boxes[i].width / 2, 30.0);
}

TEST(LayeredLayoutTest, UntanglesWhatCanBeUntangled) {
  // Two chains, given crosswise.
  const Layout layout =
      lay_out({{10, 10, 0}, {10, 10, 0}, {10, 10, 1}, {10, 10, 1}, {10, 10, 2}, {10, 10, 2}},
              {{0, 3}, {1, 2}, {3, 4}, {2, 5}});
  EXPECT_EQ(layout.corners[0].x < layout.corners[1].x, layout.corners[3].x < layout.corners[2].x);
  EXPECT_EQ(layout.corners[3].x < layout.corners[2].x, layout.corners[4].x < layout.corners[5].x);
}

}  // namespace sinter::layered_layout_test
