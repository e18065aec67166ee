#include "scheduler/analysis/tensor_list.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/member_finder.h"
#include "scheduler/analysis/member_graph.h"

namespace sinter {
namespace {

/// For each leaf of the code, whether it is a scalar that all members share; other leaves are
/// slots.
std::vector<bool> shared_leaves(const MemberFinder& finder,
                                std::span<const EncodedMember> members) {
  const EncodedMember& first = members.front();
  std::vector<bool> out(first.leaves.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = finder.is_scalar(first.leaves[i]) &&
             std::ranges::all_of(members, [&](const EncodedMember& member) {
               return member.leaves[i] == first.leaves[i];
             });
  }
  return out;
}

int64_t bytes_of_value(const Fusion& fusion, ValueId value) {
  return elements_of(fusion, value) * bytes_of(fusion.values[value].type);
}

ListFound found_list(const Fusion& fusion, const MemberFinder& finder,
                     std::vector<EncodedMember> members) {
  const std::vector<bool> shared = shared_leaves(finder, members);
  ListFound out;
  out.shared = std::ranges::count(shared, true);
  // An output written in place uses the input's slot.
  const auto has_own = [&](ValueId output) { return !finder.alias_of(output).valid(); };
  out.slots = static_cast<int64_t>(shared.size()) - out.shared +
              std::ranges::count_if(members.front().outputs, has_own);
  for (EncodedMember& member : members) {
    for (const ValueId leaf : member.leaves) {
      if (finder.is_scalar(leaf)) {
        out.scalars.push_back(leaf);
        continue;
      }
      const int64_t bytes = bytes_of_value(fusion, leaf);
      out.bytes_read += bytes;
      if (finder.is_read_elsewhere(leaf)) out.shared_bytes += bytes;
    }
    for (const ValueId output : member.outputs) out.bytes_written += bytes_of_value(fusion, output);
    out.members.push_back({.outputs = std::move(member.outputs),
                           .tensors = std::move(member.leaves),
                           .elements = member.elements});
  }
  std::ranges::sort(out.scalars);
  out.scalars.erase(std::ranges::unique(out.scalars).begin(), out.scalars.end());
  return out;
}

Rejection no_list(std::string rule, double value, double limit, std::string unit) {
  return {.subject = "list of tensors",
          .rule = std::move(rule),
          .value = value,
          .limit = limit,
          .unit = std::move(unit),
          .remedy = "the other families take what is no list"};
}

/// Describes the whole graph for planners: one contiguous range of elements, of which each member
/// has a part.
void describe_all(SegmentFacts& facts, const TensorList& list) {
  const Fusion& fusion = facts.fusion;
  facts.space.columns = list.elements();
  facts.space.dimensions = {{.size = facts.space.columns, .reduced = false}};
  for (const ValueId output : fusion.outputs) {
    facts.space.outputs.push_back({.value = output,
                                   .tensor = output,
                                   .strides = {1},
                                   .element_bytes = bytes_of(fusion.values[output].type),
                                   .alignment = fusion.layout_of(output).alignment});
    facts.space.output_coverage.push_back({.rows = false, .columns = true});
    facts.space.dependence[output] = {.rows = false, .columns = true};
    facts.bytes_written += bytes_of_value(fusion, output);
  }
  for (const ValueId input : fusion.inputs) facts.bytes_read += bytes_of_value(fusion, input);
  facts.widest_tile_bytes = list.member.widest_tile_bytes;
  facts.narrowest_tile_bytes = list.member.narrowest_tile_bytes;
}

}  // namespace

int64_t TensorList::elements() const {
  int64_t out = 0;
  for (const ListMember& one : members) out += one.elements;
  return out;
}

int64_t TensorList::blocks(int64_t elements_per_block) const {
  int64_t out = 0;
  for (const ListMember& one : members)
    out += (one.elements + elements_per_block - 1) / elements_per_block;
  return out;
}

bool TensorList::divides(int64_t vector_width) const {
  return std::ranges::all_of(
      members, [&](const ListMember& one) { return one.elements % vector_width == 0; });
}

int64_t list_capacity(int64_t members) {
  return (members + kListCapacityUnit - 1) / kListCapacityUnit * kListCapacityUnit;
}

int64_t list_search_places(int64_t capacity) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)));
}

