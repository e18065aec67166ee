#pragma once

#include <cstdint>

namespace sinter {

// Sizes that every CUDA architecture from sm_80 on shares.

/// Threads of a warp.
inline constexpr int64_t kWarp = 32;

/// Threads of a warp group, whose four warps start at a multiple of four (PTX ISA, setmaxnreg and
/// wgmma): sm_90a.
inline constexpr int64_t kWarpGroup = 128;

/// Bytes of a register.
inline constexpr int64_t kRegisterBytes = 4;

/// Largest global load or store of a thread, in bytes, up to compute capability 9.0 (PTX ISA, ld
/// and st with .v4.b32).
inline constexpr int64_t kMostAccessBytes = 16;

/// Largest and smallest copy of a thread from global to shared memory that bypasses registers, in
/// bytes (PTX ISA, cp.async).
inline constexpr int64_t kMostAsyncBytes = 16;

inline constexpr int64_t kLeastAsyncBytes = 4;

/// Bytes of one mbarrier in shared memory (PTX ISA).
inline constexpr int64_t kBytesPerMbarrier = 8;

/// A place for a message between blocks: a value of 4 bytes and its number, which one access of
/// 8 bytes reads or writes together.
inline constexpr int64_t kMessagePlaceBytes = 8;

/// Most bytes of all arguments of a kernel: 32,764 for compute capability 7.0 and later (CUDA C++
/// Programming Guide, "Function Parameters"), from CUDA 12.1 on; 4,096 before.
inline constexpr int64_t kMostArgumentBytes = 32'764;

/// Size of a CUtensorMap, an array of 16 words of 8 bytes at a multiple of 64.
inline constexpr int64_t kTensorMapBytes = 128;

// Limits of tensor maps (CUDA driver API, "cuTensorMapEncodeTiled").

/// Alignment of the address, and factor of the strides and of the innermost box, in bytes.
inline constexpr int64_t kMapUnit = 16;

inline constexpr int64_t kMostMapAxes = 5;

/// Most elements of a tensor along an axis.
inline constexpr int64_t kMostMapSize = int64_t{1} << 32;

inline constexpr int64_t kMostMapStrideBytes = (int64_t{1} << 40) - 1;

/// Most elements of a box along an axis.
inline constexpr int64_t kMostMapBox = 256;

}  // namespace sinter
