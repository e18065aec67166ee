#include "codegen/passes/predicate_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/passes/passed_kernel.h"

namespace sinter::predicate_loads_test {

using testing::HasSubstr;

// A branch would hold loads back until what stands before it is done, which waits for other loads.
TEST(PredicateLoadsTest, LoadsBehindAConditionAreLoadsUnderAPredicate) {
  const std::string declarations = R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 rows : i64
  buffer %b0 x : f32 global read align 16 value %v0
  buffer %b1 seen : f32 shared readwrite align 16 count 4 offset 0
  var %r0 tile : f32[2][4]
  var %r1 one : f32
  store %b1[0] = %r0[0, 0] width 4
)";
  const auto emitted = [&](const std::string& body) {
    return emitted_after(declarations + body + "}", predicate_loads);
  };
  EXPECT_THAT(
      emitted(R"(if lt(thread_index, 7) {
    %r0[0, 0] = load %b0[cast<i64>(thread_index)] width 4 evict_last
    %r0[1, 2] = load %b0[0:i64] width 2
  })"),
      HasSubstr(
          R"(  load_global_evict_last<4>(tile[0], 0, x + to_i64((int)threadIdx.x), (int)threadIdx.x < 7);
  load_global<2>(tile[1], 2, x, (int)threadIdx.x < 7);
})"));
  // Those that are no loads from memory into tiles stay behind their branch, and so does what asks
  // for an element that a load may overwrite.
  for (const char* kept : {"if lt(thread_index, 7) { %r0[0, 0] = load %b1[0] width 4 }",
                           "if lt(thread_index, 7) { %r1[0, 0] = load %b0[0:i64] width 1 }",
                           "if lt(%r0[0, 0], 0x1p+0) { %r0[0, 0] = load %b0[0:i64] width 4 }",
                           "if lt(thread_index, 7) { %r0[0, 0] = load %b0[0:i64] width 4 } else { "
                           "%r0[0, 0] = load %b0[4:i64] width 4 }",
                           "if lt(thread_index, 7) { %r0[0, 0] = load %b0[0:i64] width 4 "
                           "%r1 = 0x1p+0 }"}) {
    EXPECT_THAT(emitted(kept), HasSubstr("  if (")) << kept;
  }
}

}  // namespace sinter::predicate_loads_test
