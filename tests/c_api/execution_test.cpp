#include <gmock/gmock.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/c_api/execution_fixture.h"
#include "tests/runtime/allocation_counter.h"

namespace sinter::execution_test {

using ::testing::HasSubstr;

TEST_F(ExecutionTest, IsDescribed) {
  auto info = sized<sinter_executable_info>();
  succeeds([&](sinter_error** error) {
    return sinter_executable_describe(executable_.get(), &info, error);
  });
  EXPECT_EQ(info.input_count, 2U);
  EXPECT_EQ(info.output_count, 1U);
  EXPECT_EQ(info.kernel_count, 1U);
  EXPECT_EQ(info.compiled_count, 1U);
  EXPECT_EQ(info.workspace_bytes, 0);
  EXPECT_EQ(info.device, 0);
  EXPECT_GT(info.predicted_us, 0.0);
  auto tensor = sized<sinter_tensor_info>();
  succeeds([&](sinter_error** error) {
    return sinter_executable_input(executable_.get(), 1, &tensor, error);
  });
  EXPECT_STREQ(tensor.name, "weight");
  succeeds([&](sinter_error** error) {
    return sinter_executable_output(executable_.get(), 0, &tensor, error);
  });
  EXPECT_STREQ(tensor.name, "y");
  const auto json = nlohmann::json::parse(text_from([&](sinter_text** out, sinter_error** error) {
    return sinter_executable_explain_json(executable_.get(), out, error);
  }));
  EXPECT_EQ(json["compiled"].size(), 1U);
  EXPECT_EQ(json["compiled"][0]["origin"], "compiled");
  EXPECT_THAT(text_from([&](sinter_text** out, sinter_error** error) {
                return sinter_executable_kernel_cuda(executable_.get(), 0, out, error);
              }),
              HasSubstr("__global__"));
}

TEST_F(ExecutionTest, LaunchesOnTheStreamItIsGiven) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  args_.stream = stream;
  succeeds([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(stream_, stream);
  EXPECT_EQ(driver_.stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(ExecutionTest, NeedsNoCurrentContextAndLeavesNone) {
  ASSERT_EQ(driver_.context_set_current(nullptr), DriverStatus::kSuccess);
  succeeds([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(launches_, 1);
  ContextHandle current = nullptr;
  ASSERT_EQ(driver_.context_get_current(&current), DriverStatus::kSuccess);
  EXPECT_EQ(current, nullptr);
}

TEST_F(ExecutionTest, AllocatesNothingAndOnlyLaunches) {
  succeeds([&](sinter_error** error) { return execute(error); });
  const int64_t launches = driver_.calls(DriverCall::kLaunch);
  const int64_t allocations = allocation_count();
  for (int i = 0; i < 100; ++i) {
    if (sinter_executable_execute(executable_.get(), &args_, nullptr) != SINTER_OK) FAIL();
  }
  EXPECT_EQ(allocation_count(), allocations);
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), launches + 100);
}

TEST_F(ExecutionTest, MayBeCaptured) {
  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  args_.stream = stream;
  succeeds([&](sinter_error** error) { return execute(error); });
  ASSERT_EQ(driver_.capture_end(stream, &graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.capture_violations(), 0);
  EXPECT_EQ(driver_.graph_destroy(graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(ExecutionTest, PassesOnWhatTheDriverSays) {
  driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources);
  const auto refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.status, SINTER_DEVICE_ERROR);
}

TEST_F(ExecutionTest, ReleaseWaitsForTheDevice) {
  const int64_t before = driver_.calls(DriverCall::kContextSynchronize);
  executable_.reset();
  EXPECT_EQ(driver_.calls(DriverCall::kContextSynchronize), before + 1);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
}

TEST_F(ExecutionTest, WhatCannotBeWaitedForIsUnloadedLater) {
  driver_.fail_next(DriverCall::kContextSynchronize, DriverStatus::kStreamCaptureUnsupported);
  executable_.reset();
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 0);
  runtime_.reset();
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
}

TEST_F(ExecutionTest, AnExecutableOutlivesItsRuntimeAndPlan) {
  runtime_.reset();
  plan_.reset();
  succeeds([&](sinter_error** error) { return execute(error); });
}

TEST_F(ExecutionTest, PreparesForTheDeviceItIsGiven) {
  auto options = sized<sinter_prepare_options>();
  options.device = 1;
  sinter_executable* executable = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), plan_.get(), &options, &executable, error);
  });
  const OwnedExecutable owned(executable);
  const auto refusal = refused(
      [&](sinter_error** error) { return sinter_executable_execute(executable, &args_, error); });
  EXPECT_EQ(refusal.message, "input 0 'x' (%v0) lies on device 0, prepared was device 1");
  options.device = 2;
  sinter_executable* none = nullptr;
  EXPECT_EQ(sinter_executable_prepare(runtime_.get(), plan_.get(), &options, &none, nullptr),
            SINTER_DEVICE_ERROR);
  options.device = 0;
  options.compile_threads = -1;
  EXPECT_EQ(sinter_executable_prepare(runtime_.get(), plan_.get(), &options, &none, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST_F(ExecutionTest, NullPointersAreRefused) {
  EXPECT_EQ(sinter_executable_execute(executable_.get(), nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_executable_execute(nullptr, &args_, nullptr), SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_executable_prepare(runtime_.get(), plan_.get(), nullptr, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  sinter_executable* none = nullptr;
  EXPECT_EQ(sinter_executable_prepare(nullptr, plan_.get(), nullptr, &none, nullptr),
            SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_executable_describe(executable_.get(), nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  args_.inputs = nullptr;
  expect_refused("inputs is null, with a count of 2");
}

TEST_F(ExecutionTest, SixteenThreadsExecuteAtOnceWhileOneReleases) {
  constexpr int kThreads = 16;
  std::atomic<int> done = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (true) {
        const sinter_status status = sinter_executable_execute(executable_.get(), &args_, nullptr);
        if (status == SINTER_INVALID_HANDLE) return;
        if (status != SINTER_OK) ++wrong;
        ++done;
      }
    });
  }
  while (done < 50 * kThreads) std::this_thread::yield();
  EXPECT_EQ(sinter_executable_release(executable_.get(), nullptr), SINTER_OK);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(launches_, done);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
  (void)executable_.release();  // The handle is gone.
}

/// The same fixture with a graph that needs a workspace and makes a call.
class CallingExecutionTest : public ExecutionTest {
 protected:
  static constexpr std::string_view kGraph = R"(fusion @calls {
    %v0 x : f32[4, 64] = input
    %v1 : f32[4, 64] = exp %v0
    %v2 : f32[4, 64] = external "embedder's own" %v1
    %v3 : f32[4, 64] = mul %v2, %v2
    return %v3
  })";

  void SetUp() override {
    ExecutionTest::SetUp();
    const OwnedFusion fusion = parse(kGraph);
    const OwnedDevice limits = preset();
    calling_plan_ = plan_on(fusion.get(), limits.get(), {});
    auto options = sized<sinter_prepare_options>();
    options.external = &CallingExecutionTest::call;
    options.external_data = this;
    sinter_executable* executable = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_executable_prepare(runtime_.get(), calling_plan_.get(), &options, &executable,
                                       error);
    });
    executable_.reset(executable);
    describe(in_, {4, 64}, {2, 32, 1});
    describe(out_, {4, 64}, {2, 32, 1});
    inputs_[0] = {&in_.tensor.dl_tensor, nullptr};
    outputs_[0] = {&out_.tensor.dl_tensor, nullptr};
    args_.input_count = 1;
    auto info = sized<sinter_executable_info>();
    succeeds(
        [&](sinter_error** error) { return sinter_executable_describe(executable, &info, error); });
    workspace_bytes_ = info.workspace_bytes;
    EXPECT_EQ(info.kernel_count, 2U);
    EXPECT_GT(workspace_bytes_, 0);
  }
  void TearDown() override {
    calling_plan_.reset();
    ExecutionTest::TearDown();
  }

  static sinter_status call(void* user_data, const sinter_external_request* request) {
    auto* const self = static_cast<CallingExecutionTest*>(user_data);
    ++self->calls_;
    self->call_name_ = request->name;
    EXPECT_EQ(request->struct_size, sizeof *request);
    EXPECT_EQ(request->input_count, 1U);
    EXPECT_EQ(request->output_count, 1U);
    EXPECT_EQ(request->outputs[0].ndim, 2);
    EXPECT_EQ(request->outputs[0].shape[1], 64);
    EXPECT_EQ(request->outputs[0].strides[0], 64);
    EXPECT_EQ(request->outputs[0].dtype.bits, 32);
    EXPECT_NE(request->inputs[0].data, request->outputs[0].data);
    if (self->call_status_ != SINTER_OK && self->call_says_ != nullptr)
      std::strncpy(request->message, self->call_says_, request->message_size - 1);
    return self->call_status_;
  }

  OwnedPlan calling_plan_;
  Described in_, out_;
  int64_t workspace_bytes_ = 0;
  int calls_ = 0;
  std::string call_name_;
  sinter_status call_status_ = SINTER_OK;
  const char* call_says_ = nullptr;
};

TEST_F(CallingExecutionTest, RunsTheEmbeddersCalls) {
  args_.workspace = std::bit_cast<void*>(allocate(static_cast<size_t>(workspace_bytes_)));
  args_.workspace_bytes = workspace_bytes_;
  succeeds([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(call_name_, "embedder's own");

  call_status_ = SINTER_UNSUPPORTED;
  auto refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.status, SINTER_UNSUPPORTED);
  EXPECT_EQ(refusal.message, "the external call 'embedder's own' returned status 3 (Unsupported)");
  call_says_ = "not today";
  refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.message, "the external call 'embedder's own': not today");
  call_status_ = 1234;
  EXPECT_EQ(refused([&](sinter_error** error) { return execute(error); }).status,
            SINTER_INTERNAL_ERROR);
}

TEST_F(CallingExecutionTest, RefusesTooLittleWorkspace) {
  auto refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.status, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refusal.measured, 0);
  EXPECT_EQ(refusal.limit, workspace_bytes_);
  args_.workspace_bytes = workspace_bytes_;
  refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.message, "the workspace has a null address");
  EXPECT_EQ(calls_, 0);
}

