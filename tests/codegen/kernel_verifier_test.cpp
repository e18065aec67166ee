#include "codegen/kernel/kernel_verifier.h"

#include <gmock/gmock.h>

#include "codegen/passes/kernel_passes.h"
#include "tests/codegen/cluster_kernel.h"
#include "tests/codegen/specialised_kernel.h"
#include "tests/codegen/team_kernel.h"
#include "tests/codegen/verified_kernel.h"

namespace sinter::kernel_verifier_test {

using testing::HasSubstr;

TEST(KernelVerifierTest, AcceptsARightKernel) {
  const kir::Kernel kernel = kernel_with_body(R"(
  var %r0 t : f32[2][8]
  for %r1 g : i32 = 0 to 2 step 1 unroll {
    for %r2 h : i32 = 0 to 8 step 4 unroll {
      %r0[%r1, %r2] = load %b0[add(mul(thread_index, 16), %r2)] width 4 evict_last
    }
    store %b1[thread_index] = %r0[sub(1, %r1), 0] width 8
  }
  let %r3 sum : f32 = 0x0p+0
  if lt(cast<i64>(block_index), %p0) {
    store %b2[thread_index] = %r3[0, 0] width 1
    barrier
  }
  if lt(div(thread_index, 32), 1) {
    %r3 = shuffle_xor %r3 mask 16
  }
)");
  EXPECT_EQ(violations_of(kernel, KernelStage::kLowered), "");
}

// What the previous kernel does not write may be read before the wait for it.
TEST(KernelVerifierTest, OnlyConstantBuffersAreReadBeforeTheWait) {
  const auto violations = [](std::string_view constant, std::string_view before) {
    return violations_of(
        parsed(fmt::format(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 w : f32 global read align 16{}
  buffer %b1 y : f32 global write align 16
  var %r0 t : f32
  if lt(thread_index, 3) {{
    {}
  }}
  wait_for_previous
  store %b1[thread_index] = %r0[0, 0] width 1
}})",
                           constant, before)),
        KernelStage::kLowered);
  };
  constexpr std::string_view kLoad = "%r0[0, 0] = load %b0[thread_index] width 1";
  EXPECT_EQ(violations(" constant", kLoad), "");
  EXPECT_THAT(violations("", kLoad), HasSubstr("%b0 (w), which the previous kernel may write, is "
                                               "read before it has ended"));
  EXPECT_THAT(violations(" constant", "store %b1[thread_index] = %r0[0, 0] width 1"),
              HasSubstr("there are only loads and computations"));
}

constexpr std::string_view kTables = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16 tensors 2 values %v0 %v1
  buffer %b1 y : f32 global read align 16
  buffer %b2 sizes : i32 argument read align 4 count 2
  var %r0 t : f32
  var %r1 size : i32
)";

TEST(KernelVerifierTest, AcceptsTables) {
  const kir::Kernel kernel = parsed(std::string(kTables) + R"(
  %r1[0, 0] = load %b2[rem(block_index, 2)] width 1
  %r0[0, 0] = load %b0[rem(block_index, 2)][%r1] width 1
})");
  EXPECT_EQ(violations_of(kernel, KernelStage::kLowered), "");
}

TEST(KernelVerifierTest, FindsWrongAccessesToTables) {
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {"%r0[0, 0] = load %b0[0] width 1", "which is a table, does not name a tensor"},
           {"%r0[0, 0] = load %b1[0][0] width 1", "which is no table, names a tensor"},
           {"%r0[0, 0] = load %b0[2][0] width 1", "the number of a tensor is 2, not from 0 to 1"},
           {"%r0[0, 0] = load %b0[1:i64][0] width 1", "the number of a tensor is i64, not i32"},
           {"%r1[0, 0] = load %b2[0] width 2", "2 elements of argument sizes at once"},
           {"store %b2[0] = %r1[0, 0] width 1", "%b2 (sizes) is written"},
       }) {
    const kir::Kernel kernel = parsed(std::string(kTables) + body + "\n}");
    EXPECT_THAT(violations_of(kernel, KernelStage::kLowered), HasSubstr(message));
  }
}

