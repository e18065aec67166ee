// Matmul kernels in the interpreter against the oracle: forced tiles, layouts, epilogues and types
// at sizes on both sides of a tile; and what ptxas makes of the schedules that are offered.

#include <gmock/gmock.h>

#include "codegen/lower/lower_program.h"
#include "codegen/passes/kernel_passes.h"
#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/segmentation/deferred_scales.h"
#include "tests/integration/canned_case.h"
#include "tests/split_schedule.h"
#include "tests/support/budget_truth.h"
#include "tests/support/effort.h"
#include "tests/support/head_loss.h"

namespace sinter::matmul_kernels_test {

using ::testing::HasSubstr;
using ::testing::Not;

/// Sizes around those of tiles, instructions and accesses, in pairs with sizes of the other axes.
std::vector<ExtentValues> sizes() {
  const std::vector<int64_t> all = {0,  1,  7,   8,   15,  16,  31,  33,  63,
                                    64, 65, 100, 127, 128, 129, 200, 256, 257};
  std::vector<ExtentValues> out;
  for (size_t i = 0; i < all.size(); ++i) {
    out.push_back({{"M", all[i]},
                   {"K", all[(i * 7 + 3) % all.size()]},
                   {"N", all[(i * 5 + 11) % all.size()]}});
  }
  return out;
}

Fusion parsed(std::string_view body) {
  return parse_fusion(fmt::format("fusion @product extents(M, K, N) {{\n{}}}", body)).value();
}

const PlanOptions kContracts{.families = builtin_families(), .contracting = Contracting::kKernels};

/// The family's best schedule, and a drawn one, at every size.
void expect_right(const Fusion& fusion, std::string_view device = "H200", int64_t every = 1) {
  Slice slice(every);
  uint64_t seed = 1;
  for (const ExtentValues& extents : sizes()) {
    if (!slice.takes()) continue;
    const auto planned = plan(fusion, extents, *find_device(device), kContracts);
    ASSERT_TRUE(planned) << planned.error().text();
    const KernelPlan& kernel = planned->kernels.front();
    // A single element has no columns.
    if (!kernel.facts.space.contraction) continue;
    EXPECT_TRUE(computes_the_oracle(fusion, *planned, kernel.chosen().schedule, seed));
    ++seed;
    const auto drawn = random_schedule(kernel.facts, planned->limits, builtin_families(), seed);
    ASSERT_TRUE(drawn);
    EXPECT_TRUE(computes_the_oracle(fusion, *planned, drawn->schedule, seed));
  }
}

/// Of the operands: axes, and their places in the contraction's space.
constexpr std::array kLayouts = {std::array{"M, K", "K, N", "left(0, 2) right(2, 1)"},
                                 std::array{"M, K", "N, K", "left(0, 2) right(1, 2)"},
                                 std::array{"K, M", "K, N", "left(2, 0) right(2, 1)"},
                                 std::array{"K, M", "N, K", "left(2, 0) right(1, 2)"}};

TEST(MatmulInterpreterTest, EveryLayoutIsRight) {
  for (const auto& [left, right, places] : kLayouts) {
    expect_right(parsed(fmt::format(R"(
  %v0 a : bf16[{}] = input
  %v1 b : bf16[{}] = input
  %v2 : f32[M, N] = contract.sum %v0, %v1 {} over(2)
  %v3 y : bf16[M, N] = cast %v2
  return %v3
)",
                                    left, right, places)));
  }
}