TEST_F(CallingExecutionTest, AsksAnAllocator) {
  struct Pool {
    int64_t expected_bytes;
    DevicePointer memory;
    sinter_status status = SINTER_OK;
    int taken = 0;
    int returned = 0;
  } pool{workspace_bytes_, allocate(static_cast<size_t>(workspace_bytes_))};
  args_.allocator_data = &pool;
  args_.allocate = [](void* data, int64_t bytes, void*, void** address) -> sinter_status {
    auto* const owner = static_cast<Pool*>(data);
    if (owner->status != SINTER_OK) return owner->status;
    ++owner->taken;
    EXPECT_EQ(bytes, owner->expected_bytes);
    *address = std::bit_cast<void*>(owner->memory);
    return SINTER_OK;
  };
  EXPECT_EQ(refused([&](sinter_error** error) { return execute(error); }).message,
            "the workspace allocator lacks a function");
  args_.release = [](void* data, void*, void*) { ++static_cast<Pool*>(data)->returned; };
  succeeds([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(pool.taken, 1);
  EXPECT_EQ(pool.returned, 1);
  pool.status = SINTER_RESOURCE_EXHAUSTED;
  const auto refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.status, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refusal.measured, workspace_bytes_);
  args_.workspace_bytes = workspace_bytes_;
  EXPECT_EQ(refused([&](sinter_error** error) { return execute(error); }).message,
            "both a workspace and an allocator were passed");
}

TEST_F(CallingExecutionTest, NeedsSomebodyWhoRunsTheCalls) {
  sinter_executable* none = nullptr;
  const auto refusal = refused([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), calling_plan_.get(), nullptr, &none, error);
  });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal.message, "nothing runs the external call 'embedder's own'");
}

