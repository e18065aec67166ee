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

/// Everything needed to compile and launch one kernel. The code depends on the graph and the
/// schedule only, not on the number of rows, so problems that differ in their number of rows share
/// a compiled kernel. For a list of tensors it depends on the capacity of the tables, not on the
/// tensors' sizes.
struct KernelSource {
  std::string entry;                    ///< extern "C" name.
  std::string text;                     ///< CUDA C++; includes embedded device headers by name.
  std::vector<BufferArgument> buffers;  ///< Pointer arguments, first in the kernel's argument list.
  std::vector<DType> params;            ///< Scalar arguments (i32 or i64), after the pointers.
  std::vector<int64_t> param_values;    ///< Their values at the planned extents.
  /// The last argument, a struct of addresses and integers. Addresses are 0 until a launch;
  /// integers have their values at the planned extents. Empty if the kernel has no such argument.
  std::vector<std::byte> table{};
  std::vector<TableEntry> table_entries{};
  uint32_t work_param = 0;     ///< Index of the parameter that counts work items.
  int64_t work_per_block = 1;  ///< Clusters = ceil(param_values[work_param] / work_per_block);
                               ///< without work there is no launch.
  int64_t cluster_size = 1;    ///< Blocks of a cluster, as declared in the code.
  int64_t threads = 128;       ///< Per block.
  int64_t min_blocks_per_sm = 1;
  int64_t shared_bytes = 0;  ///< Of one block, as planned.
  /// True: all of shared_bytes is dynamic shared memory; false: all of it is static.
  bool dynamic_shared = false;
  bool starts_early = false;  ///< The kernel waits for its predecessor itself, and may be launched
                              ///< early (programmatic dependent launch).
  int64_t tensor_maps = 0;    ///< Tensor maps, the last arguments. No launch encodes them yet.
  friend bool operator==(const KernelSource&, const KernelSource&) = default;
};

}  // namespace sinter
