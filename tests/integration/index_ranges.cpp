#include "tests/integration/index_ranges.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

__extension__ using Wide = __int128;

struct Range {
  Wide low = 0;
  Wide high = 0;
};
using MaybeRange = std::optional<Range>;

Range limits_of(DType type) {
  if (type == DType::kI32)
    return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

bool is_inside(Range range, DType type) {
  const Range limits = limits_of(type);
  return limits.low <= range.low && range.high <= limits.high;
}

class Walk {
 public:
  Walk(const LoweredKernel& lowered, const Fusion& fusion)
      : lowered_(lowered), kernel_(lowered.kernel), fusion_(fusion) {
    kir::for_each_stmt(kernel_, kernel_.body, [&](kir::StmtId id) {
      if (const auto* assign = std::get_if<kir::Assign>(&kernel_.stmts[id].kind))
        changing_.insert(assign->var);
    });
  }

  IndexRanges run() {
    kir::for_each_stmt(kernel_, kernel_.body, [&](kir::StmtId id) { visit(kernel_.stmts[id]); });
    return std::move(out_);
  }

 private:
  void visit(const kir::Stmt& stmt) {
    kir::for_each_expr(stmt.kind, [&](kir::ExprId expr) { (void)range_of(expr); });
    if (const auto* declare = std::get_if<kir::Declare>(&stmt.kind)) {
      if (declare->init.valid() && !changing_.contains(declare->var))
        set(declare->var, range_of(declare->init));
    } else if (const auto* loop = std::get_if<kir::For>(&stmt.kind)) {
      const MaybeRange begin = range_of(loop->begin);
      const MaybeRange end = range_of(loop->end);
      if (begin && end) set(loop->index, Range{begin->low, std::max(begin->low, end->high - 1)});
    } else if (const auto* load = std::get_if<kir::Load>(&stmt.kind)) {
      check_index(load->buffer, load->index);
    } else if (const auto* store = std::get_if<kir::Store>(&stmt.kind)) {
      check_index(store->buffer, store->index);
    }
  }

  void set(kir::VarId var, MaybeRange range) {
    if (range) vars_[var] = *range;
  }

  void check_index(kir::BufferId buffer, kir::ExprId index) {
    const kir::Buffer& held = kernel_.buffers[buffer];
    if (held.space != kir::Space::kGlobal || !held.value.valid() || held.is_table()) return;
    if (kernel_.exprs[index].type == DType::kI64) return;
    const Sizes sizes = Binding{}.sizes_of(fusion_.values[held.value].shape);
    if (element_count(sizes) > std::numeric_limits<int32_t>::max())
      out_.narrow.push_back(fmt::format("index {} of {}", index, held.name));
  }

  MaybeRange range_of(kir::ExprId id) {
    const kir::Expr& expr = kernel_.exprs[id];
    if (is_float(expr.type)) return std::nullopt;
    return std::visit([&](const auto& kind) { return range_of(expr.type, kind); }, expr.kind);
  }
  MaybeRange range_of(DType, const kir::IntegerConstant& constant) {
    return Range{constant.value, constant.value};
  }
  template <class Other>
  MaybeRange range_of(DType, const Other&) {
    return std::nullopt;
  }
  MaybeRange range_of(DType, const kir::VarRef& ref) {
    const auto found = vars_.find(ref.var);
    return found == vars_.end() ? std::nullopt : MaybeRange(found->second);
  }
  MaybeRange range_of(DType, const kir::ParamRef& ref) {
    const int64_t value = lowered_.param_values.at(ref.param.index);
    return Range{value, value};
  }
  MaybeRange range_of(DType, const kir::SpecialRef& ref) {
    const Wide blocks = blocks_of();
    switch (ref.special) {
      case kir::Special::kThreadIndex:
        return Range{0, kernel_.threads - 1};
      case kir::Special::kBlockIndex:
        return Range{0, std::max<Wide>(blocks - 1, 0)};
      case kir::Special::kGridSize:
        return Range{blocks, blocks};
    }
    unreachable();
  }
  MaybeRange range_of(DType type, const kir::CastExpr& cast) {
    const MaybeRange range = range_of(cast.argument);
    if (range && (type == DType::kI32 || type == DType::kI64)) return settled(type, *range, "cast");
    return std::nullopt;
  }
  MaybeRange range_of(DType type, const kir::PointwiseExpr& expr) {
    std::vector<MaybeRange> arguments;
    for (const kir::ExprId argument : expr.arguments) arguments.push_back(range_of(argument));
    if (type != DType::kI32 && type != DType::kI64) return std::nullopt;
    if (!std::ranges::all_of(arguments, [](const MaybeRange& range) { return range.has_value(); }))
      return std::nullopt;
    const auto& a = *arguments.front();
    const auto& b = *arguments.back();
    switch (expr.fn) {
      case PointwiseFn::kAdd:
        return settled(type, {a.low + b.low, a.high + b.high}, "sum");
      case PointwiseFn::kSub:
        return settled(type, {a.low - b.high, a.high - b.low}, "difference");
      case PointwiseFn::kMul: {
        const auto [low, high] =
            std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
        return settled(type, {low, high}, "product");
      }
      case PointwiseFn::kMin:
        return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
      case PointwiseFn::kMax:
        return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
      case PointwiseFn::kDiv:
        if (b.low <= 0 || a.low < 0) return std::nullopt;
        return Range{a.low / b.high, a.high / b.low};
      case PointwiseFn::kRem:
        if (b.low <= 0 || a.low < 0) return std::nullopt;
        return Range{0, std::min(a.high, b.high - 1)};
      default:
        return std::nullopt;
    }
  }

  /// The range if it lies in the type, which is what the kernel computes in.
  MaybeRange settled(DType type, Range range, std::string_view what) {
    ++out_.computed;
    if (is_inside(range, type)) return range;
    out_.overflows.push_back(fmt::format("a {} of {} comes to {:.0f} ... {:.0f}", what, type,
                                         static_cast<double>(range.low),
                                         static_cast<double>(range.high)));
    return std::nullopt;
  }

  [[nodiscard]] Wide blocks_of() const {
    const Wide work = lowered_.param_values.at(kernel_.grid.work.index);
    return (work + kernel_.grid.per_block - 1) / kernel_.grid.per_block * kernel_.cluster;
  }

  const LoweredKernel& lowered_;
  const kir::Kernel& kernel_;
  const Fusion& fusion_;
  std::set<kir::VarId> changing_;  ///< Assigned to behind their declaration.
  std::map<kir::VarId, Range> vars_;
  IndexRanges out_;
};

}  // namespace

IndexRanges index_ranges(const LoweredKernel& lowered, const Fusion& fusion) {
  return Walk(lowered, fusion).run();
}

}  // namespace sinter
