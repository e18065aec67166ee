#include "fusion_ir/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace sinter {
namespace {

char folded(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b, size_t most) {
  if (a.size() > kLongestComparedName || b.size() > kLongestComparedName) return most + 1;
  const size_t lengths_apart = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (lengths_apart > most) return most + 1;
  using Row = std::array<size_t, kLongestComparedName + 1>;
  Row two_before{};
  Row before{};
  Row row{};
  for (size_t j = 0; j <= b.size(); ++j) before[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = folded(a[i - 1]);
      const char y = folded(b[j - 1]);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (x == y ? 0U : 1U)});
      const bool is_swap =
          i > 1 && j > 1 && x == folded(b[j - 2]) && y == folded(a[i - 2]) && x != y;
      if (is_swap) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
    two_before = before;
    before = row;
  }
  return std::min(before[b.size()], most + 1);
}

std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr size_t kBytesPerEdit = 3;
  const size_t most = std::max<size_t>(wrong.size() / kBytesPerEdit, 1);
  std::string_view nearest;
  size_t least = most + 1;
  for (const std::string_view name : names) {
    if (name.empty() || name == wrong) continue;
    // As many edits as there are bytes make any name into any other.
    const size_t distance = edit_distance(wrong, name, most);
    if (distance >= least || distance >= std::max(wrong.size(), name.size())) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::string suggestion(std::string_view wrong, std::span<const std::string_view> names,
                       std::string_view otherwise) {
  const std::string_view nearest = nearest_name(wrong, names);
  if (nearest.empty()) return std::string(otherwise);
  return fmt::format("did you mean '{}'?{}{}", nearest, otherwise.empty() ? "" : " Otherwise ",
                     otherwise);
}

}  // namespace sinter
