// What the matmul family takes, how its operands are copied, and what a plan chooses on four
// devices.

#include "scheduler/families/matmul.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/program/operand_copy.h"
#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"
#include "tests/split_schedule.h"
#include "tests/support/head_loss.h"
#include "tests/support/plan_matchers.h"

namespace sinter::matmul_test {

using program::CopyKind;
using program::OperandCopy;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Product {
  DType left = DType::kBF16;
  DType right = DType::kBF16;
  std::string equation = "mk,kn->mn";
  std::map<char, int64_t> sizes = {{'m', 4096}, {'n', 2048}, {'k', 512}, {'b', 4}};
  ContractFn fn = ContractFn::kSum;
  ContractPrecision precision = ContractPrecision::kIeee;
};

Fusion fusion_of(const Product& product) {
  FusionBuilder b("product");
  const size_t comma = product.equation.find(',');
  const auto input = [&](DType type, std::string_view letters) {
    Shape shape;
    for (const char letter : letters) shape.emplace_back(product.sizes.at(letter));
    return b.input(type, shape);
  };
  const std::string_view equation = product.equation;
  const ValueId left = input(product.left, equation.substr(0, comma));
  const ValueId right =
      input(product.right, equation.substr(comma + 1, equation.find('-') - comma - 1));
  b.output(b.contract(equation, left, right, {.fn = product.fn, .precision = product.precision}),
           "y");
  return b.build();
}

Result<Plan> planned(const Product& product, std::string_view device = "H100",
                     const PlanOptions& options = {}) {
  return plan(fusion_of(product), {}, *find_device(device), options);
}

std::string family_of(const Product& product, std::string_view device = "H100") {
  const auto plan = planned(product, device);
  return plan ? plan->kernels.front().chosen().schedule.family : plan.error().text();
}

/// Why a schedule with these parameters is refused; "planned" if it is not.
std::string refusal_of_pinned(const MatmulParameters& parameters, int64_t threads,
                              const Product& product, int64_t at_once = 1) {
  const Schedule schedule{.family = std::string(kMatmul),
                          .parameters = parameters,
                          .threads_per_row = threads,
                          .rows_per_block = at_once,
                          .vector_width = 2};
  const auto plan = planned(product, "H100", {.pin = {.schedule = schedule}});
  return plan ? "planned" : plan.error().text();
}

std::string refusal_of(const Fusion& fusion) {
  const auto rejection = refuse_matmul(facts_of(fusion));
  return rejection ? text_of(*rejection) : "taken";
}
std::string refusal_of(const Product& product) { return refusal_of(fusion_of(product)); }
std::string refusal_of(std::string_view text) { return refusal_of(parse_fusion(text).value()); }

TEST(MatmulTest, EveryDeviceContracts) {
  for (const char* device : {"A100", "H100", "H200", "B200", "RTX 4090"})
    EXPECT_EQ(family_of({}, device), kMatmul) << device;
}

// What no matrix instruction takes is multiplied by lanes, in the same tiles.
TEST(MatmulTest, EveryTypeIsContracted) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    for (const char* device : {"A100", "H200", "B200"})
      EXPECT_EQ(family_of({.left = type, .right = type}, device), kMatmul)
          << name_of(type) << " " << device;
  }
  EXPECT_EQ(family_of({.sizes = {{'m', 2048}, {'n', 2048}, {'k', 2048}}, .fn = ContractFn::kMax}),
            kMatmul);
}

TEST(MatmulTest, RefusesGathersFromAccumulators) {
  EXPECT_THAT(refusal_of(R"(fusion @labels {
  %v0 x : bf16[100, 64] = input
  %v1 w : bf16[128, 64] = input
  %v2 label : i64[100] = input
  %v3 : f32[100, 128] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[100] = reduce.max %v3 over(1)
  %v5 : f32[100] = take %v3, %v2 axis(1)
  %v6 : f32[100] = sub %v4, %v5
  return %v6
})"),
              HasSubstr("gathered from what lanes have in registers"));
}

// Two blocks would store what has one element for all heads.
TEST(MatmulTest, RefusesOutputsThatLackAnAxisOfTheRows) {
  EXPECT_THAT(refusal_of(R"(fusion @heads {
  %v0 x : bf16[100, 64] = input
  %v1 w : bf16[1024, 64] = input
  %v2 scale : f32[100] = input
  %v3 : f32[100, 1024] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[100, 8, 128] = reshape %v3
  %v5 : f32[100, 8] = reduce.max %v4 over(2)
  %v6 : f32[100] = exp %v2
  %v7 : f32[100, 8] = broadcast %v6 axes(0)
  %v8 : f32[100, 8] = mul %v5, %v7
  return %v8, %v6
})"),
              HasSubstr("an output has fewer axes than the contraction"));
}

// Heads are parts of a batch that share the rows, so that tiles of both are walked in groups.
TEST(MatmulTest, PartsOfARowAreABatch) {
  const SegmentFacts facts = facts_of(parse_fusion(R"(fusion @heads {
  %v0 x : bf16[1000, 64] = input
  %v1 w : bf16[1024, 64] = input
  %v2 : f32[1000, 1024] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : f32[1000, 8, 128] = reshape %v2
  %v4 : f32[1000, 8] = reduce.max %v3 over(2)
  %v5 : f32[1000, 8, 128] = broadcast %v4 axes(0, 1)
  %v6 : f32[1000, 8, 128] = sub %v3, %v5
  return %v6
})")
                                          .value());
  EXPECT_EQ(facts.space.contraction->batch_dimensions, 1U);
  EXPECT_EQ(facts.space.rows, 8 * 1000);
  EXPECT_EQ(facts.space.columns, 128);
  const Proposal proposal = propose_matmul(facts, *find_device("A100"));
  ASSERT_FALSE(proposal.candidates.empty());
  const auto wide = std::ranges::find_if(proposal.candidates, [](const auto& candidate) {
    const auto& own = std::get<MatmulParameters>(candidate.schedule.parameters);
    return own.tile_rows == 64 && own.tile_columns == 128;
  });
  ASSERT_NE(wide, proposal.candidates.end());
  EXPECT_THAT(print(matmul_program(facts, wide->schedule)),
              HasSubstr("for block n by 128, m by 64, batch by 1 group 8 {"));
}

TEST(MatmulTest, EightBitFloatsNeedTheirInstruction) {
  const Product product{.left = DType::kF8E4M3, .right = DType::kF8E5M2};
  EXPECT_EQ(family_of(product, "RTX 4090"), kMatmul);
  EXPECT_NE(family_of(product, "A100"), kMatmul);
  const auto plan = planned(product, "A100");
  ASSERT_TRUE(plan);
  const auto decision = std::ranges::find(plan->decisions, "element by element", &Decision::chosen);
  ASSERT_NE(decision, plan->decisions.end());
  EXPECT_THAT(decision->because, HasSubstr("no matrix instruction for the operands' type"));
}

TEST(MatmulTest, RefusalsNameTheRule) {
  EXPECT_EQ(refusal_of(Product{}), "taken");
  EXPECT_THAT(refusal_of({.fn = ContractFn::kLogSumExp}), HasSubstr("logsumexp has a pair"));
  EXPECT_THAT(refusal_of({.equation = "k,k->"}), HasSubstr("has no columns"));
  EXPECT_THAT(refusal_of(R"(fusion @nothing {
  %v0 a : bf16[64, 16] = input
  %v1 b : bf16[0, 16] = input
  %v2 : f32[64, 0] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : f32[64] = reduce.sum %v2 over(1)
  return %v3
})"),
              HasSubstr("a row that is reduced has no elements"));
  EXPECT_THAT(refusal_of({.sizes = {{'m', 1}, {'n', 2}, {'k', int64_t{1} << 36}}}),
              HasSubstr("the contracted axis is longer than a kernel counts"));
  for (const char* shape : {"f32", "f32[24]", "f32[8]"}) {
    const Fusion beside = parse_fusion(fmt::format(R"(fusion @beside {{
  %v0 x : bf16[8, 16] = input
  %v1 w : bf16[24, 16] = input
  %v2 s : {0} = input
  %v3 y : f32[8, 24] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : {0} = exp %v2
  %v5 : f32[8, 24] = broadcast %v4 axes({1})
  %v6 : f32[8, 24] = mul %v3, %v5
  return %v6, %v4
}})",
                                                   shape,
                                                   std::string_view(shape) == "f32"      ? ""
                                                   : std::string_view(shape) == "f32[8]" ? "0"
                                                                                         : "1"))
                              .value();
    EXPECT_THAT(text_of(*refuse_matmul(facts_of(beside))),
                HasSubstr("an output has fewer axes than the contraction"))
        << shape;
  }
  EXPECT_THAT(text_of(*refuse_matmul(facts_of(parse_fusion(R"(fusion @copy {
  %v0 x : f32[8] = input
  %v1 y : f32[8] = neg %v0
  return %v1
})")
                                                  .value()))),
              HasSubstr("the segment contracts nothing"));
}