/// A graph with a take, planned to check its indices.
class CheckingExecutionTest : public ExecutionTest {
 protected:
  static constexpr std::string_view kGraph = R"(fusion @picks {
    %v0 x : f32[4, 64] = input
    %v1 labels : i64[4] = input
    %v2 : f32[4] = take %v0, %v1 axis(1)
    %v3 : f32[4] = reduce.sum %v0 over(1)
    %v4 y : f32[4] = add %v2, %v3
    return %v4
  })";

  void SetUp() override {
    ExecutionTest::SetUp();
    const OwnedFusion fusion = parse(kGraph);
    const OwnedDevice limits = preset();
    auto options = sized<sinter_plan_options>();
    options.check_indices = 1;
    const OwnedPlan plan = plan_on(fusion.get(), limits.get(), {}, &options);
    sinter_executable* executable = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_executable_prepare(runtime_.get(), plan.get(), nullptr, &executable, error);
    });
    executable_.reset(executable);
    const auto object = c_api::object_of<c_api::ExecutableObject>(executable);
    const KernelSource& source = object->executable().compiled().kernels.front().source;
    ASSERT_EQ(source.buffers.size(), 4U);
    // What the kernel does about its labels.
    driver_.set_kernel(source.entry, source.buffers.size() + source.params.size(),
                       [](const LaunchConfig&, std::span<const uint64_t> arguments) {
                         std::memcpy(std::bit_cast<void*>(arguments[3]),
                                     std::bit_cast<const void*>(arguments[1]), 4 * sizeof(int64_t));
                       });
    describe(x_, {4, 64}, {2, 32, 1});
    describe(labels_, {4}, {0, 64, 1});
    describe(y_, {4}, {2, 32, 1});
    inputs_ = {sinter_tensor{&x_.tensor.dl_tensor, nullptr}, {nullptr, &labels_.tensor}};
    outputs_ = {sinter_tensor{nullptr, &y_.tensor}};
    auto info = sized<sinter_executable_info>();
    succeeds(
        [&](sinter_error** error) { return sinter_executable_describe(executable, &info, error); });
    EXPECT_EQ(info.output_count, 1U);
    EXPECT_EQ(info.workspace_bytes, 256);
    args_.workspace = std::bit_cast<void*>(allocate(256));
    args_.workspace_bytes = 256;
  }
  void set_labels(std::array<int64_t, 4> labels) {
    std::memcpy(labels_.tensor.dl_tensor.data, labels.data(), sizeof labels);
  }
  sinter_status check(sinter_error** error) {
    return sinter_executable_check_indices(executable_.get(), args_.workspace,
                                           args_.workspace_bytes, error);
  }

  Described labels_;
};

