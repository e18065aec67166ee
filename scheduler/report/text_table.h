#pragma once

#include <string>
#include <vector>

namespace sinter {

/// Cells in columns for people: every column as wide as its widest cell, two blanks between
/// columns, numbers to the right. Lines carry no blanks at their end.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// Headings, and how each column stands. All rows have as many cells.
  explicit TextTable(std::vector<std::string> headings, std::vector<Align> aligns = {});

  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.size() <= 1; }
  /// The lines, each after `indent` blanks and with a line end.
  [[nodiscard]] std::string text(size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;  ///< The headings first.
  std::vector<Align> aligns_;
};

/// "[#####.....]": the share of `used` in `limit`, at most full. Something used shows at least one
/// mark; more than the limit ends in '!'.
std::string bar(double used, double limit, size_t width = 24);

/// "512 B", "96.0 KiB", "1.25 GiB".
std::string bytes_text(double bytes);

}  // namespace sinter
