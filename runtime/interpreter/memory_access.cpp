#include "runtime/interpreter/memory_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "fusion_ir/error.h"

namespace sinter::interpreter {
namespace {

constexpr int64_t kSectorBytes = 32;
constexpr int64_t kBankBytes = 4;
constexpr size_t kBanks = 32;
/// Widest access of one lane that the machine does at once.
constexpr int64_t kVectorBytes = 16;

bool is_active(uint32_t mask, size_t lane) { return ((mask >> lane) & 1U) != 0; }

void report_bounds(const Access& access, const Extent& extent, int64_t index, size_t lane,
                   FindingLog* log) {
  const bool is_global = access.declaration->space != kir::Space::kShared;
  const int64_t thread = access.site.first_thread + static_cast<int64_t>(lane);
  log->add({.kind = is_global ? FindingKind::kGlobalOutOfBounds : FindingKind::kSharedOutOfBounds,
            .stmt = access.site.stmt,
            .buffer = access.buffer,
            .index = index,
            .block = access.site.block,
            .thread = thread},
           [&] {
             return fmt::format(
                 "thread {} of block {} accesses {} bytes at {}[{}], which has bytes {} to {} "
                 "around element 0",
                 thread, access.site.block, access.bytes, access.declaration->name, index,
                 extent.low, extent.high);
           });
}

void report_misaligned(const Access& access, int64_t needed, int64_t index, size_t lane,
                       FindingLog* log) {
  const int64_t thread = access.site.first_thread + static_cast<int64_t>(lane);
  log->add({.kind = FindingKind::kMisaligned,
            .stmt = access.site.stmt,
            .buffer = access.buffer,
            .index = index,
            .block = access.site.block,
            .thread = thread},
           [&] {
             return fmt::format(
                 "thread {} of block {} accesses {} bytes at {}[{}], which must be aligned to {} "
                 "bytes; element 0 is promised to be aligned to {}",
                 thread, access.site.block, access.bytes, access.declaration->name, index, needed,
                 access.declaration->alignment);
           });
}

template <size_t kBytes>
using Bits = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

// Blocks run on threads of their own, and a kernel with a race must not become a race of the
// interpreter: elements of device memory are read and written whole, as the device does. What is
// misaligned is reported before it comes here, and moved byte by byte.
template <size_t kBytes>
bool is_aligned(const std::byte* address) {
  return std::bit_cast<uintptr_t>(address) % sizeof(Bits<kBytes>) == 0;
}

template <size_t kBytes>
void load_element(std::byte* to, const std::byte* from) {
  if (!is_aligned<kBytes>(from)) {
    std::memcpy(to, from, kBytes);
    return;
  }
  const Bits<kBytes> bits =
      __atomic_load_n(reinterpret_cast<const Bits<kBytes>*>(from), __ATOMIC_RELAXED);
  std::memcpy(to, &bits, kBytes);
}

template <size_t kBytes>
void store_element(std::byte* to, const std::byte* from) {
  if (!is_aligned<kBytes>(to)) {
    std::memcpy(to, from, kBytes);
    return;
  }
  Bits<kBytes> bits;
  std::memcpy(&bits, from, kBytes);
  __atomic_store_n(reinterpret_cast<Bits<kBytes>*>(to), bits, __ATOMIC_RELAXED);
}

template <size_t kBytes>
void gather_elements(std::byte* registers, const std::byte* memory, const LaneAddresses& addresses,
                     uint32_t mask, size_t width) {
  for (size_t k = 0; k < width; ++k) {
    std::byte* to = registers + k * kLanes * kBytes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (mask == kAllLanes || is_active(mask, lane)) {
        load_element<kBytes>(to + lane * kBytes, memory + addresses[lane] + k * kBytes);
      }
    }
  }
}

template <size_t kBytes>
void scatter_elements(std::byte* memory, const std::byte* registers, const LaneAddresses& addresses,
                      uint32_t mask, size_t width) {
  for (size_t k = 0; k < width; ++k) {
    const std::byte* from = registers + k * kLanes * kBytes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (mask == kAllLanes || is_active(mask, lane)) {
        store_element<kBytes>(memory + addresses[lane] + k * kBytes, from + lane * kBytes);
      }
    }
  }
}

/// Passes that the banks need for the words of some lanes, each `bytes` wide.
int64_t passes(const LaneAddresses& addresses, uint32_t mask, size_t first, size_t end,
               int64_t offset, int64_t bytes) {
  std::array<int64_t, kBanks> words;
  size_t count = 0;
  for (size_t lane = first; lane < end; ++lane) {
    if (!is_active(mask, lane)) continue;
    const int64_t address = addresses[lane] + offset;
    for (int64_t word = address / kBankBytes; word <= (address + bytes - 1) / kBankBytes; ++word) {
      if (count < words.size()) words[count++] = word;
    }
  }
  // A bank holds one word until a second, different one asks for it: then count properly.
  std::array<int64_t, kBanks> held;
  held.fill(-1);
  bool is_conflict = false;
  for (size_t i = 0; i < count; ++i) {
    int64_t& bank = held[static_cast<size_t>(words[i]) % kBanks];
    is_conflict |= bank >= 0 && bank != words[i];
    bank = words[i];
  }
  if (!is_conflict) return 1;
  std::sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
  std::array<int64_t, kBanks> wanted{};
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || words[i] != words[i - 1]) ++wanted[static_cast<size_t>(words[i]) % kBanks];
  }
  return *std::max_element(wanted.begin(), wanted.end());
}

}  // namespace

