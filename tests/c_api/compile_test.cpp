#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/compile/nvrtc_compiler.h"
#include "tests/c_api/c_api_support.h"
#include "tests/support/fake_driver.h"

namespace sinter::compile_test {

using ::testing::HasSubstr;
using OwnedCompiled = Owned<sinter_compiled, sinter_compiled_release>;

const std::vector<sinter_extent> kExtents = {{"rows", 6}, {"cols", 64}};

class CompileTest : public CApiTest {
 protected:
  void SetUp() override {
    CApiTest::SetUp();
    fusion_ = parse(kScale);
    device_ = preset("A100");
    plan_ = plan_on(fusion_.get(), device_.get(), kExtents);
    auto options = sized<sinter_runtime_options>();
    options.driver_library = "/nowhere/libcuda.so";
    options.cache_directory = "";
    sinter_runtime* runtime = nullptr;
    succeeds(
        [&](sinter_error** error) { return sinter_runtime_create(&options, &runtime, error); });
    runtime_.reset(runtime);
  }
  void TearDown() override {
    runtime_.reset();
    plan_.reset();
    device_.reset();
    fusion_.reset();
    CApiTest::TearDown();
  }

  Refusal plan_refused(const sinter_plan_options& options) {
    sinter_plan* plan = nullptr;
    return refused([&](sinter_error** error) {
      return sinter_plan_create(fusion_.get(), device_.get(), kExtents.data(), kExtents.size(),
                                &options, &plan, error);
    });
  }
  Refusal compile_refused(const sinter_compile_options& options) {
    sinter_compiled* compiled = nullptr;
    return refused([&](sinter_error** error) {
      return sinter_plan_compile(runtime_.get(), plan_.get(), &options, &compiled, error);
    });
  }

  OwnedFusion fusion_;
  OwnedDevice device_;
  OwnedPlan plan_;
  OwnedRuntime runtime_;
};

TEST_F(CompileTest, NeedsNeitherGpuNorDriver) {
  if (const auto compiler = NvrtcCompiler::open(); !compiler)
    GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  sinter_compiled* out = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_plan_compile(runtime_.get(), plan_.get(), nullptr, &out, error);
  });
  const OwnedCompiled compiled(out);
  auto info = sized<sinter_compiled_info>();
  succeeds([&](sinter_error** error) { return sinter_compiled_describe(out, &info, error); });
  EXPECT_EQ(info.kernel_count, 1U);
  EXPECT_EQ(info.compiled_count, 1U);
  auto kernel = sized<sinter_compiled_kernel_info>();
  succeeds([&](sinter_error** error) { return sinter_compiled_kernel(out, 0, &kernel, error); });
  EXPECT_STREQ(kernel.architecture, "sm_80");
  EXPECT_GT(kernel.registers, 0);
  ASSERT_GT(kernel.cubin_bytes, 4U);
  EXPECT_EQ(std::memcmp(kernel.cubin,
                        "\x7f"
                        "ELF",
                        4),
            0);
  EXPECT_THAT(text_from([&](sinter_text** text, sinter_error** error) {
                return sinter_compiled_kernel_cuda(out, 0, text, error);
              }),
              HasSubstr(kernel.entry));
  const auto json = nlohmann::json::parse(text_from([&](sinter_text** text, sinter_error** error) {
    return sinter_compiled_explain_json(out, text, error);
  }));
  EXPECT_EQ(json["compiled"][0]["architecture"], "sm_80");
  EXPECT_EQ(sinter_compiled_kernel(out, 1, &kernel, nullptr), SINTER_INVALID_ARGUMENT);
  auto cache = sized<sinter_cache_info>();
  succeeds([&](sinter_error** error) {
    return sinter_runtime_cache_info(runtime_.get(), &cache, error);
  });
  EXPECT_EQ(cache.misses, 1);
  EXPECT_EQ(cache.memory_hits, 0);
}

int32_t cancel(void* user_data, const sinter_progress* progress) {
  ++*static_cast<int*>(user_data);
  EXPECT_EQ(progress->struct_size, sizeof(sinter_progress));
  EXPECT_STRNE(progress->family, "");
  return 1;
}
int32_t go_on(void* user_data, const sinter_progress* progress) {
  EXPECT_EQ(progress->steps, static_cast<size_t>(*static_cast<int*>(user_data)));
  ++*static_cast<int*>(user_data);
  return 0;
}

TEST_F(CompileTest, ACallbackCancels) {
  int calls = 0;
  auto planning = sized<sinter_plan_options>();
  planning.progress = cancel;
  planning.progress_data = &calls;
  const Refusal refusal = plan_refused(planning);
  EXPECT_EQ(refusal.status, SINTER_CANCELLED);
  EXPECT_EQ(refusal.kind, "Cancelled");
  EXPECT_THAT(refusal.json, HasSubstr("\"kind\":\"Cancelled\""));
  EXPECT_EQ(calls, 1);
  if (!NvrtcCompiler::open()) GTEST_SKIP() << "no NVRTC";
  auto compiling = sized<sinter_compile_options>();
  compiling.progress = cancel;
  compiling.progress_data = &calls;
  EXPECT_EQ(compile_refused(compiling).status, SINTER_CANCELLED);
  EXPECT_EQ(calls, 2);
}

