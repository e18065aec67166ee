// How the lanes of a warp load and multiply matrices together: the members of BlockExecutor that
// concern LoadMatrix, Mma and Wgmma.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {

using kir::LoadMatrix;

void BlockExecutor::load_matrices(Warp* warp, const Instruction& instruction) {
  check_converged(FindingKind::kDivergentMatrix, *warp, instruction);
  SharedMemory& shared = shared_[warp->rank];
  const size_t size = instruction.element_bytes;
  const auto named = static_cast<uint32_t>(LoadMatrix::kRows * instruction.width);
  Access access = access_of(warp, instruction, instruction.buffer, instruction.a);
  access.bytes = LoadMatrix::kRowBytes;
  if (named < kLanes) access.site.mask &= (1U << named) - 1;
  LaneAddresses rows{};
  const uint32_t inside = shared.read_for_others(access, &rows);

  // What a lane receives comes from one row, or transposed each element from a row of its own.
  const size_t elements = kir::kFragmentBytes / size;
  const size_t at_once = instruction.transpose ? 1 : elements;
  access.bytes = static_cast<int64_t>(at_once * size);
  std::byte* result = warp->at(instruction.result);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((warp->mask >> lane) & 1U) == 0) continue;
    for (size_t j = 0; j < static_cast<size_t>(instruction.width) * elements; j += at_once) {
      const size_t matrix = j / elements;
      const size_t row = instruction.transpose ? 2 * (lane % 4) + j % elements : lane / 4;
      const size_t column = instruction.transpose ? lane / 4 : lane % 4 * elements;
      const size_t source = LoadMatrix::kRows * matrix + row;
      const bool is_inside = ((inside >> source) & 1U) != 0;
      const int64_t from = rows[source] + static_cast<int64_t>(column * size);
      if (is_inside) shared.read_by(static_cast<int>(lane), access, from);
      for (size_t k = 0; k < at_once; ++k) {
        std::byte* to = result + ((j + k) * kLanes + lane) * size;
        if (is_inside) {
          std::memcpy(to, shared.data() + from + k * size, size);
        } else {
          std::memset(to, 0, size);
        }
      }
    }
  }
}

void BlockExecutor::multiply_matrices(Warp* warp, const Instruction& instruction) {
  check_converged(FindingKind::kDivergentMatrix, *warp, instruction);
  const size_t register_bytes = kLanes * size_t{instruction.element_bytes};
  std::array<std::byte, kLanes * kir::Mma::kAccumulatorGroups * kir::Mma::kAccumulatorLanes * 4>
      sum;
  std::byte* accumulator = warp->at(instruction.result);
  std::memcpy(sum.data(), accumulator, sum.size());
  instruction.function(sum.data(), warp->at(instruction.a), warp->at(instruction.b), nullptr);
  for (size_t at = 0; at < sum.size(); at += register_bytes)
    copy_active(accumulator + at, sum.data() + at, warp->mask, instruction.element_bytes);
}

// ---- Products of a warp group. Each warp takes its part by itself: 16 rows of the left operand,
// and all of the right one.

namespace {

/// Rows of 32 bytes each as the registers that mma_lanes() reads: 16 of a left operand, or 8
/// columns of a right one.
std::vector<std::byte> fragment_of(const std::byte* rows, size_t count, size_t size) {
  const size_t eights = count / 8;
  const size_t elements = kir::kFragmentBytes / size;
  std::vector<std::byte> registers(count * kir::Wgmma::kDepthBytes);
  for (size_t i = 0; i < 2 * eights; ++i) {
    for (size_t e = 0; e < elements; ++e) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const size_t row = lane / 4 + 8 * (i % eights);
        const size_t byte = 4 * (lane % 4) + 16 * (i / eights) + e * size;
        std::memcpy(registers.data() + ((i * elements + e) * kLanes + lane) * size,
                    rows + row * kir::Wgmma::kDepthBytes + byte, size);
      }
    }
  }
  return registers;
}

}  // namespace

