// Transposes through tiles in shared memory, at extents that fill tiles and at those that do not.

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_transpose.h"
#include "runtime/interpreter/interpreter.h"
#include "scheduler/families/transpose.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "tests/integration/canned_case.h"

namespace sinter::transpose_test {

DeviceLimits h200() { return *find_device("H200"); }

Plan plan_of(const Fusion& fusion, const ExtentValues& extents) {
  return plan(fusion, extents, h200(), {.families = builtin_families()}).value();
}

/// Tiles of different sides, vectors and threads.
std::vector<Schedule> shapes() {
  std::vector<Schedule> out = {
      {.threads_per_row = 8, .rows_per_block = 16, .vector_width = 4, .unroll = 2},
      {.threads_per_row = 8, .rows_per_block = 8, .vector_width = 8, .unroll = 8},
      {.threads_per_row = 32, .rows_per_block = 4, .vector_width = 1, .unroll = 8},
      {.threads_per_row = 2, .rows_per_block = 64, .vector_width = 16, .unroll = 1},
      {.threads_per_row = 64, .rows_per_block = 1, .vector_width = 2, .unroll = 16},
      {.threads_per_row = 16, .rows_per_block = 32, .vector_width = 2, .unroll = 1},
  };
  for (Schedule& shape : out) shape.family = std::string(kTranspose);
  return out;
}

class TransposeAt : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(TransposeAt, TilesAreTheOracles) {
  const auto [rows, columns] = GetParam();
  for (const char* name :
       {"transpose_2d", "transpose_cast", "add_transposed", "permute_inner", "permute_reversed"}) {
    const CannedFusion& canned = *find_canned_fusion(name);
    const Fusion fusion = canned.build();
    const Plan planned = plan_of(fusion, extents_of_width(canned, columns, rows));
    const Family family = *find_family(builtin_families(), kTranspose);
    for (const Schedule& shape : shapes()) {
      if (!family.estimate(planned.kernels.front().facts, shape, h200())) continue;
      EXPECT_TRUE(computes_the_oracle(fusion, planned, shape)) << name;
    }
    for (const Schedule& schedule : chosen_and_best_of_families(planned.kernels.front()))
      EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Extents, TransposeAt,
                         testing::Values(std::pair(64, 64), std::pair(128, 32), std::pair(33, 31),
                                         std::pair(1, 65), std::pair(65, 1), std::pair(3, 200),
                                         std::pair(127, 8), std::pair(8, 130), std::pair(66, 36),
                                         std::pair(2, 2)),
                         [](const auto& at) {
                           return fmt::format("{}x{}", at.param.first, at.param.second);
                         });

TEST(Transpose, TouchesNoBankTwice) {
  for (const char* name : {"transpose_2d", "transpose_cast", "permute_inner"}) {
    const CannedFusion& canned = *find_canned_fusion(name);
    const Fusion fusion = canned.build();
    const ExtentValues extents = extents_of_width(canned, 128, 128);
    const Plan planned = plan_of(fusion, extents);
    const Schedule shape{.family = std::string(kTranspose),
                         .threads_per_row = 32,
                         .rows_per_block = 8,
                         .vector_width = 4,
                         .unroll = 4};
    const auto check =
        check_on_host(fusion, planned.binding, planned, shape,
                      sample_inputs(fusion, planned.binding, 1), builtin_families(), {.seed = 1});
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
    EXPECT_EQ(check->report.work.bank_conflicts, 0) << name;
  }
}

/// Statements of a kind in a kernel.
template <class Stmt>
int64_t count_of(const kir::Kernel& kernel) {
  int64_t count = 0;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    if (std::holds_alternative<Stmt>(kernel.stmts[id].kind)) ++count;
  });
  return count;
}

TEST(Transpose, HasABarrierForEachWayThroughSharedMemory) {
  for (const auto& [name, barriers] :
       {std::pair("transpose_2d", 1), {"transpose_cast", 1}, {"add_transposed", 2}}) {
    const CannedFusion& canned = *find_canned_fusion(name);
    const Plan planned = plan_of(canned.build(), extents_of_width(canned, 256, 256));
    const LoweredKernel lowered = lower_transpose(planned.kernels.front().facts, shapes().front());
    EXPECT_EQ(count_of<kir::Barrier>(lowered.kernel), barriers) << name;
  }
}

TEST(Transpose, GuardsNothingWhereTilesAreWhole) {
  const CannedFusion& canned = *find_canned_fusion("transpose_2d");
  for (const auto& [columns, predicated] : {std::pair<int64_t, bool>{256, false}, {257, true}}) {
    const Plan planned = plan_of(canned.build(), extents_of_width(canned, columns, 256));
    const LoweredKernel lowered = lower_transpose(planned.kernels.front().facts, shapes().front());
    EXPECT_EQ(count_of<kir::If>(lowered.kernel) > 0, predicated);
  }
}

}  // namespace sinter::transpose_test
