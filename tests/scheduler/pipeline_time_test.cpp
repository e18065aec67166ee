#include "scheduler/families/pipeline_time.h"

#include <gmock/gmock.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/warp_specialised.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"

namespace sinter::pipeline_time_test {

/// Constants that pipelines read, in gradients with an exchange in every row and without.
TEST(PipelineTimeTest, EveryConstantOfPipelinesMatters) {
  const DeviceLimits h200 = *find_device("H200");
  const auto cost = [&](const char* fusion, int64_t groups, const CostConstants& constants,
                        int64_t stages = 0) {
    const SegmentFacts facts =
        facts_of(find_canned_fusion(fusion)->build(), {{"rows", 8192}, {"cols", 4096}});
    if (stages == 0) stages = 4 * groups;
    Schedule schedule{.family = "warp_specialised",
                      .parameters = WarpSpecialisedParameters{.pipeline_stages = stages},
                      .threads_per_row = 256,
                      .rows_per_block = groups,
                      .vector_width = 8,
                      .persistent_blocks = h200.sm_count};
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, Residency::kReload});
    const ResourceEstimate estimate = estimate_warp_specialised(facts, schedule, h200).value();
    return predict_warp_specialised(facts, schedule, estimate, with(h200, constants)).total_us;
  };
  const auto dearer = [&](double CostConstants::*member, const char* fusion, int64_t groups = 2) {
    CostConstants constants = kConstants;
    constants.*member *= 2.0;
    return cost(fusion, groups, constants) > cost(fusion, groups, kConstants);
  };
  for (const char* fusion : {"layer_norm_backward", "dyt_backward"}) {
    EXPECT_TRUE(dearer(&CostConstants::pipeline_fill_share, fusion));
    EXPECT_TRUE(dearer(&CostConstants::pipeline_memory_share, fusion));
    EXPECT_TRUE(dearer(&CostConstants::pipeline_instruction_ns, fusion));
    EXPECT_TRUE(dearer(&CostConstants::pipeline_weight_ns, fusion));
    const bool exchanges = std::string_view(fusion) == "layer_norm_backward";
    EXPECT_EQ(dearer(&CostConstants::pipeline_row_ns, fusion), exchanges);
    EXPECT_EQ(dearer(&CostConstants::pipeline_warp_ns, fusion), exchanges);
  }
  // Three groups leave 72 registers to each thread, which wants more.
  EXPECT_TRUE(dearer(&CostConstants::pipeline_register_limit, "layer_norm_backward", 3));
  EXPECT_TRUE(dearer(&CostConstants::pipeline_wanted_registers, "layer_norm_backward", 3));
  // Few stages leave memory idle.
  for (double CostConstants::*member :
       {&CostConstants::pipeline_starved_penalty, &CostConstants::pipeline_bytes_in_flight}) {
    CostConstants constants = kConstants;
    constants.*member *= 2.0;
    EXPECT_GT(cost("layer_norm_backward", 2, constants, 4),
              cost("layer_norm_backward", 2, kConstants, 4));
  }
  // What issue bounds.
  EXPECT_TRUE(dearer(&CostConstants::pipeline_busy_warps, "dyt_backward"));
  CostConstants slow = kConstants;
  slow.issue_efficiency = 0.3;
  CostConstants steeper = slow;
  steeper.pipeline_warps_exponent = 1.0;
  EXPECT_LT(cost("dyt_backward", 2, steeper), cost("dyt_backward", 2, slow)) << "20 warps";
}

}  // namespace sinter::pipeline_time_test
