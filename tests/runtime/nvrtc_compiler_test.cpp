#include "runtime/compile/nvrtc_compiler.h"

#include <gmock/gmock.h>

#include <thread>

#include "runtime/compile/compile_kernel.h"
#include "tests/runtime/scratch_directory.h"

namespace sinter::nvrtc_compiler_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

KernelSource add_kernel() {
  KernelSource source;
  source.entry = "add";
  source.text = R"(
extern "C" __global__ void __launch_bounds__(256) add(const float* a, const float* b, float* c,
                                                      int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = i < n ? a[i] : 0.0f;
  __syncthreads();
  if (i < n) c[i] = tile[threadIdx.x ^ 1] + b[i];
}
)";
  return source;
}

class NvrtcCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }
  static Architecture architecture(const char* name) { return Architecture::parse(name).value(); }

  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
};

TEST(NvrtcLibrary, MissingOneIsAnErrorWithARemedy) {
  const auto compiler = NvrtcCompiler::open("/nowhere/libnvrtc.so.13");
  ASSERT_FALSE(compiler);
  EXPECT_EQ(compiler.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(compiler.error().text(),
              AllOf(HasSubstr("NVRTC cannot be opened"), HasSubstr("SINTER_NVRTC"),
                    HasSubstr("/nowhere/libnvrtc.so.13: ")));
}

TEST(NvrtcLibrary, NamesTheFunctionsThatALibraryLacks) {
  const auto compiler = NvrtcCompiler::open("libm.so.6");
  ASSERT_FALSE(compiler);
  EXPECT_THAT(compiler.error().text(), HasSubstr("lacks nvrtcVersion"));
}

TEST_F(NvrtcCompilerTest, CompilesForEveryArchitectureWithoutAGpu) {
  for (const char* name : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    const auto kernel = compiler_->compile(add_kernel(), architecture(name));
    ASSERT_TRUE(kernel) << kernel.error().text();
    EXPECT_EQ(kernel->entry, "add");
    EXPECT_EQ(kernel->architecture, name);
    EXPECT_THAT(kernel->cubin, StartsWith("\x7f"
                                          "ELF"));
    EXPECT_THAT(kernel->cubin, HasSubstr("add"));
    EXPECT_GE(kernel->resources.registers, 8) << name;
    EXPECT_LE(kernel->resources.registers, 255) << name;
    EXPECT_EQ(kernel->resources.shared_bytes, 1024) << name;
    EXPECT_EQ(kernel->resources.spill_store_bytes, 0) << name;
    EXPECT_EQ(kernel->resources.barriers, 1) << name;
    EXPECT_GT(kernel->compile_ms, 0.0);
  }
}

TEST_F(NvrtcCompilerTest, EqualInputsGiveEqualBytes) {
  const auto first = compiler_->compile(add_kernel(), architecture("sm_90a")).value();
  const auto second = compiler_->compile(add_kernel(), architecture("sm_90a")).value();
  EXPECT_EQ(first.cubin, second.cubin);
}

TEST_F(NvrtcCompilerTest, ReportsSpills) {
  KernelSource source;
  source.entry = "spilling";
  source.text = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float4* a, float4* c) {
  float4 r[24];
  float sum = 0;
  #pragma unroll
  for (int i = 0; i < 24; i++) r[i] = a[threadIdx.x + i * 1024];
  #pragma unroll
  for (int i = 0; i < 24; i++) sum += r[i].x + r[i].y + r[i].z + r[i].w;
  #pragma unroll
  for (int i = 0; i < 24; i++) {
    c[threadIdx.x + i * 1024] = make_float4(r[i].x * sum, r[i].y * sum, r[i].z * sum, r[i].w * sum);
  }
}
)";
  // 96 values a thread where the launch bounds leave 32 registers.
  const auto sm_90a = compiler_->compile(source, architecture("sm_90a")).value().resources;
  EXPECT_EQ(sm_90a.registers, 32);
  EXPECT_GT(sm_90a.spill_store_bytes, 0);
  EXPECT_GT(sm_90a.spill_load_bytes, 0);
  EXPECT_GT(sm_90a.stack_bytes, 0);
  EXPECT_FALSE(sm_90a.launch_bounds_ignored);
  // An SM of 12.0 holds 1,536 threads: two such blocks never fit.
  EXPECT_TRUE(
      compiler_->compile(source, architecture("sm_120a")).value().resources.launch_bounds_ignored);
}

