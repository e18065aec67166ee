// What is written as a call of cuBLASLt, what is refused, and what a plan with it compares.

#include "scheduler/families/cublaslt.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::cublaslt_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A graph at M 48, K 32, N 64.
Fusion parsed(std::string_view body) {
  const Fusion fusion =
      parse_fusion(fmt::format("fusion @f extents(M, K, N) {{\n{}}}", body)).value();
  return specialize(fusion, bind_extents(fusion, {{"M", 48}, {"K", 32}, {"N", 64}}).value());
}

LibraryMatmul call_of(std::string_view body) {
  const auto call = library_matmul(facts_of(parsed(body)));
  EXPECT_TRUE(call) << text_of(call.error());
  return call.value_or(LibraryMatmul{});
}

std::string refusal_of(std::string_view body) {
  const auto call = library_matmul(facts_of(parsed(body)));
  return call ? "taken" : text_of(call.error());
}

/// x w^T with what follows the product %v2.
std::string linear(std::string_view behind, std::string_view type = "bf16") {
  return fmt::format(R"(
  %v0 x : {0}[M, K] = input
  %v1 w : {0}[N, K] = input
  %v2 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
{1})",
                     type, behind);
}

constexpr std::string_view kCast = "  %v3 y : bf16[M, N] = cast %v2\n  return %v3\n";

TEST(CublasLtTest, TheContiguousAxisOfTheResultIsM) {
  const LibraryMatmul call = call_of(linear(kCast));
  EXPECT_THAT((std::array{call.m, call.n, call.k, call.batch}), ElementsAre(64, 48, 32, 1));
  // w lies with adjacent elements along K: transposed. So does x, which is not.
  EXPECT_TRUE(call.a_transposed);
  EXPECT_FALSE(call.b_transposed);
  EXPECT_EQ(call.a.value, ValueId{1});
  EXPECT_EQ(call.b.value, ValueId{0});
  EXPECT_EQ(call.a.leading_dimension, 32);
  EXPECT_EQ(call.b.leading_dimension, 32);
  EXPECT_EQ(call.d.leading_dimension, 64);
  EXPECT_EQ(call.d.type, DType::kBF16);
  EXPECT_EQ(call.a.alignment, 16);
  EXPECT_EQ(call.workspace_bytes, kCublasLtWorkspace);
}

TEST(CublasLtTest, ReadsEveryLayoutWithoutACopy) {
  const LibraryMatmul call = call_of(R"(
  %v0 x : f16[K, M] = input strides(100, 1)
  %v1 w : f16[K, N] = input strides(96, 1) align(4)
  %v2 : f32[M, N] = contract.sum %v0, %v1 left(2, 0) right(2, 1) over(2)
  %v3 y : f16[M, N] = cast %v2
  return %v3
)");
  EXPECT_FALSE(call.a_transposed);
  EXPECT_TRUE(call.b_transposed);
  EXPECT_EQ(call.a.leading_dimension, 96);
  EXPECT_EQ(call.b.leading_dimension, 100);
  EXPECT_EQ(call.a.alignment, 4);
}

TEST(CublasLtTest, OffsetsOfViewsLowerTheAlignment) {
  const LibraryMatmul call = call_of(R"(
  %v0 x : bf16[M, 40] = input
  %v1 w : bf16[N, 32] = input
  %v2 part : bf16[M, 32] = slice %v0 start(0, 3) stop(-1, 35) step(1, 1)
  %v3 : f32[M, N] = contract.sum %v2, %v1 left(0, 2) right(1, 2) over(2)
  %v4 y : bf16[M, N] = cast %v3
  return %v4
)");
  EXPECT_EQ(call.b.offset_bytes, 6);
  EXPECT_EQ(call.b.alignment, 2);
  EXPECT_EQ(call.b.leading_dimension, 40);
}