constexpr std::string_view kMatrices = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : bf16 global readwrite align 16
  buffer %b1 s : bf16 shared readwrite align 16 count 512 offset 0
  buffer %b2 bytes : i8 shared readwrite align 16 count 512 offset 1024
  buffer %b3 reals : f32 shared readwrite align 4 count 64 offset 1536
  buffer %b4 doubles : f64 shared readwrite align 16 count 64 offset 1792
  var %r0 t : bf16[4][2]
  var %r1 sum : f32[4][2]
  var %r2 half : f16[4][2]
  var %r3 b : i8[4][4]
  var %r4 u : u8[2][4]
  var %r5 real : f32[4][1]
  var %r6 total : i32[2][2]
  var %r7 wide : bf16[4][4]
  var %r8 d : f64[4][1]
  var %r9 one : f32[1][1]
  var %r10 e4 : f8e4m3[4][4]
  var %r11 e5 : f8e5m2[4][4]
)";

std::string matrix_violations(std::string_view body) {
  return violations_of(parsed(std::string(kMatrices) + std::string(body) + "\n}"),
                       KernelStage::kLowered);
}

TEST(KernelVerifierTest, AcceptsMatrices) {
  EXPECT_EQ(matrix_violations(R"(
  load_matrix %r0[0] = %b1[mul(rem(thread_index, 32), 8)] matrices 4
  load_matrix %r3[2] = %b2[mul(rem(thread_index, 16), 16)] matrices 2
  if lt(thread_index, 32) {
    load_matrix %r0[3] = %b1[0] matrices 1 transpose
    for %r12 i : i32 = 0 to 4 step 2 unroll {
      mma %r1[%r12] left %r0[0] right %r0[%r12]
    }
  }
  mma %r1[0] left %r5[0] right %r5[2]
  mma %r1[2] left %r10[0] right %r11[2]
  mma %r6[0] left %r3[0] right %r4[0]
  async_copy %b1[0] = %b0[0] width 8 when lt(thread_index, 3)
  async_commit
  async_wait pending 0
  async_wait
)"),
            "");
}

