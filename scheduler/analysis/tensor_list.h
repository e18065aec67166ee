#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// One of several parts of a graph that do the same to tensors of their own.
struct ListMember {
  int64_t elements = 0;          ///< Elements of each of its tensors; may be 0.
  std::vector<ValueId> tensors;  ///< Its values in the graph, in the order of TensorList::slots.
  friend bool operator==(const ListMember&, const ListMember&) = default;
};

/// A multi-tensor apply: a graph that consists of independent members. Members are equal except for
/// the sizes of their tensors, share nothing but scalars, and walk all their tensors from the first
/// element to the last. An optimizer step over the parameters of a model is one. Each block of the
/// kernel looks up the member whose elements it processes, so one kernel handles them all.
struct TensorList {
  /// The work of one member: its graph with tensors of one axis, of the largest member's size.
  /// Scalars have no axis.
  SegmentFacts member;
  /// Inputs and outputs of that graph that differ between members, in order. A scalar is among them
  /// if members read different ones. An output written in place of an input uses that input's slot.
  std::vector<ValueId> slots;
  /// Scalar inputs of that graph that all members share, and their values in the whole graph.
  struct Shared {
    ValueId input;
    ValueId value;
    friend bool operator==(const Shared&, const Shared&) = default;
  };
  std::vector<Shared> shared;
  std::vector<ListMember> members;  ///< At least two, in the order of their first outputs.

  [[nodiscard]] int64_t elements() const;  ///< Sum over the members, for one tensor of each.
  /// Blocks of the grid if each covers `elements_per_block` elements of one member.
  [[nodiscard]] int64_t blocks(int64_t elements_per_block) const;
  /// True if no member ends inside a vector.
  [[nodiscard]] bool divides(int64_t vector_width) const;
};

/// Unit of the table capacity in tensors, so that lists of about the same length share a kernel.
/// Every entry costs its bytes in every launch.
inline constexpr int64_t kListCapacityUnit = 16;
/// Table entries of a list of `members` members.
int64_t list_capacity(int64_t members);
/// Entries of its table of first blocks: a power of two.
int64_t list_search_places(int64_t capacity);
/// Fan-out of a block's search for its member. Each step reads the first blocks of this many parts
/// at once, to keep the chain of dependent reads short.
inline constexpr int64_t kListSearchParts = 8;
/// Search steps until one member is left.
int64_t list_search_steps(int64_t capacity);
/// Bytes of the arguments of a list's kernel: for each entry an address per slot, the number of
/// elements and the first block, the latter for list_search_places() entries; the shared scalars;
/// the number of blocks.
int64_t list_argument_bytes(int64_t members, int64_t slots, int64_t shared);
/// Most members for which the arguments of one kernel have room (kMostArgumentBytes). Less than 2:
/// lists with these slots have no kernel.
int64_t most_list_members(int64_t slots, int64_t shared);

/// Members of one kind, found in a graph that may do other things too.
struct ListFound {
  struct Member {
    std::vector<ValueId> outputs;  ///< In the order of the graph's outputs.
    std::vector<ValueId> tensors;  ///< Its inputs, with scalars of its own.
    int64_t elements = 0;
  };
  std::vector<Member> members;
  std::vector<ValueId> scalars;  ///< Scalars that members read, shared or not.
  int64_t slots = 0;             ///< Slots of the TensorList.
  int64_t shared = 0;            ///< Scalars that all members share.
  int64_t bytes_read = 0;        ///< Of all members' tensors.
  int64_t bytes_written = 0;
  int64_t shared_bytes = 0;  ///< Part of bytes_read that other ops of the graph read too.
};

/// Most ops of a member: more would fill the instruction cache (kMostInstructions), and the
/// analysis would take as long as for a thousand members.
inline constexpr size_t kMostMemberOps = 512;

/// Finds members in a specialised graph: connected parts, through tensors, of pointwise functions,
/// casts and changes of shape that move nothing. They read dense inputs, results of external calls,
/// and scalars. Only the caller reads their results, so they can all run at the end. Two parts that
/// read one tensor are one member. Members of equal structure form a list; a structure that occurs
/// once forms none. Guaranteed alignments and constants are part of the structure. Takes time
/// linear in the graph.
std::vector<ListFound> find_lists(const Fusion& fusion);

/// Analyses a specialised graph that is a single list. The failing side says why it is none: parts
/// that are alone, differ, or share a tensor; a tensor that is strided, or has another number of
/// elements than the rest.
tl::expected<SegmentFacts, Rejection> analyse_list(Fusion fusion);

}  // namespace sinter