TEST(CublasLtTest, ABatchHasAStrideForEachMatrix) {
  const LibraryMatmul call = call_of(R"(
  %v0 x : f64[5, M, K] = input
  %v1 w : f64[N, K] = input
  %v2 w5 : f64[5, N, K] = broadcast %v1 axes(1, 2)
  %v3 y : f64[5, M, N] = contract.sum %v0, %v2 left(0, 1, 3) right(0, 2, 3) over(3)
  return %v3
)");
  // One matrix of 240 columns: the batch shares w.
  EXPECT_THAT((std::array{call.m, call.n, call.k, call.batch}), ElementsAre(64, 240, 32, 1));
  const LibraryMatmul apart = call_of(R"(
  %v0 x : f64[5, M, K] = input
  %v1 w : f64[5, N, K] = input
  %v2 y : f64[5, M, N] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  return %v2
)");
  EXPECT_EQ(apart.batch, 5);
  EXPECT_EQ(apart.a.batch_stride, 64 * 32);
  EXPECT_EQ(apart.b.batch_stride, 48 * 32);
  EXPECT_EQ(apart.d.batch_stride, 48 * 64);
}

TEST(CublasLtTest, TakesABiasAMatrixAndARelu) {
  const LibraryMatmul call = call_of(R"(
  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 bias : bf16[N] = input
  %v3 r : bf16[M, N] = input
  %v4 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v5 : f32[N] = cast %v2
  %v6 : f32[M, N] = broadcast %v5 axes(1)
  %v7 : f32[M, N] = add %v4, %v6
  %v8 : f32[M, N] = cast %v3
  %v9 : f32[M, N] = add %v8, %v7
  %v10 : f32 = constant 0x0p+0
  %v11 : f32[M, N] = broadcast %v10 axes()
  %v12 : f32[M, N] = max %v9, %v11
  %v13 y : bf16[M, N] = cast %v12
  return %v13
)");
  ASSERT_TRUE(call.bias);
  EXPECT_EQ(call.bias->value, ValueId{2});
  EXPECT_EQ(call.bias->rows, 64);
  ASSERT_TRUE(call.c);
  EXPECT_EQ(call.c->value, ValueId{3});
  EXPECT_EQ(call.activation, Activation::kRelu);
  EXPECT_EQ(text_of(call), "bf16 64 x 48 x 32 (m x n x k), op(a) = a^T, + c, + bias, relu");
}

/// A GELU is known by its values, however it is written. Its form with the error function is not
/// the library's, and results of 32 bits would be less exact than the formula.
TEST(CublasLtTest, TakesAGeluOfResultsOf16Bits) {
  const auto call = [](DType type, bool by_tanh, bool once) {
    FusionBuilder b("gelu");
    const ValueId x = b.linear(b.input(type, {64, 32}), b.input(type, {48, 32}));
    const ValueId y = by_tanh ? gelu_tanh(b, x) : gelu(b, x);
    b.output(b.cast(once ? y : b.add(y, y), type));
    return library_matmul(facts_of(b.build()));
  };
  ASSERT_TRUE(call(DType::kBF16, true, true));
  EXPECT_EQ(call(DType::kBF16, true, true)->activation, Activation::kGelu);
  EXPECT_THAT(text_of(*call(DType::kF16, true, true)), HasSubstr(", gelu"));
  EXPECT_FALSE(call(DType::kBF16, true, false)) << "twice a GELU is none";
  EXPECT_FALSE(call(DType::kBF16, false, true)) << "by the error function";
  EXPECT_FALSE(call(DType::kF32, true, true));
}

