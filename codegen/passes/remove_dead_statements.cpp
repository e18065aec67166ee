#include "codegen/passes/remove_dead_statements.h"

#include <algorithm>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

using kir::Block;
using kir::ExprId;
using kir::StmtId;
using kir::VarId;

/// Computes the set of variables that are read by live statements, as a fixed point.
class Liveness {
 public:
  explicit Liveness(const kir::Kernel& kernel) : kernel_(kernel) {
    do {
      grown_ = false;
      visit(kernel.body);
    } while (grown_);
  }

  [[nodiscard]] bool is_read(VarId var) const { return read_[var]; }

  /// True if the statement, or one inside it, has an effect or writes a variable that is read.
  [[nodiscard]] bool matters(const kir::StmtKind& stmt) const {
    const auto any = [this](const Block& block) {
      return std::ranges::any_of(block,
                                 [this](StmtId id) { return matters(kernel_.stmts[id].kind); });
    };
    return std::visit(overloaded{
                          [](const kir::Comment&) { return false; },
                          [&](const kir::Declare& s) { return is_read(s.var); },
                          [&](const kir::Assign& s) { return is_read(s.var); },
                          [&](const kir::SetElement& s) { return is_read(s.tile); },
                          [&](const kir::For& s) { return any(s.body); },
                          [&](const kir::If& s) { return any(s.then_body) || any(s.else_body); },
                          [&](const kir::Load& s) { return is_read(s.tile); },
                          [](const kir::Store&) { return true; },
                          [](const kir::AsyncCopy&) { return true; },
                          [](const kir::AsyncCommit&) { return true; },
                          [](const kir::AsyncWait&) { return true; },
                          [](const kir::InitMbarriers&) { return true; },
                          [](const kir::ExpectBytes&) { return true; },
                          [](const kir::BulkCopy&) { return true; },
                          [](const kir::TensorCopy&) { return true; },
                          [](const kir::ProxyFence&) { return true; },
                          [](const kir::MbarrierArrive&) { return true; },
                          [](const kir::ClusterStore&) { return true; },
                          [](const kir::MbarrierWait&) { return true; },
                          [](const kir::ClusterBarrier&) { return true; },
                          [](const kir::ClusterArrive&) { return true; },
                          [](const kir::ClusterWait&) { return true; },
                          [](const kir::MessageStore&) { return true; },
                          [](const kir::MessageWait&) { return true; },
                          [](const kir::Barrier&) { return true; },
                          [](const kir::GroupBarrier&) { return true; },
                          [](const kir::SetMaxRegisters&) { return true; },
                          [](const kir::LaunchDependents&) { return true; },
                          [](const kir::WarpBarrier&) { return true; },
                          [](const kir::WaitForPrevious&) { return true; },
                          [](const kir::DeviceFence&) { return true; },
                          [](const kir::AtomicCount&) { return true; },
                          [&](const kir::ShuffleXor& s) { return is_read(s.target); },
                          [&](const kir::LaneExtreme& s) { return is_read(s.target); },
                          [&](const kir::LoadMatrix& s) { return is_read(s.tile); },
                          [&](const kir::Mma& s) { return is_read(s.accumulator); },
                          [&](const kir::Wgmma& s) { return is_read(s.accumulator); },
                          [](const kir::WgmmaFence&) { return true; },
                          [](const kir::WgmmaCommit&) { return true; },
                          [](const kir::WgmmaWait&) { return true; },
                          [&](const kir::AllReduce& s) {
                            if (s.half != kir::ReduceHalf::kWhole) return true;
                            return std::ranges::any_of(
                                s.parts,
                                [this](const kir::ReducePart& part) { return is_read(part); });
                          },
                      },
                      stmt);
  }

  [[nodiscard]] bool is_read(const kir::ReducePart& part) const {
    return std::ranges::any_of(part.vars, [this](VarId var) { return is_read(var); });
  }

 private:
  void visit(const Block& block) {
    // Backwards, because most uses come after what they use.
    for (auto it = block.rbegin(); it != block.rend(); ++it) {
      const kir::StmtKind& stmt = kernel_.stmts[*it].kind;
      kir::for_each_block(stmt, [this](const Block& inner) { visit(inner); });
      if (matters(stmt)) read_by(stmt);
    }
  }

