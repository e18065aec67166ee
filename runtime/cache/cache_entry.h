#pragma once

#include <string>
#include <string_view>

#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_key.h"

namespace sinter {

/// A compiled kernel as the bytes of one cache file, which carry their key and a checksum:
///   magic (8) | key (16) | payload bytes (8) | payload | XXH64 of all before (8)
/// with little-endian integers. The layout's version is part of the key.
std::string encode_entry(const KernelKey& key, const CompiledKernel& kernel);

/// The kernel again, or kInvalidArgument saying how the bytes are damaged: no sequence of bytes
/// that encode_entry(key, ...) did not make is taken for an entry.
Result<CompiledKernel> decode_entry(const KernelKey& key, std::string_view bytes);

}  // namespace sinter
