#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// The position of a thread in a row while its elements are evaluated.
struct TilePosition {
  kir::ExprId group;         ///< Group of the register tiles that hold this batch's loads.
  kir::ExprId batch;         ///< Batch of the row: group of the resident tiles.
  kir::ExprId first_column;  ///< Column of lane 0, in the column index type.
  /// Two terms of first_column, if valid: one that is the same in all vectors of the thread, and
  /// the rest. Addresses add the rest last, so that vectors of a row share all else. Otherwise the
  /// compiler keeps an offset for each of them, and loads one after the other where that takes too
  /// many registers.
  kir::ExprId column_of_thread{};
  kir::ExprId column_of_vector{};
  /// Column of lane 0 within the block's part of the row, if the block has only a part. Predicates
  /// compare this column: it follows from the thread's number alone, so no register has to hold the
  /// start of the part.
  kir::ExprId column_in_part{};
  Predication predication = Predication::kNone;
  /// Index of the thread's peeled element (edge) at this position, a vector of one lane; negative
  /// if it is none.
  int64_t edge = -1;
  /// True if that element is in the row.
  kir::ExprId edge_is_inside{};

  [[nodiscard]] bool is_edge() const { return edge >= 0; }
};

/// Lowers graph values to kernel IR, element by element; shared by the row and pointwise lowerings.
/// It owns the maps from graph values to registers and buffers; the callers own loops, stages and
/// barriers. tile_values.cpp computes values, tile_accesses.cpp loads and stores vectors, and
/// tile_lowering.cpp holds the rest.
class TileLowering {
 public:
  struct BoundTile {
    kir::VarId var;
    bool resident = false;
  };
  /// The row that was entered last, its known values, and the bound registers.
  struct RowView {
    kir::ExprId row{};  ///< Its number, i64.
    std::vector<kir::ExprId> coordinates{};
    /// By (tensor, value): element offset of the row, i64.
    std::map<std::pair<ValueId, ValueId>, kir::ExprId> offsets{};
    std::map<ValueId, kir::ExprId> values{};  ///< Values that do not vary along the row.
    std::map<ValueId, BoundTile> tiles{};
  };

  TileLowering(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder);

  // ---- Set-up
  /// Declares a buffer for every tensor read or written; reads first, in the order of the fusion's
  /// inputs. If `finishes`, also for the outputs that depend on outer reductions.
  void declare_buffers(bool finishes);
  /// Declares the buffers of a list of tensors, where the segment describes one member: a table
  /// with `capacity` places for every slot, and buffers of the scalars that all members share.
  void declare_buffers_of(const TensorList& list, int64_t capacity);
  /// Selects the tensor of the tables that accesses use, an i32.
  void set_tensor(kir::ExprId tensor) { tensor_ = tensor; }
  [[nodiscard]] kir::ExprId tensor() const { return tensor_; }
  /// Uses the buffers that another TileLowering of the same kernel has declared.
  void share_buffers(const TileLowering& other) { buffers_ = other.buffers_; }
  /// Computes the coordinates of a row from its number (i64), and forgets the row values of the
  /// previous row. An invalid expression: no row.
  void enter_row(kir::ExprId row);
  /// Enters a row by its coordinates (i64), one for each dimension of the rows.
  void enter_row_at(std::vector<kir::ExprId> coordinates);
  /// Its number, i64.
  [[nodiscard]] kir::ExprId row() const { return view_.row; }
  /// For callers that process several rows per iteration: they save the view of a row before they
  /// switch to another row, and restore it when they return. Variables named by a restored view
  /// must be in scope.
  [[nodiscard]] const RowView& view() const { return view_; }
  void set_view(RowView view) { view_ = std::move(view); }
  /// Replaces the specialised number of columns by a value of the column index type. Predicates
  /// compare the column of an element, or the first column of a vector, with this value.
  void set_column_count(kir::ExprId count) { column_count_ = count; }
  /// Type of column indices: i32 unless the row is too long for it.
  [[nodiscard]] DType column_type() const { return column_type_; }

