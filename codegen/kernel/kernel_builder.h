#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/kernel/expr_interner.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter::kir {

/// Scoped construction of a Kernel. Expressions fold constants and trivial identities as they are
/// made, and equal expressions share one id; statements go to the innermost open block. Params,
/// buffers and registers get unique names. Operands of differing types, and ids that do not exist,
/// are programming errors (InternalError).
class KernelBuilder {
 public:
  /// Statements go to the end of the kernel's body. The kernel may already have contents. While a
  /// builder exists, expressions and declarations are added only through it.
  explicit KernelBuilder(Kernel* kernel);

  Kernel& kernel() { return *kernel_; }

  // ---- Expressions
  ExprId integer(int64_t value, DType type = DType::kI32);
  ExprId real(double value, DType type = DType::kF32);
  ExprId boolean(bool value) { return integer(value ? 1 : 0, DType::kBool); }
  ExprId ref(VarId var);
  ExprId param(ParamId param);
  ExprId special(Special special);
  ExprId element(VarId tile, ExprId group, ExprId lane);
  ExprId apply(PointwiseFn fn, std::vector<ExprId> arguments);
  ExprId cast(ExprId x, DType type);
  /// An f32 rounded to TF32 (CastExpr).
  ExprId round_to_tf32(ExprId x);
  /// A call with a form chosen by a pass. Folds nothing.
  ExprId call(PointwiseFn fn, std::vector<ExprId> arguments, CallForm form, VarId state = {});
  /// The expression with other operands. Folds nothing.
  ExprId with_operands(ExprId expr, const std::function<ExprId(ExprId)>& replace);
  ExprId add(ExprId a, ExprId b) { return apply(PointwiseFn::kAdd, {a, b}); }
  ExprId sub(ExprId a, ExprId b) { return apply(PointwiseFn::kSub, {a, b}); }
  ExprId mul(ExprId a, ExprId b) { return apply(PointwiseFn::kMul, {a, b}); }
  ExprId div(ExprId a, ExprId b) { return apply(PointwiseFn::kDiv, {a, b}); }
  ExprId rem(ExprId a, ExprId b) { return apply(PointwiseFn::kRem, {a, b}); }
  ExprId min(ExprId a, ExprId b) { return apply(PointwiseFn::kMin, {a, b}); }
  ExprId max(ExprId a, ExprId b) { return apply(PointwiseFn::kMax, {a, b}); }
  ExprId less(ExprId a, ExprId b) { return apply(PointwiseFn::kLt, {a, b}); }
  ExprId less_equal(ExprId a, ExprId b) { return apply(PointwiseFn::kLe, {a, b}); }
  ExprId equal(ExprId a, ExprId b) { return apply(PointwiseFn::kEq, {a, b}); }
  ExprId both(ExprId a, ExprId b) { return apply(PointwiseFn::kAnd, {a, b}); }
  ExprId select(ExprId condition, ExprId a, ExprId b) {
    return apply(PointwiseFn::kSelect, {condition, a, b});
  }
  [[nodiscard]] DType type_of(ExprId expr) const { return kernel_->exprs[expr].type; }
  /// The value of an integer or bool constant expression, if it is one.
  [[nodiscard]] const IntegerConstant* as_integer(ExprId expr) const;

  // ---- Declarations
  ParamId add_param(std::string name, DType type = DType::kI64);
  BufferId add_buffer(Buffer buffer);
  /// Says that the previous kernel does not write a buffer.
  void set_constant(BufferId buffer) { kernel_->buffers[buffer].is_constant = true; }
  MbarrierId add_mbarriers(std::string name, int64_t count, int64_t arrivals);
  TensorMapId add_tensor_map(TensorMap map);
  VarId add_var(std::string name, DType type, int64_t groups = 1, int64_t lanes = 1);

  /// The first of so many places for messages that nothing else uses.
  int64_t reserve_places(int64_t count) {
    const int64_t first = reserved_places_;
    reserved_places_ += count;
    return first;
  }
  [[nodiscard]] int64_t reserved_places() const { return reserved_places_; }

  // ---- Statements
  /// Initialises the mbarriers and makes them usable by all blocks of a cluster.
  void init_mbarriers();
  /// The same for a cluster, without waiting: the blocks synchronise at the first sync_cluster(),
  /// and nothing may be sent to another block before that. So the blocks can load while the last
  /// block of the cluster has not yet started.
  void start_mbarriers();
  /// Waits for the blocks of the cluster after start_mbarriers(); emits nothing if that is already
  /// done or not needed.
  void sync_cluster();
  void comment(std::string text);
  VarId declare(std::string name, ExprId init);        ///< A scalar with a value.
  VarId declare_scalar(std::string name, DType type);  ///< A scalar without one.
  VarId declare_tile(std::string name, DType type, int64_t groups, int64_t lanes);
  void assign(VarId var, ExprId value);
  void set(VarId tile, ExprId group, ExprId lane, ExprId value);
  void loop(std::string index, ExprId begin, ExprId end, ExprId step, bool unroll,
            const std::function<void(ExprId)>& body);
  /// for (index = 0; index < count; ++index), unrolled; a single iteration is written without a
  /// loop.
  void unrolled(std::string index, int64_t count, const std::function<void(ExprId)>& body);
  void when(ExprId condition, const std::function<void()>& then_body,
            const std::function<void()>& else_body = {});
  /// Appends the statements that `body` makes to `block` instead, for passes that rebuild blocks.
  /// `block` must not lie in the kernel's statement table, which grows.
  void into(Block* block, const std::function<void()>& body);
  void append(StmtKind kind);

 private:
  std::string unique_name(std::string_view wish);
  ExprId intern(Expr expr);
  ExprId fold_integers(PointwiseFn fn, std::vector<ExprId>& arguments);
  ExprId fold_random(PointwiseFn fn, const std::vector<ExprId>& arguments);
  ExprId fold_floats(PointwiseFn fn, const std::vector<ExprId>& arguments);
  ExprId fold_identity(PointwiseFn fn, const std::vector<ExprId>& arguments);
  [[nodiscard]] const FloatConstant* as_real(ExprId expr) const;

  Kernel* kernel_;
  ExprInterner interner_;
  std::vector<Block*> open_;
  bool has_to_sync_ = false;  ///< A ClusterArrive was emitted, but no ClusterWait yet.
  int64_t reserved_places_ = 0;
  std::unordered_map<std::string, int> names_;  ///< Taken names; next suffix to try.
};

}  // namespace sinter::kir
