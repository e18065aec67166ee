#include "codegen/passes/place_shared_buffers.h"

#include <gmock/gmock.h>

#include "tests/codegen/passes/small_kernel.h"

namespace sinter::place_shared_buffers_test {

TEST(PlaceSharedBuffersTest, AlignsAndPacksInOrder) {
  kir::Kernel kernel = kernel_of(R"(
  buffer %b2 a : i8 shared readwrite align 16 count 3
  buffer %b3 b : f32 shared readwrite align 128 count 4 offset 0
  buffer %b4 c : f64 shared readwrite align 8 count 2
)");
  kernel = place_shared_buffers(kernel);
  EXPECT_EQ(kernel.buffers[kir::BufferId{2}].offset, 0);
  EXPECT_EQ(kernel.buffers[kir::BufferId{3}].offset, 128);
  EXPECT_EQ(kernel.buffers[kir::BufferId{4}].offset, 144);
  EXPECT_EQ(kir::shared_bytes(kernel), 160);
}

}  // namespace sinter::place_shared_buffers_test