TEST(KernelVerifierTest, FindsMistakesWithMatrices) {
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {"load_matrix %r0[0] = %b1[0] matrices 3", "3 matrices; there are 1, 2 and 4"},
           {"load_matrix %r0[1] = %b1[0] matrices 4",
            "group of %r0 (t) spans 1 to 4, but there are 4"},
           {"load_matrix %r0[thread_index] = %b1[0] matrices 1",
            "group of %r0 (t) is not constant after unrolling"},
           {"load_matrix %r0[0] = %b0[0] matrices 4", "%b0 (x) is not shared"},
           {"load_matrix %r0[0] = %b2[0] matrices 4", "%r0 is bf16, %b2 is i8"},
           {"load_matrix %r0[0] = %b1[true] matrices 4", "index into %b1 is bool"},
           {"load_matrix %r5[0] = %b3[0] matrices 4",
            "matrices from %b3 (reals), which is aligned to 4, not 16"},
           {"load_matrix %r7[0] = %b1[0] matrices 4",
            "%r7 (wide) has 8 bytes in a group; a lane has 4 of a matrix"},
           {"load_matrix %r8[0] = %b4[0] matrices 4", "%r8 (d) has 8 bytes in a group"},
           {"load_matrix %r9[0] = %b3[0] matrices 1", "%r9 (one) is a scalar, not a tile"},
           {"load_matrix %r3[0] = %b2[0] matrices 4 transpose", "transposes i8 of 1 bytes, not 2"},
           {"if lt(thread_index, 3) { load_matrix %r0[0] = %b1[0] matrices 4 }",
            "a load of matrices where control may differ within the warp"},
           {"load_matrix %r5[0] = %b3[0] matrices 4\nif gt(%r5[0, 0], 0.0) { barrier }",
            "a barrier where control may differ within the block"},
           {"mma %r1[0] left %r0[1] right %r0[0]",
            "group of %r0 (t) spans 1 to 4, but there are 4"},
           {"mma %r1[0] left %r0[0] right %r0[3]",
            "group of %r0 (t) spans 3 to 4, but there are 4"},
           {"mma %r1[3] left %r0[0] right %r0[0]",
            "group of %r1 (sum) spans 3 to 4, but there are 4"},
           {"mma %r1[0] left %r0[0] right %r2[0]", "no product of matrices of bf16 and f16"},
           {"mma %r1[0] left %r8[0] right %r8[0]", "no product of matrices of f64 and f64"},
           {"mma %r1[0] left %r7[0] right %r0[0]", "%r7 (wide) has 8 bytes in a group"},
           {"mma %r1[0] left %r0[0] right %r7[0]", "%r7 (wide) has 8 bytes in a group"},
           {"mma %r5[0] left %r0[0] right %r0[0]", "%r5 (real) has 1 lanes; an accumulator has 2"},
           {"mma %r6[0] left %r0[0] right %r0[0]",
            "%r6 (total) is i32; products of bf16 and bf16 are f32"},
           {"mma %r1[0] left %r3[0] right %r4[0]",
            "%r1 (sum) is f32; products of i8 and u8 are i32"},
           {"if lt(thread_index, 3) { mma %r1[0] left %r0[0] right %r0[0] }",
            "a matrix product where control may differ within the warp"},
           {"mma %r1[0] left %r0[0] right %r0[0]\nif gt(%r1[0, 0], 0.0) { barrier }",
            "a barrier where control may differ within the block"},
           {"async_wait pending -2", "waits for all but the last -2 groups of copies"},
           {"async_copy %b1[0] = %b0[0] width 8 when 1", "the predicate is i32, not bool"},
           {"if true { var %r12 u : bf16[4][2] }\nload_matrix %r12[0] = %b1[0] matrices 4",
            "%r12 (u) is used outside of its scope"},
           {"if true { var %r12 u : bf16[4][2] }\nmma %r1[0] left %r12[0] right %r0[0]",
            "%r12 (u) is used outside of its scope"},
           {"if true { var %r12 u : bf16[4][2] }\nmma %r1[0] left %r0[0] right %r12[0]",
            "%r12 (u) is used outside of its scope"},
       }) {
    EXPECT_THAT(matrix_violations(body), HasSubstr(message)) << body;
  }
}

class KernelVerifierPlantedTest : public testing::TestWithParam<Planted> {};

TEST_P(KernelVerifierPlantedTest, FindsIt) {
  const kir::Kernel kernel = kernel_with_body(GetParam().body);
  EXPECT_THAT(violations_of(kernel, GetParam().stage), HasSubstr(GetParam().message));
}

constexpr KernelStage kLowered = KernelStage::kLowered;

INSTANTIATE_TEST_SUITE_P(
    Types, KernelVerifierPlantedTest,
    testing::Values(Planted{"let %r0 a : f32 = 1", "%s0: %r0 (a) is f32, its value i32"},
                    Planted{"var %r0 a : f32 %r0 = 1", "%s1: %r0 (a) is f32, the value i32"},
                    Planted{"var %r0 a : f32[2][2] %r0[0, 0] = 1", "%r0 (a) is f32, the value i32"},
                    Planted{"if 1 { barrier }", "the condition is i32, not bool"}));

