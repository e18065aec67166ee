// Tables of tensors and integers among the arguments, in the interpreter.

#include <gmock/gmock.h>

#include <array>

#include "codegen/kernel/kernel_parser.h"
#include "runtime/interpreter/interpreter.h"

namespace sinter::tables_test {

/// Copies element `thread` of the tensor that each block's entry in `which` names.
constexpr std::string_view kCopy = R"(kernel @copy threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  buffer %b0 which : i32 argument read align 4 count 4
  buffer %b1 x : f32 global read align 4 tensors 4 values %v0 %v1
  buffer %b2 y : f32 global write align 4 tensors 4 values %v2 %v3
  var %r0 tensor : i32
  %r0[0, 0] = load %b0[block_index] width 1
  var %r1 element : f32
  %r1[0, 0] = load %b1[%r0][thread_index] width 1
  store %b2[%r0][thread_index] = %r1[0, 0] width 1
}
)";

class InterpreterTables : public ::testing::Test {
 protected:
  InterpreterReport run(std::string_view text, std::array<int32_t, 4> which, int64_t blocks) {
    const auto kernel = parse_kernel(text).value();
    const auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
    std::vector<LaunchMemory> memory = {{.bytes = bytes(which)}};
    for (auto* tensors : {&x_, &y_}) {
      for (auto& tensor : *tensors) memory.push_back({.bytes = bytes(tensor)});
    }
    const auto report = interpret(kernel, memory, std::array{blocks});
    EXPECT_TRUE(report) << report.error().text();
    return *report;
  }

  std::array<std::vector<float>, 2> x_ = {std::vector<float>(32, 1.0F),
                                          std::vector<float>(40, 2.0F)};
  std::array<std::vector<float>, 2> y_ = {std::vector<float>(32, 0.0F),
                                          std::vector<float>(32, 0.0F)};
};

TEST_F(InterpreterTables, ReadAndWriteTheTensorThatIsNamed) {
  const InterpreterReport report = run(kCopy, {1, 0, 0, 0}, 2);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_THAT(y_[0], testing::Each(1.0F));
  EXPECT_THAT(y_[1], testing::Each(2.0F));
  // Arguments are no traffic.
  EXPECT_EQ(report.total_traffic().bytes_read, 2 * 32 * 4);
  EXPECT_EQ(report.buffers[kir::BufferId{1}].bytes_read, 2 * 32 * 4);
}

TEST_F(InterpreterTables, ReportTensorsThatTheTableHasNot) {
  for (const int32_t tensor : {2, -1}) {
    const InterpreterReport report = run(kCopy, {tensor, 0, 0, 0}, 1);
    ASSERT_EQ(report.findings.size(), 2U);
    EXPECT_EQ(report.findings[0].kind, FindingKind::kGlobalOutOfBounds);
    EXPECT_THAT(report.findings[0].message,
                testing::HasSubstr(fmt::format("accesses tensor {} of x, which has 2", tensor)));
  }
}

TEST_F(InterpreterTables, ReportTwoBlocksThatWriteOneTensor) {
  const InterpreterReport report = run(kCopy, {1, 1, 0, 0}, 2);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, FindingKind::kGlobalRace);
}

TEST_F(InterpreterTables, ReportIntegersBeyondTheArguments) {
  const InterpreterReport report = run(kCopy, {0, 0, 0, 0}, 5);
  EXPECT_THAT(report.findings,
              testing::Contains(testing::Field(&Finding::kind, FindingKind::kGlobalOutOfBounds)));
}

TEST_F(InterpreterTables, MayNameATensorForEachLane) {
  constexpr std::string_view kMixed =
      R"(kernel @mixed threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  buffer %b0 which : i32 argument read align 4 count 4
  buffer %b1 x : f32 global read align 4 tensors 4 values %v0 %v1
  buffer %b2 y : f32 global write align 4 tensors 4 values %v2 %v3
  var %r0 element : f32
  %r0[0, 0] = load %b1[rem(thread_index, 2)][thread_index] width 1
  store %b2[0][thread_index] = %r0[0, 0] width 1
}
)";
  EXPECT_TRUE(run(kMixed, {0, 0, 0, 0}, 1).findings.empty());
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(y_[0][i], i % 2 == 0 ? 1.0F : 2.0F);
}

TEST_F(InterpreterTables, NeedMemoryForEveryTensor) {
  const auto kernel = parse_kernel(kCopy).value();
  const auto report = interpret(kernel, {}, std::array<int64_t, 1>{1});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(report.error().message, testing::HasSubstr("which are 5"));
}

}  // namespace sinter::tables_test