TEST_F(NvrtcCompilerTest, SyntaxErrorCarriesTheLogAndTheKernel) {
  KernelSource source = add_kernel();
  source.text += "\nthis is not CUDA;\n";
  const auto kernel = compiler_->compile(source, architecture("sm_90a"));
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(kernel.error().message, AllOf(HasSubstr("kernel add"), HasSubstr("sm_90a")));
  EXPECT_THAT(kernel.error().log, HasSubstr("add.cu(11): error"));
}

TEST_F(NvrtcCompilerTest, AssemblerErrorCarriesTheLog) {
  KernelSource source;
  source.entry = "bad_asm";
  source.text = R"(extern "C" __global__ void bad_asm() { asm volatile("bogus.f32 %%f1;"); })";
  const auto kernel = compiler_->compile(source, architecture("sm_90a"));
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(kernel.error().log, HasSubstr("ptxas"));
}

TEST_F(NvrtcCompilerTest, UnknownArchitectureIsUnsupported) {
  const auto kernel = compiler_->compile(add_kernel(), {.major = 9, .minor = 9});
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(kernel.error().message, HasSubstr("--gpu-architecture=sm_99"));
}

TEST_F(NvrtcCompilerTest, AWrongEntryIsAnError) {
  KernelSource source = add_kernel();
  source.entry = "subtract";
  const auto kernel = compiler_->compile(source, architecture("sm_80"));
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("no resource report for 'subtract'"));
}

TEST_F(NvrtcCompilerTest, SeesTheHeadersItIsGivenAndNoOthers) {
  KernelSource source;
  source.entry = "with_header";
  source.text = R"(#include "given.cuh"
extern "C" __global__ void with_header(float* a) { a[0] = kGiven; })";
  const std::vector<EmbeddedHeader> headers = {
      {.name = "given.cuh", .text = "constexpr float kGiven = 3.0f;"}};
  EXPECT_TRUE(compiler_->compile(source, architecture("sm_80"), {}, headers));
  const auto without = compiler_->compile(source, architecture("sm_80"), {}, {});
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().log, HasSubstr("given.cuh"));
}

TEST_F(NvrtcCompilerTest, CompilesOnManyThreadsAtOnce) {
  const auto expected = compiler_->compile(add_kernel(), architecture("sm_80")).value();
  std::vector<std::string> cubins(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& cubin : cubins) {
      threads.emplace_back([&] {
        if (auto kernel = compiler_->compile(add_kernel(), architecture("sm_80"))) {
          cubin = kernel->cubin;
        }
      });
    }
  }
  for (const std::string& cubin : cubins) EXPECT_EQ(cubin, expected.cubin);
}

TEST_F(NvrtcCompilerTest, EveryOptionReachesTheCommandLine) {
  const auto base = nvrtc_options(architecture("sm_80"), {});
  EXPECT_NE(base, nvrtc_options(architecture("sm_86"), {}));
  EXPECT_NE(base, nvrtc_options(architecture("sm_80"), {.cpp_standard = 20}));
  EXPECT_NE(base, nvrtc_options(architecture("sm_80"), {.fast_math = true}));
  EXPECT_NE(base, nvrtc_options(architecture("sm_80"), {.line_info = true}));
  for (const CompileOptions& options :
       {CompileOptions{.cpp_standard = 20}, {.fast_math = true}, {.line_info = true}}) {
    const auto kernel = compiler_->compile(add_kernel(), architecture("sm_80"), options);
    EXPECT_TRUE(kernel) << kernel.error().text();
  }
}

TEST_F(NvrtcCompilerTest, ASecondProcessFindsTheKernelOnDisk) {
  const ScratchDirectory scratch;
  const auto compile_in_new_cache = [&] {
    KernelCache cache({.directory = scratch.path()});
    return compile_kernel(*compiler_, cache, add_kernel(), architecture("sm_90a")).value();
  };
  const CacheLookup first = compile_in_new_cache();
  const CacheLookup second = compile_in_new_cache();
  EXPECT_EQ(first.origin, KernelOrigin::kCompiled);
  EXPECT_EQ(second.origin, KernelOrigin::kDisk);
  EXPECT_EQ(*first.kernel, *second.kernel);
}

}  // namespace sinter::nvrtc_compiler_test