/// Warps that take lines of the contracted axis in turns: whole and cut lines, tiles and turns, all
/// types of matrix instructions, a batch, an epilogue that reads other tensors.
TEST(MatmulInterpreterTest, SlicesOfTheContractedAxisAreRight) {
  const auto expect_right = [](std::string_view body, const ExtentValues& extents, DType type,
                               const MatmulParameters& tile) {
    const Fusion fusion = parsed(body);
    const auto planned = plan(fusion, extents, *find_device("H200"), kContracts);
    ASSERT_TRUE(planned) << planned.error().text();
    for (const ReadPriority priority : {ReadPriority::kNormal, ReadPriority::kEvictFirst}) {
      Schedule schedule{.family = std::string(kMatmul),
                        .parameters = tile,
                        .threads_per_row = kWarp * tile.slice_warps,
                        .vector_width = extents.at("N") % 2 == 0 ? 2 : 1};
      schedule.read_priority = priority;
      if (schedule.vector_width == 1) schedule.row_access = RowAccess::kScalar;
      std::get<MatmulParameters>(schedule.parameters).tile_depth = 128 / bytes_of(type);
      EXPECT_TRUE(computes_the_oracle(fusion, *planned, schedule))
          << body << extents.at("M") << ' ' << extents.at("K") << ' ' << extents.at("N");
    }
  };
  constexpr std::string_view kLinear = R"(
  %v0 a : bf16[M, K] = input
  %v1 b : bf16[N, K] = input
  %v2 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 y : bf16[M, N] = cast %v2
  return %v3
)";
  const MatmulParameters small{
      .tile_rows = 8, .tile_columns = 8, .pipeline_stages = 2, .slice_warps = 1};
  const MatmulParameters wide{
      .tile_rows = 16, .tile_columns = 32, .pipeline_stages = 3, .slice_warps = 8};
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 64, 8},
                                {2, 200, 33},
                                {7, 8, 64},
                                {8, 128, 31},
                                {9, 520, 65},
                                {33, 1032, 100},
                                {0, 64, 8},
                                {3, 64, 1}}) {
    for (const MatmulParameters& tile : {small, wide})
      expect_right(kLinear, {{"M", m}, {"K", k}, {"N", n}}, DType::kBF16, tile);
  }
  const ExtentValues odd = {{"M", 5}, {"K", 272}, {"N", 27}};
  for (const auto& [left, right, sum, precision] : {std::array{"f16", "f16", "f32", ""},
                                                    {"f8e4m3", "f8e5m2", "f32", ""},
                                                    {"i8", "i8", "i32", ""},
                                                    {"u8", "u8", "i32", ""},
                                                    {"f32", "f32", "f32", " precision(tf32)"}}) {
    expect_right(fmt::format(R"(
  %v0 a : {}[M, K] = input
  %v1 b : {}[N, K] = input
  %v2 y : {}[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2){}
  return %v2
)",
                             left, right, sum, precision),
                 odd, dtype_from_name(left).value(), wide);
  }
  expect_right(R"(
  %v0 a : bf16[3, M, K] = input
  %v1 b : bf16[3, N, K] = input
  %v2 bias : f32[N] = input
  %v3 residual : f32[3, M, N] = input
  %v4 : f32[3, M, N] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v5 : f32[3, M, N] = broadcast %v2 axes(2)
  %v6 : f32[3, M, N] = add %v4, %v5
  %v7 : f32[3, M, N] = tanh %v6
  %v8 y : f32[3, M, N] = add %v7, %v3
  return %v8, %v7
)",
               odd, DType::kBF16, wide);
}

// The first loads of weights stand before the wait for the kernel that normalises the rows.
TEST(MatmulInterpreterTest, ColumnsLoadedBeforeTheWaitAreRight) {
  for (const auto& [rows, contracted] : {std::pair<int64_t, int64_t>{2, 4096}, {7, 520}}) {
    FusionBuilder b("normed_product");
    const ValueId x = b.input(DType::kBF16, {rows, contracted});
    const ValueId w = b.input(DType::kBF16, {264, contracted});
    b.output(b.cast(b.linear(rms_norm(b, x, {.output = DType::kBF16}).y, w), DType::kBF16));
    const Fusion fusion = b.build();
    const auto planned = plan(fusion, {}, *find_device("H200"), kContracts);
    ASSERT_TRUE(planned) << planned.error().text();
    ASSERT_EQ(planned->kernels.size(), 2U);
    const KernelPlan& product = planned->kernels.back();
    ASSERT_EQ(product.chosen().schedule.dependent_launch, DependentLaunch::kPreload);
    const auto check =
        check_on_host(fusion, planned->binding, *planned,
                      sample_inputs(fusion, planned->binding, 1), builtin_families(), {});
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

/// A tile has eight rows, of which there is one: the others are not read.
TEST(MatmulInterpreterTest, SlicesReadTheRowsThatThereAre) {
  FusionBuilder b("one_row");
  const ValueId x = b.input(DType::kBF16, {1, 512});
  b.output(b.linear(x, b.input(DType::kBF16, {64, 512})));
  const MatmulParameters tile{
      .tile_rows = 8, .tile_columns = 16, .tile_depth = 64, .pipeline_stages = 2, .slice_warps = 2};
  PlanOptions options = kContracts;
  options.pin.schedule = Schedule{
      .family = std::string(kMatmul), .parameters = tile, .threads_per_row = 64, .vector_width = 2};
  const auto planned = plan(b.build(), {}, *find_device("H200"), options);
  ASSERT_TRUE(planned) << planned.error().text();
  const std::vector<HostTensor> inputs = {HostTensor::zeros(DType::kBF16, {1, 512}),
                                          HostTensor::zeros(DType::kBF16, {64, 512})};
  const auto run = execute_on_host(*planned, inputs, builtin_families());
  ASSERT_TRUE(run) << run.error().text();
  constexpr int64_t kTiles = 4;
  EXPECT_EQ(run->report.buffers[kir::BufferId{0}].bytes_read, kTiles * 512 * 2);
  EXPECT_EQ(run->report.buffers[kir::BufferId{1}].bytes_read, 64 * 512 * 2);
}

TEST(MatmulInterpreterTest, EveryTypeIsRight) {
  for (const auto& [left, right, sum] : {std::array{"f16", "f16", "f32"},
                                         {"f8e4m3", "f8e5m2", "f32"},
                                         {"i8", "i8", "i32"},
                                         {"u8", "u8", "i32"}}) {
    expect_right(parsed(fmt::format(R"(
  %v0 a : {}[M, K] = input
  %v1 b : {}[K, N] = input
  %v2 y : {}[M, N] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)
  return %v2
)",
                                    left, right, sum)),
                 "RTX 4090", 3);
  }
}

