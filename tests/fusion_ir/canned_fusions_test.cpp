#include "tests/support/canned_fusions.h"

#include <gtest/gtest.h>

#include <set>

#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/op_count.h"
#include "tests/support/random_fusion.h"

namespace sinter::canned_fusions_test {

const PassOptions kVerified = {.verify = true};
constexpr uint64_t kRandomFusions = 200;

void expect_round_trip(const Fusion& fusion) {
  const std::string text = print(fusion);
  const auto parsed = parse_fusion(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text() << "\n" << text;
  EXPECT_EQ(*parsed, fusion) << text;
  EXPECT_EQ(print(*parsed), text);
}

void expect_sound(const Fusion& fusion) {
  EXPECT_TRUE(verify(fusion).empty()) << text_of(verify(fusion));
  expect_round_trip(fusion);
  const Fusion simple = simplify(fusion, kVerified);
  EXPECT_TRUE(verify(simple).empty()) << text_of(verify(simple)) << print(simple);
  expect_round_trip(simple);
  EXPECT_EQ(simplify(simple, kVerified), simple) << print(simple);
  EXPECT_EQ(simple.inputs.size(), fusion.inputs.size());
  ASSERT_EQ(simple.outputs.size(), fusion.outputs.size());
  for (size_t i = 0; i < simple.outputs.size(); ++i) {
    EXPECT_EQ(simple.values[simple.outputs[i]].type, fusion.values[fusion.outputs[i]].type);
    EXPECT_EQ(simple.values[simple.outputs[i]].shape, fusion.values[fusion.outputs[i]].shape);
  }
}

/// No canned fusion has a call: most tests of them could not run it.
TEST(ExternalCalls, AreSoundBeforeAndAfterSimplification) {
  FusionBuilder b("calls");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kBF16, {rows, 32}, "x");
  const auto call = [&](ValueId operand) {
    return b.external("f", {operand}, {{DType::kF32, {rows, 32}}, {DType::kI64, {rows}}});
  };
  const ValueId first = call(b.cast(x, DType::kF32))[0];
  const ValueId again = call(b.cast(x, DType::kF32))[0];
  b.output(b.add(b.mul(first, b.constant(1.0)), call(again)[0]));
  const Fusion fusion = b.build();
  expect_sound(fusion);
  expect_sound(specialize(fusion, bind_extents(fusion, {{"rows", 4}}).value()));
  EXPECT_EQ(count_ops(simplify(fusion), "external"), 3);
}

class CannedFusions : public testing::TestWithParam<CannedFusion> {};

TEST_P(CannedFusions, AreSoundBeforeAndAfterSimplification) { expect_sound(GetParam().build()); }

TEST_P(CannedFusions, AreSoundAtBothSizes) {
  for (const ExtentValues* extents : {&GetParam().small, &GetParam().large}) {
    const Fusion fusion = GetParam().build();
    const auto binding = bind_extents(fusion, *extents);
    ASSERT_TRUE(binding.has_value()) << binding.error().text();
    expect_sound(specialize(fusion, *binding));
  }
}

TEST_P(CannedFusions, BuildTheSameGraphEachTime) {
  EXPECT_EQ(GetParam().build(), GetParam().build());
  EXPECT_EQ(GetParam().build().name, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(All, CannedFusions,
                         testing::ValuesIn(canned_fusions().begin(), canned_fusions().end()),
                         [](const auto& test) { return test.param.name; });

TEST(CannedFusionList, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const CannedFusion& canned : canned_fusions()) {
    EXPECT_TRUE(names.insert(canned.name).second) << canned.name;
    EXPECT_EQ(find_canned_fusion(canned.name), &canned);
    EXPECT_FALSE(canned.covers.empty());
  }
  EXPECT_EQ(find_canned_fusion("no_such_fusion"), nullptr);
}

TEST(CannedFusionList, StatisticsAreRecognised) {
  const auto ops = [](std::string_view name, std::string_view op) {
    const CannedFusion* canned = find_canned_fusion(name);
    const Fusion fusion = canned->build();
    const Binding binding = *bind_extents(fusion, canned->large);
    return count_ops(simplify(specialize(fusion, binding)), op);
  };
  for (const char* name :
       {"mean_variance", "layer_norm", "layer_norm_f32", "f64_layer_norm", "fused_add_layer_norm",
        "three_d_layer_norm", "group_norm", "batch_norm_statistics", "softmax_of_layer_norm"}) {
    EXPECT_EQ(ops(name, "welford"), 1) << name;
  }
  for (const char* name : {"softmax", "softmax_f32", "log_softmax", "scaled_masked_softmax",
                           "iota_mask", "cross_entropy", "softmax_of_layer_norm"}) {
    EXPECT_EQ(ops(name, "logsumexp"), 1) << name;
  }
  EXPECT_EQ(ops("many_live_tiles", "logsumexp"), 2);
}

TEST(RandomFusions, AreSoundBeforeAndAfterSimplification) {
  for (uint64_t seed = 0; seed < kRandomFusions; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Fusion fusion =
        random_fusion(seed, 4 + static_cast<int>(seed % 24), {.joins = seed % 2 == 0});
    expect_sound(fusion);
    expect_sound(specialize(fusion, *bind_extents(fusion, {{"rows", 3}, {"cols", 40}})));
    if (HasFailure()) break;
  }
}

TEST(RandomFusions, DependOnTheSeedAlone) {
  EXPECT_EQ(random_fusion(7), random_fusion(7));
  std::set<uint64_t> hashes;
  for (uint64_t seed = 0; seed < 50; ++seed) hashes.insert(structural_hash(random_fusion(seed)));
  EXPECT_EQ(hashes.size(), 50U);
}

}  // namespace sinter::canned_fusions_test
