#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"
#include "fusion_ir/op.h"
#include "fusion_ir/result.h"
#include "fusion_ir/shape.h"

namespace sinter {

/// One tensor of the graph. `name` decorates printed text only; nothing parses it.
struct Value {
  DType type = DType::kF32;
  Shape shape{};
  OpId def{};           ///< The op that produces it.
  uint32_t result = 0;  ///< Which of that op's results it is.
  std::string name{};
  friend bool operator==(const Value&, const Value&) = default;
};

struct Op {
  OpKind kind;
  std::vector<ValueId> operands{};
  std::vector<ValueId> results{};
  friend bool operator==(const Op&, const Op&) = default;
};

/// How an output lies in the caller's memory. Strides in elements, no two elements at one address;
/// empty means dense row-major. `alignment` is promised for the address of the first element, in
/// bytes.
struct OutputLayout {
  std::vector<Extent> strides{};
  int64_t alignment = 16;
  /// An input of the same type, shape, strides and alignment, whose memory the output takes over
  /// once everything has read it: the caller passes one tensor as both. Invalid: the output has
  /// memory of its own.
  ValueId alias{};
  friend bool operator==(const OutputLayout&, const OutputLayout&) = default;
};

/// A graph of tensor operations as a value: copyable, comparable, printable. Ops stand in
/// topological order, because an op can only name values that already exist. Made with
/// FusionBuilder or parse_fusion; edited by rewriting into a new one.
struct Fusion {
  std::string name = "fusion";
  IdVector<SymbolId, Symbol> symbols;
  IdVector<ValueId, Value> values;
  IdVector<OpId, Op> ops;
  std::vector<ValueId> inputs;   ///< In the order tensors are passed.
  std::vector<ValueId> outputs;  ///< In the order tensors are passed; a value may be listed once.

  /// One for each output, or none at all if all of them are dense and promise 16 bytes.
  std::vector<OutputLayout> layouts{};

  /// Appends an output.
  void add_output(ValueId value, const OutputLayout& layout = {});
  /// Of an output.
  [[nodiscard]] OutputLayout layout_of(ValueId output) const;
  [[nodiscard]] const Op& def_of(ValueId value) const { return ops[values[value].def]; }
  template <class Kind>
  [[nodiscard]] const Kind* def_as(ValueId value) const {
    return std::get_if<Kind>(&def_of(value).kind);
  }
  [[nodiscard]] SymbolId find_symbol(
      std::string_view symbol_name) const;  ///< Invalid id if there is none.
  [[nodiscard]] auto op_ids() const { return first_ids<OpId>(ops.size()); }
  [[nodiscard]] auto value_ids() const { return first_ids<ValueId>(values.size()); }

  friend bool operator==(const Fusion&, const Fusion&) = default;
};

/// "rows" or "4096"; "$7" for a symbol that the fusion does not have.
std::string text_of(const Fusion& fusion, const Extent& extent);
/// "f32[rows, 4096]"; a scalar is "f32".
std::string text_of(const Fusion& fusion, DType type, const Shape& shape);

/// For every value, the ops that read it, ascending and without repeats.
IdMap<ValueId, std::vector<OpId>> users_of(const Fusion& fusion);

/// True if the two graphs are equal but for names of the fusion, its symbols and its values.
bool structurally_equal(const Fusion& a, const Fusion& b);
/// True if they are equal but for names and sizes: extents, strides, where slices stop, and values
/// of constants, which may have been computed from extents. Ranks, types and promises are equal.
bool equal_but_for_sizes(const Fusion& a, const Fusion& b);
/// 64-bit hash of what structurally_equal compares. Stable across processes and versions of the C++
/// library.
uint64_t structural_hash(const Fusion& fusion);

/// Sizes for a fusion's symbols, by name.
using ExtentValues = std::map<std::string, int64_t, std::less<>>;

/// The symbols of one fusion bound to numbers, indexed by symbol id.
struct Binding {
  std::vector<int64_t> symbol_sizes;

  [[nodiscard]] int64_t size_of(const Extent& extent) const {
    return extent.is_constant() ? extent.constant() : symbol_sizes[extent.symbol().index];
  }
  [[nodiscard]] Sizes sizes_of(const Shape& shape) const;
  friend bool operator==(const Binding&, const Binding&) = default;
};

/// Binds every symbol, from `extents` or else from its hint. Errors (InvalidArgument): a name the
/// fusion does not have, a symbol with neither size nor hint, a negative size, a size that breaks a
/// promised divisibility, a reshape or slice that does not fit, a tensor of more than 2^63 bytes.
Result<Binding> bind_extents(const Fusion& fusion, const ExtentValues& extents);

/// The same graph with every symbol replaced by its size and every `extent` op by a constant: what
/// the scheduler works on.
Fusion specialize(const Fusion& fusion, const Binding& binding);
/// The same with sizes as Extent::bound(): a graph that is simplified as for any other sizes.
Fusion specialize_alike(const Fusion& fusion, const Binding& binding);

/// Strides in elements of an input under a binding: those it declares, or dense ones.
Sizes input_strides(const Fusion& fusion, const Binding& binding, ValueId input);
/// Likewise of an output.
Sizes output_strides(const Fusion& fusion, const Binding& binding, ValueId output);

}  // namespace sinter