// Types that no matrix instruction multiplies as they are, and maxima of sums, in every layout.
TEST(MatmulInterpreterTest, LanesMultiplyWhatMatrixInstructionsDoNot) {
  for (const auto& [fn, type, result] : {std::array{"sum", "f32", "f32"},
                                         {"sum", "f64", "f64"},
                                         {"sum", "i64", "i64"},
                                         {"max", "f32", "f32"},
                                         {"max", "bf16", "f32"},
                                         {"max", "i8", "i32"}}) {
    for (const auto& [left, right, places] : kLayouts) {
      expect_right(parsed(fmt::format(R"(
  %v0 a : {1}[{3}] = input
  %v1 b : {1}[{4}] = input
  %v2 y : {2}[M, N] = contract.{0} %v0, %v1 {5} over(2)
  return %v2
)",
                                      fn, type, result, left, right, places)),
                   "A100", 6);
    }
  }
}

// TF32 operands in every layout, whose transposed elements are loaded one by one.
TEST(MatmulInterpreterTest, PrecisionsOfF32AreRight) {
  for (const char* precision : {"tf32", "tf32x3"}) {
    for (const auto& [left, right, places] : kLayouts) {
      expect_right(parsed(fmt::format(R"(
  %v0 a : f32[{}] = input
  %v1 b : f32[{}] = input
  %v2 y : f32[M, N] = contract.sum %v0, %v1 {} over(2) precision({})
  return %v2
)",
                                      left, right, places, precision)),
                   "H200", 3);
    }
  }
}

/// f32 in three products by a producer and two warp groups.
Fusion split_product() {
  return parsed(R"(
  %v0 a : f32[M, K] = input
  %v1 b : f32[N, K] = input
  %v2 y : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2) precision(tf32x3)
  return %v2
)");
}

