#include "codegen/lower/element_tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "fusion_ir/fusion_builder.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::element_tile_test {

/// a - b, whose operands cannot be swapped.
Fusion difference(Shape shape) {
  FusionBuilder b("difference");
  const ValueId x = b.input(DType::kF32, shape, "x");
  const ValueId y = b.input(DType::kF32, std::move(shape), "y");
  b.output(b.sub(x, y), "z");
  return b.build();
}

/// Tensors that end within the last tile: at a vector, within one, and with the tile.
TEST(ElementTile, TheLastTileEndsWithTheTensor) {
  constexpr int64_t kThreads = 32;
  for (const int64_t width : {1, 4}) {
    for (const int64_t unroll : {1, 3}) {
      const int64_t tile = kThreads * width * unroll;
      for (const int64_t count : {width, tile - width, tile - 1, tile, tile + 1, 2 * tile - 3}) {
        const Schedule schedule{.family = "pointwise",
                                .threads_per_row = kThreads,
                                .vector_width = width,
                                .unroll = unroll};
        ScheduledKernel(difference({count}), schedule)
            .expect_outputs(
                [](const ScheduledKernel::Tensors& in) -> ScheduledKernel::Tensors {
                  std::vector<float> z = in[0];
                  std::ranges::transform(z, in[1], z.begin(), std::minus{});
                  return {z};
                },
                1);
      }
    }
  }
}

}  // namespace sinter::element_tile_test
