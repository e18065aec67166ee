#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "scheduler/budgets/resources.h"
#include "scheduler/families/matmul.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/pipeline.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter {

/// A schedule of the family `matmul` for ScheduledKernel's device.
struct ProductSchedule {
  int64_t rows, columns;  ///< Of a tile.
  int64_t row_warps, column_warps = 1;
  int64_t depth = 16, stages = 2;
  /// Blocks of a producer and warp groups; 0: all warps copy and multiply.
  int64_t persistent_blocks = 0;
  int64_t cluster = 1;
  int64_t at_once = 1;  ///< Tiles on which a block works, each by warp groups of its own.
  int64_t width = 2;
  int64_t epilogue_warps = 0;
  ExchangeKind exchange = ExchangeKind::kCluster;

  [[nodiscard]] Schedule schedule() const {
    const int64_t threads = 32 * row_warps * column_warps;
    const int64_t registers =
        persistent_blocks == 0 ? 0
        : epilogue_warps > 3   ? 160
        : epilogue_warps > 0   ? 184
                               : raised_register_cap(*find_device("H200"), threads * at_once,
                                                     kProducerThreads, kMatmulProducerRegisters, 1);
    return {.family = std::string(kMatmul),
            .parameters = MatmulParameters{.tile_rows = rows,
                                           .tile_columns = columns,
                                           .tile_depth = depth,
                                           .row_warps = row_warps,
                                           .pipeline_stages = stages,
                                           .cluster_size = cluster,
                                           .exchange = exchange,
                                           .consumer_registers = registers,
                                           .epilogue_warps = epilogue_warps},
            .threads_per_row = threads,
            .rows_per_block = at_once,
            .vector_width = width,
            .persistent_blocks = persistent_blocks,
            .row_access = width == 1 ? RowAccess::kScalar : RowAccess::kAligned};
  }
};

/// Schedules whose tiles other warps evaluate than those that multiply: up to seven of them, which
/// take whole chunks of 16 bytes, and tiles of one warp group and of two instructions.
inline constexpr std::array kEpilogueSchedules = {
    ProductSchedule{
        .rows = 128, .columns = 256, .row_warps = 8, .persistent_blocks = 2, .epilogue_warps = 3},
    ProductSchedule{.rows = 64,
                    .columns = 128,
                    .row_warps = 4,
                    .stages = 3,
                    .persistent_blocks = 1,
                    .epilogue_warps = 1},
    ProductSchedule{
        .rows = 256, .columns = 64, .row_warps = 8, .persistent_blocks = 1, .epilogue_warps = 2},
    ProductSchedule{.rows = 128,
                    .columns = 128,
                    .row_warps = 8,
                    .depth = 32,
                    .persistent_blocks = 3,
                    .epilogue_warps = 7},
    ProductSchedule{
        .rows = 128, .columns = 256, .row_warps = 8, .persistent_blocks = 1, .epilogue_warps = 7},
};

/// True if every warp of the epilogue has rows of each warp group, where a row has so many chunks
/// of 16 bytes. Up to eight lanes have a row.
inline bool has_rows_for_all(const ProductSchedule& schedule, int64_t chunks) {
  const auto lanes = std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(chunks)), 8);
  return 64 * static_cast<int64_t>(lanes) / 32 >= schedule.epilogue_warps;
}

/// Extents of a product x[batches, m, k] w[batches, n, k] transposed.
struct ProductExtents {
  size_t m, n, k = 24, batches = 1;
};

/// The product of the first two inputs.
inline std::vector<float> product_of(const ScheduledKernel::Tensors& in,
                                     const ProductExtents& extents) {
  const auto [m, n, k, batches] = extents;
  std::vector<float> out;
  for (size_t row = 0; row < batches * m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      float sum = 0.0F;
      const float* const right = &in[1][(row / m * n + column) * k];
      for (size_t i = 0; i < k; ++i) sum += in[0][row * k + i] * right[i];
      out.push_back(sum);
    }
  }
  return out;
}

}  // namespace sinter