// Infinities, NaN and numbers of all magnitudes, in tiles that end within a stage.
TEST(MatmulInterpreterTest, SplitOperandsAreRight) {
  struct Case {
    int64_t m, k, n;
    Schedule schedule;
  };
  const Fusion fusion = split_product();
  for (const Case& product : {Case{200, 100, 132, split_schedule(128, 128, 32, 2, 2)},
                              {129, 4, 64, split_schedule(128, 64, 32, 3, 2)},
                              {64, 264, 8, split_schedule(128, 64, 32, 3, 2)},
                              {260, 40, 68, split_schedule(256, 128, 16, 2, 2)}}) {
    const ExtentValues extents{{"M", product.m}, {"K", product.k}, {"N", product.n}};
    auto planned = plan(fusion, extents, *find_device("H200"),
                        {.families = builtin_families(), .pin = {.schedule = product.schedule}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto check = check_on_host(fusion, planned->binding, *planned, 1, builtin_families());
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

// What splits a stage and what multiplies it are ordered by a fence and an mbarrier; the registers
// of the left operand by a wait for the products before and a fence; and the loads of all lanes
// come before the warp releases the stage.
TEST(MatmulInterpreterTest, MistakesBetweenSplitsAndProductsAreFound) {
  const Fusion fusion = split_product();
  const auto planned = plan(
      fusion, {{"M", 128}, {"K", 160}, {"N", 128}}, *find_device("H200"),
      {.families = builtin_families(), .pin = {.schedule = split_schedule(128, 128, 32, 2, 2)}});
  ASSERT_TRUE(planned) << planned.error().text();
  const KernelPlan& kernel = planned->kernels.front();
  const std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
  using Mistake = std::function<bool(const kir::Kernel&, kir::StmtKind&)>;
  const auto found = [&](const Mistake& mistake, uint64_t seed) {
    LoweredKernel lowered = lower_matmul(kernel.facts, kernel.chosen().schedule);
    bool is_made = false;
    for (kir::Stmt& stmt : lowered.kernel.stmts)
      is_made = is_made || mistake(lowered.kernel, stmt.kind);
    EXPECT_TRUE(is_made);
    lowered.kernel = run_kernel_passes(std::move(lowered.kernel));
    const auto check =
        check_on_host(fusion, planned->binding, kernel.facts, lowered, inputs, {.seed = seed});
    EXPECT_TRUE(check) << check.error().text();
    return !check->passed();
  };
  const auto left_out = [](kir::StmtKind& kind) {
    kind = kir::Comment{"left out"};
    return true;
  };
  const auto without = [&]<class T>(const T&) -> Mistake {
    return [&](const kir::Kernel&, kir::StmtKind& kind) {
      return std::holds_alternative<T>(kind) && left_out(kind);
    };
  };
  const Mistake no_wait_for_split = [&](const kir::Kernel& k, kir::StmtKind& kind) {
    const auto* wait = std::get_if<kir::MbarrierWait>(&kind);
    return wait != nullptr && k.mbarriers[wait->array].name == "split" && left_out(kind);
  };
  const Mistake no_wait_for_products = [](const kir::Kernel&, kir::StmtKind& kind) {
    auto* wait = std::get_if<kir::WgmmaWait>(&kind);
    if (wait == nullptr) return false;
    EXPECT_EQ(wait->pending, 1) << "of the other half of a stage";
    wait->pending = 2;
    return true;
  };
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_TRUE(found(without(kir::ProxyFence{}), seed)) << "no fence behind a split";
    EXPECT_TRUE(found(no_wait_for_split, seed)) << "no wait for a split";
    EXPECT_TRUE(found(no_wait_for_products, seed)) << "no wait for products";
    EXPECT_TRUE(found(without(kir::WgmmaFence{}), seed)) << "no fence of registers";
    EXPECT_TRUE(found(without(kir::WarpBarrier{}), seed)) << "released before all have loaded";
  }
}

/// y = cast(x rsqrt(mean(x^2))) w^T.
Fusion normalised_product(DType type) {
  FusionBuilder b("normalised");
  const ValueId x = b.input(type, {40, 200});
  const ValueId w = b.input(type, {72, 200});
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId scale = b.pointwise(PointwiseFn::kRsqrt, {mean(b, b.mul(wide, wide), {1})});
  const ValueId normal = b.mul(wide, b.broadcast_over(scale, wide, {1}));
  b.output(b.cast(b.linear(b.cast(normal, type), w), type), "y");
  return b.build();
}

// The graph as written rounds rows of 16 bits after scaling them: there the oracle evaluates the
// other one.
TEST(MatmulInterpreterTest, ScalesBehindContractionsAreRight) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    const Fusion fusion = normalised_product(type);
    const auto deferred = with_deferred_scales(fusion);
    ASSERT_TRUE(deferred);
    const auto planned = plan(*deferred, {}, *find_device("H200"), kContracts);
    ASSERT_TRUE(planned) << planned.error().text();
    const Fusion& reference = type == DType::kF32 ? fusion : *deferred;
    const auto check =
        check_on_host(reference, planned->binding, *planned,
                      sample_inputs(fusion, planned->binding, 3), builtin_families(), {});
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

/// Queries of eight heads, each normalised by its root mean square.
Fusion normalised_heads() {
  FusionBuilder b("normalised_heads");
  const Extent m = b.symbol("M");
  const Extent k = b.symbol("K");
  const ValueId x = b.input(DType::kBF16, {m, k});
  const ValueId heads = b.reshape(b.linear(x, b.input(DType::kBF16, {1024, k})), {m, 8, 128});
  b.output(rms_norm(b, heads, {.output = DType::kBF16}).y);
  return b.build();
}

TEST(MatmulInterpreterTest, RowsOfF32ProductsAreReduced) {
  expect_right(parsed(R"(
  %v0 a : f32[M, K] = input
  %v1 b : f32[K, N] = input
  %v2 c : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)
  %v3 : f32[M, N] = mul %v2, %v2
  %v4 s : f32[M] = reduce.sum %v3 over(1)
  return %v2, %v4
)"),
               "H200", 3);
}

/// Checks the plan, whose first kernel contracts: rows in parts, if `in_parts`, with a second
/// kernel that combines them.
void expect_plan_right(const Fusion& fusion, const ExtentValues& extents, bool in_parts,
                       std::string_view device = "H200") {
  SCOPED_TRACE(fmt::format("{} on {}", fusion.name, device));
  const FamilySet families = builtin_families();
  const auto planned = plan(fusion, extents, *find_device(device), kContracts);
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), in_parts ? 2U : 1U);
  const KernelPlan& first = planned->kernels.front();
  EXPECT_EQ(first.chosen().schedule.family, kMatmul);
  EXPECT_EQ(first.row_parts > 0, in_parts);
  const auto check = check_on_host(fusion, planned->binding, *planned,
                                   sample_inputs(fusion, planned->binding, 1), families, {});
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << check->text();
}

// Rows longer than any cluster's tiles: each tile leaves partial results of its part of a row, and
// the product is never in memory. 8,200 columns are 41 parts of 200.
TEST(MatmulInterpreterTest, RowScalarsOfLongRowsAreReducedInParts) {
  for (const int64_t columns : {8192, 8200})
    expect_plan_right(head_loss({}), {{"M", 40}, {"K", 32}, {"N", columns}}, true);
  expect_plan_right(head_loss({}), {{"M", 40}, {"K", 32}, {"N", 8192}}, true, "A100");
}

