#include "codegen/passes/remove_dead_statements.h"

#include <gmock/gmock.h>

#include "tests/codegen/passes/small_kernel.h"

namespace sinter::remove_dead_statements_test {

using testing::HasSubstr;

/// Other threads find what it leaves, whether or not its own asks what was there.
TEST(RemoveDeadStatementsTest, KeepsAtomicCountsThatNobodyReads) {
  const auto kernel = parse_kernel(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 counters : i32 global readwrite align 4
  var %r0 drawn : i32
  let %r1 unread : i32 = 7
  %r0 = atomic_count %b0[0] last 3
}
)");
  ASSERT_TRUE(kernel) << kernel.error().text();
  const std::string kept = print(remove_dead_statements(*kernel));
  EXPECT_THAT(kept, HasSubstr("= atomic_count %b0[0] last 3"));
  EXPECT_THAT(kept, testing::Not(HasSubstr("let %r1")));
}

TEST(RemoveDeadStatementsTest, MatricesLiveWithTheirProducts) {
  const auto kernel = parse_kernel(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 y : f32 global write align 16
  buffer %b1 s : bf16 shared readwrite align 16 count 512
  var %r0 a : bf16[4][2]
  var %r1 b : bf16[2][2]
  var %r2 sum : f32[2][2]
  var %r3 unread : bf16[4][2]
  var %r4 unread_sum : f32[2][2]
  async_commit
  load_matrix %r0[0] = %b1[0] matrices 4
  load_matrix %r1[0] = %b1[0] matrices 2
  load_matrix %r3[0] = %b1[0] matrices 4
  mma %r2[0] left %r0[0] right %r1[0]
  mma %r4[0] left %r3[0] right %r1[0]
  store %b0[0] = %r2[0, 0] width 2
}
)");
  ASSERT_TRUE(kernel) << kernel.error().text();
  const std::string kept = print(remove_dead_statements(*kernel));
  for (const char* text : {"async_commit", "load_matrix %r0", "load_matrix %r1", "mma %r2"})
    EXPECT_THAT(kept, HasSubstr(text));
  for (const char* text : {"load_matrix %r3", "mma %r4"})
    EXPECT_THAT(kept, testing::Not(HasSubstr(text)));
}

TEST(RemoveDeadStatementsTest, ProductsOfWarpGroupsLiveWithTheirSums) {
  const auto kernel = parse_kernel(R"(kernel @k threads 128 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 y : f32 global write align 16
  buffer %b1 s : bf16 shared readwrite align 1024 count 4096
  var %r0 sum : f32[2][2]
  var %r1 unread : f32[2][2]
  wgmma_fence
  wgmma %r0[0] columns 8 left %b1[0] swizzle 128 groups 512 right %b1[0] swizzle 128 groups 512
  wgmma %r1[0] columns 8 left %b1[0] swizzle 128 groups 512 right %b1[0] swizzle 128 groups 512
  wgmma_commit
  wgmma_wait pending 0
  store %b0[0] = %r0[0, 0] width 2
}
)");
  ASSERT_TRUE(kernel) << kernel.error().text();
  const std::string kept = print(remove_dead_statements(*kernel));
  for (const char* text : {"wgmma %r0", "wgmma_fence", "wgmma_commit", "wgmma_wait pending 0"})
    EXPECT_THAT(kept, HasSubstr(text));
  EXPECT_THAT(kept, testing::Not(HasSubstr("wgmma %r1")));
}

TEST(RemoveDeadStatementsTest, KeepsOnlyWhatReachesMemory) {
  const kir::Kernel kernel = kernel_of(R"(
  let %r0 kept : f32 = 0x1p+0
  let %r1 chain : f32 = add(%r0, 0x1p+0)
  let %r2 chain_end : f32 = add(%r1, 0x1p+0)
  // stays
  let %r3 loop_carried : f32 = 0x0p+0
  for %r4 i : i32 = 0 to 4 step 1 {
    %r3 = add(%r3, %r2)
    // goes with its loop
  }
  let %r5 bound : i32 = 3
  let %r6 sum : f32 = 0x0p+0
  let %r7 unread : f32 = 0x0p+0
  all_reduce stats threads 64 sum(%r6) max(%r7)
  if lt(thread_index, %r5) {
    store %b1[0] = %r6[0, 0] width 1
  } else {
    %r1 = %r0
  }
  if lt(thread_index, 4) {
    %r0 = 0x1p+1
  }
  barrier
)");
  EXPECT_EQ(body_of(remove_dead_statements(kernel)), R"(  register %r0 kept : f32
  register %r1 chain : f32
  register %r2 chain_end : f32
  register %r3 loop_carried : f32
  register %r4 i : i32
  register %r7 unread : f32
  // stays
  let %r5 bound : i32 = 3
  let %r6 sum : f32 = 0x0p+0
  all_reduce stats threads 64 sum(%r6)
  if lt(thread_index, %r5) {
    store %b1[0] = %r6[0, 0] width 1
  }
  barrier
}
)");
}

TEST(RemoveDeadStatementsTest, KeepsWhatALiveLoopCarries) {
  const std::string body = R"(  let %r0 a : f32 = 0x1p+0
  let %r1 b : f32 = 0x1p+0
  for %r2 i : i32 = 0 to 4 step 1 {
    store %b1[%r2] = %r1[0, 0] width 1
    %r1 = %r0
    %r0 = add(%r0, 0x1p+0)
  }
}
)";
  const std::string_view without_brace(body.data(), body.size() - 2);
  EXPECT_EQ(body_of(remove_dead_statements(kernel_of(without_brace))), body);
}

}  // namespace sinter::remove_dead_statements_test