INSTANTIATE_TEST_SUITE_P(
    Forms, KernelVerifierPlantedTest,
    testing::Values(Planted{"var %r0 m : f32 var %r1 t : f32[1][4] %r0 = max_of_lanes %r1[0]",
                            "%r1 (t) holds no pairs of bf16 or f16"},
                    Planted{"var %r0 m : f64 var %r1 t : bf16[1][4] %r0 = max_of_lanes %r1[0]",
                            "%r0 (m) is f64, not f32"},
                    Planted{"var %r0 t : f32[1][4] %r0[0, 0] = load %b0[0] width 4 when 1",
                            "the predicate is i32, not bool"},
                    Planted{"var %r0 t : f32 %r0[0, 0] = load %b0[0] width 1 when true",
                            "a load from %b0 into %r0 under a predicate"}));

INSTANTIATE_TEST_SUITE_P(
    Loops, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"for %r0 i : i32 = 0 to grid_size step 1 unroll { }", "bounds that are not const"},
        Planted{"for %r0 i : i32 = 0 to 4 step 0 { }", "the step is 0"},
        Planted{"for %r0 i : i64 = 0 to 4:i64 step 1:i64 { }", "is i32, not i64"},
        Planted{"for %r0 i : f32 = 0x0p+0 to 0x1p+0 step 0x1p+0 { }", "is no scalar i32 or i64"}));

INSTANTIATE_TEST_SUITE_P(
    Accesses, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"var %r0 t : f32[1][3] %r0[0, 0] = load %b0[0] width 3", "width 3 is not a power"},
        Planted{"var %r0 t : f32[1][8] %r0[0, 0] = load %b0[0] width 8",
                "an access of 32 bytes; the hardware has 16", kLowered},
        Planted{"var %r0 t : bf16 %r0[0, 0] = load %b0[0] width 1", "%r0 is bf16, %b0 is f32"},
        Planted{"var %r0 t : bf16 %r0[0, 0] = load %b1[0] width 1", "%b1 (y) is read"},
        Planted{"let %r0 t : f32 = 0x0p+0 store %b0[0] = %r0[0, 0] width 1", "%b0 (x) is written"},
        Planted{"let %r0 t : i32 = 0 store %b1[0] = %r0[0, 0] width 1", "%r0 is i32, %b1 is bf16"},
        Planted{"let %r0 t : f32 = 0x0p+0 store %b1[0x0p+0] = %r0[0, 0] width 1", "is f32"},
        Planted{"async_copy %b2[0] = %b0[0] width 8", "an asynchronous copy of 32 bytes"},
        Planted{"async_copy %b0[0] = %b0[0] width 4", "%b0 (x) is not shared"},
        Planted{"async_copy %b2[0] = %b2[0] width 4", "%b2 (s) is not global"},
        Planted{"async_copy %b2[0] = %b1[0] width 4", "copies bf16 to f32"}));

