#include "runtime/driver/prepared_tensor_map.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

namespace sinter {
namespace {

TensorMapType tensor_map_type(DType type) {
  switch (type) {
    case DType::kF64:
      return TensorMapType::kF64;
    case DType::kF32:
      return TensorMapType::kF32;
    case DType::kF16:
      return TensorMapType::kF16;
    case DType::kBF16:
      return TensorMapType::kBF16;
    case DType::kI64:
      return TensorMapType::kI64;
    case DType::kI32:
      return TensorMapType::kI32;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return TensorMapType::kU8;
  }
  unreachable();
}

std::optional<TensorMapSwizzle> tensor_map_swizzle(int64_t bytes) {
  switch (bytes) {
    case 0:
      return TensorMapSwizzle::kNone;
    case 32:
      return TensorMapSwizzle::k32;
    case 64:
      return TensorMapSwizzle::k64;
    case 128:
      return TensorMapSwizzle::k128;
    default:
      return std::nullopt;
  }
}

/// Finds what the driver refuses at any address. The verifier of kernels finds the same but of
/// sizes that parameters give, which only a launch has.
class MapCheck {
 public:
  MapCheck(const KernelSource& source, const TensorMapArgument& map) : source_(source), map_(map) {}

  [[nodiscard]] int64_t size_of(const TensorMapAxis& axis) const {
    if (!axis.launched) return axis.size;
    SINTER_CHECK_OP(*axis.launched, <, source_.param_values.size());
    return source_.param_values[*axis.launched];
  }

  [[nodiscard]] Result<void> run() const {
    const auto rank = std::ssize(map_.axes);
    if (rank < 1 || rank > kMostMapAxes) {
      return refuse(rank, kMostMapAxes, kOtherMap, "tensor map {} has {} axes, not 1 to {}",
                    map_.name, rank, kMostMapAxes);
    }
    if (map_.offset_bytes < 0 || map_.offset_bytes % kMapUnit != 0) {
      return refuse(map_.offset_bytes, kMapUnit, kOtherMap,
                    "tensor map {} begins at byte {}, which is no multiple of {}", map_.name,
                    map_.offset_bytes, kMapUnit);
    }
    for (size_t i = 0; i < map_.axes.size(); ++i) {
      if (auto checked = check_axis(i); !checked) return checked;
    }
    return check_lines();
  }

 private:
  static constexpr std::string_view kOtherMap =
      "declare another tensor map in the kernel, or use a schedule without tensor copies";

  [[nodiscard]] Result<void> check_axis(size_t number) const {
    const TensorMapAxis& axis = map_.axes[number];
    if (const int64_t size = size_of(axis); size < 1 || size > kMostMapSize) {
      return refuse(size, size < 1 ? 1 : kMostMapSize,
                    "use extents of 1 to 2^32, or a schedule without tensor copies",
                    "axis {} of tensor map {} has {} elements, not 1 to {}", number, map_.name,
                    size, kMostMapSize);
    }
    if (axis.box < 1 || axis.box > kMostMapBox) {
      return refuse(axis.box, axis.box < 1 ? 1 : kMostMapBox, kOtherMap,
                    "a box of tensor map {} has {} elements along axis {}, not 1 to {}", map_.name,
                    axis.box, number, kMostMapBox);
    }
    return number == 0 ? check_first_stride(axis.stride_bytes)
                       : check_stride(number, axis.stride_bytes);
  }

  [[nodiscard]] Result<void> check_first_stride(int64_t bytes) const {
    const int64_t element_bytes = bytes_of(map_.type);
    if (bytes == element_bytes) return {};
    return refuse(bytes, element_bytes, kOtherMap,
                  "axis 0 of tensor map {} has a stride of {} bytes, not the {} of an element",
                  map_.name, bytes, element_bytes);
  }

  [[nodiscard]] Result<void> check_stride(size_t number, int64_t bytes) const {
    const bool is_too_long = bytes > kMostMapStrideBytes;
    if (bytes >= 1 && !is_too_long && bytes % kMapUnit == 0) return {};
    return refuse(
        bytes, is_too_long ? kMostMapStrideBytes : kMapUnit,
        "use tensors whose strides are multiples of 16 bytes below 2^40, or a schedule "
        "without tensor copies",
        "axis {} of tensor map {} has a stride of {} bytes, not a multiple of {} up to {}", number,
        map_.name, bytes, kMapUnit, kMostMapStrideBytes);
  }

