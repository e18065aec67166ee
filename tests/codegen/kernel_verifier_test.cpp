#include "codegen/kernel/kernel_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "tests/codegen/cluster_kernel.h"
#include "tests/codegen/specialised_kernel.h"

namespace sinter::kernel_verifier_test {

using testing::HasSubstr;

kir::Kernel kernel_of(std::string_view text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().text());
  return kernel ? *kernel : kir::Kernel{};
}

constexpr std::string_view kHead = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : bf16 global write align 16
  buffer %b2 s : f32 shared readwrite align 16 count 64 offset 0
)";

std::string all_of(const std::vector<KernelViolation>& violations) {
  std::string text;
  for (const KernelViolation& violation : violations) {
    text += fmt::format("{}: {}\n", violation.where, violation.message);
  }
  return text;
}

TEST(KernelVerifierTest, AcceptsARightKernel) {
  const kir::Kernel kernel = kernel_of(std::string(kHead) + R"(
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
})");
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kLowered)), "");
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
  const kir::Kernel kernel = kernel_of(std::string(kTables) + R"(
  %r1[0, 0] = load %b2[rem(block_index, 2)] width 1
  %r0[0, 0] = load %b0[rem(block_index, 2)][%r1] width 1
})");
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kLowered)), "");
}

TEST(KernelVerifierTest, FindsWrongTables) {
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {"%r0[0, 0] = load %b0[0] width 1", "which is a table, does not name a tensor"},
           {"%r0[0, 0] = load %b1[0][0] width 1", "which is no table, names a tensor"},
           {"%r0[0, 0] = load %b0[2][0] width 1", "the number of a tensor is 2, not from 0 to 1"},
           {"%r0[0, 0] = load %b0[1:i64][0] width 1", "the number of a tensor is i64, not i32"},
           {"%r1[0, 0] = load %b2[0] width 2", "2 elements of argument sizes at once"},
           {"store %b2[0] = %r1[0, 0] width 1", "%b2 (sizes) is written"},
       }) {
    const kir::Kernel kernel = kernel_of(std::string(kTables) + body + "\n}");
    EXPECT_THAT(all_of(verify_kernel(kernel, KernelStage::kLowered)), HasSubstr(message));
  }
  for (const auto& [buffer, message] : std::vector<std::pair<std::string, std::string>>{
           {"f32 argument read align 4 count 2", "argument b is f32, not i32 or i64"},
           {"i32 argument readwrite align 4 count 2", "argument b is written"},
           {"i32 argument read align 4", "argument b has 0 elements"},
           {"f32 global read align 4 tensors 1 values %v0 %v1", "b holds 2 tensors in 1 places"},
           {"f32 global read align 4 value %v0 tensors 1", "the table b holds a single value"},
           {"f32 shared readwrite align 16 tensors 1 count 4 offset 0", "shared b is a table"},
       }) {
    const kir::Kernel kernel = kernel_of(
        "kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {\n  param %p0 n : i64\n"
        "  buffer %b0 b : " +
        buffer + "\n}");
    EXPECT_THAT(all_of(verify_kernel(kernel, KernelStage::kLowered)), HasSubstr(message));
  }
}

struct Planted {
  std::string_view body;
  std::string_view message;
  KernelStage stage = KernelStage::kBuilt;
};

class KernelVerifierPlantedTest : public testing::TestWithParam<Planted> {};

TEST_P(KernelVerifierPlantedTest, FindsIt) {
  const kir::Kernel kernel = kernel_of(fmt::format("{}{}\n}}", kHead, GetParam().body));
  EXPECT_THAT(all_of(verify_kernel(kernel, GetParam().stage)), HasSubstr(GetParam().message));
}

constexpr KernelStage kLowered = KernelStage::kLowered;

