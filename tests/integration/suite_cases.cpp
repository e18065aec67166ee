#include "tests/integration/suite_cases.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "fusion_ir/parser.h"

namespace sinter {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::filesystem::path suite_directory() { return SINTER_TEST_DATA_DIR "/../benchmarks/suite"; }

Fusion SuiteCase::fusion() const {
  std::string text = read(suite_directory() / (name + ".fir"));
  for (size_t at = 0; type == "f32" && (at = text.find("bf16", at)) != std::string::npos;)
    text.replace(at, 4, "f32");
  auto parsed = parse_fusion(text);
  if (!parsed) throw std::runtime_error(parsed.error().text());
  return std::move(*parsed);
}

ExtentValues SuiteCase::values(const std::vector<int64_t>& shape) const {
  ExtentValues out;
  for (size_t i = 0; i < extents.size(); ++i) out[extents[i]] = shape.at(i);
  return out;
}

ExtentValues SuiteCase::small(int64_t rows, int64_t columns) const {
  if (extents.front() == "batch") return values({2, 3, columns, 4 * columns});
  if (extents.back() == "group") return values({rows, 3 * columns, 3, columns});
  return values({rows, columns});
}

std::vector<SuiteCase> suite_cases() {
  std::vector<SuiteCase> out;
  const auto suite = nlohmann::json::parse(read(suite_directory() / "suite.json"));
  for (const std::string group : {"kernels", "quantisation"}) {
    for (const auto& kernel : suite.at(group)) {
      for (const auto& [type, how] : suite.at("types").items()) {
        if (group == "quantisation" && type != "bf16") continue;
        out.push_back({.group = group,
                       .name = kernel.at("name"),
                       .type = type,
                       .extents = kernel.at("extents"),
                       .shapes = kernel.at("shapes")});
      }
    }
  }
  return out;
}

}  // namespace sinter
