// What surrounds Sinter and may be missing or broken: the driver, NVRTC, and the cache on disk.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "runtime/compile/compile_kernel.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/driver/driver_api.h"
#include "tests/errors/error_expectations.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/runtime/scratch_directory.h"
#include "tests/support/plan_matchers.h"

namespace sinter::toolchain_errors_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(ToolchainError, NoDriver) {
  const auto driver = open_driver("/nowhere/libcuda.so.1");
  expect_error(driver,
               {.kind = ErrorKind::kDeviceError, .text = "the CUDA driver cannot be opened"});
  EXPECT_THAT(driver.error().log, HasSubstr("/nowhere/libcuda.so.1"));
}

TEST(ToolchainError, ALibraryThatIsNoDriver) {
  expect_error(open_driver("libm.so.6"), {.kind = ErrorKind::kDeviceError, .text = "lacks cu"});
}

TEST(ToolchainError, NoNvrtc) {
  const auto compiler = NvrtcCompiler::open("/nowhere/libnvrtc.so.13");
  expect_error(compiler, {.kind = ErrorKind::kDeviceError, .text = "NVRTC cannot be opened"});
  EXPECT_THAT(compiler.error().remedy, HasSubstr("SINTER_NVRTC"));
}

TEST(ToolchainError, ALibraryThatIsNoNvrtc) {
  expect_error(NvrtcCompiler::open("libm.so.6"),
               {.kind = ErrorKind::kDeviceError, .text = "lacks nvrtcVersion"});
}

TEST(ToolchainError, AFileThatIsNoLibrary) {
  const ScratchDirectory scratch;
  std::ofstream(scratch.path() / "libnvrtc.so.13") << "not a library";
  const auto compiler = NvrtcCompiler::open((scratch.path() / "libnvrtc.so.13").string());
  expect_error(compiler, {.kind = ErrorKind::kDeviceError, .text = "NVRTC cannot be opened"});
}

TEST(ToolchainError, NamesOfNoArchitecture) {
  for (const char* name : {"", "sm_", "hopper", "sm_9", "sm_90b", "sm_99999999999", "sm_-80"}) {
    expect_error(Architecture::parse(name),
                 {.kind = ErrorKind::kInvalidArgument,
                  .text = fmt::format("'{}' is not an architecture", name)});
  }
}

TEST(ToolchainError, AnArchitectureThatIsTooOld) {
  expect_error(Architecture::parse("sm_75"),
               {.kind = ErrorKind::kUnsupported, .text = "architecture sm_75 is older than sm_80"});
}

KernelSource small_kernel() {
  KernelSource source;
  source.entry = "f";
  source.text = R"(extern "C" __global__ void f(float* x) { x[0] = 1.0f; })";
  return source;
}

class CompilerErrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }

  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  Architecture hopper_ = Architecture::parse("sm_90a").value();
};

TEST_F(CompilerErrorTest, AKernelThatDoesNotCompile) {
  KernelSource source = small_kernel();
  source.text += "\n#error broken on purpose\n";
  const auto kernel = compiler_->compile(source, hopper_);
  expect_error(
      kernel, {.kind = ErrorKind::kDeviceError, .text = "compiling of kernel f for sm_90a failed"});
  EXPECT_THAT(kernel.error().log, HasSubstr("broken on purpose"));
}

TEST_F(CompilerErrorTest, AnArchitectureThatThisNvrtcDoesNotKnow) {
  expect_error(compiler_->compile(small_kernel(), {.major = 9, .minor = 9}),
               {.kind = ErrorKind::kUnsupported, .text = "does not accept"});
}

TEST_F(CompilerErrorTest, AnEntryThatTheTextDoesNotHave) {
  KernelSource source = small_kernel();
  source.entry = "g";
  expect_error(compiler_->compile(source, hopper_),
               {.kind = ErrorKind::kDeviceError, .text = "no resource report for 'g'"});
}

