#pragma once

#include <algorithm>

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
                                           .consumer_registers = registers,
                                           .epilogue_warps = epilogue_warps},
            .threads_per_row = threads,
            .rows_per_block = at_once,
            .vector_width = width,
            .persistent_blocks = persistent_blocks,
            .row_access = width == 1 ? RowAccess::kScalar : RowAccess::kAligned};
  }
};

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
