// The kernels of benchmarks/suite: held to the oracle at small extents, and planned at all that are
// measured.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fusion_ir/parser.h"
#include "scheduler/offers.h"
#include "tests/integration/canned_case.h"

namespace sinter {
namespace {

const std::filesystem::path kSuite = SINTER_TEST_DATA_DIR "/../benchmarks/suite";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct SuiteCase {
  std::string name;
  std::string type;
  std::vector<std::string> extents;
  std::vector<std::vector<int64_t>> shapes;

  [[nodiscard]] Fusion fusion() const {
    std::string text = read(kSuite / (name + ".fir"));
    for (size_t at = 0; type == "f32" && (at = text.find("bf16", at)) != std::string::npos;)
      text.replace(at, 4, "f32");
    auto parsed = parse_fusion(text);
    if (!parsed) throw std::runtime_error(parsed.error().text());
    return std::move(*parsed);
  }
  [[nodiscard]] ExtentValues values(const std::vector<int64_t>& shape) const {
    ExtentValues out;
    for (size_t i = 0; i < extents.size(); ++i) out[extents[i]] = shape.at(i);
    return out;
  }
  friend void PrintTo(const SuiteCase& item, std::ostream* out) {
    *out << item.name << " " << item.type;
  }
};

std::vector<SuiteCase> suite_cases() {
  std::vector<SuiteCase> out;
  const auto suite = nlohmann::json::parse(read(kSuite / "suite.json"));
  for (const auto& kernel : suite.at("kernels")) {
    for (const auto& [type, how] : suite.at("types").items()) {
      out.push_back({.name = kernel.at("name"),
                     .type = type,
                     .extents = kernel.at("extents"),
                     .shapes = kernel.at("shapes")});
    }
  }
  return out;
}

class Suite : public ::testing::TestWithParam<SuiteCase> {};

TEST_P(Suite, IsRightAtSmallExtents) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  const FamilySet families = builtin_families();
  const bool has_batches = item.extents.front() == "batch";
  for (const int64_t columns : {1, 2, 96, 131, 1000}) {
    SCOPED_TRACE(columns);
    const ExtentValues extents =
        has_batches ? item.values({2, 3, columns, 4 * columns}) : item.values({5, columns});
    const auto planned = plan(fusion, extents, *find_device("H200"), {.families = families});
    ASSERT_TRUE(planned) << planned.error().text();
    const std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
    const auto check = check_on_host(fusion, planned->binding, *planned, inputs, families);
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << check->text();
  }
}

TEST_P(Suite, HasAPlanAtEveryListedSize) {
  const SuiteCase& item = GetParam();
  const Fusion fusion = item.fusion();
  for (const std::vector<int64_t>& shape : item.shapes) {
    const auto planned = plan(fusion, item.values(shape), *find_device("H200"));
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_LE(planned->leading_segments().size(), 2U) << "a kernel, and one that ends it";
  }
}

TEST(SuiteFiles, AreAllListed) {
  ptrdiff_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSuite))
    files += entry.path().extension() == ".fir" ? 1 : 0;
  EXPECT_EQ(std::ssize(suite_cases()), 2 * files);
}

std::string case_name(const ::testing::TestParamInfo<SuiteCase>& item) {
  return item.param.name + "_" + item.param.type;
}

INSTANTIATE_TEST_SUITE_P(All, Suite, ::testing::ValuesIn(suite_cases()), case_name);

}  // namespace
}  // namespace sinter