// Options of the loss are ops of the graph like any others. That large logits are in no memory is
// tested by MatmulTest.LossesOfAHeadTakeLittleMemory.
TEST(MatmulInterpreterTest, LossesOfAHeadAreRight) {
  for (const auto& [name, options] : head_losses()) {
    SCOPED_TRACE(name);
    const Fusion fusion = head_loss(options);
    const auto planned =
        plan(fusion, {{"M", 40}, {"K", 32}, {"N", 8192}}, *find_device("H200"), kContracts);
    ASSERT_TRUE(planned) << planned.error().text();
    // All together take longer beside the products than from memory.
    const bool in_parts = std::ranges::any_of(
        planned->kernels, [](const KernelPlan& kernel) { return kernel.row_parts > 0; });
    EXPECT_EQ(in_parts, name != "all");
    const auto check =
        check_on_host(fusion, planned->binding, *planned,
                      sample_inputs(fusion, planned->binding, 1), builtin_families(), {});
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

// A row's element is what it is, the sign of a zero included, and 0 where the index is none.
TEST(MatmulInterpreterTest, ElementsThatRowsPickKeepTheirSign) {
  FusionBuilder b("picked");
  const ValueId x = b.input(DType::kBF16, {40, 32});
  const ValueId product = b.linear(x, b.input(DType::kBF16, {8192, 32}));
  const ValueId negative = b.neg(product);
  b.output(b.take(negative, b.input(DType::kI64, {40}), 1), "picked");
  b.output(b.amax(negative, {1}), "largest");
  const Fusion fusion = b.build();
  const FamilySet families = builtin_families();
  const auto planned = plan(fusion, {}, *find_device("H200"), kContracts);
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_GT(planned->kernels.front().row_parts, 0);
  std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
  for (int64_t i = 0; i < 40 * 32; ++i) inputs[0].set(i, 0.0);
  for (int64_t i = 0; i < 8192 * 32; ++i) inputs[1].set(i, 0.0);
  const std::array<int64_t, 4> places = {0, 8191, 8192, -1};
  for (size_t i = 0; i < places.size(); ++i)
    inputs[2].set(static_cast<int64_t>(i), static_cast<double>(places[i]));
  const auto run = execute_on_host(*planned, inputs, families);
  ASSERT_TRUE(run) << run.error().text();
  const HostTensor& picked = run->outputs.front();
  for (size_t i = 0; i < places.size(); ++i) {
    const double found = picked.get(static_cast<int64_t>(i));
    EXPECT_EQ(found, 0.0);
    EXPECT_EQ(std::signbit(found), i < 2) << i;
  }
}

// The kernel of the parts also stores what depends on no reduction.
TEST(MatmulInterpreterTest, ElementsAreStoredBesideRowScalars) {
  FusionBuilder b("statistics");
  const Extent m = b.symbol("M");
  const ValueId x = b.input(DType::kBF16, {m, 32});
  const ValueId product = b.linear(x, b.input(DType::kBF16, {8192, 32}));
  b.output(b.cast(product, DType::kBF16), "y");
  b.output(b.amax(product, {1}), "largest");
  b.output(b.reduce(ReduceFn::kArgMax, product, {1}), "place");
  const Fusion fusion = b.build();
  for (const char* device : {"H200", "A100"}) expect_plan_right(fusion, {{"M", 40}}, true, device);
}

/// What a product is multiplied with, stored, and its sums and maxima over the rows.
constexpr std::string_view kReducedColumns = R"(
  %v0 a : bf16[M, K] = input
  %v1 b : bf16[N, K] = input
  %v2 h : bf16[M, N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[M, N] = cast %v2
  %v5 : f32[M, N] = mul %v3, %v4
  %v6 y : bf16[M, N] = cast %v5
  %v7 : f32[N] = reduce.sum %v5 over(0)
  %v8 s : bf16[N] = cast %v7
  %v9 t : f32[N] = reduce.max %v3 over(0)
  return %v6, %v8, %v9
)";

TEST(MatmulInterpreterTest, ColumnsAreReducedBesideElements) {
  expect_right(parsed(kReducedColumns));
  expect_right(parsed(kReducedColumns), "A100", 3);
}

// More rows leave more partial results, which the same schedule finishes.
TEST(MatmulInterpreterTest, ReducedColumnsFollowPlansOfOtherSizes) {
  const Fusion fusion = parsed(kReducedColumns);
  const auto of_rows = [&](int64_t rows, std::shared_ptr<const Plan> model) {
    PlanOptions options = kContracts;
    options.like = std::move(model);
    return plan(fusion, {{"M", rows}, {"K", 32}, {"N", 256}}, *find_device("H200"), options);
  };
  auto planned = of_rows(4096, nullptr);
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 2U);
  const auto model = std::make_shared<Plan>(std::move(*planned));
  ASSERT_TRUE(model->kernels.front().facts.has_outer());
  for (const int64_t rows : {200, 257, 1000}) {
    const auto followed = of_rows(rows, model);
    ASSERT_TRUE(followed) << followed.error().text();
    for (const KernelId id : followed->kernels.ids())
      EXPECT_EQ(followed->kernels[id].chosen().schedule, model->kernels[id].chosen().schedule);
    const auto check =
        check_on_host(fusion, followed->binding, *followed,
                      sample_inputs(fusion, followed->binding, 1), builtin_families(), {});
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << rows << " rows: " << check->text();
  }
}

// Rows of heads: the parts of a row are reduced, and each of them is stored.
TEST(MatmulInterpreterTest, GroupsOfARowAreReduced) {
  for (const int64_t rows : {100, 333})
    expect_plan_right(normalised_heads(), {{"M", rows}, {"K", 40}}, false);
}

TEST(MatmulInterpreterTest, BatchesAndSeveralContractedAxesAreRight) {
  expect_right(parsed(R"(
  %v0 a : bf16[M, 3, K] = input
  %v1 b : bf16[3, K, N] = input
  %v2 y : f32[3, M, N] = contract.sum %v0, %v1 left(1, 0, 3) right(0, 3, 2) over(3)
  return %v2
)"),
               "H200", 3);
  expect_right(parsed(R"(
  %v0 a : bf16[2, 3, M, K] = input
  %v1 b : bf16[3, N, K] = input
  %v2 y : f32[2, M, 3, N] = contract.sum %v0, %v1 left(0, 2, 1, 4) right(2, 3, 4) over(4)
  return %v2
)"),
               "H200", 3);
  expect_right(parsed(R"(
  %v0 a : bf16[M, 3, K] = input
  %v1 b : bf16[K, 3, N] = input
  %v2 y : f32[M, N] = contract.sum %v0, %v1 left(0, 2, 3) right(3, 2, 1) over(2, 3)
  return %v2
)"),
               "H200", 3);
}

// The operands are one tensor, whose rows are rows and columns of the result.
TEST(MatmulInterpreterTest, AProductOfATensorWithItselfIsRight) {
  expect_right(parse_fusion(R"(fusion @gram extents(M, K, N) {
  %v0 a : bf16[M, K] = input
  %v1 c : f32[M, M] = contract.sum %v0, %v0 left(0, 2) right(1, 2) over(2)
  %v2 y : bf16[M, M] = cast %v1
  return %v2
})")
                   .value(),
               "H200", 3);
}