  /// Of the box along axis 0, which are the unit of a swizzle.
  [[nodiscard]] Result<void> check_lines() const {
    const int64_t bytes = map_.axes[0].box * bytes_of(map_.type);
    if (bytes % kMapUnit != 0) {
      return refuse(bytes, kMapUnit, kOtherMap,
                    "a box of tensor map {} has {} bytes along axis 0, not a multiple of {}",
                    map_.name, bytes, kMapUnit);
    }
    if (!tensor_map_swizzle(map_.swizzle)) {
      return refuse(map_.swizzle, 128, kOtherMap,
                    "tensor map {} is swizzled by {} bytes, not 0, 32, 64 or 128", map_.name,
                    map_.swizzle);
    }
    if (map_.swizzle != 0 && bytes > map_.swizzle) {
      return refuse(bytes, map_.swizzle, kOtherMap,
                    "a box of tensor map {} has {} bytes along axis 0, its swizzle {}", map_.name,
                    bytes, map_.swizzle);
    }
    return {};
  }

  template <class... Args>
  [[nodiscard]] Result<void> refuse(int64_t value, int64_t limit, std::string_view remedy,
                                    fmt::format_string<Args...> format, Args&&... args) const {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("kernel {}: {}", source_.entry,
                                        fmt::format(format, std::forward<Args>(args)...)),
                 .remedy = std::string(remedy),
                 .measured = value,
                 .limit = limit});
  }

  const KernelSource& source_;
  const TensorMapArgument& map_;
};

}  // namespace

Result<PreparedTensorMap> PreparedTensorMap::prepare(const KernelSource& source,
                                                     const TensorMapArgument& map) {
  SINTER_CHECK_OP(map.buffer, <, source.buffers.size());
  const MapCheck check(source, map);
  if (auto checked = check.run(); !checked) return fail(std::move(checked.error()));
  PreparedTensorMap out;
  out.doing_ = fmt::format("encoding tensor map {} of kernel {}", map.name, source.entry);
  out.buffer_ = map.buffer;
  out.offset_ = static_cast<uint64_t>(map.offset_bytes);
  out.type_ = map.to_tf32 ? TensorMapType::kTf32 : tensor_map_type(map.type);
  out.swizzle_ = tensor_map_swizzle(map.swizzle).value();
  out.rank_ = static_cast<uint32_t>(map.axes.size());
  for (size_t i = 0; i < map.axes.size(); ++i) {
    out.sizes_[i] = static_cast<uint64_t>(check.size_of(map.axes[i]));
    out.boxes_[i] = static_cast<uint32_t>(map.axes[i].box);
    if (i > 0) out.strides_[i - 1] = static_cast<uint64_t>(map.axes[i].stride_bytes);
  }
  return out;
}

Result<void> PreparedTensorMap::encode(DeviceDriver& driver, std::span<const DevicePointer> buffers,
                                       EncodedTensorMap& encoded) const {
  const DevicePointer address = buffers[buffer_] + offset_;
  if (const auto rest = static_cast<int64_t>(address % kMapUnit); rest != 0) [[unlikely]] {
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("{}: the address {:#x} of buffer {} is not a multiple of {}",
                                doing_, buffers[buffer_], buffer_, kMapUnit),
         .remedy = "align the tensor to 16 bytes, or use a schedule without tensor copies",
         .measured = rest,
         .limit = kMapUnit});
  }
  static constexpr std::array<uint32_t, kAxes> kEveryElement = {1, 1, 1, 1, 1};
  return check(
      driver, DriverCall::kTensorMapEncode,
      driver.tensor_map_encode(&encoded, type_, rank_, address, sizes_.data(), strides_.data(),
                               boxes_.data(), kEveryElement.data(), TensorMapInterleave::kNone,
                               swizzle_, TensorMapPromotion::k128, TensorMapFill::kZeros),
      doing_);
}

}  // namespace sinter
