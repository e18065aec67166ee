#include "scheduler/report/sweep_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>

#include "scheduler/report/markup.h"
#include "scheduler/report/text_table.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {
namespace {

constexpr char kNoneLetter = '-';

/// A letter for every kind: the first of its name that no earlier kind has.
std::map<std::string, char> letters_of(const Sweep& sweep) {
  std::map<std::string, char> out;
  std::string free = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  for (const std::string& kind : sweep.kinds) {
    std::string upper = kind;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    size_t at = std::string::npos;
    for (const char letter : upper + free) {
      if (at = free.find(letter); at != std::string::npos) break;
    }
    out[kind] = at == std::string::npos ? '+' : free[at];
    if (at != std::string::npos) free.erase(at, 1);
  }
  return out;
}

bool has_refusals(const Sweep& sweep) {
  return std::ranges::any_of(sweep.cells, [](const SweepCell& cell) { return cell.kind.empty(); });
}

std::string percent_text(double share) { return fmt::format("{:.0f}", share * 100.0); }

/// "128 x 2, vector 8, unroll 1, pipeline_stages 12"
std::string numbers_text(const Schedule& schedule) {
  return fmt::format("{} x {}, vector {}, unroll {}{}", schedule.threads_per_row,
                     schedule.rows_per_block, schedule.vector_width, schedule.unroll,
                     further_numbers(schedule));
}

std::string sizes_text(const SweepAxis& axis) {
  return fmt::format("{} {}..{}", axis.extent, axis.sizes.front(), axis.sizes.back());
}

std::string table_text(const Sweep& sweep) {
  using enum TextTable::Align;
  const SweepAxis& axis = sweep.axes.front();
  TextTable table({axis.extent, "kind", "us", "SOL %", "threads/row x rows/block"},
                  {kRight, kLeft, kRight, kRight, kLeft});
  for (size_t i = 0; i < axis.sizes.size(); ++i) {
    const SweepCell& cell = sweep.at(i, 0);
    const std::string size = fmt::format("{}", axis.sizes[i]);
    if (cell.kind.empty()) {
      table.row({size, std::string(1, kNoneLetter), "", "", cell.refusal.message});
    } else {
      table.row({size, cell.kind, fmt::format("{:.1f}", cell.predicted_us), percent_text(cell.sol),
                 numbers_text(cell.schedule)});
    }
  }
  return table.text();
}

/// A letter per cell, with its share of speed of light if `shares`.
std::string grid_text(const Sweep& sweep, bool shares) {
  using enum TextTable::Align;
  const auto letters = letters_of(sweep);
  const SweepAxis& across = sweep.axes[0];
  const SweepAxis& down = sweep.axes[1];
  const auto cell_text = [&](const SweepCell& cell) {
    if (cell.kind.empty()) return std::string(1, kNoneLetter);
    const char letter = letters.at(cell.kind);
    return shares ? fmt::format("{}{:>3}", letter, percent_text(cell.sol)) : std::string(1, letter);
  };
  std::vector<std::string> headings = {fmt::format("{} \\ {}", down.extent, across.extent)};
  if (shares) {
    for (const int64_t size : across.sizes) headings.push_back(fmt::format("{}", size));
  } else {
    headings.push_back(fmt::format("{}..{}", across.sizes.front(), across.sizes.back()));
  }
  TextTable table(headings, shares ? std::vector<TextTable::Align>{}
                                   : std::vector<TextTable::Align>{kRight, kLeft});
  for (size_t line = 0; line < down.sizes.size(); ++line) {
    std::vector<std::string> cells = {fmt::format("{}", down.sizes[line])};
    if (!shares) cells.emplace_back();
    for (size_t column = 0; column < across.sizes.size(); ++column) {
      const std::string text = cell_text(sweep.at(column, line));
      if (shares) {
        cells.push_back(text);
      } else {
        cells.back() += text;
      }
    }
    table.row(std::move(cells));
  }
  return table.text();
}

// ---- SVG

constexpr std::string_view kNoneColour = "#d9d9d9";

/// Colours that the colour-blind can distinguish (Okabe and Ito). Built-in kinds have fixed
/// colours, so that maps are comparable; others take the remaining ones.
std::map<std::string, std::string_view> colours_of(const Sweep& sweep) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kBuiltIn = {{
      {kPointwise, "#cc79a7"},
      {kTranspose, "#0072b2"},
      {kMultiTensor, "#882255"},
      {kLooped, "#009e73"},
      {kMultiWave, "#56b4e9"},
      {kColumn, "#f0e442"},
      {kWarpSpecialised, "#e69f00"},
      {kMatmul, "#000000"},
      {"multi_wave + column", "#5e3c99"},
      {"looped + column", "#117733"},
  }};
  constexpr std::array<std::string_view, 2> kOthers = {"#999999", "#d55e00"};
  std::map<std::string, std::string_view> out;
  size_t others = 0;
  for (const std::string& kind : sweep.kinds) {
    const auto known = std::ranges::find_if(
        kBuiltIn, [&](const auto& built_in) { return built_in.first == kind; });
    out[kind] =
        known != kBuiltIn.end() ? known->second : kOthers[std::min(others++, kOthers.size() - 1)];
  }
  return out;
}

