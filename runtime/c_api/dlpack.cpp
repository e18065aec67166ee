#include "runtime/c_api/dlpack.h"

#include <array>
#include <bit>
#include <cstddef>

#include "runtime/c_api/errors.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter::c_api {
namespace {

// The layout of DLPack 1.x on 64-bit machines ("DLPack C API", dlpack.h).
static_assert(sizeof(sinter_dl_tensor) == 48 && offsetof(sinter_dl_tensor, ndim) == 16 &&
              offsetof(sinter_dl_tensor, dtype) == 20 && offsetof(sinter_dl_tensor, shape) == 24 &&
              offsetof(sinter_dl_tensor, byte_offset) == 40);
static_assert(sizeof(sinter_dl_managed_tensor) == 80 &&
              offsetof(sinter_dl_managed_tensor, flags) == 24 &&
              offsetof(sinter_dl_managed_tensor, dl_tensor) == 32);

constexpr int32_t kCuda = 2;
constexpr int32_t kCudaManaged = 13;  // Its device_id is 0 on every device.
constexpr uint32_t kMajorVersion = 1;
constexpr uint64_t kReadOnly = 1;

enum class Code : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12,
};

Code code_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
      return Code::kFloat;
    case DType::kBF16:
      return Code::kBfloat;
    case DType::kF8E4M3:
      return Code::kFloat8E4M3FN;
    case DType::kF8E5M2:
      return Code::kFloat8E5M2;
    case DType::kI64:
    case DType::kI32:
    case DType::kI8:
      return Code::kInt;
    case DType::kU8:
      return Code::kUInt;
    case DType::kBool:
      return Code::kBool;
  }
  unreachable();
}

std::string text_of(sinter_dtype type) {
  const auto known = type_of(type);
  return fmt::format("{} (code {}, {} bits, {} lanes)", known ? sinter::name_of(*known) : "unknown",
                     type.code, type.bits, type.lanes);
}

/// Collects what a refusal says.
class Refusal {
 public:
  Refusal(const Fusion& fusion, TensorRole role) : fusion_(fusion), role_(role) {}

  template <class... Args>
  [[noreturn]] void operator()(std::string_view remedy, std::optional<int64_t> measured,
                               std::optional<int64_t> limit, fmt::format_string<Args...> format,
                               Args&&... args) const {
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("{} {}", name_of(fusion_, role_),
                                        fmt::format(format, std::forward<Args>(args)...)),
                 .remedy = std::string(remedy),
                 .values = {value_of(fusion_, role_)},
                 .measured = measured,
                 .limit = limit});
  }

 private:
  const Fusion& fusion_;
  TensorRole role_;
};

/// An input that is written is written as the output that takes over its memory.
bool is_written(const Fusion& fusion, TensorRole role) {
  if (role.is_output) return true;
  const ValueId input = value_of(fusion, role);
  return std::ranges::any_of(fusion.layouts,
                             [&](const OutputLayout& layout) { return layout.alias == input; });
}

const sinter_dl_tensor& plain_tensor(const sinter_tensor& tensor, const Fusion& fusion,
                                     TensorRole role, const Refusal& refuse) {
  if ((tensor.plain == nullptr) == (tensor.versioned == nullptr)) {
    refuse("set exactly one of `plain` and `versioned`", std::nullopt, std::nullopt, "has {}",
           tensor.plain == nullptr ? "no tensor" : "two tensors");
  }
  if (tensor.versioned == nullptr) return *tensor.plain;
  const sinter_dl_managed_tensor& managed = *tensor.versioned;
  if (managed.version.major != kMajorVersion) {
    refuse("export it with DLPack 1.x", managed.version.major, kMajorVersion,
           "has DLPack version {}.{}, understood is {}.x", managed.version.major,
           managed.version.minor, kMajorVersion);
  }
  if ((managed.flags & kReadOnly) != 0 && is_written(fusion, role)) {
    refuse("pass a tensor that may be written", std::nullopt, std::nullopt,
           "is flagged as read-only, and is written");
  }
  return managed.dl_tensor;
}

void check_device(const sinter_dl_tensor& tensor, DeviceOrdinal device, const Refusal& refuse) {
  const auto type = static_cast<int32_t>(tensor.device.device_type);
  if (type == kCudaManaged) return;
  if (type != kCuda) {
    refuse("pass CUDA memory", type, kCuda, "has DLPack device type {}, expected is {} (CUDA)",
           type, kCuda);
  }
  if (tensor.device.device_id != device) {
    refuse("pass memory of that device, or prepare for the other one", tensor.device.device_id,
           device, "lies on device {}, prepared was device {}", tensor.device.device_id, device);
  }
}

void check_is_on_host(const sinter_dl_tensor& tensor, const Refusal& refuse) {
  const auto type = static_cast<int32_t>(tensor.device.device_type);
  if (type == kDlpackCpu) return;
  refuse("pass host memory", type, kDlpackCpu, "has DLPack device type {}, expected is {} (CPU)",
         type, kDlpackCpu);
}

