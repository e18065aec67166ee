#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/error.h"

namespace sinter {

// Who fills and who empties the ring of a warp-specialised kernel, as a value: lowering emits it,
// and `prove` shows first that no order in which warps and copies may run breaks it.
//
// Item k of n lives in slot k % stages. Each slot has two mbarriers: `full` completes a phase when
// an item has arrived in the slot, `empty` when its readers have left it. So phase k / stages of
// both belongs to item k. Roles run side by side, each warp of a role on its own, and take items
// first, first + step, ... below n, which only the launch knows. For every item a warp does the
// role's actions in order.
//
// An item is one row, or `item_rows` of them, for groups that work on so many side by side. Only
// the launch knows how many rows there are; the last item may have fewer, and actions of its own.

enum class PipelineBarrier : uint8_t { kFull, kEmpty };

enum class ProtocolVerb : uint8_t {
  kWait,    ///< Waits on the barrier of the item's slot: `full` for the item, `empty` for the item
            ///< before it in the slot.
  kArrive,  ///< Arrives once at the barrier of the item's slot.
  kExpect,  ///< Arrives once at `full` and makes its phase wait for `bytes` of copies.
  kCopy,    ///< Starts a copy of `bytes` into the slot, which arrives at `full` in its own time.
  kRead,    ///< Reads the slot.
  kSync,    ///< Waits for the other warps of the role (a named barrier).
};

struct ProtocolAction {
  ProtocolVerb verb = ProtocolVerb::kRead;
  PipelineBarrier barrier = PipelineBarrier::kFull;  ///< Of waits and arrivals.
  /// Waits are for the phase of parity (item / stages) & 1, or for the other one if this is set: so
  /// a wait for the item before in the slot sets it. On a fresh barrier it then does not wait.
  bool other_parity = false;
  bool first_warp_only = false;  ///< The role's other warps leave the action out.
  /// The action is for this many items later; it is left out where there is no such item. Negative
  /// to release late: -step is the item that the role had before.
  int64_t item_offset = 0;
  int64_t bytes = 0;  ///< Of kExpect and kCopy; a multiple of 16.
  int64_t row = 0;    ///< Which row of the item is copied or read, or what others do for it.
  bool where_row_exists = false;  ///< The action is left out where the item has no such row.
  bool of_each_row = false;       ///< Of kExpect: `bytes` are those of each row that the item has.
  friend bool operator==(const ProtocolAction&, const ProtocolAction&) = default;
};

struct ProtocolRole {
  std::string name{};
  int64_t first = 0;
  int64_t step = 1;
  int warps = 1;
  std::vector<ProtocolAction> actions{};
  /// Those for an item of fewer rows than others; empty: the same.
  std::vector<ProtocolAction> short_actions{};
  friend bool operator==(const ProtocolRole&, const ProtocolRole&) = default;
};

struct AsyncProtocol {
  int64_t stages = 1;          ///< Slots of the ring, each for an item.
  int64_t item_rows = 1;       ///< Rows of an item.
  int64_t full_arrivals = 1;   ///< Per phase, besides the announced bytes.
  int64_t empty_arrivals = 1;  ///< Per phase.
  std::vector<ProtocolRole> roles{};
  friend bool operator==(const AsyncProtocol&, const AsyncProtocol&) = default;
};

/// When a compute warp gives a slot back.
enum class SlotRelease : uint8_t {
  kEarly,  ///< As soon as it holds the item in registers: the ring refills while it computes, at
           ///< the price of registers.
  kLate,   ///< After it has read the item again, behind the group's reduction: no registers are
           ///< held, but the slot is.
};

/// One producer and `groups` compute groups: item k goes to group k % groups. The producer waits
/// for the slot, announces the bytes of all `copies` of each row and starts them; the warps of a
/// group wait for them, read, reduce over the group, and each arrives once at `empty`.
///
/// Groups take the rows of an item side by side: all are read before the group reduces, once. A
/// short item they take row by row, and release it when they are done with the last.
///
/// `stages` must be a multiple of `groups`, so that a slot has one group for its readers; `prove`
/// refuses other tables. Else a group may come to a slot whose last phase it has not seen: copies
/// of later items may have landed before the first item in that slot, and the parity of the phase
/// that the group wants is then that of the phase before the last, for which a wait passes.
AsyncProtocol pipeline_protocol(int64_t stages, int groups, int warps_per_group,
                                const std::vector<int64_t>& copies, SlotRelease release,
                                int64_t item_rows = 1);

enum class ProtocolFaultKind : uint8_t {
  kMalformed,        ///< A number is out of range; nothing was run.
  kDeadlock,         ///< No warp can move, and not all have finished.
  kOverwrite,        ///< A slot is filled while what it holds is not read by all who should.
  kUnfilledRead,     ///< A slot is read before any of the item has arrived, or for a row that
                     ///< the item does not have.
  kHalfFilledRead,   ///< A slot is read before all of the item has arrived.
  kArrivalOverflow,  ///< An arrival or bytes count towards another phase than the item's, or one
                     ///< arrival too many comes while the phase waits for bytes.
  kWrongParity,      ///< A wait passes for another phase than the one it is for, or misses it.
  kLeftover,         ///< All have finished, but a phase is left half-way or a copy under way.
};
std::string_view name_of(ProtocolFaultKind kind);

struct ProtocolFault {
  ProtocolFaultKind kind = ProtocolFaultKind::kMalformed;
  std::string message{};                    ///< What the last step does wrong.
  int64_t items = 0;                        ///< The fewest that show a fault,
  int64_t rows = 0;                         ///< of so many rows in all.
  std::vector<std::string> interleaving{};  ///< Steps, all of them needed, up to the faulty one.
  std::vector<std::string> states{};        ///< Where each role stands then.

  [[nodiscard]] std::string text() const;
  /// As a failure of planning or lowering; the interleaving is its log.
  [[nodiscard]] Error error() const;
};

/// Nothing if no interleaving of warps and copies breaks the protocol, for any number of items.
///
/// One interleaving is run for each number of items, and with it the order that waiting enforces
/// (happened-before, by vector clocks: Mattern, "Virtual time and global states of distributed
/// systems", 1989). Every check asks for that order and not for the one that was run: an item lands
/// before it is read, is read before it is overwritten, an arrival finds the phase before its own
/// complete, and a wait the phase two before its own complete and the one after it not. Where all
/// pass, steps that touch the same slot or barrier either have one order in all interleavings or
/// are arrivals in one phase, whose order does not show: all interleavings are this one with
/// independent steps exchanged. Where one fails, the steps that happened before it are an
/// interleaving that breaks.
///
/// The checks hold phases to those of the items, so nothing drifts from round to round, and what
/// happens around item k depends on k modulo the period P = lcm(2 * stages, steps) only. So numbers
/// of items from 0 to P + 3 * stages plus the largest item offset are all: the round that fills the
/// ring, one period, and the two rounds after an item that its checks look at. Each number is run
/// with every number of rows that its last item may have.
std::optional<ProtocolFault> prove(const AsyncProtocol& protocol);
/// The largest number of items that `prove` runs, with up to item_rows rows in each; 0 for a
/// malformed protocol.
int64_t proved_items(const AsyncProtocol& protocol);

}  // namespace sinter