TEST(CublasLtTest, RefusesWhatTheLibraryDoesNot) {
  EXPECT_THAT(refusal_of(linear(R"(
  %v3 : f32[M, N] = exp %v2
  %v4 y : bf16[M, N] = cast %v3
  return %v4
)")),
              HasSubstr("no such operation"));
  // A relu before an addition.
  EXPECT_THAT(refusal_of(R"(
  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 r : bf16[M, N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32 = constant 0x0p+0
  %v5 : f32[M, N] = broadcast %v4 axes()
  %v6 : f32[M, N] = max %v3, %v5
  %v7 : f32[M, N] = cast %v2
  %v8 : f32[M, N] = add %v6, %v7
  %v9 y : bf16[M, N] = cast %v8
  return %v9
)"),
              HasSubstr("no such operation"));
  // Rounded twice.
  EXPECT_THAT(refusal_of(linear(R"(
  %v3 : f16[M, N] = cast %v2
  %v4 y : bf16[M, N] = cast %v3
  return %v4
)")),
              HasSubstr("no such operation"));
  EXPECT_THAT(refusal_of(linear(R"(
  %v3 y : bf16[M, N] = cast %v2
  return %v2, %v3
)")),
              HasSubstr("one result"));
  EXPECT_THAT(refusal_of(linear(R"(
  %v3 y : f16[M, N] = cast %v2
  return %v3
)")),
              HasSubstr("in that of the operands"));
  EXPECT_THAT(refusal_of(linear("  return %v2\n", "f8e4m3")), HasSubstr("bf16, f16, f32 or f64"));
  EXPECT_THAT(refusal_of(linear(R"(
  %v3 s : f32[M] = reduce.sum %v2 over(1)
  return %v3
)")),
              HasSubstr("reduces"));
  EXPECT_THAT(refusal_of(R"(
  %v0 x : bf16[M, 0] = input
  %v1 w : bf16[N, 0] = input
  %v2 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
)"),
              HasSubstr("empty"));
  EXPECT_THAT(refusal_of(R"(
  %v0 x : bf16[M, K] = input strides(128, 2)
  %v1 w : bf16[N, K] = input
  %v2 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
)"),
              HasSubstr("adjacent elements"));
  EXPECT_THAT(refusal_of(R"(
  %v0 x : f32[M, K] = input
  %v1 w : f32[N, K] = input
  %v2 y : f32[M, N] = contract.max %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
)"),
              HasSubstr("sums products"));
}

// A graph that is not simplified may cast what is added twice, and lose something on the way.
TEST(CublasLtTest, RefusesAnAddendThatIsRounded) {
  const auto added_as = [](std::string_view type) {
    return fmt::format(R"(
  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 bias : bf16[N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : {0}[N] = cast %v2
  %v5 : {0}[M, N] = broadcast %v4 axes(1)
  %v6 : f32[M, N] = cast %v5
  %v7 : f32[M, N] = add %v3, %v6
  %v8 y : bf16[M, N] = cast %v7
  return %v8
)",
                       type);
  };
  EXPECT_THAT(refusal_of(added_as("f16")), HasSubstr("no such operation"));
}

// cuBLASLt rounds the product before it adds a bias to results that are not aligned.
TEST(CublasLtTest, RefusesABiasOfAResultThatIsNotAligned) {
  const auto biased = [](int64_t columns) {
    return fmt::format(R"(
  %v0 x : bf16[M, K] = input
  %v1 w : bf16[{0}, K] = input
  %v2 bias : bf16[{0}] = input
  %v3 : f32[M, {0}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[{0}] = cast %v2
  %v5 : f32[M, {0}] = broadcast %v4 axes(1)
  %v6 : f32[M, {0}] = add %v3, %v5
  %v7 y : bf16[M, {0}] = cast %v6
  return %v7
)",
                       columns);
  };
  EXPECT_EQ(refusal_of(biased(40)), "taken");
  EXPECT_THAT(refusal_of(biased(33)), HasSubstr("rounds twice"));
  std::string odd_depth = biased(40);
  for (size_t at = odd_depth.find(", K]"); at != std::string::npos; at = odd_depth.find(", K]"))
    odd_depth.replace(at, 4, ", 33]");
  EXPECT_THAT(refusal_of(odd_depth), HasSubstr("rounds twice"));
}

PlanOptions with_library() { return {.families = with_cublaslt(scheduling_families())}; }

Result<Plan> planned_linear(std::string_view type, int64_t size, const PlanOptions& options) {
  const std::string graph = fmt::format(R"(fusion @f {{
  %v0 x : {0}[{1}, {1}] = input
  %v1 w : {0}[{1}, {1}] = input
  %v2 y : {2}[{1}, {1}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
}})",
                                        type, size, type == "f64" ? "f64" : "f32");
  return plan(parse_fusion(graph).value(), {}, *find_device("H200"), options);
}

TEST(CublasLtTest, IsChosenWhereItIsPredictedFaster) {
  const auto family = [](std::string_view type, int64_t size, const PlanOptions& options) {
    return planned_linear(type, size, options)->kernels.front().chosen().schedule.family;
  };
  EXPECT_EQ(family("f64", 2048, with_library()), kCublasLt);
  EXPECT_EQ(family("f32", 2048, with_library()), kCublasLt);
  EXPECT_EQ(family("f64", 2048, {}), kMatmul);
}

TEST(CublasLtTest, TheWorkspaceOfTheCallIsThatOfThePlan) {
  Plan plan = planned_linear("f64", 2048, with_library()).value();
  EXPECT_EQ(plan.workspace_bytes, kCublasLtWorkspace);
  ASSERT_EQ(plan.workspace.size(), 1U);
  EXPECT_EQ(plan.workspace.front().holds, WorkspaceTensor::Holds::kScratch);
  plan.workspace.clear();
  EXPECT_THAT(plan_violations(plan, 0), ElementsAre(HasSubstr("library call of segment 0 takes")));
}

// Taking another schedule gives the workspace back.
TEST(CublasLtTest, AnotherScheduleTakesNoWorkspace) {
  const FamilySet families = with_library().families;
  Plan plan = planned_linear("f64", 2048, with_library()).value();
  std::vector<ProposedSchedule>& candidates = plan.kernels.front().candidates;
  const auto ours = std::ranges::find(candidates, std::string(kMatmul), [](const auto& candidate) {
    return candidate.schedule.family;
  });
  ASSERT_NE(ours, candidates.end());
  const ProposedSchedule taken = *ours;
  ASSERT_TRUE(plan_finish(plan, KernelId{0}, taken.schedule, families));
  plan.kernels.front().candidates = {taken};
  EXPECT_EQ(plan.workspace_bytes, 0);
  EXPECT_THAT(plan_violations(plan), IsEmpty());
}

TEST(CublasLtTest, HasNoParametersToPin) {
  Schedule schedule{.family = std::string(kCublasLt), .threads_per_row = 64};
  PlanOptions options = with_library();
  options.pin.schedule = schedule;
  const auto refused = planned_linear("f32", 512, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("no parameters that a schedule sets"));
}

struct Measured {
  const char* type;
  int64_t m, k, n;
  double us;
};
// torch.mm on an H200 (benchmarks/results/h200_2026-11-28_cublas.json).
constexpr Measured kMeasured[] = {
    {"bf16", 4096, 4096, 4096, 177.2}, {"bf16", 131072, 512, 512, 112.1},
    {"bf16", 256, 4096, 4096, 22.6},   {"bf16", 16, 4096, 14336, 41.5},
    {"f32", 2048, 2048, 2048, 350.8},  {"f32", 512, 65536, 512, 761.7},
    {"f64", 4096, 4096, 4096, 2466.8}, {"f64", 8192, 1024, 1024, 338.0},
};

TEST(CublasLtTest, PredictionsAreWithinAFifthOfWhatWasMeasured) {
  const DeviceLimits limits = *find_device("H200");
  for (const Measured& measured : kMeasured) {
    const bool is_half = std::string_view(measured.type) == "bf16";
    const auto facts = facts_of(
        parse_fusion(fmt::format(R"(fusion @f {{
  %v0 x : {0}[{1}, {2}] = input
  %v1 w : {0}[{3}, {2}] = input
  %v2 : {4}[{1}, {3}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
{5}}})",
                                 measured.type, measured.m, measured.k, measured.n,
                                 std::string_view(measured.type) == "f64" ? "f64" : "f32",
                                 is_half ? fmt::format("  %v3 y : bf16[{}, {}] = cast %v2\n"
                                                       "  return %v3\n",
                                                       measured.m, measured.n)
                                         : std::string("  return %v2\n")))
            .value());
    const Proposal proposal = cublaslt_family().propose(facts, limits);
    ASSERT_EQ(proposal.candidates.size(), 1U);
    EXPECT_NEAR(proposal.candidates.front().predicted.total_us, measured.us, 0.2 * measured.us)
        << measured.type << " " << measured.m << " " << measured.k << " " << measured.n;
  }
}

}  // namespace sinter::cublaslt_test
