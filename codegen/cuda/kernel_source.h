#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "scheduler/families/library_matmul.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

/// A pointer argument of an emitted kernel.
struct BufferArgument {
  ValueId value;  ///< The graph value whose tensor is passed; invalid: counters that start at 0.
  DType type = DType::kF32;
  BufferUse use = BufferUse::kRead;
  int64_t alignment = 16;  ///< Bytes the address of the first element must be a multiple of.
  friend bool operator==(const BufferArgument&, const BufferArgument&) = default;
};

/// A tensor whose address lies in a kernel's argument table.
struct TableEntry {
  BufferArgument tensor;
  int64_t offset = 0;  ///< Of the address, in bytes from the start of the table.
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

/// One axis of a tensor map.
struct TensorMapAxis {
  int64_t size = 0;                    ///< Elements; 0 with `launched`.
  std::optional<uint32_t> launched{};  ///< The size is the value of this parameter instead.
  int64_t stride_bytes = 0;            ///< Between neighbours along the axis.
  int64_t box = 1;                     ///< Elements that a copy has along the axis.
  friend bool operator==(const TensorMapAxis&, const TensorMapAxis&) = default;
};

/// A tensor map argument: all that a launch encodes (CUDA driver API, "cuTensorMapEncodeTiled") but
/// the address of the tensor.
struct TensorMapArgument {
  std::string name;     ///< For errors.
  uint32_t buffer = 0;  ///< Index into KernelSource::buffers.
  DType type = DType::kF32;
  int64_t offset_bytes = 0;           ///< From the start of the buffer.
  std::vector<TensorMapAxis> axes{};  ///< Innermost first.
  int64_t swizzle = 0;                ///< Bytes of a line; 0: none.
  bool to_tf32 = false;               ///< Of f32: copies round to TF32.
  friend bool operator==(const TensorMapArgument&, const TensorMapArgument&) = default;
};

/// Everything needed to compile and launch one kernel, or to call a library in its place. The code
/// depends on the graph and the schedule only, not on the number of rows, so problems that differ
/// in their number of rows share a compiled kernel. For a list of tensors it depends on the
/// capacity of the tables, not on the tensors' sizes.
struct KernelSource {
  std::string entry;                    ///< extern "C" name.
  std::string text;                     ///< CUDA C++; includes embedded device headers by name.
  std::vector<BufferArgument> buffers;  ///< Pointer arguments, first in the kernel's argument list.
  std::vector<DType> params;            ///< Scalar arguments (i32 or i64), after the pointers.
  std::vector<int64_t> param_values;    ///< Their values at the planned extents.
  /// The argument after these, a struct of addresses and integers. Addresses are 0 until a launch;
  /// integers have their values at the planned extents. Empty if the kernel has no such argument.
  std::vector<std::byte> table{};
  std::vector<TableEntry> table_entries{};
  std::vector<TensorMapArgument> tensor_maps{};  ///< The last arguments, kTensorMapBytes each.
  uint32_t work_param = 0;                       ///< Index of the parameter that counts work items.
  int64_t work_per_block = 1;  ///< Clusters = ceil(param_values[work_param] / work_per_block);
                               ///< without work there is no launch.
  int64_t cluster_size = 1;    ///< Blocks of a cluster, as declared in the code.
  /// Blocks that wait for each other's messages: work is that of teams, and all blocks of a launch
  /// must run at the same time. 1: there are none.
  int64_t team_size = 1;
  int64_t threads = 128;  ///< Per block.
  int64_t min_blocks_per_sm = 1;
  int64_t shared_bytes = 0;  ///< Of one block, as planned.
  /// True: all of shared_bytes is dynamic shared memory; false: all of it is static.
  bool dynamic_shared = false;
  bool starts_early = false;  ///< The kernel waits for its predecessor itself, and may be launched
                              ///< early (programmatic dependent launch).
  /// Set for a call of a library, which has the kernel: `text` then only names the call, and
  /// `buffers` are a, b, c where there is one, bias likewise, d, and the workspace.
  std::optional<LibraryMatmul> call{};
  friend bool operator==(const KernelSource&, const KernelSource&) = default;
};

}  // namespace sinter