void BlockExecutor::start_product(Warp* warp, const Instruction& instruction) {
  constexpr int64_t kOwnRows = kir::Wgmma::kRows / 4;
  const auto& stmt = std::get<kir::Wgmma>(kernel_.stmts[instruction.stmt].kind);
  join_group(warp, instruction);
  const ElementRange sums{.first = instruction.c, .count = instruction.width};
  const auto* in_registers = std::get_if<kir::RegisterMatrix>(&stmt.left);
  ElementRange operand;
  check_fenced(*warp, instruction, sums, stmt.accumulator);
  if (in_registers != nullptr) {
    const int64_t lanes = kernel_.vars[in_registers->tile].lanes;
    operand = {.first = instruction.d,
               .count = static_cast<int32_t>(kir::Mma::kLeftGroups * lanes)};
    check_fenced(*warp, instruction, operand, in_registers->tile);
  }
  for (const PendingProduct& other : warp->products) {
    // No tile is both: accumulators have groups of another size.
    if (sums.meets(other.sums) && sums != other.sums) report_pending(*warp, instruction, true);
  }
  SharedMemory& shared = shared_[warp->rank];
  const uint32_t reads = shared.start_product(warp->first_actor);
  warp->products.push_back({.sums = sums, .left = operand, .reads = reads});

  const int64_t row = warp->first_thread % kir::kWarpGroup / kLanes * kOwnRows;
  const auto right_size = static_cast<size_t>(bytes_of(kernel_.buffers[stmt.right.buffer].type));
  const std::vector<std::byte> columns = read_matrix(
      *warp, instruction, stmt.right, warp->at(instruction.b), {0, stmt.columns}, reads);
  std::vector<std::byte> shared_left;
  if (const auto* matrix = std::get_if<kir::SharedMatrix>(&stmt.left)) {
    const std::vector<std::byte> rows =
        read_matrix(*warp, instruction, *matrix, warp->at(instruction.a), {row, kOwnRows}, reads);
    const DType type = kernel_.buffers[matrix->buffer].type;
    shared_left = fragment_of(rows.data(), kOwnRows, static_cast<size_t>(bytes_of(type)));
  }
  const std::byte* left = in_registers != nullptr ? warp->at(instruction.a) : shared_left.data();
  const size_t register_bytes = kLanes * size_t{instruction.element_bytes};
  std::array<std::byte, kLanes * kir::Mma::kAccumulatorGroups * kir::Mma::kAccumulatorLanes * 4>
      sum;
  for (size_t column = 0; column < static_cast<size_t>(stmt.columns); column += 8) {
    const std::vector<std::byte> right =
        fragment_of(columns.data() + column * kir::Wgmma::kDepthBytes, 8, right_size);
    std::byte* accumulator = warp->at(instruction.result) + column / 8 * sum.size();
    std::memcpy(sum.data(), accumulator, sum.size());
    if (stmt.replaces) sum.fill(std::byte{0});
    instruction.function(sum.data(), left, right.data(), nullptr);
    for (size_t at = 0; at < sum.size(); at += register_bytes)
      copy_active(accumulator + at, sum.data() + at, warp->mask, instruction.element_bytes);
  }
}

std::vector<std::byte> BlockExecutor::read_matrix(const Warp& warp, const Instruction& instruction,
                                                  const kir::SharedMatrix& matrix,
                                                  const std::byte* index,
                                                  std::array<int64_t, 2> first_and_count,
                                                  uint32_t reads) {
  constexpr int64_t kChunk = 16;
  const auto [first, count] = first_and_count;
  const auto& stmt = std::get<kir::Wgmma>(kernel_.stmts[instruction.stmt].kind);
  const kir::Buffer& buffer = kernel_.buffers[matrix.buffer];
  const int64_t size = bytes_of(buffer.type);
  const int64_t lane = std::countr_zero(warp.mask);
  const auto at = value_of<int64_t>(index, static_cast<int>(lane));
  std::vector<std::byte> rows(static_cast<size_t>(count * kir::Wgmma::kDepthBytes));
  const auto report = [&](FindingKind kind, std::string_view problem) {
    log_->add({.kind = kind,
               .stmt = instruction.stmt,
               .buffer = matrix.buffer,
               .index = at,
               .block = block_of(warp),
               .thread = warp.first_thread + lane},
              [&] {
                return fmt::format("thread {} of block {} multiplies a matrix at {}[{}], {}",
                                   warp.first_thread + lane, block_of(warp), buffer.name, at,
                                   problem);
              });
    return rows;
  };
  const int64_t own = &matrix == &stmt.right ? stmt.columns : kir::Wgmma::kRows;
  const int64_t behind = at % (matrix.period() / size);
  if (at < 0 || at >= buffer.count ||
      at - behind + matrix.elements_spanned(own, size) > buffer.count) {
    return report(FindingKind::kSharedOutOfBounds,
                  fmt::format("which is not within the {} elements", buffer.count));
  }
  const int64_t room = matrix.transposed ? 0 : matrix.swizzle - kir::Wgmma::kDepthBytes;
  if (behind * size > room || behind * size % kir::Wgmma::kDepthBytes != 0 ||
      buffer.offset % matrix.period() != 0) {
    return report(FindingKind::kMisaligned,
                  fmt::format("which is at no multiple of {} bytes", matrix.period()));
  }
  SharedMemory& shared = shared_[warp.rank];
  const Access access{.site = site_of(warp, instruction, warp.mask),
                      .buffer = matrix.buffer,
                      .declaration = &buffer,
                      .index = index,
                      .element_bytes = size,
                      .bytes = kChunk};
  // Chunks lie along a line.
  const int64_t step = kChunk / size;
  const int64_t depth = kir::Wgmma::kDepthBytes / size;
  for (int64_t i = 0; i < count; i += matrix.transposed ? step : 1) {
    for (int64_t k = 0; k < depth; k += matrix.transposed ? 1 : step) {
      const int64_t place = at + matrix.offset_of(first + i, k, size);
      const int64_t address = kir::swizzled(buffer.offset + place * size, matrix.swizzle);
      shared.read_for_product(reads, access, address);
      const std::byte* chunk = shared.data() + address;
      std::byte* row = rows.data() + i * kir::Wgmma::kDepthBytes + k * size;
      for (int64_t j = 0; j < step; ++j) {
        const int64_t to = matrix.transposed ? j * kir::Wgmma::kDepthBytes : j * size;
        std::memcpy(row + to, chunk + j * size, static_cast<size_t>(size));
      }
    }
  }
  return rows;
}

