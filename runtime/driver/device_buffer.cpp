#include "runtime/driver/device_buffer.h"

#include <utility>

namespace sinter {

Result<DeviceBuffer> DeviceBuffer::allocate(DeviceDriver& driver, size_t bytes) {
  if (bytes == 0) return DeviceBuffer(driver, 0, 0);
  DevicePointer pointer = 0;
  const DriverStatus status = driver.memory_allocate(&pointer, bytes);
  if (auto done = check(driver, DriverCall::kMemoryAllocate, status,
                        fmt::format("allocating {} bytes", bytes));
      !done) {
    Error error = std::move(done.error());
    error.measured = static_cast<int64_t>(bytes);
    return fail(std::move(error));
  }
  return DeviceBuffer(driver, pointer, bytes);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : driver_(other.driver_),
      pointer_(std::exchange(other.pointer_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ != 0) (void)driver_->memory_free(pointer_);
}

Result<void> DeviceBuffer::check_size(size_t bytes) const {
  if (bytes <= bytes_) return {};
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = "a copy is larger than its device buffer",
               .remedy = "allocate the bytes that are copied",
               .measured = static_cast<int64_t>(bytes),
               .limit = static_cast<int64_t>(bytes_)});
}

Result<void> DeviceBuffer::upload(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  return check_size(bytes.size()).and_then([&] {
    return check(*driver_, DriverCall::kCopyToDevice,
                 driver_->copy_to_device(pointer_, bytes.data(), bytes.size()),
                 "copying to the device");
  });
}

Result<void> DeviceBuffer::download(std::span<std::byte> bytes, size_t offset) const {
  if (bytes.empty()) return {};
  return check_size(offset + bytes.size()).and_then([&] {
    return check(*driver_, DriverCall::kCopyToHost,
                 driver_->copy_to_host(bytes.data(), pointer_ + offset, bytes.size()),
                 "copying from the device");
  });
}

}  // namespace sinter