TEST(MatmulInterpreterTest, EpiloguesReadRowsColumnsAndElements) {
  expect_right(parsed(R"(
  %v0 a : bf16[M, K] = input
  %v1 b : bf16[K, N] = input
  %v2 bias : bf16[N] = input
  %v3 res : bf16[M, N] = input
  %v4 scale : f32[M] = input
  %v5 c : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)
  %v6 : f32[N] = cast %v2
  %v7 : f32[M, N] = broadcast %v6 axes(1)
  %v8 : f32[M, N] = add %v5, %v7
  %v9 : f32[M, N] = broadcast %v4 axes(0)
  %v10 : f32[M, N] = mul %v8, %v9
  %v11 : f32[M, N] = tanh %v10
  %v12 : f32[M, N] = cast %v3
  %v13 : f32[M, N] = add %v11, %v12
  %v14 y : bf16[M, N] = cast %v13
  return %v14, %v5
)"));
}

// The residual is overwritten by the output: each thread reads its elements before it stores them.
TEST(MatmulInterpreterTest, AnOutputMayLieInTheResidual) {
  FusionBuilder b("in_place");
  const Extent rows = b.symbol("M");
  const ValueId a = b.input(DType::kBF16, {rows, 72});
  const ValueId w = b.input(DType::kBF16, {72, 136});
  const ValueId residual = b.input(DType::kF32, {rows, 136});
  b.output(b.add(b.matmul(a, w), residual), "y", {.alias = residual});
  const Fusion fusion = b.build();
  const auto planned = plan(fusion, {{"M", 130}}, *find_device("H200"), kContracts);
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 1U);
  EXPECT_EQ(planned->kernels.front().chosen().schedule.family, kMatmul);
  EXPECT_TRUE(computes_the_oracle(fusion, *planned, planned->kernels.front().chosen().schedule));
}

// An operand that the output overwrites is read by other blocks: it takes a kernel of its own.
TEST(MatmulInterpreterTest, AnOutputInAnOperandIsWrittenAfterwards) {
  FusionBuilder b("over_operand");
  const ValueId a = b.input(DType::kBF16, {64, 64});
  const ValueId w = b.input(DType::kBF16, {64, 64});
  b.output(b.cast(b.matmul(a, w), DType::kBF16), "y", {.alias = a});
  const Fusion fusion = b.build();
  const auto planned = plan(fusion, {}, *find_device("H200"), {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_GT(planned->kernels.size(), 1U);
}

class MatmulNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }
  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  KernelCache cache_{{}};
};

Fusion linear_of_512() {
  FusionBuilder b("linear_of_512");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, 512});
  b.output(b.cast(b.linear(x, b.input(DType::kBF16, {cols, 512})), DType::kBF16));
  return b.build();
}