// Losses of a language model's head, with every option, for vocabularies that tiles divide and for
// one that they do not: what passes through memory is a small part of the logits, 2 GiB at first.
TEST(MatmulTest, LossesOfAHeadTakeLittleMemory) {
  for (const auto& [name, options] : head_losses()) {
    const Fusion fusion = head_loss(options);
    for (const auto& [rows, words] :
         {std::pair<int64_t, int64_t>{8192, 128256}, {4096, 151936}, {8192, 50257}}) {
      const auto planned =
          plan(fusion, {{"M", rows}, {"K", 4096}, {"N", words}}, *find_device("H200"), {});
      ASSERT_TRUE(planned) << planned.error().text();
      // A maximum, a sum and the label's logit of each tile's rows, and with smoothing their sum.
      const int64_t most = options.smoothing ? 80'000'000 : 64'000'000;
      EXPECT_LE(planned->workspace_bytes, most)
          << name << ": " << rows << " rows, " << words << " words";
    }
  }
}

/// A product that is multiplied, stored, and reduced over its rows, and what else follows.
std::string reduced_columns(std::string_view sizes, std::string_view rest) {
  return fmt::format(R"(fusion @columns {{
  %v0 x : bf16[{0}, 64] = input
  %v1 w : bf16[3072, 64] = input
  %v2 h : bf16[{0}, 3072] = input
  %v3 : f32[{0}, 3072] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[{0}, 3072] = cast %v2
  %v5 : f32[{0}, 3072] = mul %v3, %v4
{1}
}})",
                     sizes, rest);
}

// Reductions over the rows of a product whose elements are stored leave partial results, where no
// tile has all rows. Alone, they are rows of the transposed product.
TEST(MatmulTest, ReductionsOverTheRowsAreOuterBesideStoredElements) {
  const SegmentFacts sums =
      facts_of(parse_fusion(reduced_columns("8192",
                                            "  %v6 : f32[3072] = reduce.sum %v5 over(0)\n"
                                            "  return %v5, %v6"))
                   .value());
  EXPECT_TRUE(sums.has_outer());
  EXPECT_EQ(sums.space.columns, 3072);
  EXPECT_EQ(refuse_matmul(sums), std::nullopt);
  const SegmentFacts alone =
      facts_of(parse_fusion(reduced_columns("8192",
                                            "  %v6 : f32[3072] = reduce.sum %v5 over(0)\n"
                                            "  return %v6"))
                   .value());
  EXPECT_FALSE(alone.has_outer());
  EXPECT_EQ(alone.space.columns, 8192);
  // Elements that need the results are rows, too.
  const SegmentFacts needed =
      facts_of(parse_fusion(reduced_columns("512", R"(  %v6 : f32[3072] = reduce.max %v5 over(0)
  %v7 : f32[512, 3072] = broadcast %v6 axes(1)
  %v8 : f32[512, 3072] = sub %v5, %v7
  return %v8)"))
                   .value());
  EXPECT_FALSE(needed.has_outer());
  EXPECT_EQ(needed.space.columns, 512);
  EXPECT_THAT(
      refusal_of(reduced_columns("8192", R"(  %v6, %v7 : f32[3072], f32[3072] = welford %v5 over(0)
  return %v5, %v6, %v7)")),
      HasSubstr("partial results of an outer reduction are single values"));
  EXPECT_THAT(refusal_of(reduced_columns("0",
                                         "  %v6 : f32[3072] = reduce.sum %v5 over(0)\n"
                                         "  return %v5, %v6")),
              HasSubstr("no tile stores the result"));
}

// What follows the contraction joins its kernel; a second contraction has a kernel of its own.
TEST(MatmulTest, EpiloguesJoinAndContractionsDoNot) {
  const auto chain = parse_fusion(R"(fusion @chain extents(rows) {
  %v0 x : bf16[rows, 256] = input
  %v1 w : bf16[1024, 256] = input
  %v2 u : bf16[256, 1024] = input
  %v3 : f32[rows, 1024] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[rows, 1024] = tanh %v3
  %v5 hidden : bf16[rows, 1024] = cast %v4
  %v6 y : f32[rows, 256] = contract.sum %v5, %v2 left(0, 2) right(1, 2) over(2)
  return %v6
})");
  EXPECT_THAT(plan(*chain, {{"rows", 8192}}, *find_device("H100")),
              KernelsAre(Kernel("matmul", Writes("hidden")),
                         Kernel("matmul", Reads("hidden"), Writes("y"))));
}

TEST(MatmulTest, APinnedFamilyThatDoesNotContractRulesItOut) {
  const auto plan = planned({.sizes = {{'m', 64}, {'n', 32}, {'k', 16}}}, "H100",
                            {.pin = {.family = std::string(kColumn)}});
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan->kernels.front().chosen().schedule.family, kColumn);
}

TEST(MatmulTest, TheWayOfContractingMayBeGiven) {
  const Product small{.sizes = {{'m', 8}, {'n', 24}, {'k', 16}}};
  const auto family = [&](const Product& product, Contracting contracting) {
    const auto plan = planned(product, "H100", {.contracting = contracting});
    return plan ? plan->kernels.front().chosen().schedule.family : plan.error().text();
  };
  EXPECT_NE(family(small, Contracting::kFaster), kMatmul);
  EXPECT_EQ(family(small, Contracting::kKernels), kMatmul);
  EXPECT_EQ(family({}, Contracting::kFaster), kMatmul);
  EXPECT_NE(family({}, Contracting::kElements), kMatmul);
}

// A plan for a range of sizes follows one plan, also to sizes where the other way is faster.
TEST(MatmulTest, PlansThatFollowAnotherContractAsItDoes) {
  const auto linear = parse_fusion(R"(fusion @linear extents(M, K, N) {
  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 y : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})");
  const ExtentValues small = {{"M", 4}, {"K", 64}, {"N", 64}};
  const ExtentValues large = {{"M", 4096}, {"K", 512}, {"N", 512}};
  const DeviceLimits h100 = *find_device("H100");
  for (const auto& [at, other] : {std::pair(small, large), {large, small}}) {
    const auto model = plan(*linear, at, h100);
    ASSERT_TRUE(model);
    const auto followed =
        plan(*linear, other, h100, {.like = std::make_shared<const Plan>(*model)});
    ASSERT_TRUE(followed) << followed.error().text();
    EXPECT_EQ(followed->kernels.front().chosen().schedule.family,
              model->kernels.front().chosen().schedule.family);
  }
}

// A product written element by element is contracted by a kernel where that is faster, and stays as
// it is elsewhere.
TEST(MatmulTest, ProductsWrittenByHandAreContracted) {
  const auto text = [](int64_t size, std::string_view type) {
    return fmt::format(R"(fusion @by_hand {{
  %v0 x : {1}[{0}, {0}] = input
  %v1 w : {1}[{0}, {0}] = input
  %v2 : f32[{0}, {0}] = cast %v0
  %v3 : f32[{0}, {0}] = cast %v1
  %v4 : f32[{0}, {0}, {0}] = broadcast %v2 axes(0, 1)
  %v5 : f32[{0}, {0}, {0}] = broadcast %v3 axes(1, 2)
  %v6 : f32[{0}, {0}, {0}] = mul %v4, %v5
  %v7 y : f32[{0}, {0}] = reduce.sum %v6 over(1)
  return %v7
}})",
                       size, type);
  };
  const auto family = [&](int64_t size, std::string_view type, Contracting contracting) {
    const auto planned = plan(parse_fusion(text(size, type)).value(), {}, *find_device("H100"),
                              {.contracting = contracting});
    return planned ? planned->kernels.front().chosen().schedule.family : planned.error().text();
  };
  EXPECT_EQ(family(4096, "bf16", Contracting::kFaster), kMatmul);
  EXPECT_NE(family(4096, "bf16", Contracting::kElements), kMatmul);
  EXPECT_NE(family(4, "bf16", Contracting::kFaster), kMatmul);
}

TEST(MatmulTest, LargeTilesForLargeProductsAndSmallOnesForFew) {
  const auto tile = [](int64_t m, int64_t n, int64_t k) {
    const auto plan = planned({.sizes = {{'m', m}, {'n', n}, {'k', k}}});
    return plan->kernels.front().chosen().schedule;
  };
  EXPECT_GE(tile(8192, 4096, 4096).tile_rows(), 128);
  EXPECT_LE(tile(16, 14336, 4096).tile_rows(), 64);
  EXPECT_LE(tile(256, 256, 256).tile_rows() * tile(256, 256, 256).tile_columns(), 64 * 64);
}

