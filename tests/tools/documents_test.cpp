// What the pages of the tree say to type is what the tool and `./run` take.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/npy.h"
#include "runtime/tuning/tuning_database.h"
#include "tests/tools/shell.h"

namespace sinter::documents_test {

namespace fs = std::filesystem;

/// The graph that stands for files of the reader's.
constexpr std::string_view kLayer = R"(fusion @layer extents(rows hint 64, cols hint 128) {
  %v0 x : f32[rows, cols] = input
  %v1 : f32[rows] = reduce.max %v0 over(1)
  %v2 : f32[rows, cols] = broadcast %v1 axes(0)
  %v3 y : f32[rows, cols] = sub %v0, %v2
  return %v3
})";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::vector<fs::path> pages() {
  std::vector<fs::path> out;
  for (fs::recursive_directory_iterator it(SINTER_SOURCE_ROOT), end; it != end; ++it) {
    const std::string name = it->path().filename().string();
    // Build trees and what tools keep.
    if (it->is_directory() && (name.starts_with(".") || name == "build"))
      it.disable_recursion_pending();
    if (it->is_regular_file() && name.ends_with(".md")) out.push_back(it->path());
  }
  std::ranges::sort(out);
  return out;
}

/// Everything that a page shows as code: lines of blocks, and spans, which may go over a line.
std::vector<std::string> code_of(const std::string& page) {
  std::vector<std::string> out;
  std::string prose;
  std::istringstream lines(page);
  bool is_fenced = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_fenced = !is_fenced;
    } else if (is_fenced || line.starts_with("    ")) {
      out.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    } else {
      prose += line + " ";
    }
  }
  static const std::regex span("`([^`]+)`");
  for (std::sregex_iterator it(prose.begin(), prose.end(), span), end; it != end; ++it)
    out.push_back((*it)[1]);
  return out;
}

/// Code that begins with a word, as a command: without comments, and without what it is piped to.
std::set<std::string> commands_of(std::string_view word) {
  std::set<std::string> out;
  for (const fs::path& page : pages()) {
    for (std::string code : code_of(text_of(page))) {
      if (!code.starts_with(word)) continue;
      for (const char* end : {" #", " | ", " > "}) code = code.substr(0, code.find(end));
      while (code.ends_with(' ')) code.pop_back();
      out.insert(code);
    }
  }
  return out;
}

/// Whether a command can be run as it stands: not a form with placeholders, and not a name alone.
bool is_complete(const std::string& command) {
  static const std::regex placeholder("[<\\[|]|\\.\\.\\.|\\b[A-Z]{3,}\\b");
  if (std::regex_search(command, placeholder)) return false;
  static const std::regex alone("sinter (list|devices|--version)");
  static const std::regex with_arguments("sinter [a-z]+ ([^-].*)");
  return std::regex_match(command, alone) || std::regex_match(command, with_arguments);
}

class Documents : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(scratch_);
    // Commands that name a file of the project are written for its root.
    fs::create_directory_symlink(fs::path(SINTER_SOURCE_ROOT) / "benchmarks",
                                 scratch_ / "benchmarks");
    for (const char* name : {"layer.fir", "before.fir", "after.fir", "mine.fir"})
      std::ofstream(scratch_ / name) << kLayer;
    const Fusion layer = parse_fusion(kLayer).value();
    const Binding binding = bind_extents(layer, {{"rows", 7}, {"cols", 33}}).value();
    ASSERT_TRUE(write_npy((scratch_ / "x.npy").string(), sample_inputs(layer, binding, 1).front()));
    for (const char* name : {"tuned.db", "from_another_machine.db"}) {
      const auto database = TuningDatabase::open(scratch_ / name, TuningDatabase::Mode::kCreate);
      if (!database) GTEST_SKIP() << database.error().message;
    }
  }
  void TearDown() override { fs::remove_all(scratch_); }

  [[nodiscard]] Outcome run(const std::string& arguments) const {
    const std::string command =
        fmt::format("cd '{0}' && SINTER_CACHE_DIR='{0}/cache' '{1}' {2} 2>&1", scratch_.string(),
                    SINTER_TOOL, arguments);
    return run_in_shell(command);
  }

  fs::path scratch_ = fs::path(::testing::TempDir()) / fmt::format("sinter_documents_{}", getpid());
};

TEST_F(Documents, CommandsOfTheToolRun) {
  int ran = 0;
  for (std::string command : commands_of("sinter ")) {
    if (!is_complete(command)) continue;
    SCOPED_TRACE(command);
    // On a machine with a GPU tuning takes as long as it is told to.
    command = std::regex_replace(command, std::regex(" --budget [0-9]+"), "");
    if (command.starts_with("sinter tune ")) command += " --budget 1";
    const Outcome out = run(command.substr(std::string_view("sinter ").size()));
    const bool lacks_device = out.output.find("DeviceError") != std::string::npos;
    // `diff` of different plans exits with 1, and so does what needs a GPU or NVRTC without one.
    const bool differs = command.starts_with("sinter diff ") && out.exit_code == 1 &&
                         out.output.find("sinter:") == std::string::npos;
    EXPECT_TRUE(out.exit_code == 0 || lacks_device || differs) << out.output;
    ++ran;
  }
  EXPECT_GE(ran, 15);
}

TEST_F(Documents, NamedCommandsOfTheToolExist) {
  // Alone, as a name, a command need not be complete: but there is one.
  static const std::regex first("sinter ([a-z]+).*");
  for (const std::string& command : commands_of("sinter ")) {
    std::smatch match;
    if (!std::regex_match(command, match, first)) continue;
    EXPECT_EQ(run(match[1].str() + " --help").exit_code, 0) << command;
  }
}

TEST_F(Documents, CommandsOfTheScriptExist) {
  const std::string script = text_of(fs::path(SINTER_SOURCE_ROOT) / "run");
  static const std::regex first("\\./run ([a-z]+).*");
  int named = 0;
  for (const std::string& command : commands_of("./run ")) {
    std::smatch match;
    ASSERT_TRUE(std::regex_match(command, match, first)) << command;
    // A label of its `case`, alone or the first of several.
    const bool is_there =
        script.find(fmt::format("\n    {})", match[1].str())) != std::string::npos ||
        script.find(fmt::format("\n    {} |", match[1].str())) != std::string::npos;
    EXPECT_TRUE(is_there) << command;
    ++named;
  }
  EXPECT_GE(named, 5);
}

}  // namespace sinter::documents_test