  void read_by(const kir::StmtKind& stmt) {
    kir::for_each_expr(stmt, [this](ExprId expr) { read(expr); });
    if (const auto* store = std::get_if<kir::Store>(&stmt)) {
      read(store->tile);
    } else if (const auto* sent = std::get_if<kir::ClusterStore>(&stmt)) {
      read(sent->source);
    } else if (const auto* message = std::get_if<kir::MessageStore>(&stmt)) {
      for (const VarId value : message->values) read(value);
    } else if (const auto* taken = std::get_if<kir::MessageWait>(&stmt)) {
      for (const VarId value : taken->values) read(value);  // It waits even if nobody reads them.
    } else if (const auto* count = std::get_if<kir::AtomicCount>(&stmt)) {
      read(count->target);  // The atomic has an effect even if its result is unused.
    } else if (const auto* extreme = std::get_if<kir::LaneExtreme>(&stmt)) {
      read(extreme->tile);
    } else if (const auto* mma = std::get_if<kir::Mma>(&stmt)) {
      read(mma->left);
      read(mma->right);
    } else if (const auto* product = std::get_if<kir::Wgmma>(&stmt)) {
      if (const auto* left = std::get_if<kir::RegisterMatrix>(&product->left)) read(left->tile);
    } else if (const auto* loop = std::get_if<kir::For>(&stmt)) {
      read(loop->index);
    } else if (const auto* reduce = std::get_if<kir::AllReduce>(&stmt)) {
      for (const kir::ReducePart& part : reduce->parts) {
        if (reduce->half == kir::ReduceHalf::kWhole && !is_read(part)) continue;
        for (const VarId var : part.vars) read(var);
      }
    }
  }

  void read(ExprId id) {
    if (visited_[id]) return;
    visited_[id] = true;
    const kir::Expr& expr = kernel_.exprs[id];
    if (const auto* ref = std::get_if<kir::VarRef>(&expr.kind)) read(ref->var);
    if (const auto* element = std::get_if<kir::ElementRef>(&expr.kind)) read(element->tile);
    const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind);
    if (call != nullptr && call->state.valid()) read(call->state);
    kir::for_each_operand(expr, [this](ExprId operand) { read(operand); });
  }

  void read(VarId var) {
    if (read_[var]) return;
    read_[var] = true;
    grown_ = true;
  }

  const kir::Kernel& kernel_;
  IdMap<VarId, uint8_t> read_;
  IdMap<ExprId, uint8_t> visited_;
  bool grown_ = false;
};

class Remover {
 public:
  Remover(kir::Kernel* kernel, const Liveness& liveness) : kernel_(kernel), liveness_(liveness) {}

  void remove(Block& block) {
    std::erase_if(block, [this](StmtId id) {
      const kir::StmtKind& stmt = kernel_->stmts[id].kind;
      return !std::holds_alternative<kir::Comment>(stmt) && !liveness_.matters(stmt);
    });
    const bool only_comments = std::ranges::all_of(block, [this](StmtId id) {
      return std::holds_alternative<kir::Comment>(kernel_->stmts[id].kind);
    });
    if (only_comments) block.clear();
    for (const StmtId id : block) {
      kir::StmtKind& stmt = kernel_->stmts[id].kind;
      if (auto* loop = std::get_if<kir::For>(&stmt)) {
        remove(loop->body);
      } else if (auto* branch = std::get_if<kir::If>(&stmt)) {
        remove(branch->then_body);
        remove(branch->else_body);
      } else if (auto* reduce = std::get_if<kir::AllReduce>(&stmt);
                 reduce != nullptr && reduce->half == kir::ReduceHalf::kWhole) {
        // What halves send is what they receive.
        std::erase_if(reduce->parts,
                      [this](const kir::ReducePart& part) { return !liveness_.is_read(part); });
      }
    }
  }

 private:
  kir::Kernel* kernel_;
  const Liveness& liveness_;
};

}  // namespace

kir::Kernel remove_dead_statements(kir::Kernel kernel) {
  const kir::Kernel before = kernel;
  const Liveness liveness(before);
  Remover(&kernel, liveness).remove(kernel.body);
  return kernel;
}

}  // namespace sinter