Fusion matmul_of_512() {
  FusionBuilder b("matmul_of_512");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, 512});
  b.output(b.exp(b.matmul(x, b.input(DType::kBF16, {512, cols}))));
  return b.build();
}

// Chosen and drawn tiles: no warning, shared bytes exact, registers near the estimate.
TEST_F(MatmulNvrtc, RegistersAreEstimated) {
  const ExtentValues large = {{"rows", 4096}, {"cols", 1024}};
  const std::vector<CannedFusion> fusions = {
      {"linear_of_512", linear_of_512, large, large, "a product along the contracted axis"},
      {"matmul_of_512", matmul_of_512, large, large, "a product of a transposed operand"}};
  for (const bool chosen : {true, false}) {
    const auto samples = measure_budgets({.fusions = fusions,
                                          .devices = {"A100", "H200", "B200", "RTX PRO 6000"},
                                          .random_schedules = chosen ? 0 : 8,
                                          .chosen = chosen},
                                         *compiler_, cache_);
    ASSERT_TRUE(samples) << samples.error().text();
    std::vector<double> errors;
    for (const BudgetSample& sample : *samples) {
      SCOPED_TRACE(sample.fusion + " on " + sample.device + "\n" + print(sample.schedule));
      ASSERT_EQ(sample.schedule.family, kMatmul);
      EXPECT_THAT(sample.kernel->log, Not(HasSubstr("warning")));
      EXPECT_EQ(sample.shared_bytes(), sample.predicted.shared_bytes);
      if (chosen) {
        EXPECT_EQ(sample.kernel->resources.spill_store_bytes, 0);
      }
      // Of a kernel that passes registers on, ptxas reports those of the launch.
      if (sample.schedule.consumer_registers() == 0) errors.push_back(sample.register_error());
    }
    EXPECT_LE(quantile(errors, 0.5), 0.10) << (chosen ? "chosen" : "drawn");
  }
}

/// y = act(x w), rounded to bf16 between the product and what normalises its rows.
Fusion normalised_product(std::string_view what) {
  FusionBuilder b("product");
  const Extent m = b.symbol("M");
  const Extent k = b.symbol("K");
  const Extent n = b.symbol("N");
  const ValueId x = b.input(DType::kBF16, {m, k});
  const ValueId product = b.linear(x, b.input(DType::kBF16, {n, k}));
  const ValueId rounded = b.cast(product, DType::kBF16);
  if (what == "rms norm") {
    const ValueId weight = b.input(DType::kBF16, {n});
    b.output(rms_norm(b, rounded, {.output = DType::kBF16, .weight = weight}).y);
  } else if (what == "softmax") {
    b.output(softmax(b, rounded, -1, DType::kBF16));
  } else if (what == "layer norm") {
    b.output(layer_norm(b, rounded, {.output = DType::kBF16}).y);
  } else {
    b.output(rounded);
  }
  return b.build();
}

// One kernel of warp groups for each, in clusters where a block does not have the columns.
TEST_F(MatmulNvrtc, ProductsOfWarpGroupsDoNotSpill) {
  for (const char* what : {"product", "rms norm", "softmax", "layer norm"}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{256, 256}, {512, 2048}}) {
      const ExtentValues extents = {{"M", 131072}, {"K", k}, {"N", n}};
      const CannedFusion fusion{what, [&] { return normalised_product(what); }, extents, extents,
                                "rows of a product"};
      const auto samples = measure_budgets(
          {.fusions = {fusion}, .devices = {"H100"}, .random_schedules = 0, .threads = 1},
          *compiler_, cache_);
      ASSERT_TRUE(samples) << samples.error().text();
      const BudgetSample& sample = samples->front();
      SCOPED_TRACE(
          fmt::format("{}, {} columns\n{}{}", what, n, print(sample.schedule), sample.kernel->log));
      EXPECT_EQ(sample.schedule.family, kMatmul);
      EXPECT_GT(sample.schedule.consumer_registers(), 0);
      const bool is_cluster = n > 256 && std::string_view(what) != "product";
      EXPECT_EQ(sample.schedule.cluster_size(), is_cluster ? 8 : 1);
      EXPECT_EQ(sample.kernel->resources.spill_store_bytes, 0);
      EXPECT_EQ(sample.kernel->resources.spill_load_bytes, 0);
      EXPECT_EQ(sample.kernel->resources.stack_bytes, 0);
      EXPECT_THAT(sample.kernel->log, Not(HasSubstr("warning")));
      EXPECT_THAT(sample.kernel->log, Not(HasSubstr("serializ")));
      EXPECT_EQ(sample.shared_bytes(), sample.predicted.shared_bytes);
    }
  }
}