INSTANTIATE_TEST_SUITE_P(
    Types, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"let %r0 a : i32 = 1 let %r1 b : i32 = add(%r0, 1:i64)", "%e3: add of i32 and i64"},
        Planted{"let %r0 a : bf16 = 0x1p+0:bf16 let %r1 b : bf16 = add(%r0, %r0)", "add of bf16"},
        Planted{"let %r0 a : i32 = 1 let %r1 b : i32 = exp(%r0)", "exp of i32"},
        Planted{"let %r0 a : bool = is_nan(1)", "is_nan of i32"},
        Planted{"let %r0 a : f32 = and(0x1p+0, 0x1p+0)", "and of f32"},
        Planted{"let %r0 a : i32 = select(1, 2, 3)", "select by i32"},
        Planted{"let %r0 a : i32 = 3000000000", "3000000000 is no i32"},
        Planted{"let %r0 a : bool = 2:bool", "2 is no bool"},
        Planted{"let %r0 a : f32 = 1", "%s0: %r0 (a) is f32, its value i32"},
        Planted{"var %r0 a : f32 %r0 = 1", "%s1: %r0 (a) is f32, the value i32"},
        Planted{"var %r0 a : f32[2][2] %r0[0, 0] = 1", "%r0 (a) is f32, the value i32"},
        Planted{"var %r0 a : f32[2][65537]", "more than the 524288 bytes of a thread"},
        Planted{"var %r0 a : f32[4294967296][4294967296]", "more than the 524288 bytes"},
        Planted{"var %r0 a : f32[2][2] let %r1 b : f32 = %r0", "tile %r0 (a) as a scalar"},
        Planted{"var %r0 a : f32[2][2] %r0 = 0x1p+0", "%r0 (a) is a tile, not a scalar"},
        Planted{"if 1 { barrier }", "the condition is i32, not bool"}));

INSTANTIATE_TEST_SUITE_P(
    Forms, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"var %r0 ok : f32 let %r1 a : f32 = log.fast_path(%r0, 0x1p+0)",
                "%r0 (ok) is no state of the form fast_path"},
        Planted{"var %r0 ok : bool let %r1 a : f32 = exp.fast_path(%r0, 0x1p+0)",
                "exp of f32 in the form fast_path"},
        Planted{"if true { var %r0 ok : bool } let %r1 a : f32 = log.fast_path(%r0, 0x1p+0)",
                "%r0 (ok) is used outside of its scope"},
        Planted{"let %r0 a : f64 = log.careful(0x1p+0:f64)", "log of f64 in the form careful"},
        Planted{"let %r0 a : f32 = sqrt.one_or_more(0x1p+0)",
                "sqrt of f32 in the form one_or_more"},
        Planted{"var %r0 s : i64[1][2] let %r1 a : f32 = "
                "philox_uniform.shared_rounds(%r0, 1:i64, 2:i64)",
                "%r0 (s) is no state of the form shared_rounds"},
        Planted{"var %r0 m : f32 var %r1 t : f32[1][4] %r0 = max_of_lanes %r1[0]",
                "%r1 (t) holds no pairs of bf16 or f16"},
        Planted{"var %r0 m : f64 var %r1 t : bf16[1][4] %r0 = max_of_lanes %r1[0]",
                "%r0 (m) is f64, not f32"},
        Planted{"var %r0 m : f32 var %r1 t : bf16[1][4] %r0 = min_of_magnitudes %r1[1]",
                "group of %r1 (t) spans 1 to 1"},
        Planted{"var %r0 t : f32[1][4] %r0[0, 0] = load %b0[0] width 4 when 1",
                "the predicate is i32, not bool"},
        Planted{"var %r0 t : f32 %r0[0, 0] = load %b0[0] width 1 when true",
                "a load from %b0 into %r0 under a predicate"}));