TEST_F(CheckingExecutionTest, TellsWhichIndexIsOutside) {
  set_labels({0, 63, 5, 7});
  succeeds([&](sinter_error** error) { return execute(error); });
  succeeds([&](sinter_error** error) { return check(error); });
  set_labels({0, 63, 64, -1});
  succeeds([&](sinter_error** error) { return execute(error); });
  const auto refusal = refused([&](sinter_error** error) { return check(error); });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal.measured, 64);
  EXPECT_EQ(refusal.limit, 64);
  EXPECT_EQ(
      refusal.message,
      "the index 64 at [2] of %v1 'labels' is outside of the 64 elements that %v2 takes from");
  EXPECT_NE(refusal.json.find(R"("values":["%v2","%v1"])"), std::string::npos) << refusal.json;
  set_labels({1, 2, 3, 4});
  succeeds([&](sinter_error** error) { return execute(error); });
  succeeds([&](sinter_error** error) { return check(error); });
}

TEST_F(CheckingExecutionTest, RefusesWhatItCannotRead) {
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_executable_check_indices(executable_.get(), args_.workspace, 8, error);
            }).status,
            SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_executable_check_indices(executable_.get(), nullptr, 256, error);
            }).message,
            "the workspace has a null address");
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_executable_check_indices(nullptr, args_.workspace, 256, error);
            }).status,
            SINTER_INVALID_HANDLE);
}

TEST_F(ExecutionTest, WithoutTheOptionThereIsNothingToCheck) {
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_executable_check_indices(executable_.get(), nullptr, 0, error);
            }).message,
            "the plan does not check indices");
}

}  // namespace sinter::execution_test