TEST_F(CompilerErrorTest, APlanForADeviceOfNoArchitecture) {
  DeviceLimits limits = *find_device("H200");
  limits.compute_major = 6;
  Plan planned = plan_canned("softmax", {{"rows", 8}, {"cols", 64}}, "H200").value();
  planned.limits = limits;
  KernelCache cache({});
  expect_error(compile_plan(std::move(planned), *compiler_, cache),
               {.kind = ErrorKind::kUnsupported, .text = "is older than sm_80"});
}

TEST_F(CompilerErrorTest, APlanOfAFamilyThatTheCompilerWasNotGiven) {
  KernelCache cache({});
  Plan planned = plan_canned("softmax", {{"rows", 8}, {"cols", 64}}, "H200").value();
  expect_error(compile_plan(std::move(planned), *compiler_, cache, {.families = {}}),
               {.kind = ErrorKind::kUnsupported, .text = "is not in the set"});
}

TEST_F(CompilerErrorTest, ACacheThatCannotBeWrittenStillGivesTheKernel) {
  const ScratchDirectory scratch;
  std::ofstream(scratch.path() / "file") << "in the way";
  KernelCache cache({.directory = scratch.path() / "file" / "cache"});
  const auto compiled = compile_kernel(*compiler_, cache, small_kernel(), hopper_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  EXPECT_EQ(compiled->origin, KernelOrigin::kCompiled);
  EXPECT_EQ(cache.statistics().write_failures, 1);
}

/// A cache on disk whose troubles are collected.
class CacheErrorTest : public ::testing::Test {
 protected:
  KernelCache cache(const fs::path& directory, int64_t max_bytes = int64_t{1} << 20) {
    return KernelCache({.directory = directory,
                        .max_disk_bytes = max_bytes,
                        .on_trouble = [this](const Error& error) { troubles_.push_back(error); }});
  }
  /// Looks the sample up, which compiles to it where it is not found.
  static KernelOrigin look_up(KernelCache& cache) {
    const auto found = cache.get_or_compile(sample_key(), [] { return sample_kernel(); });
    EXPECT_TRUE(found);
    EXPECT_EQ(*found->kernel, sample_kernel());
    return found->origin;
  }
  void expect_trouble(const ExpectedError& expected,
                      std::source_location where = std::source_location::current()) {
    ASSERT_EQ(troubles_.size(), 1U);
    expect_error(troubles_.front(), expected, where);
  }
  /// Fills the directory with one entry, damages it, and expects a rebuild that says why.
  void expect_rebuilt(const std::function<void(const fs::path& entry)>& damage,
                      const std::string& reason) {
    {
      KernelCache writer = cache(scratch_.path());
      EXPECT_EQ(look_up(writer), KernelOrigin::kCompiled);
      damage(writer.disk()->path_of(sample_key()));
    }
    KernelCache reader = cache(scratch_.path());
    EXPECT_EQ(look_up(reader), KernelOrigin::kCompiled);
    EXPECT_EQ(reader.statistics().damaged, 1);
    expect_trouble({.kind = ErrorKind::kInvalidArgument, .text = reason});
    KernelCache again = cache(scratch_.path());
    EXPECT_EQ(look_up(again), KernelOrigin::kDisk);
  }

  ScratchDirectory scratch_;
  std::vector<Error> troubles_;
};

TEST_F(CacheErrorTest, AnEntryWithAFlippedBitIsBuiltAgain) {
  expect_rebuilt(
      [](const fs::path& entry) {
        std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(200);
        const auto byte = static_cast<char>(file.get() ^ 1);
        file.seekp(200);
        file.put(byte);
      },
      "its checksum does not match");
}

TEST_F(CacheErrorTest, ATornEntryIsBuiltAgain) {
  expect_rebuilt([](const fs::path& entry) { fs::resize_file(entry, fs::file_size(entry) - 1); },
                 "where its header announces");
}

TEST_F(CacheErrorTest, AnEmptyEntryIsBuiltAgain) {
  expect_rebuilt([](const fs::path& entry) { fs::resize_file(entry, 0); },
                 "it is shorter than its header");
}

TEST_F(CacheErrorTest, AFileOfSomethingElseIsBuiltAgain) {
  expect_rebuilt([](const fs::path& entry) { std::ofstream(entry) << std::string(500, 'x'); },
                 "it does not start with the magic bytes");
}

TEST_F(CacheErrorTest, AFolderInPlaceOfAnEntryIsReportedAndStays) {
  KernelCache reader = cache(scratch_.path());
  fs::create_directory(reader.disk()->path_of(sample_key()));
  EXPECT_EQ(look_up(reader), KernelOrigin::kCompiled);
  EXPECT_EQ(reader.statistics().unreadable, 1);
  expect_trouble(
      {.kind = ErrorKind::kInvalidArgument, .text = "cannot be read: it is a directory"});
  EXPECT_TRUE(fs::is_directory(reader.disk()->path_of(sample_key())));
}

TEST_F(CacheErrorTest, ADirectoryBelowAFileIsReportedAndCompilesOn) {
  std::ofstream(scratch_.path() / "file") << "in the way";
  KernelCache blocked = cache(scratch_.path() / "file" / "cache");
  EXPECT_EQ(look_up(blocked), KernelOrigin::kCompiled);
  EXPECT_EQ(look_up(blocked), KernelOrigin::kMemory);
  EXPECT_EQ(blocked.statistics().write_failures, 1);
  expect_trouble(
      {.kind = ErrorKind::kInvalidArgument, .text = "making a folder in cache directory"});
}

TEST_F(CacheErrorTest, AReadOnlyDirectoryIsReportedAndCompilesOn) {
  // Nobody may make files there, not even root.
  KernelCache read_only = cache("/proc/sinter-cache");
  EXPECT_EQ(look_up(read_only), KernelOrigin::kCompiled);
  EXPECT_EQ(read_only.statistics().write_failures, 1);
  expect_trouble({.kind = ErrorKind::kResourceExhausted,
                  .text = "in cache directory /proc/sinter-cache failed"});
}

/// Forbids this process to write files of more than so many bytes: a write then fails as on a full
/// disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(CacheErrorTest, AFailingWriteIsReportedAndLeavesNothingBehind) {
  KernelCache full = cache(scratch_.path());
  {
    const FileSizeLimit limit(100);
    EXPECT_EQ(look_up(full), KernelOrigin::kCompiled);
  }
  EXPECT_EQ(full.statistics().write_failures, 1);
  expect_trouble(
      {.kind = ErrorKind::kResourceExhausted, .text = "writing an entry in cache directory"});
  for (const auto& file : fs::directory_iterator(scratch_.path()))
    EXPECT_EQ(file.path().filename(), "compiling.lock");
}

TEST_F(CacheErrorTest, AKernelLargerThanTheCacheIsReportedAndCompilesOn) {
  KernelCache tiny = cache(scratch_.path(), 100);
  EXPECT_EQ(look_up(tiny), KernelOrigin::kCompiled);
  ASSERT_EQ(troubles_.size(), 1U);
  expect_trouble({.kind = ErrorKind::kResourceExhausted,
                  .text = "kernel sample_0 is larger than the whole disk cache",
                  .measured = troubles_.front().measured,
                  .limit = 100});
  EXPECT_GT(troubles_.front().measured, 100);
}

TEST_F(CacheErrorTest, AListingOfAFileIsAnError) {
  std::ofstream(scratch_.path() / "file") << "in the way";
  expect_error(DiskCache(scratch_.path() / "file", 1000).list(),
               {.kind = ErrorKind::kInvalidArgument, .text = "cannot be listed: Not a directory"});
}

}  // namespace sinter::toolchain_errors_test