// Hopper multiplies by warp groups; other devices, small products and operands that a tensor map
// cannot address by warps.
TEST(MatmulTest, WarpGroupsMultiplyWhereTheyCan) {
  const auto registers = [](const Product& product, std::string_view device = "H100") {
    const auto plan = planned(product, device);
    return plan ? plan->kernels.front().chosen().schedule.consumer_registers() : -1;
  };
  const Product large{.sizes = {{'m', 8192}, {'n', 4096}, {'k', 4096}}};
  EXPECT_EQ(registers(large), 232);
  EXPECT_EQ(registers(large, "H200"), 232);
  for (const char* device : {"A100", "B200", "RTX 4090"}) EXPECT_EQ(registers(large, device), 0);
  EXPECT_EQ(registers({.sizes = {{'m', 8192}, {'n', 4096}, {'k', 4100}}}), 0);
  EXPECT_EQ(registers({.left = DType::kF8E4M3,
                       .right = DType::kF8E4M3,
                       .equation = "mk,nk->mn",
                       .sizes = large.sizes}),
            0);
}

TEST(MatmulTest, WarpGroupsMultiplyF32InThreeProducts) {
  Product product{.left = DType::kF32,
                  .right = DType::kF32,
                  .equation = "mk,nk->mn",
                  .sizes = {{'m', 8192}, {'n', 4096}, {'k', 4096}}};
  product.precision = ContractPrecision::kTf32x3;
  const KernelPlan kernel = planned(product, "H200")->kernels.front();
  EXPECT_GT(kernel.chosen().schedule.consumer_registers(), 0);
  EXPECT_EQ(planned(product, "A100")->kernels.front().chosen().schedule.consumer_registers(), 0);
  const std::string text = print(matmul_program(kernel.facts, kernel.chosen().schedule));
  EXPECT_THAT(text, HasSubstr("registers 88 leaves 208 split warps 3\n"));
  EXPECT_THAT(text, HasSubstr("split %right into it and %right_second\n"));
  EXPECT_THAT(text, HasSubstr("contract sum tf32x3 %sum += %left * %right with %right_second\n"));
  // Three products of half the rate of bf16, and what splitting takes.
  Product once = product;
  once.precision = ContractPrecision::kTf32;
  const auto us = [](const KernelPlan& planned) {
    const Prediction& predicted = planned.chosen().predicted;
    return predicted.total_us - predicted.launch_us;
  };
  const double once_us = us(planned(once, "H200")->kernels.front());
  EXPECT_GT(us(kernel), 3.0 * once_us);
  EXPECT_LT(us(kernel), 3.5 * once_us);
}

// Measured: docs/experiments/split_operands.md.
TEST(MatmulTest, ThreeProductsArePredicted) {
  struct Measured {
    int64_t m, k, n, rows, columns, depth, stages;
    double us;
  };
  for (const Measured& cell : {Measured{2048, 512, 2048, 128, 256, 16, 4, 41.2},
                               {2048, 512, 2048, 256, 128, 16, 4, 40.4},
                               {1024, 1024, 1024, 128, 128, 32, 4, 41.4},
                               {2048, 2048, 2048, 256, 128, 16, 4, 135.5},
                               {131072, 512, 512, 128, 256, 16, 4, 568.1},
                               {1024, 1024, 1024, 128, 64, 32, 6, 30.0}}) {
    Product product{.left = DType::kF32,
                    .right = DType::kF32,
                    .equation = "mk,nk->mn",
                    .sizes = {{'m', cell.m}, {'n', cell.n}, {'k', cell.k}}};
    product.precision = ContractPrecision::kTf32x3;
    const int64_t tiles = cell.m / cell.rows * (cell.n / cell.columns);
    const Schedule pinned = split_schedule(cell.rows, cell.columns, cell.depth, cell.stages,
                                           std::min<int64_t>(tiles, 132));
    const SegmentFacts facts = planned(product, "H200")->kernels.front().facts;
    const DeviceLimits limits = *find_device("H200");
    const auto estimate = estimate_matmul(facts, pinned, limits);
    ASSERT_TRUE(estimate) << text_of(estimate.error());
    EXPECT_NEAR(predict_matmul(facts, pinned, *estimate, limits).total_us, cell.us, 0.05 * cell.us)
        << cell.m << " " << cell.k << " " << cell.n;
  }
}

// The warps beside the producer split stages, so that none are left for rows.
TEST(MatmulTest, NoWarpsEvaluateRowsBesideThreeProducts) {
  FusionBuilder b("rows");
  const ValueId x = b.input(DType::kF32, {4096, 512});
  const ValueId w = b.input(DType::kF32, {256, 512});
  ContractOptions options;
  options.precision = ContractPrecision::kTf32x3;
  const ValueId y = b.linear(x, w, {}, options);
  b.output(b.sub(y, b.broadcast_over(b.amax(y, {1}), y, {1})), "y");
  const SegmentFacts facts = facts_of(b.build());
  Schedule schedule = split_schedule(128, 256, 16, 3, 4096 / 128);
  EXPECT_TRUE(estimate_matmul(facts, schedule, *find_device("H200")));
  std::get<MatmulParameters>(schedule.parameters).epilogue_warps = 3;
  const auto estimate = estimate_matmul(facts, schedule, *find_device("H200"));
  ASSERT_FALSE(estimate);
  EXPECT_THAT(text_of(estimate.error()), HasSubstr("split stages into TF32 parts"));
}

using Change = std::function<void(Schedule&, MatmulParameters&)>;

/// A schedule of two warp groups, changed.
PlanOptions pinned_groups(MatmulParameters own, const Change& change) {
  Schedule schedule{.family = std::string(kMatmul),
                    .threads_per_row = 256,
                    .vector_width = 2,
                    .persistent_blocks = 132};
  change(schedule, own);
  schedule.parameters = own;
  return {.pin = {.schedule = schedule}};
}

/// What one tile reads need not stay in L2: the weights of few rows, or rows of few columns.
TEST(MatmulTest, WhatOneTileReadsLeavesL2First) {
  const auto priority = [](int64_t m, int64_t n, int64_t k) {
    const auto plan =
        planned({.equation = "mk,nk->mn", .sizes = {{'m', m}, {'n', n}, {'k', k}}}, "H200");
    return plan->kernels.front().chosen().schedule.read_priority;
  };
  EXPECT_EQ(priority(16, 14336, 4096), ReadPriority::kEvictFirst);
  EXPECT_EQ(priority(1 << 16, 32, 1024), ReadPriority::kEvictFirst);
  EXPECT_EQ(priority(4096, 4096, 4096), ReadPriority::kNormal) << "tiles share both operands";

  const auto copies_of = [](int64_t m, int64_t n, std::string_view word) {
    const SegmentFacts facts =
        facts_of(fusion_of({.equation = "mk,nk->mn", .sizes = {{'m', m}, {'n', n}, {'k', 512}}}));
    const auto schedule = parse_schedule(fmt::format(
        "schedule matmul {{ threads_per_row 256 rows_per_block 1 vector_width 2 unroll 1 "
        "min_blocks_per_sm 1 persistent_blocks 8 tile_rows 64 tile_columns 64 tile_depth 64 "
        "row_warps 4 pipeline_stages 3 consumer_registers 232 row_access aligned read_priority {} "
        "}}",
        word));
    return program::print(matmul_program(facts, schedule.value()));
  };
  EXPECT_THAT(copies_of(16, 4096, "evict_first"),
              AllOf(HasSubstr("rows width 64\n"), HasSubstr("columns width 64 evict_first\n")));
  EXPECT_THAT(copies_of(4096, 64, "evict_first"),
              AllOf(HasSubstr("rows width 64 evict_first\n"), HasSubstr("columns width 64\n")));
  EXPECT_THAT(copies_of(16, 4096, "normal"), Not(HasSubstr("evict")));
}

