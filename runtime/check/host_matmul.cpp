#include "runtime/check/host_matmul.h"

#include <algorithm>
#include <cstring>

#include "fusion_ir/error.h"
#include "fusion_ir/unary_function.h"
#include "runtime/compile/parallel.h"

namespace sinter {
namespace {

/// The elements of a matrix in memory.
class Elements {
 public:
  Elements(const LibraryMatrix& matrix, const LaunchMemory& memory)
      : matrix_(matrix), memory_(memory), bytes_(bytes_of(matrix.type)) {}

  [[nodiscard]] double load(int64_t batch, int64_t row, int64_t column) const {
    uint64_t bits = 0;
    std::memcpy(&bits, at(batch, row, column), static_cast<size_t>(bytes_));
    return decode(matrix_.type, bits);
  }

  void store(int64_t batch, int64_t row, int64_t column, double value) const {
    const uint64_t bits = encode(matrix_.type, value);
    std::memcpy(at(batch, row, column), &bits, static_cast<size_t>(bytes_));
  }

 private:
  [[nodiscard]] std::byte* at(int64_t batch, int64_t row, int64_t column) const {
    const int64_t element = row + column * matrix_.leading_dimension + batch * matrix_.batch_stride;
    const int64_t begin = memory_.origin + matrix_.offset_bytes + element * bytes_;
    SINTER_CHECK(begin >= 0 && begin + bytes_ <= std::ssize(memory_.bytes),
                 "a library call reaches byte {} of {} of {}", begin, memory_.bytes.size(),
                 matrix_.value);
    return memory_.bytes.data() + begin;
  }

  const LibraryMatrix& matrix_;
  const LaunchMemory& memory_;
  int64_t bytes_;
};

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0.0 ? 0.0 : x;  // The other way round a NaN would become 0.
    case Activation::kGelu:
      return tanh_gelu(x);
  }
  unreachable();
}

}  // namespace

void multiply_on_host(const LibraryMatmul& matmul, std::span<const LaunchMemory> memory) {
  size_t next = 0;
  const auto take = [&](const LibraryMatrix& matrix) { return Elements(matrix, memory[next++]); };
  const Elements a = take(matmul.a);
  const Elements b = take(matmul.b);
  std::optional<Elements> c;
  std::optional<Elements> bias;
  if (matmul.c) c.emplace(take(*matmul.c));
  if (matmul.bias) bias.emplace(take(*matmul.bias));
  const Elements d = take(matmul.d);
  const auto compute = [&](int64_t batch, int64_t row, int64_t column) {
    double sum = 0.0;
    for (int64_t i = 0; i < matmul.k; ++i) {
      sum += (matmul.a_transposed ? a.load(batch, i, row) : a.load(batch, row, i)) *
             (matmul.b_transposed ? b.load(batch, column, i) : b.load(batch, i, column));
    }
    sum = round_to(matmul.sums(), sum);
    if (c) sum += c->load(batch, row, column);
    if (bias) sum += bias->load(0, row, 0);
    d.store(batch, row, column, activated(matmul.activation, sum));
  };
  // Columns of d are independent of each other.
  constexpr int64_t kProductsOfThread = 1 << 20;
  const bool is_small = matmul.batch * matmul.m * matmul.n * matmul.k < kProductsOfThread;
  for_each_range(matmul.batch * matmul.n, 1, is_small ? 1 : 0, [&](int64_t column, int64_t) {
    for (int64_t row = 0; row < matmul.m; ++row) compute(column / matmul.n, row, column % matmul.n);
  });
}

}  // namespace sinter
