#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/shell.h"

namespace sinter {

/// Runs the built command line tool as a user would, in a folder of the test's own.
class Tool : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(scratch_); }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  /// Runs `sinter <arguments>` with its own empty cache; `2>&1` in the arguments adds the errors.
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    const std::string command = fmt::format("SINTER_CACHE_DIR='{}' '{}' {}",
                                            (scratch_ / "cache").string(), SINTER_TOOL, arguments);
    return run_in_shell(command);
  }

  [[nodiscard]] nlohmann::json run_json(const std::string& arguments, int exit_code = 0) const {
    const Outcome out = run(arguments + " --json");
    EXPECT_EQ(out.exit_code, exit_code) << out.output;
    nlohmann::json parsed = nlohmann::json::parse(out.output, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << out.output;
    return parsed;
  }

  [[nodiscard]] std::string write_file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = scratch_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path scratch_ =
      std::filesystem::path(::testing::TempDir()) /
      fmt::format("sinter_tool_{}_{}", getpid(),
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace sinter