TEST(MatmulTest, PinnedWarpGroupsAreRefusedWithNumbers) {
  const auto refused = [](const Change& change, const Product& product = {},
                          std::string_view device = "H100") {
    const MatmulParameters own{.tile_rows = 128,
                               .tile_columns = 256,
                               .tile_depth = 64,
                               .row_warps = 8,
                               .pipeline_stages = 4,
                               .consumer_registers = 232};
    const auto plan = planned(product, device, pinned_groups(own, change));
    return plan ? "planned" : plan.error().text();
  };
  const auto nothing = [](Schedule&, MatmulParameters&) {};
  EXPECT_EQ(refused(nothing), "planned");
  EXPECT_THAT(refused(nothing, {}, "A100"), HasSubstr("no matrix instructions of warp groups"));
  EXPECT_THAT(refused(nothing, {.left = DType::kF8E4M3, .right = DType::kF8E4M3}),
              HasSubstr("8-bit floats with fewer bits than f32"));
  EXPECT_THAT(refused(nothing, {.sizes = {{'m', 256}, {'n', 256}, {'k', 0}}}),
              HasSubstr("a tensor map has no empty axis"));
  EXPECT_THAT(refused(nothing, {.sizes = {{'m', 256}, {'n', 256}, {'k', 20}}}),
              HasSubstr("a stride of a tensor map is a multiple of 16 bytes"));
  EXPECT_THAT(refused([](Schedule& s, MatmulParameters&) { s.persistent_blocks = 0; }),
              HasSubstr("set both persistent_blocks and consumer_registers"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.consumer_registers = 240; }),
              HasSubstr("more registers than the producer leaves (value 240, limit 232"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.row_warps = 2; }),
              HasSubstr("a warp group has four warps"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.pipeline_stages = 6; }),
              HasSubstr("more shared memory than the device offers"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.tile_rows = 32; }),
              HasSubstr("not whole matrix instructions"));
  // Two blocks of 384 threads have 80 registers each; 64 accumulators take 90.
  EXPECT_THAT(refused([](Schedule& schedule, MatmulParameters& own) {
                schedule.min_blocks_per_sm = 2;
                own.tile_columns = 128;
                own.pipeline_stages = 2;
                own.consumer_registers = 96;
              }),
              HasSubstr("fewer registers than a matrix instruction takes (value 80, limit 90"));
}

/// A norm of the rows of a product.
Result<Plan> planned_norm(int64_t m, int64_t k, int64_t n, std::string_view device,
                          const PlanOptions& options = {}) {
  FusionBuilder b("norm");
  const ValueId x = b.input(DType::kBF16, {m, k});
  const ValueId w = b.input(DType::kBF16, {n, k});
  b.output(rms_norm(b, b.linear(x, w), {.output = DType::kBF16}).y, "y");
  return plan(b.build(), {}, *find_device(device), options);
}

/// The plan of an RMS norm with weights of a product that is rounded to bf16.
tl::expected<Plan, Error> planned_rounded_norm(int64_t m, int64_t k, int64_t n,
                                               std::string_view device,
                                               const PlanOptions& options = {}) {
  FusionBuilder b("norm");
  const ValueId x = b.input(DType::kBF16, {m, k});
  const ValueId w = b.input(DType::kBF16, {n, k});
  const ValueId weight = b.input(DType::kBF16, {n});
  const ValueId product = b.cast(b.linear(x, w), DType::kBF16);
  b.output(rms_norm(b, product, {.output = DType::kBF16, .weight = weight}).y, "y");
  return plan(b.build(), {}, *find_device(device), options);
}

// One kernel where a block has all columns of its rows, or the blocks of a cluster have them
// together; two kernels otherwise.
TEST(MatmulTest, RowsAreReducedInTheKernelThatHasThem) {
  const auto schedules = [](int64_t m, int64_t k, int64_t n, std::string_view device) {
    const auto plan = planned_rounded_norm(m, k, n, device);
    std::vector<Schedule> out;
    if (!plan) ADD_FAILURE() << plan.error().text();
    if (!plan) return out;
    for (const KernelPlan& kernel : plan->kernels) out.push_back(kernel.chosen().schedule);
    return out;
  };
  for (const char* device : {"H100", "H200"}) {
    SCOPED_TRACE(device);
    const auto narrow = schedules(131072, 256, 256, device);
    ASSERT_EQ(narrow.size(), 1U);
    EXPECT_EQ(narrow.front().tile_columns(), 256);
    EXPECT_EQ(narrow.front().cluster_size(), 1);
    EXPECT_EQ(narrow.front().epilogue_warps(), 7);
    EXPECT_EQ(narrow.front().consumer_registers(), 160);
    EXPECT_EQ(narrow.front().persistent_blocks, 132);
    const auto wide = schedules(131072, 512, 2048, device);
    ASSERT_EQ(wide.size(), 1U);
    EXPECT_EQ(wide.front().tile_columns(), 256);
    EXPECT_EQ(wide.front().cluster_size(), 8);
    EXPECT_EQ(wide.front().epilogue_warps(), 7);
    EXPECT_EQ(wide.front().consumer_registers(), 160);
    EXPECT_EQ(wide.front().persistent_blocks % 8, 0);
    EXPECT_EQ(schedules(131072, 512, 500, device).front().cluster_size(), 2);
  }
  for (const char* device : {"A100", "B200"}) {
    SCOPED_TRACE(device);
    EXPECT_EQ(schedules(131072, 512, 2048, device).size(), 2U);
    for (const Schedule& schedule : schedules(131072, 256, 256, device))
      EXPECT_EQ(schedule.cluster_size() * schedule.consumer_registers(), 0);
  }
  for (const char* device : {"H100", "H200", "A100", "B200"}) {
    SCOPED_TRACE(device);
    for (const int64_t columns : {8192, 255, 2047}) {
      const auto cut = schedules(131072, 512, columns, device);
      ASSERT_EQ(cut.size(), 2U) << columns;
      EXPECT_EQ(cut.front().family, kMatmul);
      EXPECT_NE(cut.back().family, kMatmul);
    }
  }
}

// Whatever is offered for rows that are reduced has all of their columns in one block or cluster.
TEST(MatmulTest, TilesOfReducedRowsHaveAllColumns) {
  for (const char* device : {"H100", "A100"}) {
    for (const int64_t columns : {2, 34, 64, 100, 130, 256, 258, 500, 1024, 2048, 4096}) {
      const auto plan =
          planned_norm(4096, 256, columns, device, {.pin = {.family = std::string(kMatmul)}});
      if (!plan) continue;
      for (const ProposedSchedule& proposed : plan->kernels.front().candidates) {
        if (!plan->kernels.front().facts.has_reduction()) continue;
        const Schedule& schedule = proposed.schedule;
        EXPECT_GE(schedule.tile_columns() * schedule.cluster_size(), columns) << device << "\n"
                                                                              << print(schedule);
      }
    }
  }
}

TEST(MatmulTest, PinnedClustersAreRefusedWithNumbers) {
  const auto refused = [](const Change& change, int64_t columns = 400,
                          std::string_view device = "H100") {
    const MatmulParameters own{.tile_rows = 128,
                               .tile_columns = 128,
                               .tile_depth = 64,
                               .row_warps = 8,
                               .pipeline_stages = 4,
                               .cluster_size = 4,
                               .consumer_registers = 232};
    PlanOptions options = pinned_groups(own, change);
    options.cutting = Cutting::kNeeded;
    const auto plan = planned_norm(4096, 256, columns, device, options);
    return plan ? "planned" : plan.error().text();
  };
  const auto nothing = [](Schedule&, MatmulParameters&) {};
  const auto of = [](int64_t cluster) {
    return [cluster](Schedule& schedule, MatmulParameters& own) {
      own.cluster_size = cluster;
      schedule.persistent_blocks = 4 * std::max<int64_t>(cluster, 1);
    };
  };
  EXPECT_EQ(refused(nothing), "planned");
  EXPECT_EQ(refused(of(8)), "planned");
  EXPECT_THAT(refused(of(2)),
              HasSubstr("does not split evenly over its warps (value 200, limit 128"));
  EXPECT_THAT(refused(of(1)), HasSubstr("does not fit the fragment of a warp or warp group (value "
                                        "400, limit 128 columns"));
  EXPECT_THAT(refused(of(3), 384), HasSubstr("a cluster has a power of two of blocks (value 3"));
  EXPECT_THAT(refused(of(0)), HasSubstr("a cluster has a power of two of blocks (value 0"));
  EXPECT_THAT(refused(of(32), 4096),
              HasSubstr("a cluster has a power of two of blocks (value 32, limit 16 blocks"));
  EXPECT_THAT(refused(of(4), 404), HasSubstr("share the columns evenly (value 4, limit 0 columns"));
  EXPECT_THAT(refused([](Schedule& s, MatmulParameters&) { s.persistent_blocks = 130; }),
              HasSubstr("a grid has whole clusters (value 130, limit 4 blocks"));
  EXPECT_THAT(refused([](Schedule& s, MatmulParameters& own) {
                s.persistent_blocks = 0;
                own.consumer_registers = 0;
              }),
              HasSubstr("only blocks with a producer form clusters (value 4, limit 1 blocks"));
  EXPECT_THAT(refused(nothing, 400, "A100"), HasSubstr("no matrix instructions of warp groups"));
  // A product alone reduces no rows.
  const MatmulParameters own{.tile_rows = 128,
                             .tile_columns = 128,
                             .tile_depth = 64,
                             .row_warps = 8,
                             .pipeline_stages = 4,
                             .cluster_size = 2,
                             .consumer_registers = 232};
  const Schedule alone{.family = std::string(kMatmul),
                       .parameters = own,
                       .threads_per_row = 256,
                       .vector_width = 2,
                       .persistent_blocks = 132};
  const auto plan = planned({}, "H100", {.pin = {.schedule = alone}});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().text(),
              HasSubstr("clusters share rows that are reduced (value 2, limit 1 blocks"));
}

