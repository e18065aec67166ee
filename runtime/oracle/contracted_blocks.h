#pragma once

#include <optional>
#include <vector>

#include "fusion_ir/op.h"
#include "runtime/oracle/element_writer.h"
#include "runtime/oracle/tensor_view.h"

namespace sinter {

/// Sums of products in f32 as products of matrices of doubles: many times as fast as ContractedRow.
/// The elements are the same; their bounds are those of operands' errors and of roundings that are
/// independent, and no wider than ContractedRow's. They leave out what depends on the products one
/// by one: equal products, whose roundings are alike; products that underflow; and deviations of
/// means. So what lies within them is right, and what lies beyond them may still be
/// (OracleOptions::narrow).
///
/// One case is wider: where all products of a sum are integers, though the powers of two that
/// divide all of its row and all of its column do not say so, ContractedRow knows that the sum is
/// exact.
class ContractedBlocks {
 public:
  /// `space` has the sizes of the contraction's space. Nothing where the contraction has another
  /// type or combiner, where an operand has elements that are not finite, unknown or tiny, or more
  /// than memory holds as doubles, where sums may overflow, or where kept axes of both operands
  /// alternate in the result.
  static std::optional<ContractedBlocks> make(const ContractOp& op, const TensorView& left,
                                              const TensorView& right, const Sizes& space,
                                              int threads);

  /// Puts all elements of the contraction.
  void fill(ElementWriter& out) const;

 private:
  /// An operand as [batch][kept][contracted], each dense.
  struct Operand {
    int64_t kept = 1;
    bool exact = true;
    std::vector<double> values;
    std::vector<float> bounds;  ///< Empty where all elements are exact.
    /// For each row of each batch: all of its elements are multiples of 2^exponent.
    std::vector<int> exponents;
  };
  /// Nothing if an element is not finite, unknown or tiny, or if there are too many.
  static std::optional<Operand> pack(const TensorView& view, const std::vector<int>& axes,
                                     const Sizes& space, const std::vector<size_t>& order,
                                     int64_t kept, int64_t contracted, int threads);
  void put_block(ElementWriter::Sink& sink, int64_t batch, int64_t row, int64_t column) const;

  Operand rows_, columns_;
  int64_t batches_ = 1, contracted_ = 1;
  double of_products_ = 0.0;  ///< Error of a product, relative to its magnitude.
  int threads_ = 0;
};

}  // namespace sinter
