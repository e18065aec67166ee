#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// One of the parts of a graph that do the same to tensors of their own.
struct ListMember {
  int64_t elements = 0;          ///< Of each of its tensors; may be 0.
  std::vector<ValueId> tensors;  ///< By slot, in the graph: as TensorList::slots.
  friend bool operator==(const ListMember&, const ListMember&) = default;
};

/// A graph that falls apart into members: parts that are equal but for the sizes of their tensors,
/// share nothing but scalars, and walk all their tensors from the first element to the last. What
/// an optimizer does to the parameters of a model is one. A block of the kernel looks up whose
/// elements it has, so one kernel does them all.
struct TensorList {
  /// What is done to one of them: the graph of a member whose tensors have one axis, of the largest
  /// member's size. Scalars have none.
  SegmentFacts member;
  /// Inputs and outputs of that graph that differ from member to member, in their order. A scalar
  /// is among them where members read different ones. An output written in place of an input has
  /// that one's.
  std::vector<ValueId> slots;
  /// Inputs of that graph that all members share, which are scalars, and what they are in the
  /// graph.
  struct Shared {
    ValueId input;
    ValueId value;
    friend bool operator==(const Shared&, const Shared&) = default;
  };
  std::vector<Shared> shared;
  std::vector<ListMember> members;  ///< At least two, in the order of their first outputs.

  [[nodiscard]] int64_t elements() const;  ///< Of one tensor of each.
  /// Blocks that take so many elements of one member each.
  [[nodiscard]] int64_t blocks(int64_t elements_per_block) const;
  /// True if no member ends inside of a vector.
  [[nodiscard]] bool divides(int64_t vector_width) const;
};

/// Tables have places for a multiple of so many tensors, so that lists of about the same length run
/// one kernel. A place costs its bytes in every launch.
inline constexpr int64_t kListCapacityUnit = 16;
/// Places in the tables of a list of so many members.
int64_t list_capacity(int64_t members);
/// First blocks that its table has: a power of two.
int64_t list_search_places(int64_t capacity);
/// Parts into which a block cuts the members that it may have, in one step of its search: their
/// first blocks are read at once, so that few reads wait for each other.
inline constexpr int64_t kListSearchParts = 8;
/// Steps until one is left.
int64_t list_search_steps(int64_t capacity);
/// Bytes of the arguments of a list's kernel: for each place an address by slot, the number of
/// elements and the first block, the latter for list_search_places(); the shared scalars; the
/// number of blocks.
int64_t list_argument_bytes(int64_t members, int64_t slots, int64_t shared);
/// Members that the arguments of one kernel have room for (kMostArgumentBytes); less than 2: lists
/// of these slots have no kernel.
int64_t most_list_members(int64_t slots, int64_t shared);

/// Outputs of members of one kind, in a graph that may do other things too.
struct ListFound {
  struct Member {
    std::vector<ValueId> outputs;  ///< In the order of the graph's.
    std::vector<ValueId> tensors;  ///< What it reads, scalars of its own too.
    int64_t elements = 0;
  };
  std::vector<Member> members;
  std::vector<ValueId> scalars;  ///< That members read, of their own or shared.
  int64_t slots = 0;             ///< Of TensorList.
  int64_t shared = 0;            ///< Scalars that all share.
  int64_t bytes_read = 0;        ///< Of all members' tensors.
  int64_t bytes_written = 0;
  int64_t shared_bytes = 0;  ///< Of those read, what other ops of the graph read as well.
};

/// Ops that a member has at most: more would fill the instruction cache (kMostInstructions), and
/// finding out would take as long as for a thousand others.
inline constexpr size_t kMostMemberOps = 512;

/// Finds members in a specialised graph: connected parts, through tensors, of pointwise functions,
/// casts and changes of shape that move nothing. They read inputs, which are dense, results of
/// external calls, and scalars; nothing but the caller reads what they make, so that they can all
/// run at the end. Two that read one tensor are one. Members of one structure are one list; a
/// structure that occurs once is none; promised alignments and constants are part of it. Takes time
/// linear in the graph.
std::vector<ListFound> find_lists(const Fusion& fusion);

/// Analyses a specialised graph that is one list and nothing else. The failing side says why it is
/// none: parts that are alone, differ, or share a tensor; a tensor that is strided, or of other
/// elements than the rest.
tl::expected<SegmentFacts, Rejection> analyse_list(Fusion fusion);

}  // namespace sinter
