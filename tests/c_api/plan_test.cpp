#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>

#include "runtime/compile/nvrtc_compiler.h"
#include "tests/c_api/c_api_support.h"
#include "tests/support/fake_driver.h"

namespace sinter::plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<sinter_extent> kExtents = {{"rows", 6}, {"cols", 64}};

class PlanTest : public CApiTest {
 protected:
  void SetUp() override {
    CApiTest::SetUp();
    fusion_ = parse(kScale);
    device_ = preset();
    plan_ = plan_on(fusion_.get(), device_.get(), kExtents);
  }
  void TearDown() override {
    plan_.reset();
    device_.reset();
    fusion_.reset();
    CApiTest::TearDown();
  }

  template <class Call>
  std::string text(Call call) {
    return text_from(
        [&](sinter_text** out, sinter_error** error) { return call(plan_.get(), out, error); });
  }
  std::string kernel_schedule() {
    return text_from([&](sinter_text** out, sinter_error** error) {
      return sinter_plan_kernel_schedule(plan_.get(), 0, out, error);
    });
  }
  Refusal plan_refused(const std::vector<sinter_extent>& extents,
                       const sinter_plan_options* options = nullptr) {
    sinter_plan* plan = nullptr;
    auto out = refused([&](sinter_error** error) {
      return sinter_plan_create(fusion_.get(), device_.get(), extents.data(), extents.size(),
                                options, &plan, error);
    });
    EXPECT_EQ(plan, nullptr);
    return out;
  }

  OwnedFusion fusion_;
  OwnedDevice device_;
  OwnedPlan plan_;
};

TEST_F(PlanTest, IsDescribed) {
  auto info = sized<sinter_plan_info>();
  succeeds([&](sinter_error** error) { return sinter_plan_describe(plan_.get(), &info, error); });
  EXPECT_EQ(info.input_count, 2U);
  EXPECT_EQ(info.output_count, 1U);
  EXPECT_EQ(info.kernel_count, 1U);
  EXPECT_EQ(info.external_count, 0U);
  EXPECT_EQ(info.workspace_bytes, 0);
  EXPECT_GT(info.predicted_us, 0.0);
  auto kernel = sized<sinter_kernel_info>();
  succeeds(
      [&](sinter_error** error) { return sinter_plan_kernel(plan_.get(), 0, &kernel, error); });
  EXPECT_EQ(kernel.predicted_us, info.predicted_us);
  EXPECT_GT(kernel.threads, 0);
  EXPECT_GT(kernel.registers, 0);
  EXPECT_EQ(kernel.bytes_read, 6 * 64 * 2 + 64 * 4);
  EXPECT_EQ(kernel.bytes_written, 6 * 64 * 2);
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_plan_kernel(plan_.get(), 1, &kernel, error);
            }).message,
            "there is no kernel 1");
}

TEST_F(PlanTest, TensorsAreDescribed) {
  auto info = sized<sinter_tensor_info>();
  succeeds([&](sinter_error** error) { return sinter_plan_input(plan_.get(), 0, &info, error); });
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.type, "bf16");
  EXPECT_EQ(info.dtype.code, 4);
  EXPECT_EQ(info.dtype.bits, 16);
  EXPECT_EQ(info.dtype.lanes, 1);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.alias, -1);
  EXPECT_EQ(info.alignment, 16);
  EXPECT_THAT(std::vector(info.shape, info.shape + 3), ElementsAre(6, 64, 0));
  EXPECT_THAT(std::vector(info.strides, info.strides + 3), ElementsAre(64, 1, 0));
  succeeds([&](sinter_error** error) { return sinter_plan_output(plan_.get(), 0, &info, error); });
  EXPECT_STREQ(info.name, "y");
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_plan_input(plan_.get(), 2, &info, error);
            }).limit,
            1);
  EXPECT_EQ(sinter_plan_output(plan_.get(), 0, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
}

TEST_F(PlanTest, AliasesAndLayoutsAreDescribed) {
  const OwnedFusion fusion = parse(
      "fusion @f { %v0 : f32[4, 8] = input strides(16, 1) align(4) "
      "%v1 : f32[4, 8] = exp %v0 return %v1 strides(16, 1) align(4) alias(%v0) }");
  const OwnedPlan plan = plan_on(fusion.get(), device_.get(), {});
  auto info = sized<sinter_tensor_info>();
  succeeds([&](sinter_error** error) { return sinter_plan_output(plan.get(), 0, &info, error); });
  EXPECT_EQ(info.alias, 0);
  EXPECT_EQ(info.alignment, 4);
  EXPECT_EQ(info.strides[0], 16);
}

TEST_F(PlanTest, IsSavedAndLoaded) {
  const std::string saved = text(&sinter_plan_save);
  sinter_plan* loaded = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_plan_load(saved.data(), saved.size(), &loaded, error);
  });
  const OwnedPlan owned(loaded);
  const auto cuda_of = [](const sinter_plan* plan) {
    return text_from([&](sinter_text** out, sinter_error** error) {
      return sinter_plan_kernel_cuda(plan, 0, out, error);
    });
  };
  EXPECT_EQ(cuda_of(owned.get()), cuda_of(plan_.get()));
  EXPECT_EQ(text_from([&](sinter_text** out, sinter_error** error) {
              return sinter_plan_save(owned.get(), out, error);
            }),
            saved);
  for (const std::string_view bad : {"", "{}", "no plan"}) {
    EXPECT_EQ(sinter_plan_load(bad.data(), bad.size(), &loaded, nullptr), SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(loaded, nullptr);
  }
  EXPECT_EQ(sinter_plan_load(nullptr, 0, &loaded, nullptr), SINTER_INVALID_ARGUMENT);
}

