#include "codegen/passes/pack_maxima.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

/// An element of a packed tile at the loop's index, in f32.
struct LaneElement {
  VarId tile;
  ExprId group;
  bool is_magnitude = false;
};

class LoopOverLanes {
 public:
  LoopOverLanes(const kir::Kernel& kernel, const kir::For& loop) : kernel_(kernel), loop_(loop) {}

  std::vector<kir::LaneExtreme> find() {
    if (!loop_.unroll || integer(loop_.begin) != 0 || integer(loop_.step) != 1) return {};
    std::vector<kir::LaneExtreme> found;
    for (const kir::StmtId id : loop_.body) {
      const kir::StmtKind& stmt = kernel_.stmts[id].kind;
      if (std::holds_alternative<kir::Comment>(stmt)) continue;
      if (const auto* declared = std::get_if<kir::Declare>(&stmt)) {
        const auto element = element_of(declared->init);
        if (!element) return {};
        elements_[declared->var] = *element;
        continue;
      }
      const auto* assigned = std::get_if<kir::Assign>(&stmt);
      const auto maximum = assigned != nullptr ? taken(*assigned) : std::nullopt;
      if (!maximum) return {};
      found.push_back(*maximum);
    }
    return found;
  }

 private:
  std::optional<int64_t> integer(ExprId id) const {
    const auto* constant = std::get_if<kir::IntegerConstant>(&kernel_.exprs[id].kind);
    return constant != nullptr ? std::optional(constant->value) : std::nullopt;
  }
  bool is_variable(ExprId id, VarId var) const {
    const auto* ref = std::get_if<kir::VarRef>(&kernel_.exprs[id].kind);
    return ref != nullptr && ref->var == var;
  }
  bool depends_on_index(ExprId id) const {
    bool depends = is_variable(id, loop_.index);
    kir::for_each_operand(kernel_.exprs[id],
                          [&](ExprId operand) { depends |= depends_on_index(operand); });
    return depends;
  }

  std::optional<LaneElement> element_of(ExprId id) const {
    if (!id.valid() || kernel_.exprs[id].type != DType::kF32) return {};
    const kir::ExprKind& kind = kernel_.exprs[id].kind;
    if (const auto* ref = std::get_if<kir::VarRef>(&kind)) {
      const auto found = elements_.find(ref->var);
      return found != elements_.end() ? std::optional(found->second) : std::nullopt;
    }
    if (const auto* call = std::get_if<kir::PointwiseExpr>(&kind)) {
      auto element = call->fn == PointwiseFn::kAbs ? element_of(call->arguments[0]) : std::nullopt;
      if (element) element->is_magnitude = true;
      return element;
    }
    const auto* cast = std::get_if<kir::CastExpr>(&kind);
    return cast != nullptr ? converted(cast->argument) : std::nullopt;
  }

  std::optional<LaneElement> converted(ExprId id) const {
    const auto* element = std::get_if<kir::ElementRef>(&kernel_.exprs[id].kind);
    if (element == nullptr || !is_variable(element->lane, loop_.index)) return {};
    const kir::Var& tile = kernel_.vars[element->tile];
    const bool is_packed = tile.type == DType::kBF16 || tile.type == DType::kF16;
    const bool takes_all = integer(loop_.end) == tile.lanes && tile.lanes % 2 == 0;
    if (!is_packed || !takes_all || depends_on_index(element->group)) return {};
    return LaneElement{element->tile, element->group};
  }

  std::optional<kir::LaneExtreme> taken(const kir::Assign& stmt) const {
    const auto* call = std::get_if<kir::PointwiseExpr>(&kernel_.exprs[stmt.value].kind);
    if (call == nullptr || (call->fn != PointwiseFn::kMax && call->fn != PointwiseFn::kMin))
      return {};
    if (elements_.contains(stmt.var)) return {};
    const std::vector<ExprId>& arguments = call->arguments;
    const auto kept = std::ranges::find_if(
        arguments, [&](ExprId argument) { return is_variable(argument, stmt.var); });
    if (kept == arguments.end()) return {};
    const auto element = element_of(kept == arguments.begin() ? arguments[1] : arguments[0]);
    if (!element) return {};
    return kir::LaneExtreme{.target = stmt.var,
                            .fn = call->fn,
                            .of_magnitudes = element->is_magnitude,
                            .tile = element->tile,
                            .group = element->group};
  }

  const kir::Kernel& kernel_;
  const kir::For& loop_;
  std::map<VarId, LaneElement> elements_;  ///< Of variables that the loop declares.
};

}  // namespace

kir::Kernel pack_maxima(kir::Kernel kernel) {
  kir::KernelBuilder builder(&kernel);
  kir::replace_statements(builder, [&](kir::StmtId, const kir::StmtKind& kind) {
    const auto* loop = std::get_if<kir::For>(&kind);
    if (loop == nullptr) return false;
    const std::vector<kir::LaneExtreme> extremes = LoopOverLanes(builder.kernel(), *loop).find();
    for (const kir::LaneExtreme& extreme : extremes) builder.append(extreme);
    return !extremes.empty();
  });
  return kernel;
}

}  // namespace sinter
