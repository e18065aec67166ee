#include "scheduler/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "fusion_ir/error.h"

namespace sinter {

TextTable::TextTable(std::vector<std::string> headings, std::vector<Align> aligns)
    : aligns_(std::move(aligns)) {
  aligns_.resize(headings.size(), Align::kRight);
  rows_.push_back(std::move(headings));
}

void TextTable::row(std::vector<std::string> cells) {
  SINTER_CHECK_OP(cells.size(), ==, aligns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(size_t indent) const {
  std::vector<size_t> widths(aligns_.size(), 0);
  for (const auto& cells : rows_) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += "  ";
      line += aligns_[i] == Align::kLeft ? fmt::format("{:<{}}", cells[i], widths[i])
                                         : fmt::format("{:>{}}", cells[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string bar(double used, double limit, size_t width) {
  const double share = limit > 0.0 ? used / limit : (used > 0.0 ? 2.0 : 0.0);
  const auto exact = share * static_cast<double>(width);
  auto marks =
      static_cast<size_t>(std::llround(std::clamp(exact, 0.0, static_cast<double>(width))));
  if (used > 0.0 && marks == 0) marks = 1;
  return fmt::format("[{}{}]{}", std::string(marks, '#'), std::string(width - marks, '.'),
                     share > 1.0 ? "!" : "");
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double kStep = 1024.0;
  if (bytes < kStep) return fmt::format("{:.0f} B", bytes);
  size_t unit = 0;
  double value = bytes / kStep;
  for (; value >= kStep && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  return fmt::format("{:.{}f} {}", value, value < 10.0 ? 2 : 1, kUnits[unit]);
}

}  // namespace sinter