void BlockExecutor::check_fenced(const Warp& warp, const Instruction& instruction,
                                 const ElementRange& range, kir::VarId tile) {
  const auto first = warp.unfenced.begin() + range.first;
  if (std::find(first, first + range.count, 1) == first + range.count) return;
  log_->add({.kind = FindingKind::kProductUnfenced,
             .stmt = instruction.stmt,
             .block = block_of(warp),
             .thread = warp.first_thread},
            [&] {
              return fmt::format(
                  "thread {} of block {} has written {}, and no fence follows before the product",
                  warp.first_thread, block_of(warp), kernel_.vars[tile].name);
            });
}

void BlockExecutor::join_group(Warp* warp, const Instruction& instruction) {
  check_converged(FindingKind::kDivergentMatrix, *warp, instruction);
  warp->group_work = warp->group_work * 31 + instruction.stmt.index + 1;
}

void BlockExecutor::commit_products(Warp* warp) {
  ++warp->product_groups;
  for (PendingProduct& product : warp->products) {
    if (product.group == 0) product.group = warp->product_groups;
  }
}

void BlockExecutor::finish_products(Warp* warp, int64_t pending) {
  std::erase_if(warp->products, [&](const PendingProduct& product) {
    const bool is_awaited = product.group != 0 && product.group <= warp->product_groups - pending;
    if (is_awaited) shared_[warp->rank].finish_product(product.reads);
    return is_awaited;
  });
}

void BlockExecutor::touch_product(Warp* warp, const Instruction& instruction) {
  const ElementRange element{.first = instruction.a, .count = 1};
  if (instruction.opcode == Opcode::kWriteOfProduct)
    warp->unfenced[static_cast<size_t>(element.first)] = 1;
  const bool is_pending = std::ranges::any_of(warp->products, [&](const PendingProduct& product) {
    return element.meets(product.sums) || element.meets(product.left);
  });
  if (is_pending) report_pending(*warp, instruction, false);
}

void BlockExecutor::report_pending(const Warp& warp, const Instruction& instruction,
                                   bool in_product) {
  log_->add({.kind = FindingKind::kProductPending,
             .stmt = instruction.stmt,
             .block = block_of(warp),
             .thread = warp.first_thread,
             .count = std::popcount(warp.mask)},
            [&] {
              return fmt::format(
                  "thread {} of block {} uses registers{} of a product that it has not awaited",
                  warp.first_thread, block_of(warp), in_product ? ", for other columns," : "");
            });
}

void BlockExecutor::check_products(const Warp& warp) {
  if (warp.products.empty()) return;
  log_->add({.kind = FindingKind::kAsyncNeverAwaited,
             .block = block_of(warp),
             .thread = warp.first_thread},
            [&] {
              return fmt::format(
                  "thread {} of block {} ends with {} products that it never awaited",
                  warp.first_thread, block_of(warp), warp.products.size());
            });
}

}  // namespace sinter::interpreter
