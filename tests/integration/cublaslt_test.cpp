// Matrix products by cuBLASLt against the oracle: the call as it is described, computed on the CPU
// from the same memory; executables with a library of the test; and the library itself on a GPU.

#include <gmock/gmock.h>

#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"
#include "runtime/cublaslt/cublaslt.h"
#include "runtime/driver/device_buffer.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "tests/integration/live_device.h"
#include "tests/support/fake_driver.h"
#include "tests/support/fake_matmul_library.h"

namespace sinter::cublaslt_execution_test {

using ::testing::HasSubstr;

/// A product with what may follow it.
struct Form {
  const char* name;
  std::string body;
};

Fusion fusion_of(const Form& form) {
  return parse_fusion(fmt::format("fusion @{} extents(M, K, N) {{\n{}}}", form.name, form.body))
      .value();
}

std::string product(std::string_view type, std::string_view left, std::string_view right,
                    std::string_view places, std::string_view precision = "") {
  const std::string_view sums = type == "f64" ? "f64" : "f32";
  const bool is_half = type == "bf16" || type == "f16";
  return fmt::format(R"(  %v0 x : {0}[{1}] = input
  %v1 w : {0}[{2}] = input
  %v2{6} : {4}[M, N] = contract.sum %v0, %v1 {3} over(2){5}
{7})",
                     type, left, right, places, sums, precision, is_half ? "" : " y",
                     is_half ? fmt::format("  %v3 y : {}[M, N] = cast %v2\n  return %v3\n", type)
                             : std::string("  return %v2\n"));
}

/// %v6 is a product with a bias.
constexpr std::string_view kBiased = R"(  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 bias : bf16[N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[N] = cast %v2
  %v5 : f32[M, N] = broadcast %v4 axes(1)
  %v6 : f32[M, N] = add %v3, %v5
)";
/// %v21 is the GELU of %v6.
constexpr std::string_view kGelu = R"(  %v7 : f32[M, N] = mul %v6, %v6
  %v8 : f32[M, N] = mul %v7, %v6
  %v9 : f32 = constant 0x1.6e4e26p-5
  %v10 : f32[M, N] = broadcast %v9 axes()
  %v11 : f32[M, N] = mul %v8, %v10
  %v12 : f32[M, N] = add %v6, %v11
  %v13 : f32 = constant 0x1.988454p-1
  %v14 : f32[M, N] = broadcast %v13 axes()
  %v15 : f32[M, N] = mul %v12, %v14
  %v16 : f32[M, N] = tanh %v15
  %v17 : f32 = constant 0x1p-1
  %v18 : f32[M, N] = broadcast %v17 axes()
  %v19 : f32[M, N] = mul %v6, %v18
  %v20 : f32[M, N] = mul %v19, %v16
  %v21 : f32[M, N] = add %v20, %v19
)";

