#pragma once

#include <map>
#include <string>
#include <string_view>

#include "codegen/cuda/cuda_names.h"
#include "codegen/cuda/value_minima.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// CUDA C++ name of an element type: "float", "bf16", "long long".
std::string_view cuda_type(DType type);

/// Names of everything in one kernel.
struct KernelNames {
  explicit KernelNames(const kir::Kernel& kernel);
  std::string entry;
  std::string table;  ///< The argument that holds all tables.
  IdMap<kir::BufferId, std::string> buffers;
  IdMap<kir::MbarrierId, std::string> mbarriers;
  IdMap<kir::ParamId, std::string> params;
  IdMap<kir::VarId, std::string> vars;
};

/// How tightly the outermost operator of a text binds, in the order of C++.
enum class Precedence : uint8_t {
  kConditional,
  kLogicalOr,
  kLogicalAnd,
  kOr,
  kXor,
  kAnd,
  kEquality,
  kRelational,
  kAdditive,
  kMultiplicative,
  kUnary,
  kPrimary,
};

/// Prints expressions of one kernel with the parentheses that C++ asks for.
class CudaExpressions {
 public:
  CudaExpressions(const kir::Kernel& kernel, const KernelNames& names)
      : kernel_(kernel), names_(names), bounds_(kernel) {}

  /// The expression; in parentheses if its operator binds less tightly than `context`.
  [[nodiscard]] std::string text(kir::ExprId expr,
                                 Precedence context = Precedence::kConditional) const;
  /// buffer + index.
  [[nodiscard]] std::string address(kir::BufferId buffer, kir::ExprId index) const;
  /// table.buffer[tensor] + index.
  [[nodiscard]] std::string address(kir::BufferId buffer, kir::ExprId tensor,
                                    kir::ExprId index) const;
  /// mbarriers + index.
  [[nodiscard]] std::string address(kir::MbarrierId array, kir::ExprId index) const;
  /// Lets a call of philox_uniform use the words that the variable `block` has from the call
  /// before.
  void use_block(kir::ExprId call, std::string block) { blocks_[call] = std::move(block); }
  /// How functions with a hasty form are printed until the next call: in haste, which clears the
  /// variable `plain` where that was not right,
  void take_fast_path(std::string plain) {
    pace_ = Pace::kFastPath;
    plain_ = std::move(plain);
  }
  /// in the form that is right for every argument,
  void take_care() { pace_ = Pace::kCare; }
  /// or in the one that each argument asks for, which is how it begins.
  void ask_arguments() { pace_ = Pace::kAsArgumentsAsk; }
  /// The Vec of one group: "x[g]", or "x" if there is only one.
  [[nodiscard]] std::string vec(kir::VarId tile, kir::ExprId group) const;

 private:
  [[nodiscard]] std::string address(const std::string& base, kir::ExprId index) const;
  struct Printed {
    std::string text;
    Precedence precedence = Precedence::kPrimary;
  };
  [[nodiscard]] Printed print(kir::ExprId id) const;
  [[nodiscard]] Printed print(const kir::PointwiseExpr& expr) const;

  enum class Pace : uint8_t { kAsArgumentsAsk, kFastPath, kCare };

  const kir::Kernel& kernel_;
  const KernelNames& names_;
  ValueMinima bounds_;
  std::map<kir::ExprId, std::string> blocks_;
  Pace pace_ = Pace::kAsArgumentsAsk;
  std::string plain_;  ///< Where in haste.
};

}  // namespace sinter
