#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/driver/device_driver.h"
#include "scheduler/families/library_matmul.h"

namespace sinter {

/// A matrix product that a library was asked about once: everything is decided but the addresses.
class PreparedMatmul {
 public:
  PreparedMatmul() = default;
  PreparedMatmul(const PreparedMatmul&) = delete;
  PreparedMatmul& operator=(const PreparedMatmul&) = delete;
  virtual ~PreparedMatmul() = default;

  /// Enqueues the product on a stream of the context it was prepared in, which is current on this
  /// thread. Takes the addresses of a, b, c where there is one, bias likewise, d and the workspace.
  /// Allocates nothing, waits for nothing, and may be called by any number of threads at once,
  /// under stream capture too. Errors: DeviceError.
  [[nodiscard]] virtual Result<void> launch(StreamHandle stream,
                                            std::span<const DevicePointer> addresses) const = 0;
};

/// A library of matrix products, opened at run time; tests replace it. Any thread may call.
class MatmulLibrary {
 public:
  MatmulLibrary() = default;
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;
  virtual ~MatmulLibrary() = default;

  /// "cuBLASLt 13.1.0".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Asks the library for its best kernel of a product, in the current context. The same product
  /// on the same device always gets the same kernel. Errors: Unsupported if it has none,
  /// DeviceError.
  virtual Result<std::unique_ptr<PreparedMatmul>> prepare(const LibraryMatmul& matmul) = 0;
};

}  // namespace sinter
