#pragma once

#include <optional>
#include <vector>

#include "runtime/cublaslt/matmul_library.h"

namespace sinter {

/// A library in host memory, beside FakeDriver: its addresses are host addresses, and products are
/// computed at launch, in double.
class FakeMatmulLibrary final : public MatmulLibrary {
 public:
  [[nodiscard]] std::string name() const override { return "a library of the test"; }
  Result<std::unique_ptr<PreparedMatmul>> prepare(const LibraryMatmul& matmul) override;

  /// From now on no product has a kernel.
  void refuse(Error error) { refusal_ = std::move(error); }
  /// The products that were prepared, in their order.
  [[nodiscard]] const std::vector<LibraryMatmul>& prepared() const { return prepared_; }
  /// Addresses of the last launch.
  [[nodiscard]] const std::vector<DevicePointer>& addresses() const { return addresses_; }

 private:
  class Matmul;

  std::optional<Error> refusal_;
  std::vector<LibraryMatmul> prepared_;
  std::vector<DevicePointer> addresses_;
};

}  // namespace sinter
