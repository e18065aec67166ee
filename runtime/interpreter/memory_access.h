#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/bytecode.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// For each lane a byte offset from element 0 of a buffer, or from the start of shared memory.
using LaneAddresses = std::array<int64_t, kLanes>;

inline constexpr uint32_t kAllLanes = 0xffff'ffffU;

/// What one lane holds in a register.
template <class T>
[[nodiscard]] T value_of(const std::byte* reg, int lane) {
  T value;
  std::memcpy(&value, reg + static_cast<size_t>(lane) * sizeof value, sizeof value);
  return value;
}

/// Lanes in which a register of bools holds true.
[[nodiscard]] uint32_t lanes_where(const std::byte* condition);

/// Copies what the lanes in `mask` hold from one register to another.
void copy_active(std::byte* to, const std::byte* from, uint32_t mask, size_t element_bytes);

/// Which lanes of which warp execute a memory instruction.
struct WarpSite {
  kir::StmtId stmt{};
  int64_t block = 0;
  int64_t first_thread = 0;  ///< Thread number of lane 0 within its block.
  int64_t first_actor = 0;   ///< The same within its cluster (happens_before.h).
  uint32_t mask = kAllLanes;
};

/// One warp-wide access: lane l touches `bytes` bytes from element index[l] of a buffer.
struct Access {
  WarpSite site{};
  kir::BufferId buffer{};
  const kir::Buffer* declaration = nullptr;
  int64_t tensor = 0;                ///< Of a table; the same for all lanes.
  const std::byte* index = nullptr;  ///< A register of i64.
  int64_t element_bytes = 4;
  int64_t bytes = 4;
  bool any_alignment = false;  ///< Of a tensor copy, whose boxes may begin at any element.
};

/// The bytes an access may touch, as offsets from element 0, and the address of element 0 modulo
/// 16 that is worst for alignment.
struct Extent {
  int64_t low = 0;
  int64_t high = 0;
  int64_t misalignment = 0;
};

/// Works out where each active lane goes. Reports lanes that leave the extent and lanes that are
/// misaligned; returns the mask of those that stay inside.
[[nodiscard]] uint32_t locate(const Access& access, const Extent& extent, LaneAddresses* addresses,
                              FindingLog* log);

/// Moves `width` elements for each lane in `mask` between memory and consecutive registers.
/// `memory` is what addresses count from.
void gather(std::byte* registers, const std::byte* memory, const LaneAddresses& addresses,
            uint32_t mask, int64_t element_bytes, int64_t width);
void scatter(std::byte* memory, const std::byte* registers, const LaneAddresses& addresses,
             uint32_t mask, int64_t element_bytes, int64_t width);

/// Different 32-byte sectors that one warp-wide access touches.
[[nodiscard]] int64_t sectors_touched(const LaneAddresses& addresses, uint32_t mask, int64_t bytes);

/// Passes over shared memory beyond those an access of this width needs at least. 32 banks serve
/// one 4-byte word each per pass; lanes that want the same word share it. Accesses of 8 and 16
/// bytes per lane are served half a warp and a quarter of a warp at a time (CUDA C++ programming
/// guide, "Shared Memory").
[[nodiscard]] int64_t bank_conflicts(const LaneAddresses& addresses, uint32_t mask, int64_t bytes);

}  // namespace sinter::interpreter