TEST_F(CompileTest, ACallbackThatGoesOnChangesNothing) {
  int calls = 0;
  auto options = sized<sinter_plan_options>();
  options.progress = go_on;
  options.progress_data = &calls;
  options.budget_seconds = 3600.0;
  const OwnedPlan told = plan_on(fusion_.get(), device_.get(), kExtents, &options);
  EXPECT_GT(calls, 0);
  int32_t equal = 0;
  EXPECT_EQ(text_from([&](sinter_text** text, sinter_error** error) {
              return sinter_plan_diff(told.get(), plan_.get(), &equal, text, error);
            }),
            "the plans are equal\n");
  EXPECT_EQ(equal, 1);
}

TEST_F(CompileTest, ABudgetEnds) {
  auto planning = sized<sinter_plan_options>();
  planning.budget_seconds = 1e-9;
  const Refusal refusal = plan_refused(planning);
  EXPECT_EQ(refusal.status, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_THAT(refusal.message, HasSubstr("time budget ended"));
  for (const double budget : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    planning.budget_seconds = budget;
    EXPECT_EQ(plan_refused(planning).status, SINTER_INVALID_ARGUMENT);
  }
  // Tuning plans again and again, and has a budget of its own.
  planning.budget_seconds = 5.0;
  const Refusal tuning = refused([&](sinter_error** error) {
    return sinter_tune(runtime_.get(), fusion_.get(), kExtents.data(), kExtents.size(), &planning,
                       nullptr, nullptr, nullptr, error);
  });
  EXPECT_EQ(tuning.status, SINTER_INVALID_ARGUMENT);
  EXPECT_THAT(tuning.message, HasSubstr("plan_options.budget_seconds"));
}

TEST_F(CompileTest, RefusesWhatItDoesNotKnow) {
  auto planning = sized<sinter_plan_options>();
  for (int32_t sinter_plan_options::*field :
       {&sinter_plan_options::keep_graph, &sinter_plan_options::check_indices,
        &sinter_plan_options::cublaslt, &sinter_plan_options::defer_scales,
        &sinter_plan_options::no_teams, &sinter_plan_options::cutting}) {
    for (const int32_t number : {2, -1}) {
      planning = sized<sinter_plan_options>();
      planning.*field = number;
      EXPECT_EQ(plan_refused(planning).status, SINTER_INVALID_ARGUMENT);
    }
  }
  auto compiling = sized<sinter_compile_options>();
  compiling.threads = -1;
  EXPECT_EQ(compile_refused(compiling).status, SINTER_INVALID_ARGUMENT);
  compiling = sized<sinter_compile_options>();
  compiling.forbid_replanning = 2;
  EXPECT_EQ(compile_refused(compiling).status, SINTER_INVALID_ARGUMENT);
  sinter_text* text = nullptr;
  EXPECT_EQ(sinter_plan_draw(plan_.get(), 2, &text, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_plan_draw(plan_.get(), SINTER_DRAWING_SVG, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_plan_diff(nullptr, plan_.get(), nullptr, nullptr, nullptr),
            SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_runtime_cache_info(nullptr, nullptr, nullptr), SINTER_INVALID_HANDLE);
}

TEST_F(CompileTest, PlansAreDrawn) {
  const auto drawn = [&](int32_t form) {
    return text_from([&](sinter_text** text, sinter_error** error) {
      return sinter_plan_draw(plan_.get(), form, text, error);
    });
  };
  EXPECT_THAT(drawn(SINTER_DRAWING_SVG), HasSubstr("<svg"));
  EXPECT_THAT(drawn(SINTER_DRAWING_DOT), HasSubstr("digraph"));
}

TEST_F(CompileTest, ADeviceReadsBackFromItsJson) {
  const std::string json = text_from([&](sinter_text** text, sinter_error** error) {
    return sinter_device_json(device_.get(), text, error);
  });
  sinter_device* out = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_device_parse(json.data(), json.size(), &out, error);
  });
  const OwnedDevice read(out);
  EXPECT_EQ(text_from([&](sinter_text** text, sinter_error** error) {
              return sinter_device_json(read.get(), text, error);
            }),
            json);
  const Refusal refusal =
      refused([&](sinter_error** error) { return sinter_device_parse("{\n!", 3, &out, error); });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_device_parse(nullptr, 3, &out, nullptr), SINTER_INVALID_ARGUMENT);
}

TEST_F(CompileTest, ErrorsInTextHaveLineAndColumn) {
  sinter_fusion* fusion = nullptr;
  sinter_error* error = nullptr;
  constexpr std::string_view kText = "fusion @f {\n  %v0 : f32[4] = inptu\n}";
  EXPECT_EQ(sinter_fusion_parse(kText.data(), kText.size(), &fusion, &error),
            SINTER_INVALID_FUSION);
  auto info = sized<sinter_error_info>();
  EXPECT_EQ(sinter_error_describe(error, &info), SINTER_OK);
  EXPECT_EQ(info.line, 2);
  EXPECT_EQ(info.column, 18);
  EXPECT_THAT(info.json, HasSubstr("\"line\":2,\"column\":18"));
  EXPECT_THAT(info.remedy, HasSubstr("did you mean 'input'?"));
  EXPECT_EQ(sinter_error_release(error), SINTER_OK);
}

}  // namespace sinter::compile_test