TEST(MatmulTest, PinnedEpiloguesAreRefusedWithNumbers) {
  const auto refused = [](const Change& change, int64_t columns = 512, int64_t rows = 4096) {
    const MatmulParameters own{.tile_rows = 128,
                               .tile_columns = 256,
                               .tile_depth = 64,
                               .row_warps = 8,
                               .pipeline_stages = 3,
                               .cluster_size = 2,
                               .consumer_registers = 160,
                               .epilogue_warps = 7};
    PlanOptions options = pinned_groups(own, change);
    options.cutting = Cutting::kNeeded;
    const auto plan = planned_rounded_norm(rows, 256, columns, "H100", options);
    return plan ? "planned" : plan.error().text();
  };
  const auto warps = [](int64_t number) {
    return [number](Schedule&, MatmulParameters& own) { own.epilogue_warps = number; };
  };
  EXPECT_EQ(refused([](Schedule&, MatmulParameters&) {}), "planned");
  EXPECT_EQ(refused(warps(3)), "planned");
  EXPECT_THAT(refused(warps(8)), HasSubstr("beside the producer's in two warp groups (value 8, "
                                           "limit 7 warps"));
  EXPECT_THAT(refused(warps(-1)), HasSubstr("(value -1, limit 7 warps"));
  EXPECT_THAT(refused([](Schedule& s, MatmulParameters& own) {
                s.threads_per_row = 128;
                s.rows_per_block = 2;
                own.tile_rows = 64;
                own.row_warps = 4;
              }),
              HasSubstr("take turns evaluate their own tiles (value 2, limit 1 tiles"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.consumer_registers = 168; }),
              HasSubstr("more registers than the producer leaves (value 168, limit 160"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.consumer_registers = 88; }),
              HasSubstr("fewer registers than the producer's keep (value 88, limit 96 registers"));
  EXPECT_THAT(
      refused([](Schedule& s, MatmulParameters& own) {
        s.min_blocks_per_sm = 2;
        own.consumer_registers = 96;
      }),
      HasSubstr("fewer registers than the producer's warp groups keep (value 64, limit 96"));
  EXPECT_THAT(refused([](Schedule&, MatmulParameters&) {}, 500),
              HasSubstr("lanes take whole chunks of a row (value 500, limit 16 columns"));
  for (const int64_t cluster : {0, -2, 3}) {
    EXPECT_THAT(
        refused([&](Schedule&, MatmulParameters& own) { own.cluster_size = cluster; }, 768),
        HasSubstr(fmt::format("a cluster has a power of two of blocks (value {}", cluster)));
  }
  // Four pipeline stages and a tile of 64 KiB.
  EXPECT_THAT(refused([](Schedule&, MatmulParameters& own) { own.pipeline_stages = 4; }),
              HasSubstr("shared memory"));
  const auto by_messages = [&](const Change& change) {
    return refused([&](Schedule& s, MatmulParameters& own) {
      own.exchange = ExchangeKind::kMessages;
      change(s, own);
    });
  };
  EXPECT_EQ(by_messages([](Schedule&, MatmulParameters&) {}), "planned");
  EXPECT_THAT(by_messages([](Schedule&, MatmulParameters& own) { own.epilogue_warps = 0; }),
              HasSubstr("send messages (value 0, limit 1 warps"));
  EXPECT_THAT(by_messages([](Schedule&, MatmulParameters& own) { own.cluster_size = 1; }),
              HasSubstr("send messages (value 1, limit 2 blocks"));
  const auto messages = [&](int64_t blocks, DependentLaunch launch) {
    return refused(
        [&](Schedule& s, MatmulParameters& own) {
          own.exchange = ExchangeKind::kMessages;
          s.persistent_blocks = blocks;
          s.dependent_launch = launch;
        },
        512, 131072);
  };
  EXPECT_EQ(messages(132, DependentLaunch::kNone), "planned");
  EXPECT_THAT(messages(134, DependentLaunch::kNone),
              HasSubstr("run at the same time (value 134, limit 132 blocks"));
  // Four pipeline stages and a tile of 64 KiB fit no block.
  EXPECT_THAT(by_messages([](Schedule&, MatmulParameters& own) { own.pipeline_stages = 4; }),
              HasSubstr("shared memory"));
  EXPECT_THAT(messages(64, DependentLaunch::kWait),
              HasSubstr("are launched when all others have ended"));
}

// Places of 8 bytes for the tuples of two blocks and 128 rows, in two copies, of 132 blocks.
TEST(MatmulTest, MessagesLieInTheWorkspace) {
  const MatmulParameters own{.tile_rows = 128,
                             .tile_columns = 256,
                             .tile_depth = 64,
                             .row_warps = 8,
                             .pipeline_stages = 3,
                             .cluster_size = 2,
                             .exchange = ExchangeKind::kMessages,
                             .consumer_registers = 160,
                             .epilogue_warps = 7};
  PlanOptions options =
      pinned_groups(own, [](Schedule& s, MatmulParameters&) { s.persistent_blocks = 132; });
  options.cutting = Cutting::kNeeded;
  const auto plan = planned_rounded_norm(131072, 256, 512, "H100", options);
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_EQ(plan->workspace.size(), 1U);
  EXPECT_EQ(plan->workspace.front().holds, WorkspaceTensor::Holds::kMessages);
  EXPECT_TRUE(plan->workspace.front().is_zero_between_launches());
  EXPECT_EQ(plan->workspace.front().bytes, 132 * (128 * 2 * 2) * 8);
  EXPECT_THAT(plan_violations(*plan), testing::IsEmpty());
  Plan in_two = *plan;
  in_two.workspace.push_back(in_two.workspace.front());
  in_two.workspace.front().bytes = 256;
  in_two.workspace.back().bytes -= 256;
  EXPECT_THAT(plan_violations(in_two), testing::Contains(HasSubstr("in 2 tensors, not one")));
  Plan without = *plan;
  without.workspace.clear();
  EXPECT_THAT(plan_violations(without), testing::Contains(HasSubstr("exchange messages in")));
}

// Clusters of eight leave SMs of an H200 idle. The decision names the schedule without teams.
TEST(MatmulTest, TeamsAreOfferedWhereClustersLeaveSmsIdle) {
  const auto with = planned_rounded_norm(131072, 2048, 2048, "H200");
  ASSERT_TRUE(with) << with.error().text();
  const Schedule& team = with->kernels.front().chosen().schedule;
  EXPECT_EQ(team.exchange(), ExchangeKind::kMessages);
  EXPECT_EQ(team.persistent_blocks, 128);
  EXPECT_EQ(team.cluster_size(), 8);
  EXPECT_EQ(team.launched_cluster(), 1);
  EXPECT_EQ(team.dependent_launch, DependentLaunch::kNone);
  const auto decision =
      std::ranges::find(with->decisions, "which schedule runs the segment", &Decision::question);
  ASSERT_NE(decision, with->decisions.end());
  EXPECT_THAT(decision->because, HasSubstr("(PlanOptions::teams = false) matmul:"));
  const auto without = planned_rounded_norm(131072, 2048, 2048, "H200", {.teams = false});
  ASSERT_TRUE(without) << without.error().text();
  EXPECT_GT(without->predicted_us(), with->predicted_us());
  for (const KernelPlan& kernel : without->kernels) {
    for (const ProposedSchedule& candidate : kernel.candidates)
      EXPECT_EQ(candidate.schedule.exchange(), ExchangeKind::kCluster);
  }
  const auto refused =
      planned_rounded_norm(131072, 2048, 2048, "H200", {.pin = {.schedule = team}, .teams = false});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().text(), HasSubstr("teams = false"));
  const auto followed = planned_rounded_norm(
      131072, 2048, 2048, "H200", {.like = std::make_shared<Plan>(*with), .teams = false});
  ASSERT_FALSE(followed);
  EXPECT_THAT(followed.error().text(), HasSubstr("has blocks that wait for each other"));
  // Clusters of two take all SMs.
  const auto pairs = planned_rounded_norm(131072, 2048, 512, "H200");
  ASSERT_TRUE(pairs) << pairs.error().text();
  for (const ProposedSchedule& candidate : pairs->kernels.front().candidates) {
    if (candidate.schedule.cluster_size() == 2) {
      EXPECT_EQ(candidate.schedule.exchange(), ExchangeKind::kCluster);
    }
  }
}

