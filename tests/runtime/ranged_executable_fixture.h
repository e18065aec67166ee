#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/execute/ranged_executable.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/uncompiled_plan.h"

namespace sinter {

/// Tensors of one size for the inputs and outputs of a fusion.
struct Tensors {
  std::vector<DeviceBuffer> memory;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

/// RMS norm, inputs x and weight, output y, served from 0 to 512 rows.
class RangedExecutableTest : public ::testing::Test {
 protected:
  static constexpr int64_t kColumns = 64;

  Result<RangedExecutable> prepare(const ExtentRanges& ranges, RangedOptions options = {}) {
    return RangedExecutable::prepare(
        fusion_, ranges, *find_device("H200"),
        [this](Plan plan) {
          ++compiled_;
          return uncompiled(std::move(plan));
        },
        driver_, std::move(options));
  }
  RangedExecutable rows_only(size_t kept = 16) {
    return prepare({{"rows", {0, 512}}}, {.fixed = {{"cols", kColumns}}, .kept = kept}).value();
  }
  void expect_refused(const ExtentRanges& ranges, const RangedOptions& options,
                      const testing::Matcher<const std::string&>& text) {
    const auto prepared = prepare(ranges, options);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(prepared.error().text(), text);
    EXPECT_EQ(compiled_, 0);
  }
  /// Refused with these words, and nothing was planned for it.
  void expect_refused(RangedExecutable& ranged, const Tensors& tensors,
                      const testing::Matcher<const std::string&>& text) {
    const int before = compiled_;
    const auto done = ranged.execute(tensors.inputs, tensors.outputs, 0, 0, nullptr);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(done.error().text(), text);
    EXPECT_EQ(compiled_, before);
    EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
  }

  Tensors tensors(const ExtentValues& extents) {
    const Binding binding = bind_extents(fusion_, extents).value();
    Tensors out;
    const auto tensor_of = [&](ValueId value) {
      const Value& info = fusion_.values[value];
      const Sizes sizes = binding.sizes_of(info.shape);
      out.memory.push_back(
          DeviceBuffer::allocate(driver_,
                                 static_cast<size_t>(element_count(sizes) * bytes_of(info.type)))
              .value());
      return Tensor{
          .address = out.memory.back().pointer(), .type = info.type, .sizes = sizes, .strides = {}};
    };
    for (const ValueId input : fusion_.inputs) out.inputs.push_back(tensor_of(input));
    for (const ValueId output : fusion_.outputs) out.outputs.push_back(tensor_of(output));
    return out;
  }
  Tensors tensors(int64_t rows) { return tensors({{"rows", rows}, {"cols", kColumns}}); }

  FakeDriver driver_{*find_device("H200")};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  Fusion fusion_ = find_canned_fusion("rms_norm")->build();
  std::atomic<int> compiled_ = 0;
};

}  // namespace sinter
