#pragma once

#include <span>

#include "runtime/driver/device_driver.h"

namespace sinter {

/// Device memory with an owner. Allocating and freeing synchronise the device, so buffers are made
/// before, never during, execute().
class DeviceBuffer {
 public:
  /// Allocates in the current context. Zero bytes make an empty buffer without a driver call. Fails
  /// with kResourceExhausted when the device has not got that much, naming the bytes asked for.
  static Result<DeviceBuffer> allocate(DeviceDriver& driver, size_t bytes);

  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  /// Copies from host memory, and back from `offset` bytes into the buffer; return when the bytes
  /// have arrived. Fail with kInvalidArgument if there are more bytes than the buffer holds.
  [[nodiscard]] Result<void> upload(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> download(std::span<std::byte> bytes, size_t offset = 0) const;

  /// Aligned to 256 bytes at least, as the driver promises; 0 if empty.
  [[nodiscard]] DevicePointer pointer() const { return pointer_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(DeviceDriver& driver, DevicePointer pointer, size_t bytes)
      : driver_(&driver), pointer_(pointer), bytes_(bytes) {}
  [[nodiscard]] Result<void> check_size(size_t bytes) const;

  DeviceDriver* driver_;
  DevicePointer pointer_;  // 0 once moved from.
  size_t bytes_;
};

}  // namespace sinter
