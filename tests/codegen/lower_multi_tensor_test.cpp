#include "codegen/lower/lower_multi_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_multi_tensor_test {

using Tensors = ScheduledKernel::Tensors;

/// Members of a list: none, one element, less than a tile, tiles and some elements.
constexpr std::array<int64_t, 7> kSizes = {700, 1, 0, 2048, 33, 4097, 256};

/// 2 * x + 1 of every tensor.
Fusion list() {
  FusionBuilder b("list");
  for (const int64_t size : kSizes) {
    const ValueId x = b.input(DType::kF32, {size});
    b.output(b.add(b.add(x, x), b.constant(1.0)));
  }
  return b.build();
}

/// Blocks that begin and end where members do.
TEST(LowerMultiTensor, EveryBlockFindsItsMember) {
  const Fusion fusion = list();
  auto planned = plan(fusion, {}, *find_device("H200"),
                      {.families = builtin_families(), .cutting = Cutting::kNeeded});
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 1U);
  ASSERT_EQ(planned->kernels.front().chosen().schedule.family, kMultiTensor);
  for (const ProposedSchedule& candidate : planned->kernels.front().candidates) {
    ScheduledKernel(fusion, candidate.schedule)
        .expect_outputs(
            [](const Tensors& in) {
              Tensors out = in;
              for (std::vector<float>& values : out)
                std::ranges::transform(values, values.begin(), [](float x) { return 2 * x + 1; });
              return out;
            },
            1);
  }
}

}  // namespace sinter::lower_multi_tensor_test