// A product that is rounded to 16 bits is handed over so. In f32 its tile would take the room of
// the stages.
TEST(MatmulTest, EpiloguesStoreProductsOfManyTiles) {
  for (const char* device : {"H100", "H200"}) {
    SCOPED_TRACE(device);
    const auto chosen = [&](int64_t m, int64_t n, int64_t k) {
      const Fusion fusion = parse_fusion(R"(fusion @rounded extents(m, n, k) {
  %v0 x : bf16[m, k] = input
  %v1 w : bf16[n, k] = input
  %v2 : f32[m, n] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 y : bf16[m, n] = cast %v2
  return %v3
})")
                                .value();
      const auto plan =
          sinter::plan(fusion, {{"m", m}, {"n", n}, {"k", k}}, *find_device(device), {});
      return plan->kernels.front().chosen().schedule;
    };
    // Three warps store in the time of many steps of a tile, and leave the widest instruction.
    EXPECT_EQ(chosen(8192, 14336, 4096).epilogue_warps(), 3);
    EXPECT_EQ(chosen(8192, 14336, 4096).tile_columns(), 256);
    EXPECT_GT(chosen(131072, 512, 512).epilogue_warps(), 0);
    EXPECT_EQ(chosen(131072, 512, 512).cluster_size(), 1);
    // A block with one tile has nothing to multiply meanwhile.
    EXPECT_EQ(chosen(2048, 2048, 2048).epilogue_warps(), 0);
  }
}

// Measured: benchmarks/results/h200_2026-11-29_elements.json.
TEST(MatmulTest, ElementsBesideProductsArePredicted) {
  struct Measured {
    bool adds;  ///< A residual.
    int64_t n, k, rows, columns, stages, warps;
    double us;
  };
  for (const Measured& cell : {Measured{false, 3072, 768, 128, 256, 4, 0, 62.3},
                               {false, 3072, 768, 128, 256, 3, 0, 62.6},
                               {false, 3072, 768, 128, 256, 2, 0, 77.4},
                               {false, 3072, 768, 256, 128, 4, 0, 61.7},
                               {false, 3072, 768, 128, 128, 6, 0, 64.6},
                               {false, 3072, 768, 128, 128, 3, 0, 75.8},
                               {false, 3072, 768, 128, 128, 2, 0, 106.8},
                               {false, 3072, 768, 128, 256, 3, 7, 60.8},
                               {false, 3072, 768, 256, 128, 3, 7, 62.6},
                               {true, 3072, 768, 128, 256, 3, 7, 69.3},
                               {true, 3072, 768, 128, 256, 3, 3, 85.2},
                               {true, 3072, 768, 128, 128, 5, 7, 81.5},
                               {true, 3072, 768, 128, 256, 4, 0, 87.4},
                               {false, 4096, 4096, 128, 256, 4, 0, 353.0},
                               {false, 4096, 4096, 128, 256, 3, 3, 349.5},
                               {false, 4096, 4096, 256, 128, 3, 3, 386.1},
                               {false, 4096, 4096, 128, 256, 3, 7, 383.2},
                               {true, 14336, 4096, 128, 256, 4, 0, 1323.5},
                               {true, 14336, 4096, 128, 256, 3, 3, 1235.9},
                               {true, 14336, 4096, 256, 128, 3, 7, 1354.4}}) {
    SCOPED_TRACE(fmt::format("N {} K {}, {} x {}, {} stages, {} warps{}", cell.n, cell.k, cell.rows,
                             cell.columns, cell.stages, cell.warps, cell.adds ? ", residual" : ""));
    FusionBuilder b("elements");
    const ValueId x = b.input(DType::kBF16, {8192, cell.k});
    const ValueId w = b.input(DType::kBF16, {cell.n, cell.k});
    ValueId y = b.cast(b.linear(x, w), DType::kBF16);
    if (cell.adds) {
      const ValueId residual = b.cast(b.input(DType::kBF16, {8192, cell.n}), DType::kF32);
      y = b.cast(b.add(b.cast(y, DType::kF32), residual), DType::kBF16);
    }
    b.output(y, "y");
    const Schedule schedule{
        .family = std::string(kMatmul),
        .parameters = MatmulParameters{.tile_rows = cell.rows,
                                       .tile_columns = cell.columns,
                                       .tile_depth = 64,
                                       .row_warps = 8,
                                       .pipeline_stages = cell.stages,
                                       .consumer_registers = cell.warps == 0  ? 232
                                                             : cell.warps > 3 ? 160
                                                                              : 184,
                                       .epilogue_warps = cell.warps},
        .threads_per_row = 256,
        .vector_width = 2,
        .persistent_blocks = 132};
    const auto plan =
        sinter::plan(b.build(), {}, *find_device("H200"), {.pin = {.schedule = schedule}});
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_NEAR(plan->predicted_us(), cell.us, 0.155 * cell.us);
  }
}

// Measured: benchmarks/results/h200_2026-11-30_exchanges.json, but for the first three, of
// h200_2026-11-28_epilogue_warps.json.
TEST(MatmulTest, RowsBesideProductsArePredicted) {
  struct Measured {
    int64_t k, n;
    double us;
    int64_t warps = 7;
    ExchangeKind exchange = ExchangeKind::kCluster;
  };
  double errors = 0.0;
  const std::vector<Measured> cells = {
      {.k = 256, .n = 256, .us = 47.9},
      {.k = 512, .n = 512, .us = 127.0},
      {.k = 512, .n = 1024, .us = 252.7},
      {.k = 512, .n = 2048, .us = 489.0},
      {.k = 1024, .n = 2048, .us = 803.0, .exchange = ExchangeKind::kMessages},
      {.k = 2048, .n = 2048, .us = 1449.4, .warps = 3, .exchange = ExchangeKind::kMessages}};
  for (const Measured& cell : cells) {
    const auto plan = planned_rounded_norm(131072, cell.k, cell.n, "H200");
    ASSERT_TRUE(plan) << plan.error().text();
    const Schedule& chosen = plan->kernels.front().chosen().schedule;
    EXPECT_EQ(chosen.epilogue_warps(), cell.warps) << cell.k << " " << cell.n;
    EXPECT_EQ(chosen.exchange(), cell.exchange) << cell.k << " " << cell.n;
    EXPECT_NEAR(plan->predicted_us(), cell.us, 0.06 * cell.us) << cell.k << " " << cell.n;
    errors += std::abs(plan->predicted_us() / cell.us - 1.0);
  }
  EXPECT_LT(errors / static_cast<double>(cells.size()), 0.05);
}

/// Microseconds of a kernel of a transformer layer by tiles of 128 x 128, as predicted for an H200.
double predicted_by_tiles(std::string_view body) {
  const SegmentFacts facts =
      facts_of(parse_fusion(fmt::format("fusion @layer {{\n{}}}", body)).value());
  const Schedule schedule{.family = std::string(kMatmul),
                          .parameters = MatmulParameters{.tile_rows = 128,
                                                         .tile_columns = 128,
                                                         .tile_depth = 64,
                                                         .row_warps = 8,
                                                         .pipeline_stages = 6,
                                                         .consumer_registers = 232},
                          .threads_per_row = 256,
                          .vector_width = 2,
                          .persistent_blocks = 132};
  const DeviceLimits limits = *find_device("H200");
  const auto estimate = estimate_matmul(facts, schedule, limits);
  EXPECT_TRUE(estimate) << text_of(estimate.error());
  return predict_matmul(facts, schedule, *estimate, limits).total_us;
}

