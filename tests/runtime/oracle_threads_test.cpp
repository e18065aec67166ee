#include <gmock/gmock.h>

#include <bit>
#include <string>
#include <vector>

#include "runtime/check/host_execution.h"
#include "runtime/oracle/oracle.h"
#include "tests/support/canned_fusions.h"

namespace sinter::oracle_threads_test {

/// Bits of all elements and bounds: equal only where results are, NaNs and signs of zeros included.
std::vector<uint64_t> bits_of(const OracleResult& result) {
  std::vector<uint64_t> out;
  for (const OracleOutput& output : result.outputs) {
    for (const double x : output.real) out.push_back(std::bit_cast<uint64_t>(x));
    for (const int64_t x : output.integer) out.push_back(static_cast<uint64_t>(x));
    for (const double x : output.bound) out.push_back(std::bit_cast<uint64_t>(x));
  }
  return out;
}

class OracleThreads : public testing::TestWithParam<std::string> {};

TEST_P(OracleThreads, ResultDoesNotDependOnThem) {
  const Fusion fusion = find_canned_fusion(GetParam())->build();
  // Several ranges, none of which ends with a row, and columns that fill no block.
  const auto binding = bind_extents(fusion, {{"rows", 301}, {"cols", 523}});
  ASSERT_TRUE(binding) << binding.error().text();
  const std::vector<HostTensor> inputs = sample_inputs(fusion, *binding, 7);
  const auto alone = bits_of(evaluate(fusion, *binding, inputs, {.threads = 1}));
  for (const int threads : {0, 2, 7}) {
    EXPECT_TRUE(bits_of(evaluate(fusion, *binding, inputs, {.threads = threads})) == alone)
        << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, OracleThreads,
                         testing::Values("layer_norm", "layer_norm_backward", "softmax",
                                         "cross_entropy", "column_sum", "full_sum", "transpose_2d",
                                         "dynamic_int8_quant", "bias_gelu", "iota_mask"),
                         [](const auto& canned) { return canned.param; });

}  // namespace sinter::oracle_threads_test
