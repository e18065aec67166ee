#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/error.h"

namespace sinter {

// The producer/consumer protocol of a warp-specialised kernel's pipeline, as a value. Lowering
// emits it, and `prove` first shows that no interleaving of warps and copies breaks it.
//
// Item k of n uses pipeline stage k % stages. Each pipeline stage has two mbarriers. `full`
// completes a phase when an item has arrived in the stage, and `empty` when the item's readers have
// released it. Where warps rewrite items before others read them, a third one, `split`, completes a
// phase when they have. So phase k / stages of each belongs to item k. Roles run concurrently, each
// warp of a role on its own. A warp takes the items first, first + step, ... below n, which is
// known at launch only. For every item a warp executes the role's actions in order.
//
// Roles may take turns: each takes `turn_items` items in a row, then the next role does. An
// mbarrier for each of them passes the turn: turn t waits for phase t / turns of the barrier of its
// role, which those of turn t - 1 complete. The first turn waits for nothing, so that its barrier
// is a phase behind. The number of items is a multiple of `turn_items`.
//
// An item is one row, or `item_rows` rows for consumer groups that work on several rows per
// iteration. The number of rows is known at launch only. The last item may have fewer rows, and
// then has actions of its own.

enum class PipelineBarrier : uint8_t {
  kFull,
  kEmpty,
  kSplit,
  kTurn,  ///< A wait is for the item's turn, an arrival passes the turn on.
};

/// For which items of a turn a warp executes an action.
enum class TurnPlace : uint8_t { kAnywhere, kFirst, kAfterFirst, kLast };

enum class ProtocolVerb : uint8_t {
  kWait,     ///< Waits on a barrier of the item's pipeline stage: `full` or `split` for the item,
             ///< `empty` for the item that used the stage before.
  kArrive,   ///< Arrives once at a barrier of the item's pipeline stage.
  kExpect,   ///< Arrives once at `full` and makes its phase wait for `bytes` of copies.
  kCopy,     ///< Starts an asynchronous copy of `bytes` into the pipeline stage; it completes at
             ///< `full`.
  kWrite,    ///< Stores a part of the item into the pipeline stage.
  kRewrite,  ///< Reads a part of the item and stores another one in its place.
  kRead,     ///< Reads the pipeline stage.
  kSync,     ///< Synchronises the warps of the role (a named barrier).
};

struct ProtocolAction {
  ProtocolVerb verb = ProtocolVerb::kRead;
  PipelineBarrier barrier = PipelineBarrier::kFull;  ///< For kWait and kArrive.
  /// A wait is for the phase of parity (item / stages) & 1, or for the other parity if this is set.
  /// A wait for the previous item of the pipeline stage sets it. On a fresh barrier such a wait
  /// passes at once.
  bool other_parity = false;
  bool first_warp_only = false;  ///< Only the role's first warp executes the action.
  /// The action applies to the item this many items later; it is skipped where there is no such
  /// item. A negative offset releases late: -step is the role's previous item.
  int64_t item_offset = 0;
  int64_t bytes = 0;              ///< For kExpect and kCopy; a multiple of 16.
  int64_t row = 0;                ///< Row of the item that the action concerns.
  bool where_row_exists = false;  ///< The action is skipped where the item has no such row.
  bool of_each_row = false;       ///< For kExpect: `bytes` counts for each row of the item.
  TurnPlace place = TurnPlace::kAnywhere;  ///< Of the warp's item, in roles that take turns.
  friend bool operator==(const ProtocolAction&, const ProtocolAction&) = default;
};

struct ProtocolRole {
  std::string name{};
  int64_t first = 0;
  int64_t step = 1;
  int warps = 1;
  std::vector<ProtocolAction> actions{};
  /// Actions for a short item, with fewer than item_rows rows; empty: the same as `actions`.
  std::vector<ProtocolAction> short_actions{};
  /// Items past the last one for which a warp still executes its actions; only those whose offset
  /// names an item that exists do anything.
  int64_t drain = 0;
  bool takes_turns = false;  ///< `first` and `step` count turns, and not items.
  friend bool operator==(const ProtocolRole&, const ProtocolRole&) = default;
};

struct AsyncProtocol {
  int64_t stages = 1;          ///< Pipeline stages; each holds one item.
  int64_t item_rows = 1;       ///< Rows of an item.
  int64_t full_arrivals = 1;   ///< Per phase, besides the announced bytes.
  int64_t empty_arrivals = 1;  ///< Per phase.
  int64_t split_arrivals = 0;  ///< Per phase; 0: nobody rewrites items.
  int64_t turns = 0;           ///< Mbarriers that pass turns on; 0: no role takes turns.
  int64_t turn_items = 1;      ///< Items of a turn.
  int64_t turn_arrivals = 1;   ///< Per phase.
  std::vector<ProtocolRole> roles{};
  friend bool operator==(const AsyncProtocol&, const AsyncProtocol&) = default;
};

/// When a consumer warp releases a pipeline stage.
enum class SlotRelease : uint8_t {
  kEarly,  ///< As soon as the warp holds the item in registers. The stage is refilled while the
           ///< warp computes, at the price of registers.
  kLate,   ///< After the warp has read the item again, after the group's reduction. The item takes
           ///< no registers, but occupies the stage longer.
};

/// One producer and `groups` consumer groups: item k goes to group k % groups. The producer waits
/// until the pipeline stage is empty, announces the bytes of all `copies` of each row and starts
/// the copies. The warps of a group wait for the copies, read, and reduce over the group; each then
/// arrives once at `empty`.
///
/// A group works on all rows of an item in one iteration: it reads all of them before its one
/// reduction. It takes the rows of a short item one by one and releases the item after the last.
///
/// `stages` must be a multiple of `groups`, so that each pipeline stage is read by one group only;
/// `prove` refuses other values. Otherwise a group may come to a stage whose last phase it has not
/// seen. Copies of later items may have landed before the group's first item in that stage. The
/// parity of the wanted phase then equals the parity of the phase before the last, for which a wait
/// passes.
AsyncProtocol pipeline_protocol(int64_t stages, int groups, int warps_per_group,
                                const std::vector<int64_t>& copies, SlotRelease release,
                                int64_t item_rows = 1);

/// One producer and warps that all read every item: products of warp groups, which go on while
/// those of `held` further items are started. A warp waits for the copies of an item and starts to
/// read it; it releases the item that many items later, and the last ones at the end.
///
/// With `splitting` warps, those rewrite each item that has arrived: each its part, then it arrives
/// at `split`. The others wait for the item and for that.
AsyncProtocol product_protocol(int64_t stages, int warps, const std::vector<int64_t>& copies,
                               int64_t held, int splitting = 0);

/// One producer, and `turns` groups of warps that multiply the items of their own tiles, turn_items
/// each, in turns. A warp holds an item until the next product of its turn is started, and passes
/// the turn on when the last item has arrived and its product is started; then it releases that
/// item.
AsyncProtocol turns_protocol(int64_t stages, int64_t turns, int warps_per_group,
                             const std::vector<int64_t>& copies, int64_t turn_items);

/// Warps that store each item together, and warps that read it: those that multiply a tile and
/// those that evaluate it. Each of the former waits until the stage is empty, stores its part and
/// arrives at `full`. Each of the latter waits for the item, reads it and arrives at `empty`.
AsyncProtocol handover_protocol(int64_t stages, int writers, int readers);

/// Blocks that exchange what they know of rows: item k is the tuples of tile k's row, of which each
/// block has one, and all blocks read all of them. A block sends its tuple (stores it in each
/// block's memory) and waits for those of all. Two stages, and no other wait, suffice: who sends
/// item k has read item k - 1, for which every block has sent after it read item k - 2.
AsyncProtocol exchange_protocol(int blocks, int64_t stages = 2);

/// A number of items of a turn for which turns_protocol() is sound if and only if it is for
/// `turn_items`: a turn begins at a stage and a parity that depend on the remainder by 2 * stages
/// alone, and in a turn of two rounds every stage is filled and released within the turn.
int64_t equivalent_turn(int64_t turn_items, int64_t stages);

enum class ProtocolFaultKind : uint8_t {
  kMalformed,        ///< A number is out of range; nothing was run.
  kDeadlock,         ///< No warp can proceed, and not all have finished.
  kOverwrite,        ///< A stage is filled before all readers of its last item have read it.
  kUnfilledRead,     ///< A stage is read before any of the item has arrived, or for a row that the
                     ///< item does not have.
  kHalfFilledRead,   ///< A stage is read before all of the item has arrived, or is rewritten.
  kArrivalOverflow,  ///< An arrival or bytes count towards a phase other than the item's, or a
                     ///< surplus arrival comes while the phase waits for bytes.
  kWrongParity,      ///< A wait passes for a phase other than its own, or misses its own.
  kLeftover,         ///< All have finished, but a phase is incomplete or a copy in flight.
};
std::string_view name_of(ProtocolFaultKind kind);

struct ProtocolFault {
  ProtocolFaultKind kind = ProtocolFaultKind::kMalformed;
  std::string message{};  ///< What is wrong with the last step.
  int64_t items = 0;      ///< Least number of items that shows a fault.
  int64_t rows = 0;       ///< Rows of all these items.
  /// The steps that lead to the faulty one; all are needed.
  std::vector<std::string> interleaving{};
  std::vector<std::string> states{};  ///< State of each role at that point.