INSTANTIATE_TEST_SUITE_P(
    Scopes, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"if lt(%p0, 1:i64) { var %r0 a : f32 } %r0 = 0x1p+0", "used outside of its scope"},
        Planted{"register %r0 a : f32 let %r1 b : f32 = %r0", "%r0 (a) is used outside"},
        Planted{"for %r0 i : i32 = 0 to 2 step 1 { } let %r1 b : i32 = %r0", "used outside"},
        Planted{"var %r0 a : f32 var %r0 a : f32", "%s1: %r0 (a) is declared a second time"},
        Planted{"for %r0 i : i32 = 0 to 2 step 1 { %r0 = 1 }", "%r0 (i) is the index of a loop"}));

INSTANTIATE_TEST_SUITE_P(
    Loops, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"for %r0 i : i32 = 0 to grid_size step 1 unroll { }", "bounds that are not const"},
        Planted{"for %r0 i : i32 = 0 to 4 step 0 { }", "the step is 0"},
        Planted{"for %r0 i : i64 = 0 to 4:i64 step 1:i64 { }", "is i32, not i64"},
        Planted{"for %r0 i : f32 = 0x0p+0 to 0x1p+0 step 0x1p+0 { }", "is no scalar i32 or i64"}));

INSTANTIATE_TEST_SUITE_P(
    Tiles, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[2, 0]", "spans 2 to 2, but there are"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[0, -1]", "lane of %r0 (t) spans -1"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[thread_index, 0]",
                "group of %r0 (t) is not constant after unrolling"},
        Planted{"var %r0 t : f32[2][4] for %r1 i : i32 = 0 to 2 step 1 { %r0[%r1, 0] = 0x0p+0 }",
                "not constant after unrolling"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[0:i64, 0]", "is i64, not i32"},
        Planted{"var %r0 t : f32[2][4] for %r1 i : i32 = 0 to 3 step 1 unroll {\n"
                "%r0[rem(add(%r1, 1), 3), 0] = 0x0p+0 }",
                "group of %r0 (t) spans 0 to 2, but there are 2"},
        Planted{"var %r0 t : f32[1][8] %r0[0, 6] = load %b0[0] width 4", "spans 6 to 9"},
        Planted{"var %r0 t : f32[1][8] %r0[0, 2] = load %b0[0] width 4",
                "lane of %r0 (t) is not a multiple of the width 4"}));

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
                "%b3 (c) holds counters, which atomics alone access"},
        Planted{"buffer %b3 c : i32 global readwrite align 16 let %r0 a : i32 = 0\n"
                "%r0 = atomic_count %b3[0] last 3 if eq(%r0, 3) { barrier }",
                "barrier where control may differ"},
        Planted{"let %r0 a : f32 = 0x0p+0 %r0 = shuffle_xor %r0 mask 32", "mask 32 is not from"},
        Planted{"let %r0 a : bool = true %r0 = shuffle_xor %r0 mask 1", "shuffles bool"}));

INSTANTIATE_TEST_SUITE_P(
    Mbarriers, KernelVerifierPlantedTest,
    testing::Values(
        Planted{"mbarrier %m0 m count 0 arrivals 1", "%m0: there are 0 mbarriers m"},
        Planted{"mbarrier %m0 m count 1 arrivals 0", "%m0: m expects 0 arrivals"},
        Planted{"mbarrier %m0 m count 1 arrivals 1048576", "m expects 1048576 arrivals"},
        Planted{"mbarrier %m0 m count 1 arrivals 1", "%m0: shared m is at offset -1", kLowered},
        Planted{"mbarrier %m0 m count 1 arrivals 1 offset 260", "at offset 260", kLowered},
        Planted{"mbarrier %m0 m count 1 arrivals 1 offset 248",
                "%m0: shared m at 248 overlaps s, which ends at 256", kLowered},
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
        Planted{"launch_dependents wait_for_previous",
                "the wait for the previous kernel stands once, as the first statement"},
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

TEST(KernelVerifierTest, AcceptsBlocksThatShareARow) {
  const kir::Kernel kernel = kernel_of(kClusterKernel);
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kBuilt)), "");
  EXPECT_EQ(all_of(verify_kernel(run_kernel_passes(kernel), KernelStage::kLowered)), "");
}