uint32_t lanes_where(const std::byte* condition) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    mask |= static_cast<uint32_t>(condition[i] != std::byte{0}) << i;
  }
  return mask;
}

void copy_active(std::byte* to, const std::byte* from, uint32_t mask, size_t element_bytes) {
  for (; mask != 0; mask &= mask - 1) {
    const size_t at = static_cast<size_t>(std::countr_zero(mask)) * element_bytes;
    std::memcpy(to + at, from + at, element_bytes);
  }
}

uint32_t locate(const Access& access, const Extent& extent, LaneAddresses* addresses,
                FindingLog* log) {
  const int64_t needed = access.any_alignment ? 1 : std::min(kVectorBytes, access.bytes);
  const int64_t lowest_index = extent.low / access.element_bytes;
  const int64_t highest_index = extent.high / access.element_bytes;
  std::array<int64_t, kLanes> indices;
  std::memcpy(indices.data(), access.index, sizeof indices);
  uint32_t inside = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!is_active(access.site.mask, lane)) continue;
    const int64_t index = indices[lane];
    // The indices are compared first, so that their product with the element size cannot overflow.
    const bool near = index >= lowest_index && index < highest_index;
    const int64_t address = near ? index * access.element_bytes : extent.high;
    if (address < extent.low || address + access.bytes > extent.high) [[unlikely]] {
      report_bounds(access, extent, index, lane, log);
      continue;
    }
    (*addresses)[lane] = address;
    inside |= 1U << lane;
    if (((address + extent.misalignment) & (needed - 1)) != 0) [[unlikely]] {
      report_misaligned(access, needed, index, lane, log);
    }
  }
  return inside;
}

void gather(std::byte* registers, const std::byte* memory, const LaneAddresses& addresses,
            uint32_t mask, int64_t element_bytes, int64_t width) {
  const auto count = static_cast<size_t>(width);
  switch (element_bytes) {
    case 1:
      return gather_elements<1>(registers, memory, addresses, mask, count);
    case 2:
      return gather_elements<2>(registers, memory, addresses, mask, count);
    case 4:
      return gather_elements<4>(registers, memory, addresses, mask, count);
    case 8:
      return gather_elements<8>(registers, memory, addresses, mask, count);
  }
  unreachable();
}

void scatter(std::byte* memory, const std::byte* registers, const LaneAddresses& addresses,
             uint32_t mask, int64_t element_bytes, int64_t width) {
  const auto count = static_cast<size_t>(width);
  switch (element_bytes) {
    case 1:
      return scatter_elements<1>(memory, registers, addresses, mask, count);
    case 2:
      return scatter_elements<2>(memory, registers, addresses, mask, count);
    case 4:
      return scatter_elements<4>(memory, registers, addresses, mask, count);
    case 8:
      return scatter_elements<8>(memory, registers, addresses, mask, count);
  }
  unreachable();
}

int64_t sectors_touched(const LaneAddresses& addresses, uint32_t mask, int64_t bytes) {
  // Lanes usually ascend; then each counts the sectors beyond its predecessor's last one.
  std::array<int64_t, kLanes> starts;
  size_t count = 0;
  bool is_sorted = true;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!is_active(mask, lane)) continue;
    is_sorted &= count == 0 || starts[count - 1] <= addresses[lane];
    starts[count++] = addresses[lane];
  }
  const auto end = starts.begin() + static_cast<std::ptrdiff_t>(count);
  if (!is_sorted) std::sort(starts.begin(), end);
  int64_t sectors = 0;
  int64_t counted_to = INT64_MIN;
  for (auto start = starts.begin(); start != end; ++start) {
    // Shifts floor, as offsets below element 0 need.
    constexpr int kSectorShift = std::countr_zero(static_cast<uint64_t>(kSectorBytes));
    const int64_t first = std::max(*start >> kSectorShift, counted_to);
    const int64_t beyond = ((*start + bytes - 1) >> kSectorShift) + 1;
    sectors += std::max<int64_t>(beyond - first, 0);
    counted_to = std::max(counted_to, beyond);
  }
  return sectors;
}

int64_t bank_conflicts(const LaneAddresses& addresses, uint32_t mask, int64_t bytes) {
  const int64_t piece = std::min(bytes, kVectorBytes);
  const size_t lanes_at_once =
      piece <= kBankBytes ? kLanes : static_cast<size_t>(kLanes * kBankBytes / piece);
  int64_t conflicts = 0;
  for (int64_t offset = 0; offset < bytes; offset += piece) {
    for (size_t first = 0; first < kLanes; first += lanes_at_once) {
      conflicts += passes(addresses, mask, first, first + lanes_at_once, offset, piece) - 1;
    }
  }
  return conflicts;
}

}  // namespace sinter::interpreter