INSTANTIATE_TEST_SUITE_P(
    Exchange, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"if lt(thread_index, 3) { barrier }", "barrier where control may differ"},
        Planted{"for %r0 i : i32 = thread_index to 64 step 1 { barrier }", "within the block"},
        Planted{"if lt(div(thread_index, 32), 1) { barrier }", "within the block"},
        Planted{"let %r0 a : i32 = 0 if lt(thread_index, 3) { %r0 = 1 }\n"
                "if eq(%r0, 1) { barrier }",
                "%s4: a barrier where control may differ"},
        Planted{"var %r0 a : f32 %r0[0, 0] = load %b0[thread_index] width 1\n"
                "if gt(%r0, 0x0p+0) { %r0 = shuffle_xor %r0 mask 1 }",
                "a shuffle where control may differ within the warp"},
        Planted{"let %r0 a : f32 = 0x0p+0 if lt(div(thread_index, 32), 1) {\n"
                "all_reduce r threads 64 sum(%r0) }",
                "a reduction where control may differ within the block"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 48 sum(%r0)", "groups of 48"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 128 sum(%r0)", "groups of 128"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 sum(%r0)", "is not lowered",
                kLowered},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 welford(%r0)",
                "welford of 1 variables, not 3"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 sum(%r0) elements 4",
                "4 elements of each tuple of sum, which has no count"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 any(%r0)", "any of f32"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 phase 0:i64 sum(%r0)",
                "the phase is i64, not i32"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 phase thread_index sum(%r0)",
                "the phase may differ within the block"},
        Planted{"let %r0 a : i32 = 0 all_reduce r threads 64 logsumexp(%r0, %r0)", "logsumexp of"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 argmax(%r0, %r0)",
                "component 1 of argmax is f32, not i32 or i64"},
        Planted{"let %r0 a : i32 = 0 %r0 = atomic_count %b0[0] last 3",
                "%b0 (x) is no global buffer of i32 counters"},
        Planted{"buffer %b3 c : i32 global readwrite align 16 let %r0 a : i64 = 0:i64\n"
                "%r0 = atomic_count %b3[0] last 3",
                "%r0 is i64, not i32"},
        Planted{"buffer %b3 c : i32 global readwrite align 16 let %r0 a : i32 = 0\n"
                "%r0 = atomic_count %b3[0] last 3:i64",
                "the last count is i64, not i32"},
        Planted{"buffer %b3 c : i32 global readwrite align 16 let %r0 a : i32 = 0\n"
                "%r0[0, 0] = load %b3[0] width 1 %r0 = atomic_count %b3[0] last 3",
                "%b3 (c) holds counters or messages, and is accessed otherwise"},
        Planted{"buffer %b3 c : i32 global readwrite align 16 let %r0 a : i32 = 0\n"
                "%r0 = atomic_count %b3[0] last 3 if eq(%r0, 3) { barrier }",
                "barrier where control may differ"},
        Planted{"let %r0 a : f32 = 0x0p+0 %r0 = shuffle_xor %r0 mask 32", "mask 32 is not from"},
        Planted{"let %r0 a : bool = true %r0 = shuffle_xor %r0 mask 1", "shuffles bool"}));

INSTANTIATE_TEST_SUITE_P(
    Mbarriers, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"mbarrier %m0 m count 1 arrivals 1 mbarrier_arrive %m0[0]",
                "%s0: %m0 (m) is not initialised yet"},
        Planted{"init_mbarriers init_mbarriers", "%s1: mbarriers are initialised again"},
        Planted{"if lt(%p0, 5:i64) { init_mbarriers }", "initialised inside of control flow"},
        Planted{"mbarrier %m0 m count 2 arrivals 1 init_mbarriers mbarrier_arrive %m0[2]",
                "the index into the mbarriers is 2, not from 0 to 1"},
        Planted{"mbarrier %m0 m count 2 arrivals 1 init_mbarriers mbarrier_arrive %m0[true]",
                "index into %m0 is bool"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers mbarrier_wait %m0[0] parity 2",
                "the parity is 2, not from 0 to 1"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers mbarrier_wait %m0[0] parity %p0",
                "the parity is i64, not i32"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers expect_bytes %m0[0] %p0",
                "the bytes are i64, not i32"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers expect_bytes %m0[0] 24",
                "24 elements of 1 bytes; bulk copies move multiples of 16 bytes"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers expect_bytes %m0[0] 1048576",
                "up to 1048575"}));

INSTANTIATE_TEST_SUITE_P(
    BulkCopies, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"mbarrier %m0 m count 1 arrivals 1 bulk_copy %b2[0] = %b0[0] elements 4 "
                "mbarrier %m0[0]",
                "%m0 (m) is not initialised yet"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b2[0] = %b0[0] "
                "elements 6 mbarrier %m0[0]",
                "6 elements of 4 bytes"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b2[0] = %b0[0] "
                "elements 0 mbarrier %m0[0]",
                "0 elements of 4 bytes"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b2[0] = %b0[true] "
                "elements 4 mbarrier %m0[0]",
                "of a bulk copy is bool"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b0[0] = %b0[0] "
                "elements 4 mbarrier %m0[0]",
                "%b0 (x) is not shared"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b2[0] = %b2[0] "
                "elements 4 mbarrier %m0[0]",
                "%b2 (s) is not global"},
        Planted{"mbarrier %m0 m count 1 arrivals 1 init_mbarriers bulk_copy %b2[0] = %b1[0] "
                "elements 8 mbarrier %m0[0]",
                "copies bf16 to f32"},
        Planted{"buffer %b3 z : f32 global read align 8 mbarrier %m0 m count 1 arrivals 1\n"
                "init_mbarriers bulk_copy %b2[0] = %b3[0] elements 4 mbarrier %m0[0]",
                "a bulk copy from %b3 (z), which is aligned to 8, not 16"}));

