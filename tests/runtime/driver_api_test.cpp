#include "runtime/driver/driver_api.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "runtime/driver/shared_library.h"
#include "tests/runtime/scratch_directory.h"

namespace sinter::driver_api_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DriverApi, NamesTheMissingLibraryAndWhatStillWorks) {
  const auto driver = open_driver("/nowhere/libcuda.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(
      driver.error().text(),
      AllOf(HasSubstr("the CUDA driver cannot be opened"), HasSubstr("SINTER_LIBCUDA"),
            HasSubstr("interpreting work without it"), HasSubstr("/nowhere/libcuda.so.1: ")));
}

TEST(DriverApi, TakesTheLibraryFromTheEnvironment) {
  const char* before = std::getenv("SINTER_LIBCUDA");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("SINTER_LIBCUDA", "/from/the/environment.so", 1);
  const auto driver = open_driver();
  if (before != nullptr) {
    ::setenv("SINTER_LIBCUDA", saved.c_str(), 1);
  } else {
    ::unsetenv("SINTER_LIBCUDA");
  }
  ASSERT_FALSE(driver);
  EXPECT_THAT(driver.error().log, HasSubstr("/from/the/environment.so"));
}

TEST(DriverApi, NamesTheCallsThatALibraryLacks) {
  const auto driver = open_driver("libm.so.6");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(driver.error().text(), AllOf(HasSubstr("libm"), HasSubstr("cuLaunchKernelEx"),
                                           HasSubstr("cuInit"), HasSubstr("CUDA 11.8")));
}

TEST(DriverApi, OpensAnOldDriverWithoutItsLaterCalls) {
  const auto driver = open_driver(SINTER_OLD_LIBCUDA);
  ASSERT_TRUE(driver) << driver.error().text();
  EXPECT_TRUE((*driver)->has(DriverCall::kLaunch));
  EXPECT_FALSE((*driver)->has(DriverCall::kTensorMapEncode));
  EncodedTensorMap map;
  EXPECT_EQ(
      (*driver)->tensor_map_encode(&map, TensorMapType::kF32, 1, 0, nullptr, nullptr, nullptr,
                                   nullptr, TensorMapInterleave::kNone, TensorMapSwizzle::kNone,
                                   TensorMapPromotion::kNone, TensorMapFill::kZeros),
      DriverStatus::kNotFound);
}

TEST(DriverApi, AllThreadsGetTheSameDriverOrTheSameError) {
  std::vector<Result<DeviceDriver*>> results(8);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) threads.emplace_back([&result] { result = cuda_driver(); });
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(DriverCalls, HaveDistinctSymbols) {
  std::set<std::string_view> symbols;
  for (size_t i = 0; i < kDriverCallCount; ++i) symbols.insert(name_of(static_cast<DriverCall>(i)));
  EXPECT_EQ(symbols.size(), kDriverCallCount);
}

TEST(SharedLibrary, TakesTheFirstCandidateThatOpens) {
  const std::vector<std::string> candidates = {"/nowhere/lib.so", "libm.so.6"};
  const auto library = SharedLibrary::open(candidates, "a library", "");
  ASSERT_TRUE(library) << library.error().text();
  EXPECT_NE(library->symbol("cos"), nullptr);
  EXPECT_EQ(library->symbol("no_such_function"), nullptr);
  EXPECT_TRUE(std::filesystem::path(library->path()).is_absolute()) << library->path();
}

TEST(SharedLibrary, IdentityFollowsTheContents) {
  const auto open = [](const std::string& name) {
    return SharedLibrary::open(std::vector<std::string>{name}, "a library", "").value();
  };
  const SharedLibrary math = open("libm.so.6");
  const SharedLibrary standard = open("libstdc++.so.6");
  EXPECT_NE(math.identity(), standard.identity());

  // A copy elsewhere is the same library; only the build id can tell.
  const ScratchDirectory scratch;
  const auto copy = scratch.path() / "copy.so";
  std::filesystem::copy_file(math.path(), copy);
  EXPECT_EQ(open(copy.string()).identity(), math.identity());
}

}  // namespace sinter::driver_api_test
