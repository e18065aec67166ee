#include "codegen/cuda/cuda_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sinter {
namespace {

// Sorted. Keywords of C++20 and of CUDA, built-in variables and types, and what codegen/device/
// declares. Functions that NVRTC declares itself (exp, min, abs, ...) are listed too: a variable of
// that name would rarely hide one from an inlined header, but would confuse a reader.
constexpr std::array<std::string_view, 223> kReserved = {
    // clang-format off
    "Bits", "KernelTable", "MatrixDescriptor", "Mbarrier", "Packet", "Round", "TensorMap", "Vec",
    "abs", "alignas", "alignof", "and", "and_eq", "asm", "async_commit", "async_copy", "async_wait",
    "async_wait_groups", "atomic_count", "auto", "bf16", "bitand", "bitor", "blockDim", "blockIdx",
    "bool", "break", "bulk_copy", "bulk_copy_evict_first", "bulk_copy_evict_last", "bulk_copy_with",
    "case", "catch", "ceil", "char", "char16_t", "char32_t", "char8_t", "class", "cluster_address",
    "cluster_arrive", "cluster_barrier", "cluster_store", "cluster_wait", "co_await", "co_return",
    "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "cos", "decltype", "decrease_max_registers", "default", "delete", "device_fence",
    "do", "double", "dynamic_cast", "else", "enum", "erf", "evict_first_policy",
    "evict_last_policy", "exp", "exp2", "explicit", "export", "extern", "f16", "f8e4m3", "f8e5m2",
    "false", "float", "floor", "for", "friend", "goto", "gridDim", "group_barrier",
    "has_number",    "hold_operands", "hold_sums",
    "i8", "if", "increase_max_registers", "inline", "int", "launch_dependents", "load_global",
    "load_global_evict_first", "load_global_evict_last", "load_matrix", "load_matrix_transposed",
    "load_packet", "load_packet_evict_first", "load_packet_evict_last", "load_packet_shared",
    "load_packet_written", "load_packet_written_evict_first", "load_packet_written_evict_last",
    "load_shared", "load_written", "load_written_evict_first", "load_written_evict_last", "log",
    "long", "matrix_descriptor", "max", "mbarrier_arrive", "mbarrier_expect_bytes",
    "mbarrier_fence_init", "mbarrier_init", "mbarrier_wait", "mbarrier_wait_cluster", "message_bits",
    "message_place", "message_store", "message_value", "message_wait", "message_word",
    "message_words", "min", "mma",
    "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "pack", "pack_as", "pack_bf16", "pack_f16", "pack_f8e4m3", "pack_f8e5m2", "pack_i8",
    "pack_u8", "pow", "private", "protected", "proxy_fence", "public", "register",
    "reinterpret_cast", "requires", "return", "round", "round_to_f8", "rsqrt", "shared_address",
    "shared_memory", "short", "shuffle_xor", "signed", "sin", "sizeof", "sqrt", "static",
    "static_assert", "static_cast", "store_global", "store_packet", "store_packet_shared",
    "store_shared", "struct", "switch", "tanh", "template", "tensor_copy",
    "tensor_copy_evict_first", "tensor_copy_evict_last", "this", "threadIdx", "thread_local",
    "throw", "to_bf16", "to_bool", "to_f16", "to_f32", "to_f64", "to_f8e4m3", "to_f8e5m2", "to_i32",
    "to_i64", "to_i8", "to_tf32", "to_u8", "true", "trunc", "try", "typedef", "typeid", "typename",
    "u8", "uint2", "uint4", "union", "unpack", "unsigned", "using", "virtual", "void", "volatile",
    "wait_for_previous", "warpSize", "wchar_t", "wgmma", "wgmma_commit", "wgmma_fence",
    "wgmma_wait", "while", "xor", "xor_eq",
    // clang-format on
};

bool is_reserved(std::string_view name) {
  return name.starts_with("sinter_") || std::ranges::find(kReserved, name) != kReserved.end();
}

/// Letters, digits and single underscores, starting with a letter. Names with two underscores in a
/// row, or a leading one, belong to the language.
std::string identifier_from(std::string_view wish) {
  std::string name;
  for (const char c : wish) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter || digit) {
      if (digit && name.empty()) name += 'v';
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty()) return "v";
  return is_reserved(name) ? "v_" + name : name;
}

}  // namespace

std::string CudaNames::take(std::string_view wish) {
  const std::string name = identifier_from(wish);
  std::string unique = name;
  for (int suffix = 2; !taken_.insert(unique).second; ++suffix) {
    unique = fmt::format("{}_{}", name, suffix);
  }
  return unique;
}

}  // namespace sinter
