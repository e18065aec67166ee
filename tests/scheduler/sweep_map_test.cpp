#include "scheduler/report/sweep_map.h"

#include <gmock/gmock.h>

#include <regex>

#include "tests/support/canned_fusions.h"

namespace sinter::sweep_map_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A map made by hand: what it shows does not hang on what is planned.
Sweep two_kinds() {
  const SweepCell wave{.kind = "multi_wave", .predicted_us = 12.34, .sol = 0.5};
  const SweepCell other{.kind = "mine<&>", .predicted_us = 7.0, .sol = 0.123};
  const SweepCell none{.refusal = {.message = "too \"wide\""}};
  return {.fusion = "norm",
          .device = "H200",
          .axes = {{"cols", {64, 128, 256}}, {"rows", {1, 2}}},
          .cells = {wave, wave, other, wave, other, none},
          .kinds = {"multi_wave", "mine<&>"}};
}

Sweep wide() {
  Sweep out = two_kinds();
  out.axes = {{"cols", std::vector<int64_t>(200, 7)}, {"rows", {1, 2}}};
  out.cells = std::vector<SweepCell>(400, out.cells.front());
  return out;
}

/// Every tag is closed by its own kind, in order, and nothing stands after the root.
bool is_balanced(const std::string& document) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z]+)[^<>]*?(/?)>");
  size_t roots = 0;
  for (std::sregex_iterator it(document.begin(), document.end(), tag), end; it != end; ++it) {
    const std::smatch& match = *it;
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return false;
      open.pop_back();
    } else if (match[3].length() == 0) {
      if (open.empty()) ++roots;
      open.push_back(match[2]);
    }
  }
  const auto brackets = [&](char c) { return std::ranges::count(document, c); };
  return open.empty() && roots == 1 && brackets('<') == brackets('>');
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

TEST(SweepMap, HasALetterAndAShareForEveryCell) {
  EXPECT_EQ(map_text(two_kinds()),
            "norm on H200: kinds chosen over cols 64..256 and rows 1..2, with the predicted share "
            "of speed of light in %\n"
            "  M multi_wave  I mine<&>  - no schedule\n"
            "  rows \\ cols    64   128   256\n"
            "            1  M 50  M 50  I 12\n"
            "            2  M 50  I 12     -\n");
}

TEST(SweepMap, OfManyColumnsHasLettersOnly) {
  const std::string text = map_text(wide());
  EXPECT_THAT(text, AllOf(HasSubstr("  " + std::string(200, 'M') + "\n"), Not(HasSubstr("50"))));
}

TEST(SweepMap, OfOneExtentIsATable) {
  Sweep swept = two_kinds();
  swept.axes.pop_back();
  swept.cells.resize(3);
  swept.cells[1] = two_kinds().cells[5];
  EXPECT_THAT(map_text(swept), AllOf(ContainsRegex("64  multi_wave  12.3     50  128 x 1"),
                                     ContainsRegex("128  - +too \"wide\"")));
}

TEST(SweepMap, AsAnSvgHasOneTitledRectanglePerCell) {
  for (const Sweep& swept : {two_kinds(), wide()}) {
    const std::string svg = map_svg(swept);
    EXPECT_THAT(svg, AllOf(StartsWith("<svg xmlns="), EndsWith("</svg>\n")));
    EXPECT_TRUE(is_balanced(svg)) << svg;
    EXPECT_EQ(count_of(svg, "<rect class=\"cell\""), swept.cells.size());
    EXPECT_EQ(count_of(svg, "<title>"), swept.cells.size());
  }
}

TEST(SweepMap, AsAnSvgSaysWhatCellsAre) {
  EXPECT_THAT(
      map_svg(two_kinds()),
      AllOf(HasSubstr("cols 64, rows 2: multi_wave 128 x 1, vector 1, unroll 1; predicted 12.3 us"),
            HasSubstr("cols 256, rows 2: too &quot;wide&quot;"), HasSubstr(">mine&lt;&amp;&gt;<"),
            HasSubstr(">no schedule<"), HasSubstr(">cols<"), HasSubstr(">rows<")));
}

TEST(SweepMap, IsTheSameEveryTime) {
  const CannedFusion& canned = *find_canned_fusion("layer_norm_backward");
  const auto map = [&] {
    const auto swept = sweep(canned.build(), canned.large, *find_device("H200"),
                             {{"cols", {1024, 8192}}, {"rows", {64, 8192}}});
    return map_text(*swept) + map_svg(*swept);
  };
  EXPECT_EQ(map(), map());
}

}  // namespace sinter::sweep_map_test