// Measured: benchmarks/results/h200_2026-11-28_layers_fused.json, kernels llama_layer_forward_gate
// and bert_layer_forward_mlp_sum_parts. The predictions contain a launch, which was not measured.
TEST(MatmulTest, WhatFollowsProductsIsPredicted) {
  const double swiglu = predicted_by_tiles(R"(
  %v0 x : bf16[8192, 4096] = input
  %v1 w : bf16[14336, 4096] = input
  %v2 : f32[8192, 14336] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 gate : bf16[8192, 14336] = cast %v2
  %v4 : f32[8192, 14336] = cast %v3
  %v5 : f32[8192, 14336] = neg %v4
  %v6 : f32[8192, 14336] = exp %v5
  %v7 : f32 = constant 0x1p+0
  %v8 : f32[8192, 14336] = broadcast %v7 axes()
  %v9 : f32[8192, 14336] = add %v6, %v8
  %v10 : f32[8192, 14336] = reciprocal %v9
  %v11 : f32[8192, 14336] = mul %v4, %v10
  %v12 up : bf16[8192, 14336] = input
  %v13 : f32[8192, 14336] = cast %v12
  %v14 : f32[8192, 14336] = mul %v11, %v13
  %v15 y : bf16[8192, 14336] = cast %v14
  return %v3, %v15
)");
  EXPECT_NEAR(swiglu, 1545.2, 0.06 * 1545.2);
  const double dropout = predicted_by_tiles(R"(
  %v0 seed : i64 = input
  %v1 : i64[8192, 768] = broadcast %v0 axes()
  %v2 offset : i64 = input
  %v3 : i64[8192, 768] = broadcast %v2 axes()
  %v4 : i64[8192, 768] = iota axis(0)
  %v5 : i64 = constant 768
  %v6 : i64[8192, 768] = broadcast %v5 axes()
  %v7 : i64[8192, 768] = mul %v4, %v6
  %v8 : i64[8192, 768] = add %v3, %v7
  %v9 : i64[8192, 768] = iota axis(1)
  %v10 : i64[8192, 768] = add %v8, %v9
  %v11 : f32[8192, 768] = philox_uniform %v1, %v10
  %v12 : f32 = constant 0x1.99999ap-4
  %v13 : f32[8192, 768] = broadcast %v12 axes()
  %v14 : bool[8192, 768] = ge %v11, %v13
  %v15 x : bf16[8192, 3072] = input
  %v16 w : bf16[768, 3072] = input
  %v17 : f32[8192, 768] = contract.sum %v15, %v16 left(0, 2) right(1, 2) over(2)
  %v18 : bf16[8192, 768] = cast %v17
  %v19 : f32[8192, 768] = cast %v18
  %v20 bias : bf16[768] = input
  %v21 : f32[768] = cast %v20
  %v22 : f32[8192, 768] = broadcast %v21 axes(1)
  %v23 : f32[8192, 768] = add %v19, %v22
  %v24 : bf16[8192, 768] = cast %v23
  %v25 : f32[8192, 768] = cast %v24
  %v26 : f32 = constant 0x1.1c71c8p+0
  %v27 : f32[8192, 768] = broadcast %v26 axes()
  %v28 : f32[8192, 768] = mul %v25, %v27
  %v29 : f32 = constant 0x0p+0
  %v30 : f32[8192, 768] = broadcast %v29 axes()
  %v31 : f32[8192, 768] = select %v14, %v28, %v30
  %v32 h : bf16[8192, 768] = input
  %v33 : f32[8192, 768] = cast %v32
  %v34 : f32[8192, 768] = add %v31, %v33
  %v35 sum : bf16[8192, 768] = cast %v34
  %v36 : f32[8192, 768] = cast %v35
  %v37 : f32[8192, 6, 128] = reshape %v36
  %v38, %v39 : f32[8192, 6], f32[8192, 6] = welford %v37 over(2)
  return %v38, %v39, %v35
)");
  EXPECT_NEAR(dropout, 134.1, 0.12 * 134.1);
}

// A constant that changes no prediction of any kernel says nothing.
TEST(MatmulTest, EveryConstantMatters) {
  const auto rows = [](int64_t columns, std::string_view tail) {
    return parse_fusion(fmt::format(R"(fusion @rows {{
  %v0 x : bf16[8192, 512] = input
  %v1 w : bf16[{0}, 512] = input
  %v2 z : bf16[8192, {0}] = input
  %v3 : f32[8192, {0}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[8192, {0}] = cast %v2
  %v5 : f32[8192, {0}] = add %v3, %v4
  %v6 : f32[8192, {0}] = exp %v5
{1}}})",
                                    columns, tail))
        .value();
  };
  const std::string norm = R"(  %v7 : f32[8192] = reduce.sum %v6 over(1)
  %v8 : f32[8192, {0}] = broadcast %v7 axes(0)
  %v9 : f32[8192, {0}] = div %v6, %v8
  %v10 y : bf16[8192, {0}] = cast %v9
  return %v10
)";
  const auto norm_of = [&](int64_t columns) {
    return rows(columns, fmt::format(fmt::runtime(norm), columns));
  };
  FusionBuilder random("dropout");
  const ValueId x = random.input(DType::kBF16, {8192, 512});
  const ValueId w = random.input(DType::kBF16, {4096, 512});
  const ValueId seed = random.input(DType::kI64, {});
  const ValueId offset = random.input(DType::kI64, {});
  random.output(dropout(random, random.linear(x, w), 0.1, seed, offset, DType::kBF16).y, "y");
  const Fusion with_dropout = random.build();
  const std::map<char, int64_t> square = {{'m', 4096}, {'n', 4096}, {'k', 4096}};
  const auto product = [&](DType type, ContractPrecision precision = ContractPrecision::kIeee) {
    return fusion_of({.left = type,
                      .right = type,
                      .equation = "mk,nk->mn",
                      .sizes = square,
                      .precision = precision});
  };
  std::vector<SegmentFacts> segments;
  for (const Fusion& fusion :
       {norm_of(256), norm_of(1024), with_dropout,
        rows(4096, "  %v7 y : bf16[8192, 4096] = cast %v6\n  return %v7\n"), product(DType::kBF16),
        product(DType::kF32), product(DType::kF32, ContractPrecision::kTf32x3),
        product(DType::kF8E4M3)})
    segments.push_back(facts_of(fusion));
  const auto totals = [&](const DeviceLimits& limits) {
    std::vector<double> out;
    for (const SegmentFacts& facts : segments) {
      for (const ProposedSchedule& candidate : propose_matmul(facts, limits).candidates)
        out.push_back(candidate.predicted.total_us);
    }
    return out;
  };
  const DeviceLimits h200 = *find_device("H200");
  const std::vector<double> before = totals(h200);
  size_t constants = 0;
  for (const CostConstantField& field : cost_constant_fields()) {
    if (!field.name.starts_with("matmul.")) continue;
    ++constants;
    // Rates may be limited by something else in one direction.
    const auto changes = [&](double factor) {
      DeviceLimits changed = h200;
      field.of(changed.cost) *= factor;
      return totals(changed) != before;
    };
    EXPECT_TRUE(changes(1.5) || changes(0.5)) << field.name;
  }
  EXPECT_GE(constants, 15U);
}

TEST(MatmulTest, ALargerDeviceIsNotSlower) {
  DeviceLimits limits = *find_device("H100");
  const Fusion fusion = fusion_of({});
  const double before = plan(fusion, {}, limits)->predicted_us();
  for (double DeviceLimits::*rate :
       {&DeviceLimits::matrix_products_per_clock, &DeviceLimits::memory_bytes_per_us,
        &DeviceLimits::clock_mhz}) {
    DeviceLimits faster = limits;
    faster.*rate *= 2.0;
    EXPECT_LE(plan(fusion, {}, faster)->predicted_us(), before);
  }
}

TEST(MatmulTest, PinnedTilesAreRefusedWithNumbers) {
  const auto refused = [](const MatmulParameters& parameters, int64_t threads,
                          int64_t at_once = 1) {
    return refusal_of_pinned(parameters, threads, {}, at_once);
  };
  const MatmulParameters good{.tile_rows = 128,
                              .tile_columns = 128,
                              .tile_depth = 32,
                              .row_warps = 2,
                              .pipeline_stages = 3};
  EXPECT_EQ(refused(good, 128), "planned");
  MatmulParameters changed = good;
  changed.pipeline_stages = 16;
  EXPECT_THAT(refused(changed, 128), HasSubstr("more shared memory than the device offers"));
  changed = good;
  changed.tile_rows = changed.tile_columns = 256;
  changed.row_warps = 1;
  EXPECT_THAT(refused(changed, 32), HasSubstr("a thread's fragments exceed its registers"));
  changed = good;
  changed.row_warps = 3;
  EXPECT_THAT(refused(changed, 128), HasSubstr("does not split evenly over its warps"));
  changed = good;
  changed.tile_depth = 8;
  EXPECT_THAT(refused(changed, 128), HasSubstr("two chunks at least"));
  EXPECT_THAT(refused(good, 100), HasSubstr("whole warps"));
  EXPECT_THAT(refused(good, 128, 2),
              HasSubstr("only blocks with a producer work on several tiles at once (value 2"));
  EXPECT_THAT(refused(good, 128, 0), HasSubstr("whole warps"));
}