  // ---- Values that do not vary along the row
  /// Evaluates a row value once; later uses refer to it.
  kir::ExprId row_value(ValueId value);
  /// Defines the row value of a reduction's result.
  void define_row_value(ValueId value, kir::ExprId expr) { view_.values[value] = expr; }
  /// Stores outputs[index], which does not vary along the columns, from the calling thread.
  void store_row_output(size_t index);

  // ---- Values along the row
  /// Declares registers for `groups` vectors of a value; `lanes` is 1 if the value is uniform
  /// inside a vector. `suffix` is appended to their name.
  kir::VarId declare_tile(ValueId value, int64_t groups, std::string_view suffix = {});
  /// Sets the tensors that will be read again after the loads that follow (ReadPriority::kLastUse).
  void expect_again(std::set<ValueId> tensors) { read_again_ = std::move(tensors); }
  /// Makes later evaluations read the value from this tile at the position's group (chunk tiles) or
  /// batch (resident tiles).
  void bind_tile(ValueId value, kir::VarId tile, bool resident);
  void unbind_tile(ValueId value) { view_.tiles.erase(value); }
  [[nodiscard]] bool has_tile(ValueId value) const { return view_.tiles.contains(value); }
  [[nodiscard]] kir::VarId tile_of(ValueId value) const { return view_.tiles.at(value).var; }
  /// Loads one vector of a value read from memory into its bound tile.
  void load(ValueId value, const TilePosition& position);
  /// Index in its tensor at which a value's current row starts.
  kir::ExprId row_start(ValueId value);
  /// The cache hint of reads of a value.
  kir::CacheHint hint_of(ValueId value) const;
  /// Starts an asynchronous copy of one whole vector to element `index` of a shared buffer.
  void copy_async(ValueId value, const TilePosition& position, kir::BufferId shared,
                  kir::ExprId index);
  /// Loads one whole vector of a value from element `index` of a shared buffer into its bound tile.
  void load_shared(ValueId value, const TilePosition& position, kir::BufferId shared,
                   kir::ExprId index);
  /// True if the column of `lane` is inside the row; vector_is_inside: if all columns of the vector
  /// are.
  kir::ExprId lane_is_inside(const TilePosition& position, kir::ExprId lane);
  kir::ExprId vector_is_inside(const TilePosition& position);

  /// Starts the evaluation of one element; values are computed once per element.
  void begin_element(const TilePosition& position, kir::ExprId lane);
  kir::ExprId element_value(ValueId value);
  /// Defines the current element of a value, until the next element begins.
  void define_element_value(ValueId value, kir::ExprId expr) { element_values_[value] = expr; }
  /// Defines the elements of a value by their position, for all elements that begin from now on.
  using ElementSource = std::function<kir::ExprId(const TilePosition& position, kir::ExprId lane)>;
  void set_source(ValueId value, ElementSource source) { sources_[value] = std::move(source); }

  /// Declares registers that collect one vector of an output before it is stored. If the output is
  /// a cast, they have the compute type, and the store rounds.
  kir::VarId declare_output_tile(size_t index);
  /// The value of the current element for that tile.
  kir::ExprId output_element(size_t index);
  /// Stores the collected vector.
  void store(size_t index, kir::VarId tile, const TilePosition& position);
  /// Takes collected vectors of an output instead of its store.
  using Sink = std::function<void(kir::VarId tile, const TilePosition& position)>;
  void set_sink(size_t index, Sink sink) { sinks_[index] = std::move(sink); }
  /// Stores a vector that was collected inside its predicated region, or passes it to the output's
  /// sink. Whole warps without predication store by lane pairs where possible (stores_in_pairs).
  void store_collected(size_t index, kir::VarId tile, TilePosition position);

