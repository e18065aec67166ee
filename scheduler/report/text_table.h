#pragma once

#include <string>
#include <vector>

namespace sinter {

/// A table of text for people: every column as wide as its widest cell, two blanks between columns,
/// numbers aligned to the right. Lines have no trailing blanks.
class TextTable {
 public:
  enum class Align { kLeft, kRight };

  /// Headings, and the alignment of each column. All rows have the same number of cells.
  explicit TextTable(std::vector<std::string> headings, std::vector<Align> aligns = {});

  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.size() <= 1; }
  /// The lines, each after `indent` blanks and with a line end.
  [[nodiscard]] std::string text(size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;  ///< The first row has the headings.
  std::vector<Align> aligns_;
};

/// A bar, "[#####.....]": the share of `used` in `limit`, at most full. Non-zero use shows at least
/// one mark; more than the limit ends in '!'.
std::string bar(double used, double limit, size_t width = 24);

/// "512 B", "96.0 KiB", "1.25 GiB".
std::string bytes_text(double bytes);

}  // namespace sinter
