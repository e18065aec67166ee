#pragma once

#include <cstdint>
#include <vector>

#include "fusion_ir/op.h"
#include "runtime/oracle/bounded_reduction.h"
#include "runtime/oracle/element_runs.h"
#include "runtime/oracle/tensor_view.h"

namespace sinter {

/// Where the pairs of elements lie that a contraction combines.
class ContractedPairs {
 public:
  /// `space` has the sizes of the contraction's space. The operands outlive the object.
  ContractedPairs(const ContractOp& op, const TensorView& left, const TensorView& right,
                  const Sizes& space);

  /// Calls body(element, left, right) for elements `begin` to `end` of the result, with the places
  /// in the operands of the first pair of each.
  template <class Body>
  void for_each_result(int64_t begin, int64_t end, Body body) const {
    results_.for_each(begin, end, [&](const ElementRun<2>& run) {
      std::array<int64_t, 2> at = run.position;
      for (int64_t i = 0; i < run.count; ++i, at[0] += run.step[0], at[1] += run.step[1])
        body(run.first + i, at[0], at[1]);
    });
  }

  [[nodiscard]] int64_t count() const { return pairs_.count(); }  ///< Pairs of an element.
  /// Calls body(pair, left, right) for all pairs of an element whose first pair lies there.
  template <class Body>
  void for_each_pair(int64_t left, int64_t right, Body body) const {
    pairs_.for_each(0, count(), [&](const ElementRun<2>& run) {
      std::array<int64_t, 2> at = {left + run.position[0], right + run.position[1]};
      for (int64_t i = 0; i < run.count; ++i, at[0] += run.step[0], at[1] += run.step[1])
        body(run.first + i, at[0], at[1]);
    });
  }

  [[nodiscard]] const TensorView& left() const { return left_; }
  [[nodiscard]] const TensorView& right() const { return right_; }

 private:
  const TensorView& left_;
  const TensorView& right_;
  ElementRuns<2> results_;
  ElementRuns<2> pairs_;
};

/// The element of a contraction at one place of the result. Not for several threads at once.
class ContractedRow {
 public:
  /// What is made of a sum of products.
  struct Sum {
    bool is_divided = false;  ///< A device may find a quotient of it without the sum.
    bool is_of_mean = false;  ///< RealRow::is_of_mean.
  };
  /// `type` is that of the result. The others outlive the object.
  ContractedRow(const ContractedPairs& pairs, const ContractOp& op, DType type, Sum sum)
      : pairs_(pairs), op_(op), type_(type), sum_(sum) {}

  /// The element whose first pair lies there in the operands.
  BoundedReal real(int64_t left, int64_t right);
  BoundedInteger integer(int64_t left, int64_t right);

 private:
  [[nodiscard]] BoundedReal product(BoundedReal a, BoundedReal b) const;
  [[nodiscard]] BoundedReal logsumexp() const;

  const ContractedPairs& pairs_;
  const ContractOp& op_;
  DType type_;
  Sum sum_;
  std::vector<double> values_;
  std::vector<int64_t> integers_;
  std::vector<double> bounds_;
};

}  // namespace sinter