/// What warps of an epilogue evaluate of a product, element by element.
Fusion elements_of_product(std::string_view what) {
  FusionBuilder b("product");
  const Extent m = b.symbol("M");
  const Extent k = b.symbol("K");
  const Extent n = b.symbol("N");
  const ValueId x = b.input(DType::kBF16, {m, k});
  const ValueId product = b.linear(x, b.input(DType::kBF16, {n, k}));
  const ValueId rounded = b.cast(b.cast(product, DType::kBF16), DType::kF32);
  const auto input = [&](DType type) { return b.cast(b.input(type, {m, n}), DType::kF32); };
  const auto output = [&](ValueId y) { b.output(b.cast(y, DType::kBF16)); };
  const ValueId bias = b.cast(b.input(DType::kBF16, {n}), DType::kF32);
  if (what == "bias, not rounded before") {
    output(b.add(product, bias));
  } else if (what == "bias and gelu, both stored") {
    const ValueId sum = b.cast(b.add(rounded, bias), DType::kBF16);
    b.output(sum);
    b.output(gelu_tanh(b, sum, DType::kBF16));
  } else if (what == "residual") {
    output(b.add(b.add(rounded, bias), input(DType::kBF16)));
  } else {
    b.output(gelu_backward(b, b.add(rounded, bias), input(DType::kBF16), DType::kBF16));
  }
  return b.build();
}

// Every offer of warps of an epilogue that evaluate elements alone.
TEST_F(MatmulNvrtc, EpiloguesOfElementsDoNotSpill) {
  int epilogues = 0;
  for (const char* what :
       {"bias, not rounded before", "bias and gelu, both stored", "residual", "gradient of gelu"}) {
    const Fusion fusion = elements_of_product(what);
    const ExtentValues extents = {{"M", 8192}, {"K", 768}, {"N", 3072}};
    const auto offers =
        plan(fusion, extents, *find_device("H200"), {.pin = {.family = std::string(kMatmul)}});
    ASSERT_TRUE(offers) << offers.error().text();
    for (const ProposedSchedule& offer : offers->kernels.front().candidates) {
      if (offer.schedule.epilogue_warps() == 0) continue;
      auto pinned =
          plan(fusion, extents, *find_device("H200"), {.pin = {.schedule = offer.schedule}});
      ASSERT_TRUE(pinned) << pinned.error().text();
      const auto compiled = compile_plan(std::move(*pinned), *compiler_, cache_, {.threads = 1});
      ASSERT_TRUE(compiled) << compiled.error().text();
      const CompiledKernel& kernel = *compiled->kernels[KernelId{0}].kernel;
      SCOPED_TRACE(fmt::format("{}\n{}{}", what, print(offer.schedule), kernel.log));
      EXPECT_EQ(kernel.resources.spill_store_bytes, 0);
      EXPECT_THAT(kernel.log, Not(HasSubstr("serializ")));
      ++epilogues;
    }
  }
  EXPECT_GT(epilogues, 5);
}

// What few rows are offered: of several types, also where turns of the contracted axis are cut.
TEST_F(MatmulNvrtc, SlicesDoNotSpill) {
  int slices = 0;
  for (const DType type : {DType::kBF16, DType::kI8, DType::kF8E4M3}) {
    for (const auto& [m, k, n] : {std::array<int64_t, 3>{4, 4096, 14336},
                                  {8, 14336, 4096},
                                  {2, 2048, 8192},
                                  {4, 4112, 14336}}) {
      const ExtentValues extents = {{"M", m}, {"K", k}, {"N", n}};
      const auto product = [&] {
        FusionBuilder b("product");
        const Extent depth = b.symbol("K");
        const ValueId x = b.input(type, {b.symbol("M"), depth});
        b.output(b.linear(x, b.input(type, {b.symbol("N"), depth})));
        return b.build();
      };
      const CannedFusion fusion{"product", product, extents, extents, "a product of few rows"};
      const std::vector<std::string> devices =
          type == DType::kF8E4M3 ? std::vector<std::string>{"H200", "B200"}
                                 : std::vector<std::string>{"A100", "H200", "B200"};
      const auto samples = measure_budgets(
          {.fusions = {fusion}, .devices = devices, .random_schedules = 0, .threads = 1},
          *compiler_, cache_);
      ASSERT_TRUE(samples) << samples.error().text();
      for (const BudgetSample& sample : *samples) {
        SCOPED_TRACE(fmt::format("{} {} x {} x {} on {}\n{}{}", type, m, k, n, sample.device,
                                 print(sample.schedule), sample.kernel->log));
        if (sample.schedule.slice_warps() == 0) continue;
        EXPECT_EQ(sample.kernel->resources.spill_store_bytes, 0);
        EXPECT_THAT(sample.kernel->log, Not(HasSubstr("warning")));
        EXPECT_EQ(sample.shared_bytes(), sample.predicted.shared_bytes);
        // ptxas takes elements of f8 apart with as many registers as the cap leaves it, up to 36.
        EXPECT_LE(std::abs(sample.register_error()), type == DType::kF8E4M3 ? 0.4 : 0.25);
        ++slices;
      }
    }
  }
  EXPECT_GE(slices, 20);
}

}  // namespace sinter::matmul_kernels_test