void check_rank(const sinter_dl_tensor& tensor, size_t rank, const Refusal& refuse) {
  if (tensor.ndim < 0 || static_cast<size_t>(tensor.ndim) != rank) {
    refuse("pass a tensor of the planned shape", tensor.ndim, static_cast<int64_t>(rank),
           "has {} axes, planned were {}", tensor.ndim, rank);
  }
  if (rank > 0 && tensor.shape == nullptr)
    refuse("set `shape`", std::nullopt, std::nullopt, "has no shape");
}

void check_axes(const sinter_dl_tensor& tensor, const Tensor& planned, const Refusal& refuse) {
  const size_t rank = planned.sizes.size();
  check_rank(tensor, rank, refuse);
  const bool is_empty = std::ranges::find(planned.sizes, 0) != planned.sizes.end();
  int64_t dense = 1;
  for (size_t axis = rank; axis-- > 0;) {
    if (tensor.shape[axis] != planned.sizes[axis]) {
      refuse("plan again with these extents", tensor.shape[axis], planned.sizes[axis],
             "has size {} along axis {}, planned was {}", tensor.shape[axis], axis,
             planned.sizes[axis]);
    }
    const int64_t stride = tensor.strides == nullptr ? dense : tensor.strides[axis];
    // The stride of an axis of one element is never walked, nor any of a tensor without elements.
    if (!is_empty && planned.sizes[axis] > 1 && stride != planned.strides[axis]) {
      refuse("declare the strides in the graph, or pass a contiguous tensor", stride,
             planned.strides[axis], "has stride {} along axis {}, planned was {}", stride, axis,
             planned.strides[axis]);
    }
    dense *= planned.sizes[axis];
  }
}

}  // namespace

sinter_dtype dlpack_type(DType type) {
  return {.code = static_cast<uint8_t>(code_of(type)),
          .bits = static_cast<uint8_t>(8 * bytes_of(type)),
          .lanes = 1};
}

std::optional<DType> type_of(sinter_dtype type) {
  for (const DType known : kAllDTypes) {
    const sinter_dtype form = dlpack_type(known);
    if (form.code == type.code && form.bits == type.bits && form.lanes == type.lanes) return known;
  }
  return std::nullopt;
}

namespace {

void check_type(const sinter_dl_tensor& plain, DType planned, const Refusal& refuse) {
  const sinter_dtype type{plain.dtype.code, plain.dtype.bits, plain.dtype.lanes};
  if (type_of(type) == planned) return;
  refuse("pass a tensor of the planned type", std::nullopt, std::nullopt,
         "has type {}, planned was {}", text_of(type), text_of(dlpack_type(planned)));
}

/// The address of the first element.
uintptr_t first_address(const sinter_dl_tensor& plain, const Refusal& refuse) {
  const auto data = std::bit_cast<uintptr_t>(plain.data);
  const uintptr_t address = data + plain.byte_offset;
  if (address < data) {
    refuse("set `byte_offset` to bytes from `data`", std::nullopt, std::nullopt,
           "begins {} bytes behind {:#x}, where no address is", plain.byte_offset, data);
  }
  // An offset from nowhere is no address either.
  return data == 0 ? 0 : address;
}

}  // namespace

DevicePointer address_of(const sinter_tensor& tensor, const Tensor& planned, const Plan& plan,
                         TensorRole role, DeviceOrdinal device) {
  const Refusal refuse(plan.fusion, role);
  const sinter_dl_tensor& plain = plain_tensor(tensor, plan.fusion, role, refuse);
  check_device(plain, device, refuse);
  check_type(plain, planned.type, refuse);
  check_axes(plain, planned, refuse);
  return first_address(plain, refuse);
}

Tensor tensor_of(const sinter_tensor& tensor, const Fusion& fusion, TensorRole role,
                 DeviceOrdinal device) {
  const Refusal refuse(fusion, role);
  const sinter_dl_tensor& plain = plain_tensor(tensor, fusion, role, refuse);
  check_device(plain, device, refuse);
  const Value& value = fusion.values[value_of(fusion, role)];
  check_type(plain, value.type, refuse);
  check_rank(plain, value.shape.size(), refuse);
  const auto rank = value.shape.size();
  Tensor out{.address = first_address(plain, refuse),
             .type = value.type,
             .sizes = Sizes(plain.shape, plain.shape + rank),
             .strides = {}};
  for (size_t axis = 0; axis < rank; ++axis) {
    if (out.sizes[axis] < 0)
      refuse("set `shape` to sizes", out.sizes[axis], 0, "has size {} along axis {}",
             out.sizes[axis], axis);
  }
  if (plain.strides != nullptr) out.strides.assign(plain.strides, plain.strides + rank);
  return out;
}

std::byte* host_address_of(const sinter_tensor& tensor, const Tensor& planned, const Plan& plan,
                           TensorRole role) {
  const Refusal refuse(plan.fusion, role);
  const sinter_dl_tensor& plain = plain_tensor(tensor, plan.fusion, role, refuse);
  check_is_on_host(plain, refuse);
  check_type(plain, planned.type, refuse);
  check_axes(plain, planned, refuse);
  const uintptr_t address = first_address(plain, refuse);
  if (address == 0 && element_count(planned.sizes) > 0)
    refuse("pass the address of its elements", std::nullopt, std::nullopt, "has no address");
  return std::bit_cast<std::byte*>(address);
}

}  // namespace sinter::c_api