std::vector<Form> forms() {
  constexpr const char* kNt = "left(0, 2) right(1, 2)";
  return {
      {"nt", product("bf16", "M, K", "N, K", kNt)},
      {"nn", product("bf16", "M, K", "K, N", "left(0, 2) right(2, 1)")},
      {"tn", product("f16", "K, M", "K, N", "left(2, 0) right(2, 1)")},
      {"tt", product("f16", "K, M", "N, K", "left(2, 0) right(1, 2)")},
      {"f32_ieee", product("f32", "M, K", "N, K", kNt)},
      {"f32_tf32x3", product("f32", "M, K", "N, K", kNt, " precision(tf32x3)")},
      {"f32_tf32", product("f32", "M, K", "N, K", kNt, " precision(tf32)")},
      {"f64", product("f64", "M, K", "N, K", kNt)},
      {"sums_of_bf16", R"(  %v0 x : bf16[M, K] = input
  %v1 w : bf16[N, K] = input
  %v2 y : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
)"},
      {"bias_relu", fmt::format(R"({}  %v7 : f32 = constant 0x0p+0
  %v8 : f32[M, N] = broadcast %v7 axes()
  %v9 : f32[M, N] = max %v6, %v8
  %v10 y : bf16[M, N] = cast %v9
  return %v10
)",
                                kBiased)},
      {"bias_gelu", fmt::format(R"({}{}  %v22 y : bf16[M, N] = cast %v21
  return %v22
)",
                                kBiased, kGelu)},
      {"f32_bias", R"(  %v0 x : f32[M, K] = input
  %v1 w : f32[N, K] = input
  %v2 bias : f32[N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[M, N] = broadcast %v2 axes(1)
  %v5 y : f32[M, N] = add %v4, %v3
  return %v5
)"},
      {"residual", R"(  %v0 x : f16[M, K] = input
  %v1 w : f16[N, K] = input
  %v2 r : f16[M, N] = input
  %v3 : f32[M, N] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[M, N] = cast %v2
  %v5 : f32[M, N] = add %v3, %v4
  %v6 y : f16[M, N] = cast %v5
  return %v6
)"},
      {"batch", R"(  %v0 x : bf16[3, M, K] = input
  %v1 w : bf16[3, N, K] = input
  %v2 : f32[3, M, N] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v3 y : bf16[3, M, N] = cast %v2
  return %v3
)"},
      {"heads", R"(  %v0 x : bf16[M, 3, K] = input
  %v1 w : bf16[N, 3, K] = input
  %v2 : f32[M, 3, N] = contract.sum %v0, %v1 left(0, 1, 3) right(2, 1, 3) over(3)
  %v3 y : bf16[M, 3, N] = cast %v2
  return %v3
)"},
  };
}

const FamilySet kFamilies = with_cublaslt(builtin_families());
const PlanOptions kByLibrary{.families = kFamilies, .pin = {.family = std::string(kCublasLt)}};

const std::vector<ExtentValues> kSizes = {
    {{"M", 1}, {"K", 1}, {"N", 2}},     {{"M", 2}, {"K", 200}, {"N", 33}},
    {{"M", 7}, {"K", 33}, {"N", 8}},    {{"M", 16}, {"K", 64}, {"N", 40}},
    {{"M", 65}, {"K", 31}, {"N", 100}}, {{"M", 128}, {"K", 104}, {"N", 64}}};

/// What plan() says of a form: the library rounds a bias twice where results are not aligned.
bool is_refused(const Result<Plan>& planned) {
  return !planned && planned.error().text().find("rounds twice") != std::string::npos;
}

TEST(CublasLtHost, TheCallComputesTheGraph) {
  for (const Form& form : forms()) {
    const Fusion fusion = fusion_of(form);
    int checked = 0;
    for (const ExtentValues& extents : kSizes) {
      const auto planned = plan(fusion, extents, *find_device("H200"), kByLibrary);
      if (is_refused(planned)) continue;
      ASSERT_TRUE(planned) << form.name << ": " << planned.error().text();
      ++checked;
      ASSERT_EQ(planned->kernels.front().chosen().schedule.family, kCublasLt);
      // All kinds of data at one size: the workspace of each is poisoned.
      const std::span<const SampleData> all = sample_data();
      const auto check = check_on_host(fusion, planned->binding, *planned, 1, kFamilies, {}, {},
                                       checked == 2 ? all : all.first(1));
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->passed()) << form.name << ": " << check->text();
    }
    EXPECT_GE(checked, 2) << form.name;
  }
}

// A wrong call is not right: the check above compares with the graph, not with the call.
TEST(CublasLtHost, AWrongLeadingDimensionIsFound) {
  FamilySet families = kFamilies;
  families.back().call = [](const SegmentFacts& facts, const Schedule&) {
    LibraryMatmul call = library_matmul(facts).value();
    call.b.leading_dimension -= 1;
    return call;
  };
  const Fusion fusion = fusion_of(forms().front());
  const auto planned =
      plan(fusion, kSizes[3], *find_device("H200"), {.families = families, .pin = kByLibrary.pin});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto check = check_on_host(fusion, planned->binding, *planned, 1, families);
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_FALSE(check->passed());
}

