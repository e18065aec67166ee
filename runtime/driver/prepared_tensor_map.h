#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "codegen/cuda/kernel_source.h"
#include "runtime/driver/device_driver.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {

/// A tensor map with everything decided but the address.
class PreparedTensorMap {
 public:
  /// Takes sizes from the parameters of `source`, to which `map` belongs. Fails with
  /// kInvalidArgument for what the driver refuses at any address.
  static Result<PreparedTensorMap> prepare(const KernelSource& source,
                                           const TensorMapArgument& map);

  /// Encodes the map for a launch with these addresses, one per buffer of the kernel source. Fails
  /// with kInvalidArgument where the tensor is not aligned to kMapUnit. Allocates nothing unless it
  /// fails.
  [[nodiscard]] Result<void> encode(DeviceDriver& driver, std::span<const DevicePointer> buffers,
                                    EncodedTensorMap& encoded) const;

 private:
  static constexpr auto kAxes = static_cast<size_t>(kMostMapAxes);

  std::string doing_;  ///< For errors; names kernel and map.
  uint32_t buffer_ = 0;
  uint64_t offset_ = 0;
  TensorMapType type_ = TensorMapType::kF32;
  TensorMapSwizzle swizzle_ = TensorMapSwizzle::kNone;
  uint32_t rank_ = 0;
  std::array<uint64_t, kAxes> sizes_{};
  std::array<uint64_t, kAxes - 1> strides_{};  ///< Bytes; axis 0 is dense.
  std::array<uint32_t, kAxes> boxes_{};
};

}  // namespace sinter
