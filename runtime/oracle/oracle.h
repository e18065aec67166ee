#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fusion_ir/fusion.h"
#include "runtime/oracle/host_tensor.h"

namespace sinter {

/// What an output must hold. Elements stand in row-major order; float types use `real`, the others
/// `integer`.
struct OracleOutput {
  ValueId value{};
  DType type = DType::kF32;
  Sizes sizes{};
  std::vector<double> real{};
  std::vector<int64_t> integer{};
  /// How far a right result may lie from the element, >= 0. Zero: it must be equal (NaN equal to
  /// NaN, infinities by sign). Infinite: the graph leaves it open within rounding, anything is
  /// right.
  std::vector<double> bound{};

  /// Element as a double.
  [[nodiscard]] double expected(size_t element) const {
    return is_float(type) ? real[element] : static_cast<double>(integer[element]);
  }
};

struct OracleResult {
  std::vector<OracleOutput> outputs{};  ///< In the order of Fusion::outputs.
};

/// Evaluates an external call as a device would: from operands as they lie in memory, with how far
/// a device's may lie from them, to results with how far a right device's may lie from those. `op`
/// is the call with the bound sizes in the extents of its declared results; OracleOutput::value of
/// the results is not looked at.
using ExternalFunction = std::function<std::vector<OracleOutput>(
    const ExternalOp& op, std::span<const OracleOutput> operands)>;

struct OracleOptions {
  /// How many work on large tensors; 0: as many as there are idle cores. The result is the same.
  int threads = 0;
  /// For fusions that have external calls.
  ExternalFunction external{};
  /// Sizes of which those evaluated are a period: every tensor is taken to repeat along the
  /// symbols that differ, which are outermost wherever they are. Results with such an axis hold a
  /// period, sums, maxima and minima over it are those of the whole. find_slices()
  /// (runtime/check/row_repetition.h) says for which fusions that is right.
  std::optional<Binding> whole{};
  /// Sums of products have the bounds of ContractedBlocks, which are found many times as fast: what
  /// lies within the bounds of the outputs is right, and what lies beyond them may be, for which to
  /// evaluate once more without this.
  bool narrow = false;
};

/// Evaluates a verified fusion op by op: floats in double, rounded where the graph casts and where
/// an output is stored, integers exactly with wrap-around. Beside every element it carries a bound
/// on its distance from what a device may compute, which follows from the graph, the reduction
/// lengths, the types and the accuracy figures in error_model.h; no tolerance enters from outside.
///
/// Inputs stand in the order of Fusion::inputs and must have its types and the bound sizes; strides
/// are free. Throws SinterException (InvalidArgument) otherwise, and where an external call has no
/// function or one that returns other results than the call declares.
OracleResult evaluate(const Fusion& fusion, const Binding& binding,
                      std::span<const HostTensor> inputs, const OracleOptions& options = {});

}  // namespace sinter
