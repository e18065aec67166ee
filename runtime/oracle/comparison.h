#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/oracle/oracle.h"

namespace sinter {

/// Elements of an output outside their bound, and the worst of them: the one with the largest
/// |actual - expected| / bound, the first of equals.
struct Mismatch {
  size_t output = 0;  ///< Position in OracleResult::outputs.
  ValueId value{};
  Sizes index{};
  double expected = 0.0;
  double actual = 0.0;
  double bound = 0.0;
  int64_t count = 0;  ///< Elements outside their bound.
  int64_t total = 0;  ///< Elements of the output.

  /// "output 0 (%v7): 3 of 4096 elements outside their bound; worst at [1, 20]: expected 0.5, got
  /// 0.75, bound 1e-06".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};

struct Comparison {
  /// Largest |actual - expected| / bound over the elements, for reports: at most 1 where there is
  /// no mismatch, infinite where an element that must be equal is not, 0 for no elements.
  double worst_ratio = 0.0;
  std::optional<Mismatch> mismatch{};
};

/// Compares a tensor with an output of the oracle. A bool byte other than 0 and 1 is a mismatch.
/// Throws SinterException (InvalidArgument) when type or sizes differ or there is no such output.
Comparison judge(const OracleResult& expected, size_t output, const HostTensor& actual);
/// judge(), only the mismatch.
std::optional<Mismatch> compare(const OracleResult& expected, size_t output,
                                const HostTensor& actual);

/// judge(), only the ratio.
double worst_ratio(const OracleResult& expected, size_t output, const HostTensor& actual);

}  // namespace sinter
