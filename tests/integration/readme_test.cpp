// What README.md shows of its worked example is what comes out today; what all pages and headers
// show as text can be read.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/kernel/kernel_parser.h"
#include "fusion_ir/composites.h"
#include "fusion_ir/parser.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/schedule.h"
#include "tests/integration/canned_case.h"
#include "tests/support/fake_driver.h"

namespace sinter::readme_test {

using testing::HasSubstr;

TEST(Readme, ShowsTheScheduleAndTheKernelOfItsExample) {
  std::ifstream file(SINTER_TEST_DATA_DIR "/../README.md");
  std::ostringstream readme;
  readme << file.rdbuf();
  const Plan planned = plan(find_canned_fusion("rms_norm")->build(),
                            {{"rows", 8192}, {"cols", 8192}}, *find_device("H200"))
                           .value();
  ASSERT_EQ(planned.kernels.size(), 1U);
  const KernelPlan& kernel = planned.kernels.front();
  const Schedule& schedule = kernel.chosen().schedule;
  EXPECT_THAT(readme.str(), HasSubstr("```\n" + print(schedule)));
  EXPECT_THAT(readme.str(), HasSubstr("```cuda\n" + emit(kernel.facts, schedule).value().text));
}

TEST(Readme, ShowsCallsThatRun) {
  const auto opened = NvrtcCompiler::open();
  if (!opened) GTEST_SKIP() << "no NVRTC: " << opened.error().message;
  const NvrtcCompiler& compiler = *opened;
  KernelCache cache({});
  FakeDriver driver;
  const DeviceContext context = DeviceContext::retain(driver, 0).value();
  const CurrentContext current = CurrentContext::enter(driver, context).value();
  const DeviceBuffer memory = DeviceBuffer::allocate(driver, size_t{600} << 20).value();
  const auto tensor = [&](uint64_t offset, Sizes sizes) {
    return Tensor{memory.pointer() + offset, DType::kBF16, std::move(sizes)};
  };
  const std::vector<Tensor> inputs = {tensor(0, {8192, 8192}), tensor(uint64_t{128} << 20, {8192})};
  const std::vector<Tensor> outputs = {tensor(uint64_t{256} << 20, {8192, 8192})};
  const DevicePointer workspace = memory.pointer() + (uint64_t{512} << 20);
  const int64_t workspace_bytes = int64_t{64} << 20;
  StreamHandle const stream = nullptr;

  // clang-format off
  sinter::FusionBuilder b("rms_norm");
  const auto rows = b.symbol("rows"), cols = b.symbol("cols");
  const auto x = b.input(sinter::DType::kBF16, {rows, cols}, "x");
  const auto weight = b.input(sinter::DType::kBF16, {cols}, "weight");
  b.output(sinter::rms_norm(b, x, {.output = sinter::DType::kBF16, .weight = weight}).y, "y");

  auto plan = sinter::plan(b.build(), {{"rows", 8192}, {"cols", 8192}}, *sinter::find_device("H200"),
                           {.families = sinter::builtin_families()});
  auto compiled = sinter::compile_plan(std::move(*plan), compiler, cache);      // cubins; no GPU
  auto executable = sinter::Executable::prepare(std::move(*compiled), driver);  // loads
  auto launched = executable->execute(inputs, outputs, workspace, workspace_bytes, stream);
  // clang-format on
  ASSERT_TRUE(launched) << launched.error().text();
  EXPECT_EQ(driver.calls(DriverCall::kLaunch), 1);
}

/// Every page of the tree, and every header for its comments.
std::vector<std::filesystem::path> documents() {
  const std::filesystem::path root = std::filesystem::path(SINTER_TEST_DATA_DIR) / "..";
  std::vector<std::filesystem::path> out;
  for (std::filesystem::recursive_directory_iterator it(root), end; it != end; ++it) {
    const std::string name = it->path().filename().string();
    // Build trees and what tools keep.
    if (it->is_directory() && (name.starts_with(".") || name == "build"))
      it.disable_recursion_pending();
    if (it->is_regular_file() && (name.ends_with(".md") || name.ends_with(".h")))
      out.push_back(it->path());
  }
  std::ranges::sort(out);
  return out;
}

/// A run of lines that stand apart as text: of a page within fences or behind four blanks, of a
/// header behind four blanks of a comment. Without the indentation that all of them have.
std::vector<std::string> blocks_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  const bool is_header = path.extension() == ".h";
  std::vector<std::string> out;
  std::string block;
  bool is_fenced = false;
  const auto end = [&] {
    if (!block.empty()) out.push_back(std::move(block));
    block.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (!is_header && line.starts_with("```")) {
      end();
      is_fenced = !is_fenced;
      continue;
    }
    std::string_view text = line;
    if (is_header) {
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
      if (!text.starts_with("//")) {
        end();
        continue;
      }
      text.remove_prefix(text.starts_with("///") ? 3 : 2);
      if (text.starts_with(" ")) text.remove_prefix(1);
    }
    if (!is_fenced && !text.starts_with("    ")) {
      end();
      continue;
    }
    if (!is_fenced) text.remove_prefix(4);
    block += std::string(text) + "\n";
  }
  end();
  return out;
}

TEST(Readme, ShowsTextsThatParse) {
  std::map<std::string, int> shown;
  for (const std::filesystem::path& path : documents()) {
    for (const std::string& block : blocks_of(path)) {
      SCOPED_TRACE(path.string() + ":\n" + block);
      if (block.starts_with("fusion @")) {
        ++shown["fir"];
        const auto fusion = parse_fusion(block);
        EXPECT_TRUE(fusion) << fusion.error().text();
      } else if (block.starts_with("schedule ")) {
        ++shown["sched"];
        // What the tool prints behind it is no part of it.
        const auto schedule = parse_schedule(block.substr(0, block.find("\n}\n") + 3));
        EXPECT_TRUE(schedule) << schedule.error().text();
      } else if (block.starts_with("kernel @")) {
        ++shown["kir"];
        const auto kernel = parse_kernel(block);
        EXPECT_TRUE(kernel) << kernel.error().text();
      }
    }
  }
  EXPECT_GE(shown["fir"], 2);
  EXPECT_GE(shown["sched"], 2);
  EXPECT_GE(shown["kir"], 1);
}

/// A text without what a formatter changes.
std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(Readme, ExamplesInHeadersStandInATest) {
  std::string tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SINTER_TEST_DATA_DIR)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    tests += without_blanks(text.str());
  }
  int shown = 0;
  for (const std::filesystem::path& path : documents()) {
    if (path.extension() != ".h") continue;
    for (const std::string& block : blocks_of(path)) {
      // Statements, not the prose of a list.
      if (!block.ends_with(");\n")) continue;
      ++shown;
      EXPECT_NE(tests.find(without_blanks(block)), std::string::npos) << path << ":\n" << block;
    }
  }
  EXPECT_GE(shown, 2);
}

}  // namespace sinter::readme_test