/// Positions in pixels.
struct Layout {
  int64_t columns, lines;
  int64_t cell_width, cell_height;
  static constexpr int64_t kLeft = 96, kTop = 64, kRight = 24, kBottom = 92;

  explicit Layout(const Sweep& sweep)
      : columns(static_cast<int64_t>(sweep.axes.front().sizes.size())),
        lines(static_cast<int64_t>(sweep.lines())),
        cell_width(std::clamp<int64_t>(kMostWidth / columns, 3, 56)),
        cell_height(std::clamp<int64_t>(kMostHeight / lines, 3, 28)) {}

  [[nodiscard]] int64_t right() const { return kLeft + columns * cell_width; }
  [[nodiscard]] int64_t bottom() const { return kTop + lines * cell_height; }
  [[nodiscard]] int64_t width() const { return std::max<int64_t>(right() + kRight, 480); }
  [[nodiscard]] int64_t height() const { return bottom() + kBottom; }
  /// True if a cell has room for a number.
  [[nodiscard]] bool has_numbers() const { return cell_width >= 30 && cell_height >= 14; }

 private:
  static constexpr int64_t kMostWidth = 1120, kMostHeight = 640;
};

std::string text_element(int64_t x, int64_t y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     xml_escaped(text));
}

std::string title_of(const Sweep& sweep, size_t column, size_t line) {
  const SweepCell& cell = sweep.at(column, line);
  std::string out = fmt::format("{} {}", sweep.axes[0].extent, sweep.axes[0].sizes[column]);
  if (sweep.axes.size() > 1)
    out += fmt::format(", {} {}", sweep.axes[1].extent, sweep.axes[1].sizes[line]);
  if (cell.kind.empty()) return fmt::format("{}: {}", out, cell.refusal.message);
  return fmt::format("{}: {} {}; predicted {:.1f} us, {} % of speed of light", out, cell.kind,
                     numbers_text(cell.schedule), cell.predicted_us, percent_text(cell.sol));
}

std::string cells_svg(const Sweep& sweep, const Layout& layout) {
  const auto colours = colours_of(sweep);
  constexpr double kPalest = 0.35;
  std::string out;
  std::string numbers;
  for (size_t line = 0; line < sweep.lines(); ++line) {
    for (size_t column = 0; column < sweep.axes[0].sizes.size(); ++column) {
      const SweepCell& cell = sweep.at(column, line);
      const bool refused = cell.kind.empty();
      const double shade = kPalest + (1.0 - kPalest) * std::clamp(cell.sol, 0.0, 1.0);
      const int64_t x = Layout::kLeft + static_cast<int64_t>(column) * layout.cell_width;
      const int64_t y = Layout::kTop + static_cast<int64_t>(line) * layout.cell_height;
      out += fmt::format(
          "<rect class=\"cell\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
          "fill-opacity=\"{:.2f}\"><title>{}</title></rect>\n",
          x, y, layout.cell_width, layout.cell_height,
          refused ? kNoneColour : colours.at(cell.kind), refused ? 1.0 : shade,
          xml_escaped(title_of(sweep, column, line)));
      if (!layout.has_numbers() || refused) continue;
      numbers += text_element(x + layout.cell_width / 2, y + layout.cell_height / 2 + 4, "middle",
                              percent_text(cell.sol));
    }
  }
  return out + "<g pointer-events=\"none\">\n" + numbers + "</g>\n";
}

