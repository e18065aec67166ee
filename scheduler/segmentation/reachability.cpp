#include "scheduler/segmentation/reachability.h"

#include <bit>

namespace sinter {

Reachability::Reachability(std::span<const std::vector<uint32_t>> successors)
    : words_((successors.size() + kBits - 1) / kBits),
      down_(successors.size() * words_),
      up_(successors.size() * words_),
      alive_(words_) {
  const auto count = static_cast<uint32_t>(successors.size());
  for (uint32_t v = 0; v < count; ++v) set(alive_, v);
  for (uint32_t v = count; v-- > 0;) {
    for (const uint32_t next : successors[v]) {
      set(row(down_, v), next);
      unite(row(down_, v), row(down_, next));
    }
  }
  for (uint32_t v = 0; v < count; ++v) {
    for (const uint32_t next : successors[v]) {
      set(row(up_, next), v);
      unite(row(up_, next), row(up_, v));
    }
  }
}

bool Reachability::has_between(uint32_t a, uint32_t b) const {
  const auto crosses = [&](uint32_t from, uint32_t to) {
    if (!reaches(from, to)) return false;
    const auto below = row(down_, from);
    const auto above = row(up_, to);
    for (size_t i = 0; i < words_; ++i) {
      if ((below[i] & above[i] & alive_[i]) != 0) return true;
    }
    return false;
  };
  return crosses(a, b) || crosses(b, a);
}

void Reachability::spread(Rows& rows, const Rows& back, uint32_t a, uint32_t b) {
  const auto of_a = row(back, a);
  const auto of_b = row(back, b);
  const auto gained = row(std::as_const(rows), a);
  for (size_t i = 0; i < words_; ++i) {
    for (Word left = of_b[i] & ~of_a[i] & alive_[i]; left != 0; left &= left - 1) {
      const auto v =
          static_cast<uint32_t>(i * kBits) + static_cast<uint32_t>(std::countr_zero(left));
      if (v == a || v == b) continue;
      unite(row(rows, v), gained);
      set(row(rows, v), a);
    }
  }
}

void Reachability::merge(uint32_t a, uint32_t b) {
  // Those that know only one of the two learn what the other one knows.
  spread(down_, up_, a, b);
  spread(down_, up_, b, a);
  spread(up_, down_, a, b);
  spread(up_, down_, b, a);
  for (Rows* rows : {&down_, &up_}) {
    unite(row(*rows, a), row(*rows, b));
    clear(row(*rows, a), a);
    clear(row(*rows, a), b);
  }
  clear(alive_, b);
}

}  // namespace sinter