TEST_F(PlanTest, IsExplained) {
  const auto json = nlohmann::json::parse(text(&sinter_plan_explain_json));
  EXPECT_EQ(json["fusion"], "scale");
  EXPECT_EQ(json["device"], "H200");
  EXPECT_EQ(json["kernels"].size(), 1U);
  EXPECT_FALSE(json["decisions"].empty());
  EXPECT_THAT(text(&sinter_plan_explain), HasSubstr("scale"));
  EXPECT_THAT(text(&sinter_plan_print), StartsWith("fusion @scale {"));
  EXPECT_THAT(text_from([&](sinter_text** out, sinter_error** error) {
                return sinter_plan_kernel_cuda(plan_.get(), 0, out, error);
              }),
              HasSubstr("extern \"C\" __global__"));
}

TEST_F(PlanTest, PinsAreObeyed) {
  auto options = sized<sinter_plan_options>();
  options.vector_width = 4;
  plan_ = plan_on(fusion_.get(), device_.get(), kExtents, &options);
  const std::string pinned = kernel_schedule();
  EXPECT_THAT(pinned, HasSubstr("vector_width 4"));
  options = sized<sinter_plan_options>();
  options.schedule = pinned.c_str();
  plan_ = plan_on(fusion_.get(), device_.get(), kExtents, &options);
  EXPECT_EQ(kernel_schedule(), pinned);
}

TEST_F(PlanTest, CutsAndJoinsAreObeyed) {
  fusion_ = parse(
      "fusion @f { %v0 : f32[4096, 64] = input %v1 a : f32[4096, 64] = exp %v0 "
      "%v2 b : f32[4096, 64] = sin %v1 return %v2 }");
  const char* const names[] = {"a", "b"};
  auto options = sized<sinter_plan_options>();
  options.keep_graph = 1;
  options.cuts = names;
  options.cut_count = 1;
  plan_ = plan_on(fusion_.get(), device_.get(), {}, &options);
  auto info = sized<sinter_plan_info>();
  succeeds([&](sinter_error** error) { return sinter_plan_describe(plan_.get(), &info, error); });
  EXPECT_EQ(info.kernel_count, 2U);
  const sinter_value_group join{names, 2};
  options.joins = &join;
  options.join_count = 1;
  EXPECT_EQ(plan_refused({}, &options).status, SINTER_INVALID_ARGUMENT)
      << "a pin that contradicts another one";
  options.cuts = nullptr;
  EXPECT_EQ(plan_refused({}, &options).message, "options.cuts is null, with a count of 1");
  options.cut_count = 0;
  plan_ = plan_on(fusion_.get(), device_.get(), {}, &options);
  succeeds([&](sinter_error** error) { return sinter_plan_describe(plan_.get(), &info, error); });
  EXPECT_EQ(info.kernel_count, 1U);
}