/// Up to eight rows are as fast as their weights are read; more go through shared memory.
TEST(MatmulTest, WarpsTakeTurnsWhereWeightsAreAll) {
  const auto chosen = [](int64_t m, int64_t n, int64_t k, std::string_view device = "H200") {
    const auto plan =
        planned({.equation = "mk,nk->mn", .sizes = {{'m', m}, {'n', n}, {'k', k}}}, device);
    return plan->kernels.front().chosen();
  };
  for (const char* device : {"A100", "H200", "B200"}) {
    EXPECT_GT(chosen(4, 14336, 4096, device).schedule.slice_warps(), 0) << device;
    EXPECT_EQ(chosen(16, 14336, 4096, device).schedule.slice_warps(), 0) << device;
    EXPECT_EQ(chosen(4096, 4096, 4096, device).schedule.slice_warps(), 0) << device;
  }
  // benchmarks/results/h200_2026-11-29_decode.json, whose outputs are bf16.
  EXPECT_NEAR(chosen(8, 14336, 4096).predicted.total_us, 36.0, 2.0);
  EXPECT_NEAR(chosen(8, 4096, 14336).predicted.total_us, 36.0, 2.0);
  EXPECT_NEAR(chosen(8, 6144, 4096).predicted.total_us, 18.5, 1.0);
}

/// An RMS norm in front of a product of two rows, whose weights are an input or computed.
Fusion normed_product(bool computes_weights) {
  FusionBuilder b("normed_product");
  const ValueId x = b.input(DType::kBF16, {2, 4096});
  ValueId w = b.input(DType::kBF16, {6144, 4096});
  if (computes_weights) w = b.cast(b.mul(w, b.constant(2.0)), DType::kBF16);
  const ValueId y = rms_norm(b, x, {.output = DType::kBF16}).y;
  b.output(b.cast(b.linear(y, w), DType::kBF16));
  if (computes_weights) b.output(w);
  return b.build();
}

// The weights of a product of few rows are on their way while the kernel before it runs, unless the
// plan writes them.
TEST(MatmulTest, ColumnsThatThePlanDoesNotWriteAreLoadedBeforeTheWait) {
  for (const bool computes_weights : {false, true}) {
    auto plan = sinter::plan(normed_product(computes_weights), {}, *find_device("H200"), {});
    ASSERT_TRUE(plan) << plan.error().text();
    const auto contracts = std::ranges::find_if(plan->kernels, [](const KernelPlan& kernel) {
      return kernel.facts.space.contraction.has_value();
    });
    ASSERT_NE(contracts, plan->kernels.end());
    Schedule& schedule = contracts->candidates.front().schedule;
    EXPECT_GT(schedule.slice_warps(), 0);
    EXPECT_EQ(schedule.dependent_launch,
              computes_weights ? DependentLaunch::kWait : DependentLaunch::kPreload);
    EXPECT_THAT(plan_violations(*plan), IsEmpty());
    if (!computes_weights) {
      EXPECT_EQ(plan->kernels.front().chosen().schedule.dependent_launch,
                DependentLaunch::kTrigger);
    }
    schedule.dependent_launch = DependentLaunch::kPreload;
    EXPECT_EQ(plan_violations(*plan).empty(), !computes_weights);
  }
  const Schedule tiles{.family = std::string(kMatmul),
                       .parameters = MatmulParameters{.tile_rows = 16,
                                                      .tile_columns = 32,
                                                      .tile_depth = 32,
                                                      .row_warps = 1,
                                                      .pipeline_stages = 3},
                       .threads_per_row = 64,
                       .vector_width = 2,
                       .dependent_launch = DependentLaunch::kPreload};
  const auto pinned = planned({}, "H100", {.pin = {.schedule = tiles}});
  ASSERT_FALSE(pinned);
  EXPECT_THAT(pinned.error().text(), HasSubstr("load before they wait"));
}

TEST(MatmulTest, PinnedSlicesAreRefusedWithNumbers) {
  const auto refused = [](const MatmulParameters& parameters, int64_t threads,
                          const Product& product = {.equation = "mk,nk->mn"}) {
    return refusal_of_pinned(parameters, threads, product);
  };
  const MatmulParameters good{
      .tile_rows = 8, .tile_columns = 16, .tile_depth = 64, .pipeline_stages = 4, .slice_warps = 4};
  EXPECT_EQ(refused(good, 128), "planned");
  EXPECT_THAT(refused(good, 256), HasSubstr("all warps of a block take parts of the contracted "
                                            "axis, and no producer (got 4, limit 8)"));
  MatmulParameters changed = good;
  changed.slice_warps = -4;
  EXPECT_THAT(refused(changed, 128), HasSubstr("got -4"));
  changed.slice_warps = (int64_t{1} << 59) + 4;  // Times 32 it wraps to 128.
  EXPECT_THAT(refused(changed, 128), HasSubstr("limit 4"));
  changed = good;
  changed.epilogue_warps = 2;
  EXPECT_THAT(refused(changed, 128),
              HasSubstr("only blocks with a producer have warps of an epilogue (got 2, limit 0)"));
  changed = good;
  changed.tile_depth = 32;
  EXPECT_THAT(refused(changed, 128), HasSubstr("a direct copy brings a line of 128 bytes"));
  changed = good;
  changed.tile_rows = 12;
  EXPECT_THAT(refused(changed, 128), HasSubstr("not whole matrix instructions"));
  changed = good;
  changed.tile_columns = 4;
  EXPECT_THAT(refused(changed, 128), HasSubstr("two chunks at least"));
  changed = good;
  changed.tile_columns = 256;
  EXPECT_THAT(refused(changed, 128), HasSubstr("warps and parts of a tile differ in number"));
  EXPECT_THAT(refused(good, 128, {.equation = "mk,kn->mn"}),
              HasSubstr("lanes load 16 bytes along the contracted axis [%v1] (got 0, limit 16)"));
  EXPECT_THAT(refused(good, 128,
                      {.equation = "mk,nk->mn", .sizes = {{'m', 4096}, {'n', 2048}, {'k', 516}}}),
              HasSubstr("lanes load 16 bytes along the contracted axis [%v0] (got 8, limit 16)"));
  EXPECT_THAT(refused(good, 128, {DType::kF32, DType::kF32, "mk,nk->mn"}),
              HasSubstr("lanes multiply what is in shared memory"));
}

TEST(MatmulTest, OperandsAreCopiedAlongTheAxisThatIsContiguous) {
  const auto copies = [](const Product& product) {
    const SegmentFacts facts = facts_of(fusion_of(product));
    return std::pair(program::operand_copy(facts, true), program::operand_copy(facts, false));
  };
  const OperandCopy along_k{.contracted_is_inner = true, .kind = CopyKind::kAsync, .width = 8};
  const OperandCopy across{.contracted_is_inner = false, .kind = CopyKind::kAsync, .width = 8};
  const OperandCopy plain{.contracted_is_inner = true, .kind = CopyKind::kPlain, .width = 1};
  EXPECT_EQ(copies({}), std::pair(along_k, across));
  EXPECT_EQ(copies({.equation = "mk,nk->mn"}), std::pair(along_k, along_k));
  EXPECT_EQ(copies({.equation = "km,kn->mn"}), std::pair(across, across));
  EXPECT_EQ(copies({.equation = "bkm,bnk->bmn"}), std::pair(across, along_k));
  // The columns of a transposed result are those of the left operand.
  EXPECT_EQ(copies({.equation = "mk,nk->nm"}), std::pair(along_k, along_k));
  OperandCopy narrow = along_k;
  narrow.width = 2;
  EXPECT_EQ(copies({.equation = "mk,nk->mn", .sizes = {{'m', 8}, {'n', 8}, {'k', 34}}}),
            std::pair(narrow, narrow));
  EXPECT_EQ(copies({.equation = "mk,nk->mn", .sizes = {{'m', 8}, {'n', 8}, {'k', 33}}}),
            std::pair(plain, plain));
  // Matrix loads do not transpose bytes.
  EXPECT_EQ(copies({.left = DType::kI8, .right = DType::kI8}).second, plain);
}

// A single product is no contraction.
TEST(MatmulTest, APinnedFamilyThatIsNotForTheSegmentSaysSo) {
  const Fusion fusion = parse_fusion(R"(fusion @one {
  %v0 x : bf16[1, 1] = input
  %v1 w : bf16[1, 1] = input
  %v2 y : f32[1, 1] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})")
                            .value();
  const auto plan =
      sinter::plan(fusion, {}, *find_device("H200"), {.pin = {.family = std::string(kMatmul)}});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().text(), HasSubstr("matmul: the segment contracts nothing"));
}

}  // namespace sinter::matmul_test
