#include "scheduler/report/text_table.h"
#include "tests/support/canned_fusions.h"
#include "tools/command.h"

namespace sinter::tool {
namespace {

std::string extents_text(const ExtentValues& extents) {
  std::string out;
  for (const auto& [name, size] : extents)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, size);
  return out;
}

}  // namespace

Result<Report> list_command() {
  using enum TextTable::Align;
  TextTable table({"fusion", "large size", "small size", "covers"}, {kLeft, kLeft, kLeft, kLeft});
  Report report{.json = nlohmann::ordered_json::array()};
  for (const CannedFusion& fusion : canned_fusions()) {
    table.row({fusion.name, extents_text(fusion.large), extents_text(fusion.small), fusion.covers});
    report.json.push_back({{"name", fusion.name},
                           {"large", fusion.large},
                           {"small", fusion.small},
                           {"covers", fusion.covers}});
  }
  report.text = table.text(0);
  return report;
}

}  // namespace sinter::tool