/// A plan whose library calls run in a library of the test, on the fake driver.
class CublasLtExecution : public ::testing::Test {
 protected:
  CompiledPlan compiled(const Plan& planned) {
    CompiledPlan out{.plan = planned, .kernels = {}};
    for (const KernelPlan& kernel : out.plan.kernels) {
      KernelSource source = emit(kernel.facts, kernel.chosen().schedule, kFamilies).value();
      EXPECT_TRUE(source.call);
      out.kernels.push_back({.chosen = kernel.chosen(),
                             .source = std::move(source),
                             .kernel = std::make_shared<CompiledKernel>(),
                             .origin = KernelOrigin::kLibrary,
                             .attempts = {},
                             .library = &library_});
    }
    return out;
  }

  FakeDriver driver_{*find_device("H200"), 1};
  FakeMatmulLibrary library_;
};

TEST_F(CublasLtExecution, RunsTheCallsOfAPlanAgainstTheOracle) {
  for (const Form& form : forms()) {
    const Fusion fusion = fusion_of(form);
    const auto planned = plan(fusion, kSizes[3], *find_device("H200"), kByLibrary);
    ASSERT_TRUE(planned) << form.name << ": " << planned.error().text();
    auto executable = Executable::prepare(compiled(*planned), driver_);
    ASSERT_TRUE(executable) << executable.error().text();
    EXPECT_EQ(executable->workspace_bytes(), kCublasLtWorkspace);
    const auto run = run_on_device(fusion, *executable, driver_, {.time = false});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->check.passed()) << form.name << ": " << run->check.text();
  }
  EXPECT_EQ(library_.prepared().size(), forms().size());
}

TEST_F(CublasLtExecution, AProductWithoutAKernelIsRefusedInPrepare) {
  const Fusion fusion = fusion_of(forms().front());
  const auto planned = plan(fusion, kSizes[3], *find_device("H200"), kByLibrary);
  library_.refuse({.kind = ErrorKind::kUnsupported, .message = "has no kernel"});
  const auto executable = Executable::prepare(compiled(*planned), driver_);
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.error().kind, ErrorKind::kUnsupported);
}

class CublasLtCompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }

  Result<CompiledPlan> compiled(const PlanOptions& options, CompilePlanOptions how) {
    const Fusion fusion = fusion_of(forms()[7]);  // f64, which the library multiplies faster.
    auto planned =
        plan(fusion, {{"M", 1024}, {"K", 1024}, {"N", 1024}}, *find_device("H200"), options);
    EXPECT_TRUE(planned) << planned.error().text();
    EXPECT_EQ(planned->kernels.front().chosen().schedule.family, kCublasLt);
    return compile_plan(std::move(*planned), *compiler_, cache_, how);
  }

  static Result<MatmulLibrary*> missing() {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = "cuBLASLt cannot be opened",
                 .remedy = "install it"});
  }

  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  KernelCache cache_{{}};
  FakeMatmulLibrary library_;
};

TEST_F(CublasLtCompileTest, ALibraryCallIsNotCompiled) {
  const auto built =
      compiled({.families = kFamilies},
               {.open_library = [&]() -> Result<MatmulLibrary*> { return &library_; }});
  ASSERT_TRUE(built) << built.error().text();
  const KernelBuild& kernel = built->kernels.front();
  EXPECT_EQ(kernel.library, &library_);
  EXPECT_EQ(kernel.origin, KernelOrigin::kLibrary);
  ASSERT_TRUE(kernel.source.call);
  EXPECT_THAT(kernel.source.text, HasSubstr("f64 1024 x 1024 x 1024"));
  EXPECT_EQ(built->plan.decisions.back().chosen, library_.name());
}