INSTANTIATE_TEST_SUITE_P(
    Groups, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"if lt(thread_index, 3) { group_barrier 1 threads 32 }",
                "a group barrier where control may differ within the warp"},
        Planted{"group_barrier 0 threads 32", "the barrier is 0, not from 1 to 15"},
        Planted{"group_barrier 16 threads 32", "the barrier is 16, not from 1 to 15"},
        Planted{"group_barrier 1:i64 threads 32", "the barrier is i64, not i32"},
        Planted{"group_barrier thread_index threads 32", "the barrier may differ within the warp"},
        Planted{"group_barrier 1 threads 48", "a group barrier of 48 threads in a block of 64"},
        Planted{"group_barrier 1 threads 96", "a group barrier of 96 threads in a block of 64"},
        Planted{"if lt(thread_index, 3) { warp_barrier }",
                "a warp barrier where control may differ within the warp"},
        Planted{"wait_for_previous wait_for_previous",
                "the wait for the previous kernel stands once, and not in a loop or condition"},
        Planted{"if lt(thread_index, 3) { wait_for_previous }",
                "the wait for the previous kernel stands once, and not in a loop or condition"},
        Planted{"launch_dependents wait_for_previous",
                "before the wait for the previous kernel there are only loads and computations"},
        Planted{"barrier wait_for_previous",
                "before the wait for the previous kernel there are only loads and computations"},
        Planted{"set_max_registers increase 28", "28 registers; a limit is a multiple of 8"},
        Planted{"set_max_registers decrease 16", "16 registers; a limit is a multiple of 8"},
        Planted{"set_max_registers decrease 24", "of 128 threads each, the block has 64"},
        Planted{"if lt(thread_index, 3) { set_max_registers decrease 24 }",
                "a register limit where control may differ within the warp"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 barrier 0 sum(%r0)",
                "the barrier is 0, not from 1 to 15"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 group 0 of 1 sum(%r0)",
                "the group of a reduction that the whole block waits in"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 barrier 1 group 1 of 1 sum(%r0)",
                "the group is 1, not from 0 to 0"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 barrier 1 group 1 of 2 sum(%r0)",
                "2 groups of 64 threads in a block of 64"},
        Planted{"let %r0 a : f32 = 0x0p+0 all_reduce r threads 64 phase 2 sum(%r0)",
                "the phase is 2, not from 0 to 1"}));

/// Of a kernel with one piece of its text replaced.
std::string violations_of_changed(std::string_view kernel, std::string_view from,
                                  std::string_view to) {
  std::string text(kernel);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return violations_of(parsed(text));
}

TEST(KernelVerifierTest, AcceptsBlocksThatShareARow) {
  const kir::Kernel kernel = parsed(kClusterKernel);
  EXPECT_EQ(violations_of(kernel), "");
  EXPECT_EQ(violations_of(run_kernel_passes(kernel), KernelStage::kLowered), "");
}