TEST(KernelVerifierTest, FindsMistakesInClusters) {
  const auto said = [](std::string_view from, std::string_view to) {
    std::string text(kClusterKernel);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return all_of(verify_kernel(kernel_of(text), KernelStage::kBuilt));
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
}

TEST(KernelVerifierTest, AcceptsWarpsOnPathsOfTheirOwn) {
  const kir::Kernel kernel = kernel_of(kSpecialisedKernel);
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kBuilt)), "");
}

// Mistakes that the text cannot express, or that concern what stands before the statements.

TEST(KernelVerifierTest, FindsBadLaunchShapes) {
  kir::Kernel kernel = kernel_of(std::string(kHead) + "}");
  kernel.threads = 48;
  kernel.min_blocks_per_sm = 0;
  kernel.grid = {.work = kir::ParamId{7}, .per_block = 0};
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kBuilt)),
            "kernel: 48 threads; a block has a multiple of 32, from 32 to 1024\n"
            "kernel: 0 blocks per multiprocessor\n"
            "kernel: the grid counts %p7, which does not exist\n"
            "kernel: 0 per block\n");
}

TEST(KernelVerifierTest, FindsSharedBuffersThatOverlap) {
  const kir::Kernel kernel = kernel_of(std::string(kHead) + R"(
  buffer %b3 t : f32 shared readwrite align 16 count 4 offset 240
  buffer %b4 u : f32 shared readwrite align 16 count 4 offset 260
  buffer %b5 v : f32 shared read align 16 count 0
})");
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kLowered)),
            "%b5: shared v has 0 elements\n"
            "%b5: shared v is not both read and written\n"
            "%b4: shared u is at offset 260\n"
            "%b5: shared v is at offset -1\n"
            "%b3: shared t at 240 overlaps s, which ends at 256\n");
}

TEST(KernelVerifierTest, FindsMisalignedBuffers) {
  const kir::Kernel kernel = kernel_of(std::string(kHead) + R"(
  buffer %b3 z : f32 global read align 8
  var %r0 t : f32[1][4]
  %r0[0, 0] = load %b3[0] width 4
})");
  EXPECT_THAT(all_of(verify_kernel(kernel, KernelStage::kBuilt)),
              HasSubstr("an access of 16 bytes to %b3 (z), which is aligned to 8"));
}

TEST(KernelVerifierTest, FindsIdsOutOfRange) {
  kir::Kernel kernel = kernel_of(std::string(kHead) + "barrier barrier}");
  kernel.stmts[kir::StmtId{0}].kind = kir::Assign{kir::VarId{5}, kir::ExprId{9}};
  kernel.body.push_back(kir::StmtId{1});
  kernel.body.push_back(kir::StmtId{8});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::CastExpr{kir::ExprId{0}}});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::VarRef{kir::VarId{4}}});
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kBuilt)),
            "%e0: operand %e0 is not below its user\n"
            "%e1: %r4 does not exist\n"
            "%s0: %e9 does not exist\n"
            "%s0: %r5 does not exist\n"
            "%s1: stands in two places\n"
            "%s8: does not exist\n");
}

TEST(KernelVerifierTest, FindsConstantsThatTheTypeCannotHold) {
  kir::Kernel kernel = kernel_of(std::string(kHead) + "}");
  kernel.exprs.push_back({.type = DType::kF32, .kind = kir::FloatConstant{0.1}});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::FloatConstant{1.0}});
  EXPECT_EQ(all_of(verify_kernel(kernel, KernelStage::kBuilt)),
            "%e0: 0.1 is rounded to no f32\n"
            "%e1: 1 is no i32\n");
}

}  // namespace sinter::kernel_verifier_test
