#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/c_api/handles.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/sinter_c.h"
#include "tests/support/uncompiled_plan.h"

namespace sinter {

/// What a call that failed says, with its error released.
struct Refusal {
  sinter_status status = SINTER_OK;
  std::string kind;
  std::string message;
  std::string json;
  std::optional<int64_t> measured;
  std::optional<int64_t> limit;
};

Refusal refusal_of(sinter_status status, sinter_error* error);

/// Runs a call that should fail.
template <class Call>
Refusal refused(Call call) {
  sinter_error* error = nullptr;
  const sinter_status status = call(&error);
  return refusal_of(status, error);
}

/// Runs a call that should not fail.
template <class Call>
void succeeds(Call call) {
  sinter_error* error = nullptr;
  const sinter_status status = call(&error);
  if (status != SINTER_OK) FAIL() << refusal_of(status, error).message;
  EXPECT_EQ(error, nullptr);
}

template <class Handle, auto release>
struct Releaser {
  void operator()(Handle* handle) const { EXPECT_EQ(release(handle, nullptr), SINTER_OK); }
};
template <class Handle, auto release>
using Owned = std::unique_ptr<Handle, Releaser<Handle, release>>;
using OwnedText = Owned<sinter_text, sinter_text_release>;
using OwnedBuilder = Owned<sinter_builder, sinter_builder_release>;
using OwnedFusion = Owned<sinter_fusion, sinter_fusion_release>;
using OwnedDevice = Owned<sinter_device, sinter_device_release>;
using OwnedRuntime = Owned<sinter_runtime, sinter_runtime_release>;
using OwnedPlan = Owned<sinter_plan, sinter_plan_release>;
using OwnedExecutable = Owned<sinter_executable, sinter_executable_release>;
using OwnedTuningDatabase = Owned<sinter_tuning_database, sinter_tuning_database_release>;

/// A zeroed struct with its size.
template <class Struct>
Struct sized() {
  Struct out{};
  out.struct_size = sizeof out;
  return out;
}

/// The string of a call whose last parameter but the error is a text.
template <class Call>
std::string text_from(Call call) {
  sinter_text* text = nullptr;
  succeeds([&](sinter_error** error) { return call(&text, error); });
  const OwnedText owned(text);
  const char* data = nullptr;
  size_t size = 0;
  succeeds([&](sinter_error** error) { return sinter_text_view(text, &data, &size, error); });
  return data == nullptr ? "" : std::string(data, size);
}

OwnedFusion parse(std::string_view text);
OwnedDevice preset(const char* name = "H200");
OwnedPlan plan_on(const sinter_fusion* fusion, const sinter_device* device,
                  const std::vector<sinter_extent>& extents,
                  const sinter_plan_options* options = nullptr);

/// x[rows, cols] in bf16 plus a weight, both needed whole; inputs x and weight, output y.
inline constexpr std::string_view kScale = R"(fusion @scale extents(rows, cols) {
  %v0 x : bf16[rows, cols] = input
  %v1 weight : f32[cols] = input
  %v2 : f32[rows, cols] = cast %v0
  %v3 : f32[rows, cols] = broadcast %v1 axes(1)
  %v4 : f32[rows, cols] = mul %v2, %v3
  %v5 y : bf16[rows, cols] = cast %v4
  return %v5
})";

/// Tests that leave as many handles as they found.
class CApiTest : public ::testing::Test {
 protected:
  void SetUp() override { before_ = c_api::handles().size(); }
  void TearDown() override { EXPECT_EQ(c_api::handles().size(), before_) << "handles are left"; }

 private:
  size_t before_ = 0;
};

/// A runtime with a driver of the test; a null compiler is NVRTC, without a cache on disk.
OwnedRuntime runtime_with(DeviceDriver& driver,
                          c_api::RuntimeObject::Compile compile = &uncompiled);

}  // namespace sinter
