#include "codegen/cuda/required_headers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/cuda/cuda_expression.h"
#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

class Headers {
 public:
  explicit Headers(const kir::Kernel& kernel) : kernel_(kernel) {}

  std::vector<std::string_view> run() {
    kir::for_each_stmt(kernel_, kernel_.body, [&](kir::StmtId id) {
      const kir::StmtKind& stmt = kernel_.stmts[id].kind;
      std::visit([&](const auto& s) { visit(s); }, stmt);
      kir::for_each_expr(stmt, [&](kir::ExprId expr) { visit(expr); });
    });
    const auto is_stored = [](const auto& x) { return compute_type(x.type) != x.type; };
    if (std::ranges::any_of(kernel_.buffers, is_stored) ||
        std::ranges::any_of(kernel_.vars, is_stored)) {
      names_.insert("types.cuh");
    }
    if (!kernel_.tensor_maps.empty()) names_.insert("tensor_map.cuh");
    if (!kernel_.mbarriers.empty()) names_.insert("mbarrier.cuh");
    // vector.cuh includes types.cuh.
    if (names_.contains("vector.cuh")) names_.erase("types.cuh");
    return {names_.begin(), names_.end()};
  }

 private:
  void visit(kir::ExprId id) {
    if (seen_[id]) return;
    seen_[id] = true;
    const kir::Expr& expr = kernel_.exprs[id];
    kir::for_each_operand(expr, [&](kir::ExprId operand) { visit(operand); });
    if (const auto* cast = std::get_if<kir::CastExpr>(&expr.kind))
      names_.insert(cast->to_tf32 ? "mma.cuh" : "types.cuh");
    if (const auto* constant = std::get_if<kir::FloatConstant>(&expr.kind)) {
      if (is_storage_only(expr.type)) names_.insert("types.cuh");
      if (!std::isfinite(constant->value)) names_.insert("numeric.cuh");
    }
    if (const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind)) visit(*call);
  }

  /// Everything in numeric.cuh, and nothing else, is called sinter_*.
  void visit(const kir::PointwiseExpr& call) {
    if (divides_by_positive_constant(kernel_, call)) return;
    if (info_of(call.fn).cuda.starts_with("sinter_")) names_.insert("numeric.cuh");
  }

  void visit(const kir::Declare& s) {
    if (!kernel_.vars[s.var].is_scalar()) names_.insert("vector.cuh");
  }
  void visit(const kir::Load&) { names_.insert("vector.cuh"); }
  void visit(const kir::Store&) { names_.insert("vector.cuh"); }
  void visit(const kir::LaneExtreme&) { names_.insert("vector.cuh"); }
  void visit(const kir::ShuffleXor&) { names_.insert("warp.cuh"); }
  void visit(const kir::AsyncCopy&) { names_.insert("async_copy.cuh"); }
  void visit(const kir::AsyncCommit&) { names_.insert("async_copy.cuh"); }
  void visit(const kir::AsyncWait&) { names_.insert("async_copy.cuh"); }
  void visit(const kir::LoadMatrix&) { names_.insert("mma.cuh"); }
  void visit(const kir::Mma&) { names_.insert("mma.cuh"); }
  void visit(const kir::Wgmma&) { names_.insert("wgmma.cuh"); }
  void visit(const kir::WgmmaFence&) { names_.insert("wgmma.cuh"); }
  void visit(const kir::WgmmaCommit&) { names_.insert("wgmma.cuh"); }
  void visit(const kir::WgmmaWait&) { names_.insert("wgmma.cuh"); }
  void visit(const kir::ProxyFence&) { names_.insert("mbarrier.cuh"); }
  void visit(const kir::GroupBarrier&) { names_.insert("mbarrier.cuh"); }
  void visit(const kir::SetMaxRegisters&) { names_.insert("mbarrier.cuh"); }
  void visit(const kir::ClusterStore&) { names_.insert("cluster.cuh"); }
  void visit(const kir::ClusterBarrier&) { names_.insert("cluster.cuh"); }
  void visit(const kir::ClusterArrive&) { names_.insert("cluster.cuh"); }
  void visit(const kir::ClusterWait&) { names_.insert("cluster.cuh"); }
  void visit(const kir::MessageStore&) { names_.insert("message.cuh"); }
  void visit(const kir::MessageWait&) { names_.insert("message.cuh"); }
  void visit(const kir::DeviceFence&) { names_.insert("device_order.cuh"); }
  void visit(const kir::AtomicCount&) { names_.insert("device_order.cuh"); }
  void visit(const kir::LaunchDependents&) { names_.insert("dependent_launch.cuh"); }
  void visit(const kir::WaitForPrevious&) { names_.insert("dependent_launch.cuh"); }
  // The statements below are printed without a header, or with the header of mbarriers or tensor
  // maps, which is included where one is declared.
  void visit(const kir::Comment&) {}
  void visit(const kir::Assign&) {}
  void visit(const kir::SetElement&) {}
  void visit(const kir::For&) {}
  void visit(const kir::If&) {}
  void visit(const kir::InitMbarriers&) {}
  void visit(const kir::ExpectBytes&) {}
  void visit(const kir::BulkCopy&) {}
  void visit(const kir::TensorCopy&) {}
  void visit(const kir::MbarrierArrive&) {}
  void visit(const kir::MbarrierWait&) {}
  void visit(const kir::Barrier&) {}
  void visit(const kir::WarpBarrier&) {}
  void visit(const kir::AllReduce&) {}

  const kir::Kernel& kernel_;
  IdMap<kir::ExprId, uint8_t> seen_;
  std::set<std::string_view> names_;
};

}  // namespace

std::vector<std::string_view> required_headers(const kir::Kernel& kernel) {
  return Headers(kernel).run();
}

}  // namespace sinter
