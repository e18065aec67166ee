#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "fusion_ir/op.h"

namespace sinter {

/// A matrix in memory as BLAS has it: `rows` elements that follow each other, in `columns` columns
/// `leading_dimension` elements apart. A batch has one every `batch_stride` elements.
struct LibraryMatrix {
  ValueId value;             ///< The tensor that has it.
  int64_t offset_bytes = 0;  ///< Of its first element, from that of the tensor.
  DType type = DType::kF32;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t leading_dimension = 1;
  int64_t batch_stride = 0;
  int64_t alignment = 0;  ///< Guaranteed of its first element's address, in bytes.
  friend bool operator==(const LibraryMatrix&, const LibraryMatrix&) = default;
};

/// What a library computes of each element before it stores it.
enum class Activation : uint8_t {
  kNone,
  kRelu,  ///< max(x, 0).
  kGelu,  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
};

/// A matrix product that a library computes, with what it can do behind the product:
///
///     d = activation(op(a) * op(b) + c + bias)
///
/// where op() transposes or does not, c is a matrix like d, and bias has an element for each row of
/// d. Everything behind the product is computed in the type of the sums, and rounded once to the
/// type of d.
struct LibraryMatmul {
  int64_t m = 1, n = 1, k = 1;  ///< op(a) is m x k, op(b) is k x n.
  int64_t batch = 1;
  bool a_transposed = false;
  bool b_transposed = false;
  ContractPrecision precision = ContractPrecision::kIeee;  ///< Of f32 operands.
  LibraryMatrix a, b, d;
  std::optional<LibraryMatrix> c{};
  std::optional<LibraryMatrix> bias{};  ///< One column.
  Activation activation = Activation::kNone;
  int64_t workspace_bytes = 0;  ///< Of device memory, besides the matrices.
  /// The type in which the products are summed.
  [[nodiscard]] DType sums() const { return a.type == DType::kF64 ? DType::kF64 : DType::kF32; }
  friend bool operator==(const LibraryMatmul&, const LibraryMatmul&) = default;
};

/// "bf16 4096 x 4096 x 4096 (m x n x k), op(a) = a^T, + bias, relu, 32 MiB of workspace".
std::string text_of(const LibraryMatmul& matmul);

}  // namespace sinter
