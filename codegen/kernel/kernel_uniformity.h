#pragma once

#include <cstdint>
#include <string_view>

#include "codegen/kernel/kernel_ir.h"

namespace sinter::kir {

/// Among which threads a value is surely the same.
enum class Uniformity : uint8_t { kBlock, kWarp, kThread };
std::string_view text_of(Uniformity uniformity);

/// Which values may differ between threads. Variables are taken as a whole, not per assignment, so
/// the answer errs towards kThread: a variable that ever held a thread's own value, or was written
/// where threads part ways, stays one of the thread. Ids must be in range.
class UniformityAnalysis {
 public:
  explicit UniformityAnalysis(const Kernel& kernel);

  [[nodiscard]] Uniformity of(ExprId id) const;
  /// Whether the threads that enter a loop or a condition do so together.
  [[nodiscard]] Uniformity of_control(const StmtKind& stmt) const;

 private:
  [[nodiscard]] Uniformity of_thread_index(const PointwiseExpr& pointwise) const;
  void write_states(ExprId id, Uniformity control);
  void visit(const Block& block, Uniformity control);
  void write(VarId var, Uniformity uniformity);

  const Kernel& kernel_;
  IdMap<VarId, Uniformity> vars_;
  /// Of an expression, as it was found when so many variables had grown.
  struct Known {
    uint64_t grown = 0;
    Uniformity uniformity = Uniformity::kBlock;
  };
  mutable IdMap<ExprId, Known> memo_;
  uint64_t times_grown_ = 1;  ///< What was found before a variable grew is found anew.
  bool grown_ = false;
};

}  // namespace sinter::kir
