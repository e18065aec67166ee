#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sinter {

/// Vector clocks of equal length: how many steps of each process happened before a point.
class VectorClocks {
 public:
  using Row = size_t;
  explicit VectorClocks(size_t processes) : processes_(processes) {}

  Row add() {
    entries_.resize(entries_.size() + processes_, 0);
    return entries_.size() / processes_ - 1;
  }
  Row copy(Row from) {
    const Row out = add();
    join(out, from);
    return out;
  }
  [[nodiscard]] std::span<uint32_t> operator[](Row row) {
    return {entries_.data() + row * processes_, processes_};
  }
  void clear(Row row) { std::ranges::fill((*this)[row], 0U); }
  void join(Row into, Row from) {
    uint32_t* a = (*this)[into].data();
    const uint32_t* b = (*this)[from].data();
    for (size_t i = 0; i < processes_; ++i) a[i] = std::max(a[i], b[i]);
  }
  /// Whether all that happened before `earlier` happened before `later`.
  [[nodiscard]] bool covers(Row later, Row earlier) {
    const uint32_t* a = (*this)[later].data();
    const uint32_t* b = (*this)[earlier].data();
    for (size_t i = 0; i < processes_; ++i) {
      if (a[i] < b[i]) return false;
    }
    return true;
  }

 private:
  size_t processes_;
  std::vector<uint32_t> entries_;
};

}  // namespace sinter
