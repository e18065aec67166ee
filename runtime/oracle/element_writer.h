#pragma once

#include <atomic>

#include "runtime/compile/parallel.h"
#include "runtime/oracle/tensor_view.h"

namespace sinter {

/// Elements of one value that a thread computes at a time: some hundred microseconds of work, many
/// times what starting a thread takes.
inline constexpr int64_t kElementsPerRange = int64_t{1} << 14;

/// Holds the elements that one op writes, numbered in row-major order, until all are there. Threads
/// write through sinks of their own.
class ElementWriter {
 public:
  /// Where one thread puts elements. Writes no zero bound: that is what the memory holds.
  class Sink {
   public:
    explicit Sink(ElementWriter& writer)
        : writer_(writer),
          real_(writer.elements_.real.data()),
          integer_(writer.elements_.integer.data()),
          bound_(writer.elements_.bound.data()) {}
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;
    ~Sink() {
      if (inexact_) writer_.inexact_ = true;
    }
    void put(int64_t element, BoundedReal x) {
      real_[element] = x.value;
      put_bound(element, x.bound);
    }
    void put(int64_t element, BoundedInteger x) {
      integer_[element] = x.value;
      put_bound(element, x.bound);
    }
    /// Addresses of reals and bounds, for functions that put many; these say whether all are exact.
    [[nodiscard]] double* reals() const { return real_; }
    [[nodiscard]] double* bounds() const { return bound_; }
    void note_inexact(bool inexact) { inexact_ |= inexact; }

   private:
    void put_bound(int64_t element, double bound) {
      if (bound == 0.0) return;
      bound_[element] = bound;
      inexact_ = true;
    }
    ElementWriter& writer_;
    double* real_;
    int64_t* integer_;
    double* bound_;
    bool inexact_ = false;
  };

  ElementWriter(DType type, Sizes sizes);
  [[nodiscard]] int64_t count() const { return count_; }
  /// Calls body(sink, begin, end) for ranges of the elements, on up to `threads` threads; each must
  /// put its elements.
  template <class Body>
  void fill(int threads, Body body) {
    for_each_range(count_, kElementsPerRange, threads, [&](int64_t begin, int64_t end) {
      Sink sink(*this);
      body(sink, begin, end);
    });
  }
  /// The finished value; no sink may be left.
  [[nodiscard]] TensorView finish();

 private:
  DType type_;
  Sizes sizes_;
  int64_t count_;
  BoundedElements elements_;
  std::atomic<bool> inexact_ = false;
};

}  // namespace sinter
