#include "scheduler/report/layered_layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "fusion_ir/error.h"

namespace sinter {
namespace {

constexpr double kBoxGap = 18.0;    // Between neighbours of a layer.
constexpr double kLayerGap = 34.0;  // Between layers, for lines to cross.
constexpr double kLineWidth = 6.0;  // Width of a line that passes a layer.

/// Number of passes up and down; orders settle in fewer.
constexpr int kOrderSweeps = 12;
constexpr int kPlaceSweeps = 16;

/// A position in a layer: a box, or a point where a line passes.
struct Slot {
  double width = 0.0;
  bool is_line = false;
  std::vector<size_t> above{};  ///< Positions of the previous layer with a line to this one.
  std::vector<size_t> below{};
  size_t rank = 0;      ///< Index in its layer.
  double centre = 0.0;  ///< In pixels.
};

/// Number of pairs in which the larger number comes first, counted while merging.
size_t inversions(std::vector<size_t>& numbers, std::vector<size_t>& scratch, size_t begin,
                  size_t end) {
  if (end - begin < 2) return 0;
  const size_t middle = (begin + end) / 2;
  size_t count =
      inversions(numbers, scratch, begin, middle) + inversions(numbers, scratch, middle, end);
  size_t left = begin;
  size_t right = middle;
  for (size_t i = begin; i < end; ++i) {
    const bool takes_left = right == end || (left < middle && numbers[left] <= numbers[right]);
    if (!takes_left) count += middle - left;
    scratch[i] = takes_left ? numbers[left++] : numbers[right++];
  }
  std::copy(scratch.begin() + static_cast<ptrdiff_t>(begin),
            scratch.begin() + static_cast<ptrdiff_t>(end),
            numbers.begin() + static_cast<ptrdiff_t>(begin));
  return count;
}

class Placing {
 public:
  Placing(const std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines)
      : boxes_(boxes), lines_(lines) {}

  Layout run() {
    make_slots();
    order();
    place();
    return drawn();
  }

 private:
  void make_slots() {
    size_t count = 0;
    for (const LayoutBox& box : boxes_) count = std::max(count, box.layer + 1);
    layers_.resize(count);
    for (const LayoutBox& box : boxes_) add_slot({.width = box.width}, box.layer);
    for (const LayoutLine& line : lines_) {
      SINTER_CHECK_OP(boxes_[line.from].layer, <, boxes_[line.to].layer);
      std::vector<size_t> passed;
      size_t last = line.from;
      for (size_t layer = boxes_[line.from].layer + 1; layer < boxes_[line.to].layer; ++layer) {
        passed.push_back(add_slot({.width = kLineWidth, .is_line = true}, layer));
        connect(last, passed.back());
        last = passed.back();
      }
      connect(last, line.to);
      passed_.push_back(std::move(passed));
    }
  }

  size_t add_slot(Slot slot, size_t layer) {
    slot.rank = layers_[layer].size();
    layers_[layer].push_back(slots_.size());
    slots_.push_back(std::move(slot));
    return slots_.size() - 1;
  }
  void connect(size_t above, size_t below) {
    slots_[above].below.push_back(below);
    slots_[below].above.push_back(above);
  }

  // ---- Order

  void order() {
    std::vector<std::vector<size_t>> best = layers_;
    size_t fewest = crossings();
    for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
      sort_by_neighbours(sweep % 2 == 0);
      const size_t count = crossings();
      if (count >= fewest) continue;
      fewest = count;
      best = layers_;
    }
    layers_ = std::move(best);
    for (const std::vector<size_t>& layer : layers_) number(layer);
  }

  void number(const std::vector<size_t>& layer) {
    for (size_t rank = 0; rank < layer.size(); ++rank) slots_[layer[rank]].rank = rank;
  }

