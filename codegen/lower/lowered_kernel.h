#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// A kernel with the values its parameters take at the planned extents.
struct LoweredKernel {
  kir::Kernel kernel;
  std::vector<int64_t> param_values;
  /// The integers of every buffer in argument space, in the order of these buffers.
  std::vector<std::vector<int64_t>> argument_values{};
};

/// The bytes of a buffer in argument space: integers of its type.
std::vector<std::byte> argument_bytes(const kir::Buffer& buffer, std::span<const int64_t> values);

}  // namespace sinter
