#include "tests/support/fake_matmul_library.h"

#include "runtime/check/host_matmul.h"

namespace sinter {
namespace {

/// The bytes from the first element of a matrix to the last, of all of a batch.
int64_t bytes_of_matrix(const LibraryMatrix& matrix, int64_t batch) {
  const int64_t last = (matrix.columns - 1) * matrix.leading_dimension + matrix.rows - 1 +
                       (batch - 1) * matrix.batch_stride;
  return matrix.offset_bytes + (last + 1) * bytes_of(matrix.type);
}

}  // namespace

class FakeMatmulLibrary::Matmul final : public PreparedMatmul {
 public:
  Matmul(FakeMatmulLibrary& library, LibraryMatmul matmul)
      : library_(library), matmul_(std::move(matmul)) {}

  [[nodiscard]] Result<void> launch(StreamHandle,
                                    std::span<const DevicePointer> addresses) const override {
    library_.addresses_.assign(addresses.begin(), addresses.end());
    std::vector<LaunchMemory> memory;
    const auto add = [&](const LibraryMatrix& matrix, int64_t batch) {
      auto* const first = reinterpret_cast<std::byte*>(addresses[memory.size()]);
      const auto bytes = static_cast<size_t>(bytes_of_matrix(matrix, batch));
      memory.push_back({.bytes = {first, bytes}, .origin = 0});
    };
    add(matmul_.a, matmul_.batch);
    add(matmul_.b, matmul_.batch);
    if (matmul_.c) add(*matmul_.c, matmul_.batch);
    if (matmul_.bias) add(*matmul_.bias, 1);
    add(matmul_.d, matmul_.batch);
    multiply_on_host(matmul_, memory);
    return {};
  }

 private:
  FakeMatmulLibrary& library_;
  LibraryMatmul matmul_;
};

Result<std::unique_ptr<PreparedMatmul>> FakeMatmulLibrary::prepare(const LibraryMatmul& matmul) {
  if (refusal_) return fail(*refusal_);
  prepared_.push_back(matmul);
  return std::make_unique<Matmul>(*this, matmul);
}

}  // namespace sinter
