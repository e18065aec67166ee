// Narrow bounds of contractions beside those of the rule that looks at each product.

#include <gmock/gmock.h>

#include <cmath>

#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/sample_data.h"
#include "runtime/oracle/oracle.h"

namespace sinter::contracted_blocks_test {

struct Both {
  OracleOutput full, narrow;
};

Both evaluated(const std::string& fir, SampleData data, uint64_t seed = 1) {
  const Fusion fusion = parse_fusion(fir).value();
  const Binding binding;
  const std::vector<HostTensor> inputs = sample_inputs(fusion, binding, seed, data);
  return {evaluate(fusion, binding, inputs).outputs.front(),
          evaluate(fusion, binding, inputs, {.narrow = true}).outputs.front()};
}

/// Where both know the result, it is the same, and the narrow bound is no wider.
void expect_narrower(const Both& both) {
  ASSERT_EQ(both.full.real.size(), both.narrow.real.size());
  for (size_t i = 0; i < both.full.real.size(); ++i) {
    const double full = both.full.real[i];
    const double bound = both.full.bound[i];
    ASSERT_LE(both.narrow.bound[i], bound * (1.0 + 1e-9)) << i;
    if (std::isinf(bound)) continue;
    if (!std::isfinite(full)) {
      ASSERT_EQ(std::isnan(full), std::isnan(both.narrow.real[i])) << i;
      continue;
    }
    // Doubles add in another order.
    ASSERT_NEAR(both.narrow.real[i], full, 1e-9 * bound + 1e-300) << i;
  }
}

const std::vector<std::string>& graphs() {
  static const std::vector<std::string> kGraphs = {
      R"(fusion @rows_first {
  %v0 x : bf16[37, 200] = input
  %v1 w : bf16[150, 200] = input
  %v2 y : f32[37, 150] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})",
      R"(fusion @columns_first {
  %v0 x : f16[5, 40, 33] = input
  %v1 w : f16[5, 33, 129] = input
  %v2 y : f32[5, 129, 40] = contract.sum %v0, %v1 left(0, 2, 3) right(0, 3, 1) over(3)
  return %v2
})",
      R"(fusion @with_errors {
  %v0 x : f32[130, 64] = input
  %v1 w : f32[20, 64] = input
  %v2 : f32[130, 64] = exp %v0
  %v3 : f32[20, 64] = sin %v1
  %v4 y : f32[130, 20] = contract.sum %v2, %v3 left(0, 2) right(1, 2) over(2)
  return %v4
})",
      R"(fusion @in_tf32 {
  %v0 x : f32[13, 64] = input
  %v1 w : f32[20, 64] = input
  %v2 y : f32[13, 20] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2) precision(tf32)
  return %v2
})",
      R"(fusion @batches_between {
  %v0 x : bf16[6, 4, 16] = input
  %v1 w : bf16[4, 7, 16] = input
  %v2 y : f32[6, 4, 7] = contract.sum %v0, %v1 left(0, 1, 3) right(1, 2, 3) over(3)
  return %v2
})",
      R"(fusion @nothing_contracted {
  %v0 x : bf16[6, 0] = input
  %v1 w : bf16[7, 0] = input
  %v2 y : f32[6, 7] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})",
      R"(fusion @normed {
  %v0 x : bf16[20, 48] = input
  %v1 w : bf16[64, 48] = input
  %v2 : f32[20, 64] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : bf16[20, 64] = cast %v2
  %v4 : f32[20, 64] = cast %v3
  %v5 : f32[20] = reduce.max %v4 over(1)
  %v6 : f32[20, 64] = broadcast %v5 axes(0)
  %v7 y : f32[20, 64] = sub %v4, %v6
  return %v7
})"};
  return kGraphs;
}

TEST(ContractedBlocksTest, BoundsAreNoWiderOnAnyData) {
  for (const std::string& graph : graphs()) {
    for (const SampleData& data : sample_data()) {
      SCOPED_TRACE(graph + name_of(data));
      ASSERT_NO_FATAL_FAILURE(expect_narrower(evaluated(graph, data)));
    }
  }
}

// On ordinary data half of the bound is for roundings that may be alike.
TEST(ContractedBlocksTest, OrdinaryBoundsAreAlike) {
  const Both both = evaluated(graphs().front(), {}, 3);
  for (size_t i = 0; i < both.full.bound.size(); ++i) {
    EXPECT_GT(both.full.bound[i], 0.0);
    EXPECT_GT(both.narrow.bound[i], 0.4 * both.full.bound[i]);
  }
}

}  // namespace sinter::contracted_blocks_test
