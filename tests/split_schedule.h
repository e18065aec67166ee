#pragma once

#include "scheduler/families/matmul.h"

namespace sinter {

/// A schedule of f32 in three products by two warp groups, by tiles of so many rows, columns and
/// elements of the contracted axis.
inline Schedule split_schedule(int64_t rows, int64_t columns, int64_t depth, int64_t stages,
                               int64_t persistent_blocks) {
  return {.family = std::string(kMatmul),
          .parameters = MatmulParameters{.tile_rows = rows,
                                         .tile_columns = columns,
                                         .tile_depth = depth,
                                         .row_warps = 8,
                                         .pipeline_stages = stages,
                                         .consumer_registers = 208},
          .threads_per_row = 256,
          .vector_width = 2,
          .persistent_blocks = persistent_blocks};
}

}  // namespace sinter
