#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/interpreter/bytecode.h"

namespace sinter::interpreter {

/// The value of an expression at compile time: a constant, or the register that will hold it.
struct Operand {
  DType type = DType::kI32;
  bool constant = false;
  uint64_t bits = 0;                      ///< Of a constant, in its low bytes.
  int32_t offset = 0;                     ///< Of a register.
  [[nodiscard]] int64_t integer() const;  ///< Of an i32, i64 or bool constant.
};

/// The elements of all variables, numbered through.
using ElementSet = std::vector<bool>;

/// The part of the compiler that turns expressions into instructions: registers, constants, and the
/// proof that a variable is written before it is read. The statement compiler drives it.
class ExpressionCompiler {
 public:
  /// `followed`: elements whose reads the run must check, from an earlier attempt's `unproved`.
  ExpressionCompiler(const kir::Kernel& kernel, const ElementSet& followed);

  // ---- Expressions
  /// Starts a statement, or another expression of it that is evaluated at another time: temporaries
  /// are free again.
  void begin(kir::StmtId stmt);
  Operand compile(kir::ExprId id);
  /// The register that holds an operand.
  int32_t register_of(const Operand& operand);
  int32_t register_of(kir::ExprId id) { return register_of(compile(id)); }
  /// The register with an element index, as i64.
  int32_t index_register(kir::ExprId id);
  int64_t constant_integer(kir::ExprId id, const char* role);
  Operand apply(LaneFunction function, DType result, const std::vector<Operand>& arguments);
  /// variable = operand in active lanes.
  void assign(int32_t variable, const Operand& operand);
  /// Consecutive temporaries, one for each of `count` elements.
  int32_t temporaries(DType type, int64_t count);
  /// While an unrolled loop is expanded, its index is a constant; none ends that.
  void set_index(kir::VarId index, std::optional<int64_t> value);

  // ---- Variables
  /// The register of a tile element whose indices must be constant, with room for `width` lanes.
  int32_t element_register(kir::VarId tile, kir::ExprId group, kir::ExprId lane, int64_t width,
                           size_t* element);
  int32_t element_register(kir::VarId tile, kir::ExprId group, int64_t lane, int64_t width,
                           size_t* element);
  /// The register of the first element of `count` groups of a tile.
  int32_t groups_register(kir::VarId tile, kir::ExprId group, int64_t count, size_t* element);
  [[nodiscard]] int32_t scalar_register(kir::VarId var) const;
  [[nodiscard]] size_t first_element(kir::VarId var) const { return first_element_[var.index]; }
  /// A scalar variable that is read.
  Operand variable(kir::VarId var) { return reference(var); }
  /// An element of a tile that is read; the lane is a constant.
  Operand element(kir::VarId tile, kir::ExprId group, int64_t lane);
  void note_read(size_t element);
  void note_written(size_t element);
  /// The same where a product of a warp group replaces it.
  void note_product(size_t element);
  /// An element that a product of a warp group reads: the part of note_read() that concerns values.
  void require_written(size_t element);
  /// Number of an element among those of products (Program::product_elements); -1 for others.
  [[nodiscard]] int32_t product_element(size_t element) const { return product_elements_[element]; }
  void note_declared(kir::VarId var);

  // ---- Code
  Instruction& emit(Instruction instruction);
  [[nodiscard]] uint32_t position() const { return static_cast<uint32_t>(program_.code.size()); }
  Program finish();
  Program& program() { return program_; }
  [[noreturn]] void malformed(std::string message) const;
  /// Refuses variables that take so many bytes in a warp, if that is too many for all that run
  /// together.
  void check_registers(int64_t bytes_of_warp) const;

  /// Elements written on every path to this point.
  ElementSet written;
  /// Elements some read of which could not be proved to follow a write.
  ElementSet unproved;

 private:
  Operand constant(DType type, uint64_t bits) {
    return {.type = type, .constant = true, .bits = bits};
  }
  Operand reference(kir::VarId var);
  Operand special(kir::Special special);
  Operand param(kir::ParamId param);
  Operand pointwise(const kir::Expr& expr, const kir::PointwiseExpr& node);
  Operand fast_path(const kir::PointwiseExpr& node, const Operand& argument,
                    const Operand& exact_value);
  Operand call(PointwiseFn fn, DType result, const std::vector<Operand>& arguments);
  int32_t reserve_preset(DType type);

  const kir::Kernel& kernel_;
  Program program_;
  kir::StmtId stmt_;
  std::vector<int32_t> first_register_;
  void number_product_elements(kir::VarId tile);

  std::vector<size_t> first_element_;
  std::vector<int32_t> tracked_;           ///< By element: its number in Program::tracked.
  std::vector<int32_t> product_elements_;  ///< By element: its number among those of products.
  std::vector<std::optional<int64_t>> index_values_;
  std::unordered_map<uint32_t, Operand> compiled_;  ///< Expressions of the current statement.
  std::map<std::pair<DType, uint64_t>, int32_t> constants_;
  std::vector<std::optional<int32_t>> params_;
  // Presets and temporaries grow at the same time; finish() puts temporaries behind the presets.
  int32_t preset_end_ = 0;
  int32_t temporary_end_ = 0;
  int32_t temporary_peak_ = 0;
};

}  // namespace sinter::interpreter
