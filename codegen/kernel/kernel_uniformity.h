#pragma once

#include <cstdint>
#include <string_view>

#include "codegen/kernel/kernel_ir.h"

namespace sinter::kir {

/// The largest set of threads for which a value is known to be equal.
enum class Uniformity : uint8_t { kBlock, kWarp, kThread };
std::string_view text_of(Uniformity uniformity);

/// Finds which values may differ between threads. A variable has one result for all its
/// assignments, so the analysis is conservative: a variable that ever holds a value of kThread, or
/// is written in divergent control flow, is kThread everywhere. Ids must be in range.
class UniformityAnalysis {
 public:
  explicit UniformityAnalysis(const Kernel& kernel);

  [[nodiscard]] Uniformity of(ExprId id) const;
  /// Uniformity of the control flow of a loop or condition: which threads enter it together.
  [[nodiscard]] Uniformity of_control(const StmtKind& stmt) const;

 private:
  [[nodiscard]] Uniformity of_thread_index(const PointwiseExpr& pointwise) const;
  void write_states(ExprId id, Uniformity control);
  void visit(const Block& block, Uniformity control);
  void write(VarId var, Uniformity uniformity);

  const Kernel& kernel_;
  IdMap<VarId, Uniformity> vars_;
  /// A memoised result, and the value of times_grown_ at which it was found.
  struct Known {
    uint64_t grown = 0;
    Uniformity uniformity = Uniformity::kBlock;
  };
  mutable IdMap<ExprId, Known> memo_;
  uint64_t times_grown_ = 1;  ///< Results found before a variable changed are computed again.
  bool grown_ = false;
};

}  // namespace sinter::kir