TEST_F(PlanTest, MistakesAreTold) {
  EXPECT_EQ(plan_refused({{"rows", 6}}).message, "symbol 'cols' has neither a size nor a hint");
  EXPECT_EQ(plan_refused({{"rows", 6}, {"rows", 6}}).message, "extent 'rows' is given twice");
  EXPECT_EQ(plan_refused({{nullptr, 6}}).message, "extents[0].name is null");
  auto options = sized<sinter_plan_options>();
  options.cutting = 2;
  EXPECT_EQ(plan_refused(kExtents, &options).message, "there is no way of cutting 2");
  options.cutting = SINTER_CUT_NEEDED;
  options.residency = "nowhere";
  EXPECT_EQ(plan_refused(kExtents, &options).message, "there is no residency 'nowhere'");
  options.residency = nullptr;
  options.schedule = "schedule";
  EXPECT_EQ(plan_refused(kExtents, &options).status, SINTER_INVALID_ARGUMENT);
  options.schedule = "schedule looped { pipeline_stages 4 }";
  EXPECT_EQ(plan_refused(kExtents, &options).status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(plan_refused(kExtents, &options).message,
            "1:19: the family 'looped' has no field 'pipeline_stages'");
  options.schedule = nullptr;
  options.family = "none";
  EXPECT_EQ(plan_refused(kExtents, &options).status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_plan_create(fusion_.get(), device_.get(), nullptr, 1, nullptr, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  sinter_plan* plan = nullptr;
  EXPECT_EQ(sinter_plan_create(fusion_.get(), device_.get(), nullptr, 1, nullptr, &plan, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_plan_create(nullptr, device_.get(), nullptr, 0, nullptr, &plan, nullptr),
            SINTER_INVALID_HANDLE);
}

TEST_F(PlanTest, DevicesAreKnownByNameOrNumber) {
  const auto refusal = refused([&](sinter_error** error) {
    sinter_device* device = nullptr;
    return sinter_device_preset("PDP-11", &device, error);
  });
  EXPECT_EQ(refusal.message, "there is no device 'PDP-11'");
  EXPECT_THAT(refusal.json, HasSubstr("RTX 4090"));

  FakeDriver driver(*find_device("A100"), 2);
  const OwnedRuntime runtime = runtime_with(driver);
  int32_t count = 0;
  succeeds([&](sinter_error** error) {
    return sinter_runtime_device_count(runtime.get(), &count, error);
  });
  EXPECT_EQ(count, 2);
  sinter_device* device = nullptr;
  succeeds(
      [&](sinter_error** error) { return sinter_device_query(runtime.get(), 1, &device, error); });
  const OwnedDevice owned(device);
  const auto json = nlohmann::json::parse(text_from([&](sinter_text** out, sinter_error** error) {
    return sinter_device_json(device, out, error);
  }));
  EXPECT_EQ(json["sm_count"], 108);
  device = nullptr;
  EXPECT_EQ(sinter_device_query(runtime.get(), 2, &device, nullptr), SINTER_DEVICE_ERROR);
}

TEST_F(PlanTest, KernelsAreCompiledOnce) {
  if (const auto compiler = NvrtcCompiler::open(); !compiler)
    GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  FakeDriver driver;
  const OwnedRuntime runtime = runtime_with(driver, nullptr);
  for (const size_t expected : {size_t{1}, size_t{0}}) {
    sinter_executable* executable = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_executable_prepare(runtime.get(), plan_.get(), nullptr, &executable, error);
    });
    const OwnedExecutable owned(executable);
    auto info = sized<sinter_executable_info>();
    succeeds(
        [&](sinter_error** error) { return sinter_executable_describe(executable, &info, error); });
    EXPECT_EQ(info.compiled_count, expected);
    const auto json = nlohmann::json::parse(text_from([&](sinter_text** out, sinter_error** error) {
      return sinter_executable_explain_json(executable, out, error);
    }));
    EXPECT_EQ(json["compiled"][0]["origin"], expected == 1 ? "compiled" : "memory");
    EXPECT_GT(json["compiled"][0]["resources"]["registers"], 0);
    EXPECT_EQ(json["compiled"][0]["attempts"].size(), 1U);
  }
}

TEST_F(PlanTest, ARuntimeWithoutLibrariesSaysWhatIsMissing) {
  auto options = sized<sinter_runtime_options>();
  options.driver_library = "/nowhere/libcuda.so";
  options.nvrtc_library = "/nowhere/libnvrtc.so";
  options.cache_directory = "";
  sinter_runtime* out = nullptr;
  succeeds([&](sinter_error** error) { return sinter_runtime_create(&options, &out, error); });
  const OwnedRuntime runtime(out);
  int32_t count = 0;
  const auto refusal = refused([&](sinter_error** error) {
    return sinter_runtime_device_count(runtime.get(), &count, error);
  });
  EXPECT_EQ(refusal.status, SINTER_DEVICE_ERROR);
  EXPECT_THAT(refusal.json, HasSubstr("/nowhere/libcuda.so"));
  options.max_disk_bytes = -1;
  EXPECT_EQ(sinter_runtime_create(&options, &out, nullptr), SINTER_INVALID_ARGUMENT);
}

}  // namespace sinter::plan_test
