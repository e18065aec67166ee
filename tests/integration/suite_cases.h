#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// The folder benchmarks/suite.
std::filesystem::path suite_directory();

/// A kernel of benchmarks/suite in one data type, with the extents it is measured at.
struct SuiteCase {
  std::string group;  ///< Of suite.json: "kernels" or "quantisation".
  std::string name;
  std::string type;
  std::vector<std::string> extents;
  std::vector<std::vector<int64_t>> shapes;

  [[nodiscard]] Fusion fusion() const;
  [[nodiscard]] ExtentValues values(const std::vector<int64_t>& shape) const;
  /// Extents with few rows of so many elements, or of three groups of as many.
  [[nodiscard]] ExtentValues small(int64_t rows, int64_t columns) const;
  friend void PrintTo(const SuiteCase& item, std::ostream* out) {
    *out << item.name << " " << item.type;
  }
};

/// Every kernel in every type it is measured in.
std::vector<SuiteCase> suite_cases();

}  // namespace sinter
