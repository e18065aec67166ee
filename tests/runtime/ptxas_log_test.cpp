#include "runtime/cache/ptxas_log.h"

#include <gmock/gmock.h>

namespace sinter::ptxas_log_test {

// Logs of NVRTC 13.0, unchanged.
constexpr std::string_view kPlainSm80 = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add' for 'sm_80'
ptxas info    : Function properties for add
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 128 bytes smem, 380 bytes cmem[0]
ptxas info    : Compile time = 4.602 ms
)";

constexpr std::string_view kPlainSm90a = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add' for 'sm_90a'
ptxas info    : Function properties for add
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 128 bytes smem
ptxas info    : Compile time = 2.458 ms
)";

// Two kernels, a compiler warning, spills, a stack, and a function that was not inlined.
constexpr std::string_view kSpillsSm80 =
    R"(k.cu(14): warning #177-D: variable "unused" was declared but never referenced
    int unused;
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas info    : 0 bytes gmem, 64 bytes cmem[3]
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 1.329 ms
ptxas info    : Compiling entry function 'spill' for 'sm_80'
ptxas info    : Function properties for spill
ptxas         .     784 bytes stack frame, 880 bytes spill stores, 1092 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 784 bytes cumulative stack size, 372 bytes cmem[0]
ptxas info    : Compile time = 13.214 ms
ptxas info    : Function properties for _Z6helperfi
ptxas         .     0 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads
)";

constexpr std::string_view kSpillsSm100a = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_100a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 1.402 ms
ptxas info    : Compiling entry function 'spill' for 'sm_100a'
ptxas info    : Function properties for spill
ptxas         .     768 bytes stack frame, 876 bytes spill stores, 1092 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 768 bytes cumulative stack size
ptxas info    : Compile time = 16.315 ms
ptxas info    : Function properties for _Z6helperfi
ptxas         .     0 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads
)";

// __launch_bounds__(1024, 2) where an SM holds 1,536 threads.
constexpr std::string_view kIgnoredBoundsSm120a =
    R"(ptxas warning : Value of threads per SM for entry spill is out of range. .minnctapersm will be ignored
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_120a'
ptxas info    : Function properties for spill
ptxas         .     496 bytes stack frame, 452 bytes spill stores, 508 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 496 bytes cumulative stack size
ptxas info    : Compile time = 12.898 ms
)";

TEST(PtxasLog, ReadsConstantBanksWhereTheyAreReported) {
  const CompiledResources expected = {
      .registers = 12, .shared_bytes = 128, .barriers = 1, .constant_bytes = 380};
  EXPECT_EQ(parse_ptxas_log(kPlainSm80, "add").value(), expected);
}

TEST(PtxasLog, ReadsNewerGenerationsWithoutConstantBanks) {
  const CompiledResources expected = {.registers = 14, .shared_bytes = 128, .barriers = 1};
  EXPECT_EQ(parse_ptxas_log(kPlainSm90a, "add").value(), expected);
}

TEST(PtxasLog, CountsTheSpillsOfFunctionsThatWereNotInlined) {
  const CompiledResources sm_80 = {.registers = 32,
                                   .spill_store_bytes = 880 + 16,
                                   .spill_load_bytes = 1092 + 16,
                                   .stack_bytes = 784,
                                   .barriers = 1,
                                   .constant_bytes = 64 + 372};
  EXPECT_EQ(parse_ptxas_log(kSpillsSm80, "spill").value(), sm_80);
  const CompiledResources sm_100a = {.registers = 32,
                                     .spill_store_bytes = 876 + 16,
                                     .spill_load_bytes = 1092 + 16,
                                     .stack_bytes = 768,
                                     .barriers = 1};
  EXPECT_EQ(parse_ptxas_log(kSpillsSm100a, "spill").value(), sm_100a);
}

TEST(PtxasLog, TellsKernelsOfOneTextApart) {
  const auto second = parse_ptxas_log(kSpillsSm80, "second").value();
  EXPECT_EQ(second.registers, 8);
  EXPECT_EQ(second.barriers, 0);
  EXPECT_EQ(second.stack_bytes, 0);
}

TEST(PtxasLog, NoticesIgnoredLaunchBounds) {
  const auto resources = parse_ptxas_log(kIgnoredBoundsSm120a, "spill").value();
  EXPECT_TRUE(resources.launch_bounds_ignored);
  EXPECT_EQ(resources.registers, 64);
  EXPECT_FALSE(parse_ptxas_log(kSpillsSm80, "spill").value().launch_bounds_ignored);
}

TEST(PtxasLog, NoticesSerialisedWgmma) {
  // The advice as ptxas 13.0 words it, before the report of the kernel.
  const std::string log =
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources for the wgmma pipeline in the function "
      "'add'\n" +
      std::string(kPlainSm90a);
  EXPECT_TRUE(parse_ptxas_log(log, "add").value().wgmma_serialized);
  EXPECT_FALSE(parse_ptxas_log(kPlainSm90a, "add").value().wgmma_serialized);
}

TEST(PtxasLog, AcceptsWindowsLineEndsAndNoLastNewline) {
  std::string log;
  for (const char c : kPlainSm80) log += c == '\n' ? std::string("\r\n") : std::string(1, c);
  while (log.ends_with('\n') || log.ends_with('\r')) log.pop_back();
  EXPECT_EQ(parse_ptxas_log(log, "add").value(), parse_ptxas_log(kPlainSm80, "add").value());
}

TEST(PtxasLog, FailsWithTheLogWhenTheKernelIsNotReported) {
  for (const std::string_view log : {std::string_view(), kPlainSm80}) {
    const auto resources = parse_ptxas_log(log, "absent");
    ASSERT_FALSE(resources);
    EXPECT_EQ(resources.error().kind, ErrorKind::kDeviceError);
    EXPECT_EQ(resources.error().log, log);
    EXPECT_THAT(resources.error().text(), ::testing::HasSubstr("no resource report for 'absent'"));
  }
}

// Cutting a report anywhere never yields numbers that were not in it.
TEST(PtxasLog, SurvivesTruncationAtEveryByte) {
  const auto whole = parse_ptxas_log(kSpillsSm80, "spill").value();
  for (size_t size = 0; size < kSpillsSm80.size(); ++size) {
    if (const auto cut = parse_ptxas_log(kSpillsSm80.substr(0, size), "spill")) {
      EXPECT_EQ(cut->registers, whole.registers) << size;
    }
  }
}

}  // namespace sinter::ptxas_log_test