TEST(KernelVerifierTest, FindsMistakesInClusters) {
  const auto said = [](std::string_view from, std::string_view to) {
    return violations_of_changed(kClusterKernel, from, to);
  };
  EXPECT_THAT(said("cluster 2 grid", "cluster 3 grid"), HasSubstr("3 blocks in a cluster"));
  EXPECT_THAT(said("cluster 2 grid", "grid"), HasSubstr("in a kernel without clusters"));
  EXPECT_THAT(said("count 2 arrivals 1", "count 1 arrivals 1"),
              HasSubstr("has 1 mbarriers of 1 arrivals, not 2 of 1"));
  EXPECT_THAT(said("  cluster_barrier", "  cluster_barrier expect_bytes %m0[0] 6"),
              HasSubstr("6 bytes; a phase in a cluster expects multiples of 4"));
  EXPECT_THAT(said("init_mbarriers\n  cluster_barrier", "cluster_barrier"),
              HasSubstr("%m0 (arrived) is not initialised yet"));
  EXPECT_THAT(said("  cluster_barrier", "  if lt(block_index, 2) { cluster_barrier }"),
              HasSubstr("inside of control flow"));
  EXPECT_EQ(said("cluster_barrier", "cluster_arrive cluster_wait"), "");
  EXPECT_THAT(said("  cluster_barrier",
                   "  store %b1[0:i64] = %r0[0, 0] width 1 cluster_arrive cluster_wait"),
              HasSubstr("a store comes before an arrival that orders mbarriers alone"));
  EXPECT_THAT(
      said("cluster_barrier", "cluster_arrive"),
      AllOf(HasSubstr("a reduction over the blocks before the blocks of the cluster have met"),
            HasSubstr("nothing waits for the blocks of the cluster that have arrived")));
  EXPECT_THAT(said("cluster_barrier", "cluster_wait"),
              HasSubstr("waits for blocks of a cluster to arrive at no barrier"));
  EXPECT_THAT(said("cluster_barrier", "cluster_arrive cluster_wait cluster_arrive cluster_wait"),
              HasSubstr("blocks of a cluster arrive at a second barrier"));
  EXPECT_THAT(said("cluster_barrier", "cluster_arrive cluster_barrier cluster_wait"),
              HasSubstr("a barrier of the cluster before the blocks of the cluster have met"));
  EXPECT_THAT(said("cluster_barrier", "if lt(block_index, 2) { cluster_arrive } cluster_wait"),
              HasSubstr("arrive at their barrier inside of control flow"));
  EXPECT_THAT(said("cluster_barrier", "cluster_arrive if lt(block_index, 2) { cluster_wait }"),
              HasSubstr("wait for each other inside of control flow"));
  EXPECT_THAT(said("cluster %m0 parity rem(div(%r1, 2), 2) sum(%r4)",
                   "sum(%r4) cluster_store %b0[0] of 2 = %r4 mbarrier %m0[0]"),
              HasSubstr("%b0 (x) is not shared"));
  const auto sent = [&](std::string_view tile, int64_t index) {
    return said(
        "  mbarrier %m0 arrived count 2 arrivals 1\n  let %r0 first : i32 = "
        "mul(rem(block_index, 2), 64)\n  init_mbarriers\n  cluster_barrier\n",
        fmt::format("  buffer %b2 tuples : f32 shared readwrite align 16 count 8\n"
                    "  mbarrier %m0 arrived count 2 arrivals 1\n"
                    "  let %r0 first : i32 = mul(rem(block_index, 2), 64)\n"
                    "  init_mbarriers\n  cluster_barrier\n  var %r5 tuple : {}\n"
                    "  cluster_store %b2[{}] of 1 = %r5 mbarrier %m0[0]\n",
                    tile, index));
  };
  EXPECT_THAT(sent("f32[1][3]", 0), HasSubstr("1 x 3 f32 to another block, not 2 or 4 words"));
  EXPECT_THAT(sent("f32[2][2]", 0), HasSubstr("2 x 2 f32 to another block, not 2 or 4 words"));
  EXPECT_THAT(sent("f32[1][4]", 2), HasSubstr("element 2 of %b2 is at no multiple of 16 bytes"));
}

