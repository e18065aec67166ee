#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

/// A pointer argument of an emitted kernel.
struct BufferArgument {
  ValueId value;  ///< The graph value whose tensor is passed; none: counters that start at 0.
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

/// Everything needed to compile and launch one kernel. The text depends on the graph and the
/// schedule only, not on the number of rows, so that problems that differ in rows share a compiled
/// kernel. Of a list of tensors it depends on the capacity of its tables, not on their sizes.
struct KernelSource {
  std::string entry;                    ///< extern "C" name.
  std::string text;                     ///< CUDA C++; includes embedded device headers by name.
  std::vector<BufferArgument> buffers;  ///< Pointer arguments, first in the kernel's argument list.
  std::vector<DType> params;            ///< Scalar arguments (i32 or i64), after the pointers.
  std::vector<int64_t> param_values;    ///< Their values at the planned extents.
  /// The last argument, a struct: addresses, which are 0 until a launch, and integers as they are
  /// at the planned extents. Empty where the kernel has none.
  std::vector<std::byte> table{};
  std::vector<TableEntry> table_entries{};
  uint32_t work_param = 0;  ///< Index of the parameter that counts work items.
  int64_t work_per_block =
      1;  ///< Clusters = ceil(param_values[work_param] / work_per_block); none for no work.
  int64_t cluster_size = 1;  ///< Blocks of a cluster, which the text asks for.
  int64_t threads = 128;     ///< Per block.
  int64_t min_blocks_per_sm = 1;
  int64_t shared_bytes = 0;  ///< Of one block, as planned.
  bool dynamic_shared =
      false;  ///< True: all of shared_bytes is given at launch; false: all of it is static.
  bool starts_early =
      false;  ///< It waits for the kernel before it by itself, and may be launched early.
  friend bool operator==(const KernelSource&, const KernelSource&) = default;
};

}  // namespace sinter
