#include "scheduler/segmentation/reachability.h"

#include <gmock/gmock.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/transitive_closure.hpp>
#include <random>
#include <set>

namespace sinter::reachability_test {

using Edges = std::vector<std::vector<uint32_t>>;
using BoostGraph = boost::adjacency_list<boost::setS, boost::vecS, boost::directedS>;

Edges random_edges(uint32_t count, std::mt19937& random) {
  Edges out(count);
  for (uint32_t from = 0; from < count; ++from) {
    for (uint32_t to = from + 1; to < count; ++to) {
      if (random() % 5 == 0) out[from].push_back(to);
    }
  }
  return out;
}

/// The groups' graph by Boost, closed over paths.
class Oracle {
 public:
  Oracle(const Edges& edges, const std::vector<uint32_t>& group_of) : groups_(edges.size()) {
    for (uint32_t from = 0; from < edges.size(); ++from) {
      for (const uint32_t to : edges[from]) {
        if (group_of[from] != group_of[to]) boost::add_edge(group_of[from], group_of[to], groups_);
      }
    }
    boost::transitive_closure(groups_, closure_);
  }
  [[nodiscard]] bool reaches(uint32_t a, uint32_t b) const {
    return a != b && boost::edge(a, b, closure_).second;
  }
  [[nodiscard]] bool has_between(uint32_t a, uint32_t b) const {
    for (uint32_t other = 0; other < boost::num_vertices(closure_); ++other) {
      if (other == a || other == b) continue;
      if (reaches(a, other) && reaches(other, b)) return true;
      if (reaches(b, other) && reaches(other, a)) return true;
    }
    return false;
  }

 private:
  BoostGraph groups_;
  BoostGraph closure_;  ///< Boost adds its vertices.
};

TEST(ReachabilityTest, StaysWhatBoostFindsWhileGroupsMerge) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const uint32_t count = seed == 0 ? 66 : 3 + seed % 12;  // Two words of bits, and one.
    const Edges edges = random_edges(count, random);
    Reachability reach(edges);
    std::vector<uint32_t> group_of(count);
    std::set<uint32_t> groups;
    for (uint32_t v = 0; v < count; ++v) groups.insert(group_of[v] = v);
    while (true) {
      const Oracle oracle(edges, group_of);
      std::vector<std::pair<uint32_t, uint32_t>> mergeable;
      for (const uint32_t a : groups) {
        for (const uint32_t b : groups) {
          if (a == b) continue;
          ASSERT_EQ(reach.reaches(a, b), oracle.reaches(a, b)) << seed << ": " << a << ", " << b;
          ASSERT_EQ(reach.has_between(a, b), oracle.has_between(a, b)) << seed;
          if (!reach.has_between(a, b)) mergeable.emplace_back(a, b);
        }
      }
      if (mergeable.empty()) break;
      const auto [kept, gone] = mergeable[random() % mergeable.size()];
      reach.merge(kept, gone);
      for (uint32_t& group : group_of) group = group == gone ? kept : group;
      groups.erase(gone);
    }
    EXPECT_EQ(groups.size(), 1U) << "any two neighbours in topological order can merge";
  }
}

TEST(ReachabilityTest, AThirdGroupOnAPathKeepsTwoApart) {
  // 0 -> 1 -> 2, and 0 -> 2.
  const Edges edges = {{1, 2}, {2}, {}};
  Reachability reach(edges);
  EXPECT_TRUE(reach.has_between(0, 2));
  EXPECT_FALSE(reach.has_between(0, 1));
  reach.merge(0, 1);
  EXPECT_FALSE(reach.has_between(0, 2));
  EXPECT_TRUE(reach.reaches(0, 2));
}

}  // namespace sinter::reachability_test