int64_t list_search_steps(int64_t capacity) {
  int64_t steps = 0;
  for (int64_t left = list_search_places(capacity); left > 1; left /= kListSearchParts) ++steps;
  return steps;
}

int64_t list_argument_bytes(int64_t members, int64_t slots, int64_t shared) {
  constexpr int64_t kWide = 8;    // An address, a number of elements or of blocks.
  constexpr int64_t kNarrow = 4;  // A first block; their number is even.
  const int64_t capacity = list_capacity(members);
  return capacity * (slots + 1) * kWide + list_search_places(capacity) * kNarrow +
         (shared + 1) * kWide;
}

int64_t most_list_members(int64_t slots, int64_t shared) {
  int64_t members = 0;
  while (list_argument_bytes(members + kListCapacityUnit, slots, shared) <= kMostArgumentBytes)
    members += kListCapacityUnit;
  return members;
}

std::vector<ListFound> find_lists(const Fusion& fusion) {
  MemberFinder finder(fusion);
  std::map<std::vector<int64_t>, size_t> kinds;
  std::vector<std::vector<EncodedMember>> lists;
  for (EncodedMember& member : finder.run()) {
    const auto [kind, is_new] = kinds.try_emplace(member.code, lists.size());
    if (is_new) lists.emplace_back();
    lists[kind->second].push_back(std::move(member));
  }
  std::vector<ListFound> out;
  for (std::vector<EncodedMember>& members : lists) {
    if (members.size() >= 2) out.push_back(found_list(fusion, finder, std::move(members)));
  }
  return out;
}

tl::expected<SegmentFacts, Rejection> analyse_list(Fusion fusion) {
  MemberFinder finder(fusion);
  const std::vector<EncodedMember> members = finder.run();
  if (finder.why()) return tl::make_unexpected(*finder.why());
  const auto count = static_cast<double>(members.size());
  if (members.size() < 2)
    return tl::make_unexpected(no_list("a list has two members at least", count, 2, "members"));
  for (const EncodedMember& member : members) {
    if (member.code == members.front().code) continue;
    Rejection rejection = no_list("members differ in more than their sizes", count, 1, "kinds");
    rejection.at = member.outputs.front();
    return tl::make_unexpected(std::move(rejection));
  }
  const auto by_elements = [](const EncodedMember& member) { return member.elements; };
  const int64_t most = std::ranges::max_element(members, {}, by_elements)->elements;
  auto member = analyse(member_graph(fusion, finder, members.front(), most));
  if (!member) return tl::make_unexpected(member.error());

  const std::vector<bool> is_shared = shared_leaves(finder, members);
  auto list = std::make_shared<TensorList>();
  list->member = std::move(*member);
  const Fusion& graph = list->member.fusion;
  for (size_t i = 0; i < is_shared.size(); ++i) {
    if (is_shared[i]) {
      list->shared.push_back({.input = graph.inputs[i], .value = members.front().leaves[i]});
    } else {
      list->slots.push_back(graph.inputs[i]);
    }
  }
  std::vector<bool> has_own(graph.outputs.size(), true);
  for (const InPlace& pair : list->member.in_place) has_own[pair.output] = false;
  for (size_t i = 0; i < has_own.size(); ++i) {
    if (has_own[i]) list->slots.push_back(graph.outputs[i]);
  }
  for (const EncodedMember& one : members) {
    ListMember& made = list->members.emplace_back();
    made.elements = one.elements;
    for (size_t i = 0; i < is_shared.size(); ++i) {
      if (!is_shared[i]) made.tensors.push_back(one.leaves[i]);
    }
    for (size_t i = 0; i < has_own.size(); ++i) {
      if (has_own[i]) made.tensors.push_back(one.outputs[i]);
    }
  }
  SegmentFacts facts;
  facts.fusion = std::move(fusion);
  describe_all(facts, *list);
  facts.list = std::move(list);
  return facts;
}

}  // namespace sinter
