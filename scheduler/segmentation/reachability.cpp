#include "scheduler/segmentation/reachability.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "fusion_ir/result.h"

namespace sinter {

Reachability::Reachability(std::span<const std::vector<uint32_t>> successors)
    : parent_(successors.size()),
      place_(successors.size()),
      next_(successors.begin(), successors.end()),
      before_(successors.size()),
      mark_(successors.size()) {
  std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  std::iota(place_.begin(), place_.end(), uint32_t{0});
  for (uint32_t v = 0; v < successors.size(); ++v) {
    for (const uint32_t next : successors[v]) before_[next].push_back(v);
  }
}

uint32_t Reachability::find(uint32_t vertex) {
  while (parent_[vertex] != vertex) vertex = parent_[vertex] = parent_[parent_[vertex]];
  return vertex;
}

uint32_t Reachability::fresh_mark() {
  if (++last_mark_ == 0) {
    std::ranges::fill(mark_, 0);
    last_mark_ = 1;
  }
  return last_mark_;
}

const std::vector<uint32_t>& Reachability::neighbours(Edges& edges, uint32_t group) {
  std::vector<uint32_t>& list = edges[group];
  for (uint32_t& vertex : list) vertex = find(vertex);
  if (!std::ranges::is_sorted(list)) std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
  std::erase(list, group);
  return list;
}

/// True if there is a path; unless `direct`, a single edge does not count. The search begins at the
/// end with fewer edges: for a tensor with thousands of readers, at the reader.
bool Reachability::search(uint32_t first, uint32_t last, bool direct) {
  if (place_[first] >= place_[last]) return false;
  const bool backwards = before_[last].size() < next_[first].size();
  Edges& edges = backwards ? before_ : next_;
  const uint32_t from = backwards ? last : first;
  const uint32_t to = backwards ? first : last;
  const uint32_t mark = fresh_mark();
  std::vector<uint32_t> open = {from};
  while (!open.empty()) {
    const uint32_t group = open.back();
    open.pop_back();
    for (const uint32_t next : neighbours(edges, group)) {
      if (next == to && (direct || group != from)) return true;
      const bool is_inside = place_[first] < place_[next] && place_[next] < place_[last];
      if (!is_inside || mark_[next] == mark) continue;
      mark_[next] = mark;
      open.push_back(next);
    }
  }
  return false;
}

bool Reachability::reaches(uint32_t a, uint32_t b) { return search(a, b, true); }

bool Reachability::has_between(uint32_t a, uint32_t b) {
  return place_[a] < place_[b] ? search(a, b, false) : search(b, a, false);
}

template <class IsInside>
std::vector<uint32_t> Reachability::reached(Edges& edges, uint32_t from,
                                            const IsInside& is_inside) {
  const uint32_t mark = fresh_mark();
  std::vector<uint32_t> out;
  std::vector<uint32_t> open = {from};
  while (!open.empty()) {
    const uint32_t group = open.back();
    open.pop_back();
    for (const uint32_t other : neighbours(edges, group)) {
      if (mark_[other] == mark || !is_inside(place_[other])) continue;
      mark_[other] = mark;
      out.push_back(other);
      open.push_back(other);
    }
  }
  return out;
}

void Reachability::merge(uint32_t a, uint32_t b) {
  const uint32_t first = place_[a] < place_[b] ? a : b;
  const uint32_t last = first == a ? b : a;
  // Groups that the first reaches go after both, and groups that reach the last go before both.
  // They exchange the places that they had, so that all others keep theirs.
  const uint32_t begin = place_[first];
  const uint32_t end = place_[last];
  std::vector<uint32_t> behind = reached(next_, first, [&](uint32_t place) { return place < end; });
  std::vector<uint32_t> before =
      reached(before_, last, [&](uint32_t place) { return place > begin; });
  const auto by_place = [&](uint32_t group) { return place_[group]; };
  std::ranges::sort(before, {}, by_place);
  std::ranges::sort(behind, {}, by_place);
  std::vector<uint32_t> places = {begin, end};
  for (const std::vector<uint32_t>* moved : {&before, &behind}) {
    for (const uint32_t group : *moved) places.push_back(place_[group]);
  }
  std::ranges::sort(places);
  size_t next = 0;
  for (const uint32_t group : before) place_[group] = places[next++];
  place_[a] = places[next];
  next += 2;  // One position stays empty.
  for (const uint32_t group : behind) place_[group] = places[next++];
  parent_[b] = a;
  for (Edges* edges : {&next_, &before_}) {
    std::vector<uint32_t>& mine = (*edges)[a];
    std::vector<uint32_t>& other = (*edges)[b];
    if (mine.size() < other.size()) mine.swap(other);
    mine.insert(mine.end(), other.begin(), other.end());
    other = {};
  }
}

}  // namespace sinter
