#include "codegen/passes/split_vector_accesses.h"

#include <gmock/gmock.h>

#include "tests/codegen/passes/small_kernel.h"

namespace sinter::split_vector_accesses_test {

TEST(SplitVectorAccessesTest, CutsWhatIsWiderThanSixteenBytes) {
  const kir::Kernel kernel = kernel_of(R"(
  var %r0 t : f32[1][8]
  if lt(%p0, 5:i64) {
    %r0[0, 0] = load %b0[add(thread_index, 2)] width 8 evict_last
  }
  store %b1[%p0] = %r0[0, 0] width 8
)");
  EXPECT_EQ(body_of(split_vector_accesses(kernel)), R"(  var %r0 t : f32[1][8]
  if lt(%p0, 5:i64) {
    %r0[0, 0] = load %b0[add(thread_index, 2)] width 4 evict_last
    %r0[0, 4] = load %b0[add(thread_index, 6)] width 4 evict_last
  }
  store %b1[%p0] = %r0[0, 0] width 8
}
)");
}

}  // namespace sinter::split_vector_accesses_test