  [[nodiscard]] std::string text() const;
  /// The fault as an error of planning or lowering, with the interleaving as its log.
  [[nodiscard]] Error error() const;
};

/// Returns nothing if no interleaving of warps and copies breaks the protocol, for any number of
/// items.
///
/// One interleaving is run for each number of items. The run also records the order that waiting
/// enforces (happened-before, by vector clocks: Mattern, "Virtual time and global states of
/// distributed systems", 1989). Every check asks for this enforced order, not for the order of the
/// run: an item lands before it is read, and is read before it is overwritten; an arrival finds the
/// phase before its own complete; a wait finds the phase two before its own complete and the phase
/// after its own incomplete. If all checks pass, two steps that touch the same pipeline stage or
/// barrier either have the same order in all interleavings, or are arrivals in one phase, whose
/// order makes no difference. Every interleaving is then this one with independent steps exchanged.
/// If a check fails, the steps that happened before it form an interleaving that breaks.
///
/// The checks tie phases to items, so no phase can drift from round to round, and the events around
/// item k depend only on k modulo the period P = lcm(2 * stages, steps, 2 * turns * turn_items). So
/// it is enough to run 0 to P + 3 * stages items, plus the largest item offset: the round that
/// fills the pipeline, one period, and the two rounds after an item that its checks look at. Each
/// number of items is run with every number of rows that its last item may have, and only whole
/// turns are run.
std::optional<ProtocolFault> prove(const AsyncProtocol& protocol);
/// The largest number of items that `prove` runs, with up to item_rows rows in each; 0 for a
/// malformed protocol.
int64_t proved_items(const AsyncProtocol& protocol);

}  // namespace sinter
