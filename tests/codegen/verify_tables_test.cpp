// The launch shape, the tables and the ids of a kernel keep the limits of the hardware, and every
// id stands for something.

#include "codegen/kernel/verify_tables.h"

#include <gmock/gmock.h>

#include "scheduler/budgets/device_limits.h"
#include "tests/codegen/verified_kernel.h"

namespace sinter::verify_tables_test {

using testing::HasSubstr;

constexpr KernelStage kLowered = KernelStage::kLowered;

class VerifyTablesTest : public testing::TestWithParam<Planted> {};

TEST_P(VerifyTablesTest, FindsTheMistake) {
  const kir::Kernel kernel = kernel_with_body(GetParam().body);
  EXPECT_THAT(violations_of(kernel, GetParam().stage), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Registers, VerifyTablesTest,
    testing::Values(Planted{"var %r0 a : f32[0][4]", "%r0: a has 0 groups of 4 lanes"},
                    Planted{"var %r0 a : f32[2][65537]", "more than the 524288 bytes of a thread"},
                    Planted{"var %r0 a : f32[4294967296][4294967296]",
                            "more than the 524288 bytes"}));

INSTANTIATE_TEST_SUITE_P(
    Mbarriers, VerifyTablesTest,
    testing::Values(
        Planted{"mbarrier %m0 m count 0 arrivals 1", "%m0: there are 0 mbarriers m"},
        Planted{"mbarrier %m0 m count 1 arrivals 0", "%m0: m expects 0 arrivals"},
        Planted{"mbarrier %m0 m count 1 arrivals 1048576", "m expects 1048576 arrivals"},
        Planted{"mbarrier %m0 m count 1 arrivals 1", "%m0: shared m is at offset -1", kLowered},
        Planted{"mbarrier %m0 m count 1 arrivals 1 offset 260", "at offset 260", kLowered},
        Planted{"mbarrier %m0 m count 1 arrivals 1 offset 248",
                "%m0: shared m at 248 overlaps s, which ends at 256", kLowered}));

/// Of a buffer %b3 b.
INSTANTIATE_TEST_SUITE_P(
    Buffers, VerifyTablesTest,
    testing::Values(
        Planted{"buffer %b3 b : f32 global read align 12", "b of f32 is aligned to 12"},
        Planted{"buffer %b3 b : f64 global read align 4", "b of f64 is aligned to 4"},
        Planted{"buffer %b3 b : f32 global read align 4 count 8", "has a count or an offset"},
        Planted{"buffer %b3 b : f32 shared readwrite align 16 count 1048577", "1048577 elements"},
        Planted{"buffer %b3 b : i32 argument read align 4 value %v0 count 2", "a value or tensors"},
        Planted{"param %p1 x : f32", "%p1: parameter x is f32"},
        Planted{"buffer %b3 b : f32 argument read align 4 count 2",
                "argument b is f32, not i32 or i64"},
        Planted{"buffer %b3 b : i32 argument readwrite align 4 count 2", "argument b is written"},
        Planted{"buffer %b3 b : i32 argument read align 4", "argument b has 0 elements"},
        Planted{"buffer %b3 b : f32 global read align 4 tensors 1 values %v0 %v1",
                "b holds 2 tensors in 1 places"},
        Planted{"buffer %b3 b : f32 global read align 4 value %v0 tensors 1",
                "the table b holds a single value"},
        Planted{"buffer %b3 b : f32 shared readwrite align 16 tensors 1 count 4 offset 0",
                "shared b is a table"}));

TEST(VerifyLaunchTest, FindsBadLaunchShapes) {
  kir::Kernel kernel = kernel_with_body("");
  kernel.threads = 48;
  kernel.min_blocks_per_sm = 0;
  kernel.grid = {.work = kir::ParamId{7}, .per_block = 0};
  EXPECT_EQ(violations_of(kernel),
            "kernel: 48 threads; a block has a multiple of 32, from 32 to 1024\n"
            "kernel: 0 blocks per multiprocessor\n"
            "kernel: the grid counts %p7, which does not exist\n"
            "kernel: 0 per block\n");
}

TEST(VerifyLaunchTest, AcceptsTheLimits) {
  for (const int64_t threads : {32, 1024}) {
    kir::Kernel kernel = kernel_with_body("");
    kernel.threads = threads;
    kernel.cluster = kMostClusterBlocks;
    EXPECT_EQ(violations_of(kernel), "");
  }
  kir::Kernel kernel = kernel_with_body("");
  kernel.threads = 1056;
  kernel.cluster = 2 * kMostClusterBlocks;
  EXPECT_THAT(violations_of(kernel), HasSubstr("1056 threads"));
  EXPECT_THAT(violations_of(kernel), HasSubstr("blocks in a cluster"));
}

TEST(VerifyPlacementTest, FindsSharedBuffersThatOverlap) {
  const kir::Kernel kernel = kernel_with_body(R"(
  buffer %b3 t : f32 shared readwrite align 16 count 4 offset 240
  buffer %b4 u : f32 shared readwrite align 16 count 4 offset 260
  buffer %b5 v : f32 shared read align 16 count 0
)");
  EXPECT_EQ(violations_of(kernel, KernelStage::kLowered),
            "%b5: shared v has 0 elements\n"
            "%b5: shared v is not both read and written\n"
            "%b4: shared u is at offset 260\n"
            "%b5: shared v is at offset -1\n"
            "%b3: shared t at 240 overlaps s, which ends at 256\n");
}

/// Only kernels that are lowered have offsets. One that ends where another begins does not overlap.
TEST(VerifyPlacementTest, AcceptsNeighbours) {
  const kir::Kernel kernel = kernel_with_body(R"(
  buffer %b3 t : f32 shared readwrite align 16 count 4 offset 256
  mbarrier %m0 m count 1 arrivals 1 offset 272
)");
  EXPECT_EQ(violations_of(kernel, kLowered), "");
  EXPECT_EQ(violations_of(kernel_with_body("buffer %b3 t : f32 shared readwrite align 16 count 4")),
            "");
}

TEST(VerifyIdsTest, FindsIdsOutOfRange) {
  kir::Kernel kernel = kernel_with_body("barrier barrier");
  kernel.stmts[kir::StmtId{0}].kind = kir::Assign{kir::VarId{5}, kir::ExprId{9}};
  kernel.body.push_back(kir::StmtId{1});
  kernel.body.push_back(kir::StmtId{8});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::CastExpr{kir::ExprId{0}}});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::VarRef{kir::VarId{4}}});
  EXPECT_EQ(violations_of(kernel),
            "%e0: operand %e0 is not below its user\n"
            "%e1: %r4 does not exist\n"
            "%s0: %e9 does not exist\n"
            "%s0: %r5 does not exist\n"
            "%s1: stands in two places\n"
            "%s8: does not exist\n");
}

}  // namespace sinter::verify_tables_test
