#include "codegen/passes/predicate_loads.h"

#include <algorithm>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

bool reads_tile(const kir::Kernel& kernel, kir::ExprId id) {
  const kir::Expr& expr = kernel.exprs[id];
  bool reads = std::holds_alternative<kir::ElementRef>(expr.kind);
  kir::for_each_operand(expr,
                        [&](kir::ExprId operand) { reads = reads || reads_tile(kernel, operand); });
  return reads;
}

/// True if the branch holds only loads that can be predicated. The condition is evaluated again for
/// each load, so it may not read a tile, which one of them may fill.
bool holds_loads_alone(const kir::Kernel& kernel, const kir::If& branch) {
  const auto is_load_into_tile = [&](kir::StmtId id) {
    const auto* load = std::get_if<kir::Load>(&kernel.stmts[id].kind);
    return load != nullptr && kernel.buffers[load->buffer].space == kir::Space::kGlobal &&
           !load->tensor.valid() && !load->predicate.valid() &&
           !kernel.vars[load->tile].is_scalar();
  };
  return branch.else_body.empty() && std::ranges::all_of(branch.then_body, is_load_into_tile) &&
         !reads_tile(kernel, branch.condition);
}

}  // namespace

kir::Kernel predicate_loads(kir::Kernel kernel) {
  kir::KernelBuilder builder(&kernel);
  kir::replace_statements(builder, [&](kir::StmtId, const kir::StmtKind& kind) {
    const auto* branch = std::get_if<kir::If>(&kind);
    if (branch == nullptr || !holds_loads_alone(builder.kernel(), *branch)) return false;
    for (const kir::StmtId id : branch->then_body) {
      auto load = std::get<kir::Load>(builder.kernel().stmts[id].kind);
      load.predicate = branch->condition;
      builder.append(load);
    }
    return true;
  });
  return kernel;
}

}  // namespace sinter