TEST_F(CublasLtCompileTest, WithoutTheLibraryAKernelTakesItsPlace) {
  const auto built = compiled({.families = kFamilies}, {.open_library = missing});
  ASSERT_TRUE(built) << built.error().text();
  const KernelBuild& kernel = built->kernels.front();
  EXPECT_EQ(kernel.library, nullptr);
  EXPECT_EQ(kernel.chosen.schedule.family, kMatmul);
  EXPECT_FALSE(kernel.kernel->cubin.empty());
  EXPECT_EQ(built->plan.workspace_bytes, 0);
  const auto said =
      std::ranges::find(built->plan.decisions, "does a library compute it", &Decision::question);
  ASSERT_NE(said, built->plan.decisions.end());
  EXPECT_EQ(said->chosen, kMatmul);
  EXPECT_THAT(said->because, HasSubstr("cannot be opened. install it"));
}

// The second product is the first one's, with the schedule of the first alone.
TEST_F(CublasLtCompileTest, WithoutTheLibraryEqualProductsTakeOneKernel) {
  const Fusion fusion = parse_fusion(R"(fusion @two_products {
  %v0 x : f64[1024, 1024] = input
  %v1 w : f64[1024, 1024] = input
  %v2 v : f64[1024, 1024] = input
  %v3 y : f64[1024, 1024] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 z : f64[1024, 1024] = contract.sum %v3, %v2 left(0, 2) right(1, 2) over(2)
  return %v4
})")
                            .value();
  auto planned = plan(fusion, {}, *find_device("H200"), {.families = kFamilies});
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 2U);
  ASSERT_TRUE(planned->kernels.back().same_as);
  const auto built =
      compile_plan(std::move(*planned), *compiler_, cache_, {.open_library = missing});
  ASSERT_TRUE(built) << built.error().text();
  for (const KernelBuild& kernel : built->kernels) {
    EXPECT_EQ(kernel.chosen.schedule.family, kMatmul);
    EXPECT_EQ(kernel.library, nullptr);
  }
}

TEST_F(CublasLtCompileTest, WithoutTheLibraryAPinnedCallIsAnError) {
  const auto refused = compiled(kByLibrary, {.open_library = missing});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be opened"));
}

TEST(CublasLtLibrary, AMissingFileSaysWhatToInstall) {
  const auto opened = open_cublaslt("libno_such_library.so");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(opened.error().remedy, HasSubstr("nvidia-cublas"));
}

class CublasLtGpu : public LiveDeviceTest<int> {
 protected:
  Result<Executable> prepared(const Fusion& fusion, const ExtentValues& extents) {
    auto planned = plan(fusion, extents, limits_, kByLibrary);
    if (!planned) return fail(planned.error());
    KernelCache cache({});
    auto compiled = compile_plan(std::move(*planned), *compiler_, cache);
    if (!compiled) return fail(compiled.error());
    return Executable::prepare(std::move(*compiled), *driver_);
  }

  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (IsSkipped()) return;
    if (auto library = cublaslt(); !library) GTEST_SKIP() << library.error().message;
  }
};

TEST_F(CublasLtGpu, EveryFormIsRightOnEveryKindOfData) {
  std::vector<ExtentValues> sizes = kSizes;
  sizes.push_back({{"M", 257}, {"K", 129}, {"N", 264}});
  sizes.push_back({{"M", 256}, {"K", 4096}, {"N", 96}});
  for (const Form& form : forms()) {
    const Fusion fusion = fusion_of(form);
    bool has_seen_hard_data = false;
    for (const ExtentValues& extents : sizes) {
      const auto executable = prepared(fusion, extents);
      if (!executable && executable.error().text().find("rounds twice") != std::string::npos)
        continue;
      ASSERT_TRUE(executable) << form.name << ": " << executable.error().text();
      DeviceRunOptions options{.time = false};
      // Some kinds of hard data, at one size: the host computes what is expected.
      if (!std::exchange(has_seen_hard_data, true)) options.hard_data = sample_data().first(6);
      const auto run = run_on_device(fusion, *executable, *driver_, options);
      ASSERT_TRUE(run) << run.error().text();
      EXPECT_TRUE(run->check.passed())
          << form.name << " M " << extents.at("M") << " K " << extents.at("K") << " N "
          << extents.at("N") << ": " << run->check.text();
    }
  }
}

}  // namespace sinter::cublaslt_execution_test
