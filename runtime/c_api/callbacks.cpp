#include "runtime/c_api/callbacks.h"

#include <array>
#include <bit>

#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"

namespace sinter::c_api {
namespace {

constexpr size_t kMessageBytes = 512;

Error error_of(std::string_view who, sinter_status status, std::string_view message) {
  return {.kind = kind_of(status),
          .message = message.empty() ? fmt::format("{} returned status {} ({})", who, status,
                                                   sinter_status_name(status))
                                     : fmt::format("{}: {}", who, message),
          .remedy = "look into the caller's function"};
}

sinter_dl_tensor dl_tensor(const ExternalTensor& tensor, DeviceOrdinal device) {
  constexpr int32_t kCuda = 2;
  const sinter_dtype type = dlpack_type(tensor.type);
  sinter_dl_tensor out{};
  out.data = std::bit_cast<void*>(tensor.address);
  out.device = {static_cast<decltype(out.device.device_type)>(kCuda), device};
  out.ndim = static_cast<int32_t>(tensor.sizes.size());
  out.dtype = {type.code, type.bits, type.lanes};
  // DLPack has no word for a shape that is only read.
  out.shape = const_cast<int64_t*>(tensor.sizes.data());
  out.strides = const_cast<int64_t*>(tensor.strides.data());
  return out;
}

}  // namespace

ExternalCallback external_callback(sinter_external_function function, void* user_data,
                                   DeviceOrdinal device) {
  if (function == nullptr) return {};
  return [=](const ExternalRequest& request) -> Result<void> {
    // On the stack: executions allocate nothing.
    std::array<sinter_dl_tensor, kMaxKernelArguments> tensors;
    size_t count = 0;
    for (const ExternalTensor& tensor : request.inputs)
      tensors[count++] = dl_tensor(tensor, device);
    for (const ExternalTensor& tensor : request.outputs)
      tensors[count++] = dl_tensor(tensor, device);
    std::array<char, kMessageBytes> message{};
    const sinter_external_request passed{.struct_size = sizeof(sinter_external_request),
                                         .name = request.op->name.c_str(),
                                         .inputs = tensors.data(),
                                         .input_count = request.inputs.size(),
                                         .outputs = tensors.data() + request.inputs.size(),
                                         .output_count = request.outputs.size(),
                                         .stream = request.stream,
                                         .message = message.data(),
                                         .message_size = message.size()};
    const sinter_status status = function(user_data, &passed);
    if (status == SINTER_OK) return {};
    message.back() = '\0';
    return fail(
        error_of(fmt::format("the external call '{}'", request.op->name), status, message.data()));
  };
}

HostCall host_call(sinter_external_function function, void* user_data) {
  if (function == nullptr) return {};
  return [=](const ExternalOp& op, std::span<const HostTensor> inputs,
             std::span<HostTensor> outputs) {
    std::vector<sinter_dl_tensor> tensors;
    const auto add = [&](const HostTensor& tensor) {
      const sinter_dtype type = dlpack_type(tensor.type());
      sinter_dl_tensor out{};
      // DLPack has no word for what is only read.
      out.data = const_cast<std::byte*>(tensor.data());
      out.device = {static_cast<decltype(out.device.device_type)>(kDlpackCpu), 0};
      out.ndim = static_cast<int32_t>(tensor.sizes().size());
      out.dtype = {type.code, type.bits, type.lanes};
      out.shape = const_cast<int64_t*>(tensor.sizes().data());
      out.strides = const_cast<int64_t*>(tensor.strides().data());
      tensors.push_back(out);
    };
    for (const HostTensor& tensor : inputs) add(tensor);
    for (const HostTensor& tensor : outputs) add(tensor);
    std::array<char, kMessageBytes> message{};
    const sinter_external_request passed{.struct_size = sizeof(sinter_external_request),
                                         .name = op.name.c_str(),
                                         .inputs = tensors.data(),
                                         .input_count = inputs.size(),
                                         .outputs = tensors.data() + inputs.size(),
                                         .output_count = outputs.size(),
                                         .stream = nullptr,
                                         .message = message.data(),
                                         .message_size = message.size()};
    const sinter_status status = function(user_data, &passed);
    if (status == SINTER_OK) return;
    message.back() = '\0';
    throw_error(error_of(fmt::format("the external call '{}'", op.name), status, message.data()));
  };
}

WorkspaceAllocator workspace_allocator(const sinter_execute_args& args) {
  // One pointer in each, which a std::function holds without memory of its own.
  const sinter_execute_args* const given = &args;
  return {.allocate = [given](int64_t bytes, StreamHandle stream) -> Result<DevicePointer> {
            void* address = nullptr;
            const sinter_status status =
                given->allocate(given->allocator_data, bytes, stream, &address);
            if (status != SINTER_OK) return fail(error_of("the workspace allocator", status, ""));
            return std::bit_cast<DevicePointer>(address);
          },
          .release =
              [given](DevicePointer address, StreamHandle stream) {
                given->release(given->allocator_data, std::bit_cast<void*>(address), stream);
              }};
}

}  // namespace sinter::c_api
