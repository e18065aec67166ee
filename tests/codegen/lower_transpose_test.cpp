#include "codegen/lower/lower_transpose.h"

#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/families/transpose.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_transpose_test {

using Tensors = ScheduledKernel::Tensors;

/// x transposed minus y.
Fusion turned(int64_t rows, int64_t columns) {
  FusionBuilder b("turned");
  const ValueId x = b.input(DType::kF32, {columns, rows}, "x");
  const ValueId y = b.input(DType::kF32, {rows, columns}, "y");
  b.output(b.sub(b.permute(x, {1, 0}), y), "z");
  return b.build();
}

/// Tiles of several warps, inside and at the ends of both dimensions.
TEST(LowerTranspose, TilesAreWholeBeforeTheyAreReadAcross) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{64, 64}, {96, 160}, {33, 67}, {4, 130}}) {
    const Fusion fusion = turned(rows, columns);
    auto planned =
        plan(fusion, {}, *find_device("H200"),
             {.families = builtin_families(), .pin = {.family = std::string(kTranspose)}});
    ASSERT_TRUE(planned) << planned.error().text();
    const size_t candidates = planned->kernels.front().candidates.size();
    for (size_t i = 0; i < candidates; ++i) {
      const Schedule& schedule = planned->kernels.front().candidates[i].schedule;
      ScheduledKernel(fusion, schedule)
          .expect_outputs(
              [rows = rows, columns = columns](const Tensors& in) -> Tensors {
                std::vector<float> z(in[1].size());
                for (size_t k = 0; k < z.size(); ++k) {
                  const size_t row = k / static_cast<size_t>(columns);
                  const size_t column = k % static_cast<size_t>(columns);
                  z[k] = in[0][column * static_cast<size_t>(rows) + row] - in[1][k];
                }
                return {z};
              },
              2);
    }
  }
}

}  // namespace sinter::lower_transpose_test
