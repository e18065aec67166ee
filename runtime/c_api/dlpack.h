#pragma once

#include <cstddef>
#include <optional>

#include "fusion_ir/dtype.h"
#include "runtime/c_api/tensor_info.h"
#include "runtime/execute/tensor.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter::c_api {

/// DLPack's kDLCPU.
inline constexpr int32_t kDlpackCpu = 1;

/// An element type as DLPack says it.
sinter_dtype dlpack_type(DType type);
/// The other way; nothing for a type that Sinter does not have.
std::optional<DType> type_of(sinter_dtype type);

/// Checks a caller's tensor against the planned one and gives the address of its first element:
/// version, device, type, rank, shape, strides, and that nothing read-only is written. Whether the
/// address suits is for Executable to say. Throws InvalidArgument that names the tensor, what it
/// has and what was planned.
DevicePointer address_of(const sinter_tensor& tensor, const Tensor& planned, const Plan& plan,
                         TensorRole role, DeviceOrdinal device);

/// The same of a tensor of any sizes and strides that suits the graph, as it is. A null address is
/// no refusal.
Tensor tensor_of(const sinter_tensor& tensor, const Fusion& fusion, TensorRole role,
                 DeviceOrdinal device);

/// The same of a tensor in host memory as planned; null where it has no address and needs none,
/// because it has no elements.
std::byte* host_address_of(const sinter_tensor& tensor, const Tensor& planned, const Plan& plan,
                           TensorRole role);

}  // namespace sinter::c_api