  /// Evaluates outputs at a vector, a place of a chunk of width() elements, and stores them. A
  /// vector that is predicated as a whole must be inside the row. `also` is called for each
  /// element.
  void evaluate_vector(
      const std::vector<size_t>& outputs, const TilePosition& position,
      const std::function<void(kir::ExprId lane)>& also = [](kir::ExprId) {});

  std::string name_of_value(ValueId value) const;
  [[nodiscard]] kir::BufferId buffer_of(ValueId tensor) const { return buffers_.at(tensor); }
  [[nodiscard]] int64_t width() const { return schedule_.vector_width; }
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  /// Elements of the row at a position.
  [[nodiscard]] int64_t lanes_at(const TilePosition& position) const {
    return position.is_edge() ? 1 : width();
  }
  /// Elements that a tile holds at a position: one if the value is uniform inside a vector.
  [[nodiscard]] int64_t lanes_at(const TilePosition& position, kir::VarId tile) const {
    return std::min(lanes_at(position), builder_.kernel().vars[tile].lanes);
  }

 private:
  /// Stores the collected vector together with the paired lane; whole warps must call this.
  void store_in_pairs(size_t index, kir::VarId tile, const TilePosition& position);
  /// The tensor index of an access to this buffer; invalid unless the buffer is a table.
  [[nodiscard]] kir::ExprId tensor_of(kir::BufferId buffer) const;
  /// Assigns the buffer of an input to the output that is written in place.
  void write_in_place(const InPlace& pair);
  void leave_row(bool ends);
  std::vector<kir::ExprId> column_coordinates(kir::ExprId column);
  kir::ExprId row_offset(const TensorAccess& access);
  kir::ExprId address(const TensorAccess& access, kir::ExprId column);
  /// The same of the first element of a vector.
  kir::ExprId vector_address(const TensorAccess& access, const TilePosition& position);
  kir::ExprId weighted_coordinate(const std::vector<int64_t>& weights, kir::ExprId column);
  kir::ExprId compute(ValueId value, const std::function<kir::ExprId(ValueId)>& operand,
                      kir::ExprId column);
  kir::ExprId constant(ValueId value);
  /// Value at an arbitrary column of the current row, read directly from memory; for gathers.
  kir::ExprId gathered(ValueId value, kir::ExprId column, kir::ExprId inside,
                       std::map<ValueId, kir::ExprId>& memo);
  [[nodiscard]] std::vector<ValueId> row_operands(ValueId value) const;
  bool has_row_value(ValueId value);
  void compute_row_value(ValueId value);
  bool has_element(ValueId value);
  void compute_element(ValueId value);
  kir::ExprId take(ValueId value);
  /// The element at an index along an axis of a tensor; 0 if the index is out of range.
  kir::ExprId take_at(ValueId value, kir::ExprId index, kir::ExprId column);
  kir::ExprId index_is_inside(kir::ExprId position, int64_t size);
  kir::ExprId load_where(kir::ExprId inside, const TensorAccess& access, kir::ExprId index);
  kir::CacheHint hint_of(const TensorAccess& access) const;
  std::optional<ValueId> stored_operand(size_t index) const;
  /// True for values that are computed for every element: along a row, or per column after all
  /// rows.
  [[nodiscard]] bool is_element(ValueId value) const {
    return facts_.space.dependence[value].columns;
  }
  void describe(ValueId value);

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  std::set<ValueId> read_again_;
  kir::KernelBuilder& builder_;
  DType column_type_ = DType::kI32;
  kir::ExprId column_count_;

  std::map<ValueId, kir::BufferId> buffers_;
  kir::ExprId tensor_;
  RowView view_;

  TilePosition position_;
  kir::ExprId lane_;
  std::map<ValueId, kir::ExprId> element_values_;
  std::map<ValueId, ElementSource> sources_;
  std::map<size_t, Sink> sinks_;
};

}  // namespace sinter
