#include "runtime/tuning/tuning_key.h"

#include "fusion_ir/pipeline.h"

namespace sinter {

std::string device_identity(const DeviceLimits& limits) {
  constexpr std::string_view kMaker = "NVIDIA ";  // Of what a driver reports, not of presets.
  std::string_view name = limits.name;
  if (name.starts_with(kMaker)) name.remove_prefix(kMaker.size());
  return fmt::format("{} sm_{}{} {} SMs", name, limits.compute_major, limits.compute_minor,
                     limits.sm_count);
}

std::string toolkit_identity(const NvrtcCompiler& compiler) {
  return fmt::format("NVRTC {}.{} {}", compiler.version_major(), compiler.version_minor(),
                     compiler.identity());
}

Result<TuningKey> tuning_key(const Fusion& fusion, const ExtentValues& extents,
                             const DeviceLimits& limits, std::string toolkit, bool simplify) {
  auto binding = bind_extents(fusion, extents);
  if (!binding) return fail(std::move(binding.error()));
  Fusion bound = specialize(fusion, *binding);
  if (simplify) bound = sinter::simplify(bound);
  TuningKey out{.graph = fmt::format("{:016x}", structural_hash(bound)),
                .device = device_identity(limits),
                .toolkit = std::move(toolkit),
                .grammar = kScheduleGrammar};
  std::map<std::string, int64_t> sizes;  // By name, so that the order of declaration is no matter.
  for (uint32_t i = 0; i < binding->symbol_sizes.size(); ++i)
    sizes.emplace(fusion.symbols[SymbolId{i}].name, binding->symbol_sizes[i]);
  for (const auto& [name, size] : sizes)
    out.extents += fmt::format("{}{}={}", out.extents.empty() ? "" : " ", name, size);
  return out;
}

}  // namespace sinter
