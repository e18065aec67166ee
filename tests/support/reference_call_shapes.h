#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "fusion_ir/op.h"
#include "fusion_ir/shape.h"

// Which operands an external call of training_layers.h has, and how they must lie to each other.
namespace sinter::reference_calls {

enum class Call { kNt, kNn, kTn, kAttention, kAttentionBackward };

struct MatrixSizes {
  int64_t rows, depth, columns;  ///< Of the result, and how many products each element sums.
};
struct AttentionSizes {
  int64_t tokens, heads, kv_heads, dim;
  [[nodiscard]] int64_t group() const { return heads / kv_heads; }
  /// Position of the first element of a head's row in q, o or their gradients.
  [[nodiscard]] size_t row(int64_t token, int64_t head) const {
    return static_cast<size_t>((token * heads + head) * dim);
  }
  /// The same in k, v or their gradients.
  [[nodiscard]] size_t kv_row(int64_t token, int64_t kv_head) const {
    return static_cast<size_t>((token * kv_heads + kv_head) * dim);
  }
  [[nodiscard]] size_t lse_at(int64_t token, int64_t head) const {
    return static_cast<size_t>(head * tokens + token);
  }
  /// What products of q and k are multiplied by.
  [[nodiscard]] double scale() const { return 1.0 / std::sqrt(static_cast<double>(dim)); }
};

Sizes result_sizes(const ExternalOp& op, size_t i);

/// The call with its operands' sizes; refuses what does not fit.
class CallShape {
 public:
  CallShape(const ExternalOp& op, std::vector<Sizes> operands);

  Call call{};
  MatrixSizes matrix{};
  AttentionSizes attention{};

 private:
  void require(bool condition) const;
  void require_results(const std::vector<Sizes>& expected) const;
  void check_matmul(Call which);
  void check_attention(Call which);

  const ExternalOp& op_;
  std::vector<Sizes> operands_;
};

template <class T>
std::vector<T> transposed(std::span<const T> x, int64_t rows, int64_t columns) {
  std::vector<T> out;
  out.reserve(x.size());
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row)
      out.push_back(x[static_cast<size_t>(row * columns + column)]);
  }
  return out;
}

}  // namespace sinter::reference_calls