  void sort_by_neighbours(bool downwards) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      std::vector<size_t>& layer = layers_[downwards ? i : layers_.size() - 1 - i];
      std::vector<std::pair<double, size_t>> keyed;
      for (const size_t id : layer) {
        const Slot& slot = slots_[id];
        const std::vector<size_t>& others = downwards ? slot.above : slot.below;
        auto key = static_cast<double>(slot.rank);
        if (!others.empty()) {
          key = 0.0;
          for (const size_t other : others) key += static_cast<double>(slots_[other].rank);
          key /= static_cast<double>(others.size());
        }
        keyed.emplace_back(key, id);
      }
      std::ranges::stable_sort(keyed, {}, &std::pair<double, size_t>::first);
      for (size_t rank = 0; rank < layer.size(); ++rank) layer[rank] = keyed[rank].second;
      number(layer);
    }
  }

  [[nodiscard]] size_t crossings() const {
    size_t count = 0;
    std::vector<size_t> ends;
    std::vector<size_t> scratch;
    for (const std::vector<size_t>& layer : layers_) {
      ends.clear();
      for (const size_t id : layer) {
        const size_t first = ends.size();
        for (const size_t below : slots_[id].below) ends.push_back(slots_[below].rank);
        std::sort(ends.begin() + static_cast<ptrdiff_t>(first), ends.end());
      }
      scratch.resize(ends.size());
      count += inversions(ends, scratch, 0, ends.size());
    }
    return count;
  }

  // ---- Places

  void place() {
    for (const std::vector<size_t>& layer : layers_)
      place_layer(layer, [](const Slot&) { return std::vector<size_t>(); });
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      for (size_t i = 0; i < layers_.size(); ++i) {
        const bool downwards = sweep % 2 == 0;
        const bool looks_both_ways = sweep > 1;
        place_layer(layers_[downwards ? i : layers_.size() - 1 - i], [&](const Slot& slot) {
          std::vector<size_t> out = downwards ? slot.above : slot.below;
          const std::vector<size_t>& others = downwards ? slot.below : slot.above;
          if (out.empty() || looks_both_ways) out.insert(out.end(), others.begin(), others.end());
          return out;
        });
      }
    }
    double leftmost = std::numeric_limits<double>::infinity();
    for (const Slot& slot : slots_) leftmost = std::min(leftmost, slot.centre - slot.width / 2);
    for (Slot& slot : slots_) slot.centre -= leftmost;
  }

  /// Positions that move together, each at the minimum distance from the previous one.
  struct Block {
    double weight = 0.0;
    double offset = 0.0;  ///< Weighted mean of the best offset of the layer's first position.
    size_t count = 0;
  };

  /// Moves the positions of a layer as near to the mean of their neighbours as their order and
  /// widths allow: the least sum of squares, found by pooling adjacent violators.
  template <class Neighbours>
  void place_layer(const std::vector<size_t>& layer, Neighbours neighbours) {
    std::vector<double> offsets;  // Least distance from the first centre.
    std::vector<Block> blocks;
    for (const size_t id : layer) {
      const Slot& slot = slots_[id];
      double offset = 0.0;
      if (!offsets.empty()) {
        const Slot& before = slots_[layer[offsets.size() - 1]];
        const double gap = before.is_line && slot.is_line ? kLineWidth : kBoxGap;
        offset = offsets.back() + (before.width + slot.width) / 2 + gap;
      }
      offsets.push_back(offset);
      blocks.push_back(wish(slot, neighbours(slot), offset));
      while (blocks.size() > 1 && blocks[blocks.size() - 2].offset > blocks.back().offset) {
        const Block last = blocks.back();
        blocks.pop_back();
        Block& into = blocks.back();
        const double weight = into.weight + last.weight;
        into.offset = (into.offset * into.weight + last.offset * last.weight) / weight;
        into.weight = weight;
        into.count += last.count;
      }
    }
    size_t at = 0;
    for (const Block& block : blocks) {
      for (size_t i = 0; i < block.count; ++i, ++at)
        slots_[layer[at]].centre = block.offset + offsets[at];
    }
  }

  [[nodiscard]] Block wish(const Slot& slot, const std::vector<size_t>& neighbours,
                           double offset) const {
    constexpr double kStay = 0.1;  // Weight of positions without neighbours there: out of the way.
    constexpr double kStraight = 4.0;  // Weight of lines' positions: long lines should be straight.
    constexpr double kPull = 0.04;     // Pull to the middle: long graphs would lean to one side.
    if (neighbours.empty()) return {.weight = kStay, .offset = slot.centre - offset, .count = 1};
    double sum = 0.0;
    for (const size_t other : neighbours) sum += slots_[other].centre;
    return {.weight = slot.is_line ? kStraight : 1.0,
            .offset = (1.0 - kPull) * sum / static_cast<double>(neighbours.size()) - offset,
            .count = 1};
  }

  // ---- Result

  [[nodiscard]] Layout drawn() const {
    Layout out;
    std::vector<double> top;
    std::vector<double> bottom;
    double y = 0.0;
    for (const std::vector<size_t>& layer : layers_) {
      double height = 0.0;
      for (const size_t id : layer)
        height = std::max(height, id < boxes_.size() ? boxes_[id].height : 0.0);
      top.push_back(y);
      bottom.push_back(y + height);
      y += height + kLayerGap;
    }
    out.height = bottom.empty() ? 0.0 : bottom.back();
    for (const Slot& slot : slots_) out.width = std::max(out.width, slot.centre + slot.width / 2);
    for (size_t box = 0; box < boxes_.size(); ++box) {
      const size_t layer = boxes_[box].layer;
      out.corners.push_back({slots_[box].centre - boxes_[box].width / 2,
                             (top[layer] + bottom[layer] - boxes_[box].height) / 2});
    }
    for (size_t line = 0; line < lines_.size(); ++line) {
      const auto [from, to] = lines_[line];
      size_t layer = boxes_[from].layer;
      std::vector<LayoutPoint> route = {
          {slots_[from].centre, out.corners[from].y + boxes_[from].height},
          {slots_[from].centre, bottom[layer]}};
      for (const size_t passed : passed_[line]) {
        ++layer;
        route.push_back({slots_[passed].centre, top[layer]});
        route.push_back({slots_[passed].centre, bottom[layer]});
      }
      route.push_back({slots_[to].centre, top[layer + 1]});
      route.push_back({slots_[to].centre, out.corners[to].y});
      out.routes.push_back(std::move(route));
    }
    return out;
  }

  const std::vector<LayoutBox>& boxes_;
  const std::vector<LayoutLine>& lines_;
  std::vector<Slot> slots_;                  ///< First those of the boxes, in their order.
  std::vector<std::vector<size_t>> layers_;  ///< Positions from left to right.
  std::vector<std::vector<size_t>> passed_;  ///< By line: positions it passes.
};

}  // namespace

Layout lay_out(const std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines) {
  return Placing(boxes, lines).run();
}

}  // namespace sinter
