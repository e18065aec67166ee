#pragma once

#include <string_view>

namespace sinter {

// Names of the families that are built in, as `.sched` spells them: Schedule::family.

inline constexpr std::string_view kPointwise = "pointwise";
inline constexpr std::string_view kTranspose = "transpose";
inline constexpr std::string_view kMultiTensor = "multi_tensor";
inline constexpr std::string_view kColumn = "column";
inline constexpr std::string_view kLooped = "looped";
inline constexpr std::string_view kMultiWave = "multi_wave";
inline constexpr std::string_view kWarpSpecialised = "warp_specialised";
inline constexpr std::string_view kMatmul = "matmul";
inline constexpr std::string_view kCublasLt = "cublaslt";

}  // namespace sinter
