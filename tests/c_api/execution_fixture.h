#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/c_api/c_api_support.h"
#include "tests/support/fake_driver.h"

namespace sinter {

inline constexpr int64_t kRows = 6;
inline constexpr int64_t kColumns = 64;

/// kScale, prepared with a fake driver of two devices whose kernel records what it is launched
/// with.
class ExecutionTest : public CApiTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Device memory of the fake.
  DevicePointer allocate(size_t bytes);
  /// A dense tensor of the caller, with shape and strides written out.
  struct Described {
    std::array<int64_t, 2> shape{};
    std::array<int64_t, 2> strides{};
    sinter_dl_managed_tensor tensor{};
  };
  void describe(Described& out, std::vector<int64_t> sizes, sinter_dtype type);

  sinter_status execute(sinter_error** error);
  /// Executing fails with this message, and nothing is launched.
  Refusal expect_refused(std::string_view message);

  FakeDriver driver_{*find_device("H200"), 2};
  OwnedRuntime runtime_;
  OwnedPlan plan_;
  OwnedExecutable executable_;
  Described x_, weight_, y_;
  std::array<sinter_tensor, 2> inputs_{};
  std::array<sinter_tensor, 1> outputs_{};
  sinter_execute_args args_ = sized<sinter_execute_args>();

  std::mutex mutex_;  // Guards what the kernel records.
  int launches_ = 0;
  std::vector<uint64_t> seen_;
  StreamHandle stream_ = nullptr;

 private:
  ContextHandle context_ = nullptr;
};

}  // namespace sinter