TEST(KernelVerifierTest, AcceptsBlocksThatSendMessages) {
  const kir::Kernel kernel = parsed(kTeamKernel);
  EXPECT_EQ(violations_of(kernel), "");
  EXPECT_EQ(violations_of(run_kernel_passes(kernel), KernelStage::kLowered), "");
}

TEST(KernelVerifierTest, FindsMistakesInTeams) {
  const auto said = [](std::string_view from, std::string_view to) {
    return violations_of_changed(kTeamKernel, from, to);
  };
  EXPECT_THAT(said("team 2 places 4 grid", "team 3 places 4 grid"),
              HasSubstr("3 blocks in a team"));
  EXPECT_THAT(said("team 2 places 4 grid", "cluster 2 team 2 places 4 grid"),
              HasSubstr("2 blocks in a team, 2 in a cluster"));
  EXPECT_THAT(said("team 2 places 4 grid", "team 2 places 0 grid"),
              HasSubstr("0 places for messages of each block in a team of 2"));
  EXPECT_THAT(said("team 2 places 4 grid", "grid"),
              AllOf(HasSubstr("in a kernel without teams"), HasSubstr("a message in a kernel")));
  EXPECT_THAT(said("mail : i32 global readwrite", "mail : i32 global read"),
              HasSubstr("is no global buffer of i32 for messages"));
  EXPECT_THAT(said("mail : i32", "mail : f32"),
              HasSubstr("is no global buffer of i32 for messages"));
  EXPECT_THAT(said("= (%r5)", "= (%r5, %r5, %r5, %r5, %r5)"),
              HasSubstr("a message of 5 values, not 1 to 4"));
  EXPECT_THAT(said("let %r5 empty : i32 = 0", "let %r5 empty : i64 = 0:i64"),
              HasSubstr("of a message is no scalar of 4 bytes"));
  EXPECT_THAT(said("of rem(block_index, 2) =", "of 2 ="), HasSubstr("block of the team"));
  EXPECT_THAT(said("%b2[thread_index]", "%b2[4]"), HasSubstr("place of a message"));
  EXPECT_THAT(said("number 0", "number -1"), HasSubstr("number of a message"));
  EXPECT_THAT(said("  let %r5", "  message_wait (%r1) = %b2[0] number 0\n  let %r5"),
              HasSubstr("number of a message"));
  EXPECT_THAT(said("  let %r5", "  store %b2[0:i64] = %r1[0, 0] width 1\n  let %r5"),
              HasSubstr("and is accessed otherwise"));
  EXPECT_THAT(said("= (%r5) number", "= (%r5, %r5) number"), "");
  EXPECT_THAT(said("  let %r5", "  message_wait (%r1, %r1) = %b2[1] number 1\n  let %r5"),
              HasSubstr("a message of 2 values at an odd place"));
  EXPECT_THAT(said("all_reduce sum threads 32", "all_reduce sum threads 64"),
              HasSubstr("messages between groups of 64 threads"));
  EXPECT_THAT(said("number add(%r1, 1) sum", "number 0 sum"), HasSubstr("number of a message"));
  EXPECT_THAT(said("team %b2 from 0 number add(%r1, 1) sum", "send sum"),
              HasSubstr("half a reduction that is not by messages"));
}

TEST(KernelVerifierTest, AcceptsWarpsOnPathsOfTheirOwn) {
  const kir::Kernel kernel = parsed(kSpecialisedKernel);
  EXPECT_EQ(violations_of(kernel), "");
}

TEST(KernelVerifierTest, FindsMisalignedBuffers) {
  const kir::Kernel kernel = kernel_with_body(R"(
  buffer %b3 z : f32 global read align 8
  var %r0 t : f32[1][4]
  %r0[0, 0] = load %b3[0] width 4
)");
  EXPECT_THAT(violations_of(kernel),
              HasSubstr("an access of 16 bytes to %b3 (z), which is aligned to 8"));
}

}  // namespace sinter::kernel_verifier_test
