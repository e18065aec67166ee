#include "codegen/passes/share_random_rounds.h"

#include <algorithm>
#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

using kir::ExprId;

/// Rebuilds the blocks of a kernel, loop by loop.
class Sharing {
 public:
  explicit Sharing(kir::KernelBuilder& builder) : builder_(builder) {}

  kir::Block rebuilt(const kir::Block& block) { return rebuilt(block, {}); }

 private:
  using Calls = std::map<ExprId, ExprId>;  ///< The calls of a loop, with their replacements.

  [[nodiscard]] bool draws(ExprId id) const {
    const auto* call = std::get_if<kir::PointwiseExpr>(&builder_.kernel().exprs[id].kind);
    return call != nullptr && call->fn == PointwiseFn::kPhiloxUniform;
  }

  /// Collects the calls in a loop's body, but not in nested loops, which have variables of their
  /// own.
  void collect(const kir::Block& block, std::vector<ExprId>& calls) const {
    const kir::Kernel& kernel = builder_.kernel();
    for (const kir::StmtId id : block) {
      const kir::StmtKind& stmt = kernel.stmts[id].kind;
      kir::for_each_expr(stmt, [&](ExprId expr) { collect(expr, calls); });
      if (std::holds_alternative<kir::For>(stmt)) continue;
      kir::for_each_block(stmt, [&](const kir::Block& inner) { collect(inner, calls); });
    }
  }
  void collect(ExprId id, std::vector<ExprId>& calls) const {
    kir::for_each_operand(builder_.kernel().exprs[id],
                          [&](ExprId operand) { collect(operand, calls); });
    if (draws(id) && std::ranges::find(calls, id) == calls.end()) calls.push_back(id);
  }

  kir::Block rebuilt(const kir::Block& block, const Calls& calls) {
    kir::Block out;
    builder_.into(&out, [&] {
      for (const kir::StmtId id : block) {
        // Copied, because the statement table may grow during the replacement.
        kir::StmtKind kind = builder_.kernel().stmts[id].kind;
        if (auto* loop = std::get_if<kir::For>(&kind)) {
          const Calls own = loop->unroll ? shared(loop->body) : Calls{};
          loop->body = rebuilt(loop->body, own);
        } else {
          kir::replace_exprs(kind, [&](ExprId expr) { return replaced(expr, calls); });
          kir::replace_blocks(kind, [&](const kir::Block& b) { return rebuilt(b, calls); });
        }
        builder_.append(std::move(kind));
      }
    });
    return out;
  }

  Calls shared(const kir::Block& body) {
    std::vector<ExprId> calls;
    collect(body, calls);
    Calls out;
    for (const ExprId id : calls) {
      const auto call = std::get<kir::PointwiseExpr>(builder_.kernel().exprs[id].kind);
      const kir::VarId state =
          builder_.declare_tile("random", DType::kI64, 1, kir::kRandomStateLanes);
      out[id] = builder_.call(call.fn, call.arguments, kir::CallForm::kSharedRounds, state);
    }
    return out;
  }

  ExprId replaced(ExprId id, const Calls& calls) {
    if (calls.empty()) return id;
    if (const auto found = calls.find(id); found != calls.end()) return found->second;
    return builder_.with_operands(id, [&](ExprId operand) { return replaced(operand, calls); });
  }

  kir::KernelBuilder& builder_;
};

}  // namespace

kir::Kernel share_random_rounds(kir::Kernel kernel) {
  const bool draws = std::ranges::any_of(kernel.exprs, [](const kir::Expr& expr) {
    const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind);
    return call != nullptr && call->fn == PointwiseFn::kPhiloxUniform;
  });
  if (!draws) return kernel;
  kir::KernelBuilder builder(&kernel);
  const kir::Block body = kernel.body;
  kernel.body = Sharing(builder).rebuilt(body);
  return kernel;
}

}  // namespace sinter