/// Sizes next to the cells, as many as have room.
std::string axes_svg(const Sweep& sweep, const Layout& layout) {
  constexpr int64_t kLabelWidth = 52;
  constexpr int64_t kLabelHeight = 14;
  const auto every = [](int64_t needed, int64_t cell) { return (needed + cell - 1) / cell; };
  std::string out;
  const SweepAxis& across = sweep.axes.front();
  for (int64_t i = 0; i < layout.columns; i += every(kLabelWidth, layout.cell_width)) {
    out += text_element(Layout::kLeft + i * layout.cell_width + layout.cell_width / 2,
                        layout.bottom() + 16, "middle",
                        fmt::format("{}", across.sizes[static_cast<size_t>(i)]));
  }
  out += text_element((Layout::kLeft + layout.right()) / 2, layout.bottom() + 36, "middle",
                      across.extent);
  if (sweep.axes.size() < 2) return out;
  const SweepAxis& down = sweep.axes[1];
  for (int64_t i = 0; i < layout.lines; i += every(kLabelHeight, layout.cell_height)) {
    out += text_element(Layout::kLeft - 6,
                        Layout::kTop + i * layout.cell_height + layout.cell_height / 2 + 4, "end",
                        fmt::format("{}", down.sizes[static_cast<size_t>(i)]));
  }
  return out + text_element(Layout::kLeft - 6, Layout::kTop - 8, "end", down.extent);
}

std::string legend_svg(const Sweep& sweep, const Layout& layout) {
  std::vector<std::pair<std::string, std::string_view>> entries;
  const auto colours = colours_of(sweep);
  for (const std::string& kind : sweep.kinds) entries.emplace_back(kind, colours.at(kind));
  if (has_refusals(sweep)) entries.emplace_back("no schedule", kNoneColour);
  constexpr int64_t kLetterWidth = 7;
  constexpr int64_t kSpacing = 36;
  std::string out;
  int64_t x = Layout::kLeft;
  const int64_t y = layout.bottom() + 66;
  for (const auto& [name, colour] : entries) {
    out += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"6\" fill=\"{}\"/>\n", x, y - 4, colour);
    out += text_element(x + 12, y, "start", name);
    x += kSpacing + kLetterWidth * static_cast<int64_t>(name.size());
  }
  return out;
}

}  // namespace

std::string map_text(const Sweep& sweep) {
  std::string out = fmt::format("{} on {}: kinds chosen over {}", sweep.fusion, sweep.device,
                                sizes_text(sweep.axes.front()));
  if (sweep.axes.size() < 2) return out + "\n" + table_text(sweep);
  constexpr size_t kLongestLine = 120;
  std::string grid = grid_text(sweep, true);
  const bool shares = grid.find('\n') <= kLongestLine;
  if (!shares) grid = grid_text(sweep, false);
  out += fmt::format(" and {}{}\n ", sizes_text(sweep.axes[1]),
                     shares ? ", with the predicted share of speed of light in %" : "");
  const auto letters = letters_of(sweep);
  for (const std::string& kind : sweep.kinds) out += fmt::format(" {} {} ", letters.at(kind), kind);
  if (has_refusals(sweep)) out += fmt::format(" {} no schedule", kNoneLetter);
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n" + grid;
}

std::string map_svg(const Sweep& sweep) {
  const Layout layout(sweep);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\" style=\"background:#ffffff\">\n",
      layout.width(), layout.height());
  out += text_element(16, 22, "start",
                      fmt::format("{} on {}: kind of schedule chosen", sweep.fusion, sweep.device));
  out += text_element(16, 40, "start",
                      "fuller colours and numbers: predicted share of speed of light, in %");
  out += cells_svg(sweep, layout) + axes_svg(sweep, layout) + legend_svg(sweep, layout);
  return out + "</svg>\n";
}

}  // namespace sinter
