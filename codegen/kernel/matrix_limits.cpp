#include "codegen/kernel/matrix_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/analysis/cuda_units.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

/// Bytes that one phase of an mbarrier can count (PTX ISA, "mbarrier", tx-count).
constexpr int64_t kMostBoxBytes = (1 << 20) - 1;

class MapProblems {
 public:
  MapProblems(const Kernel& kernel, const TensorMap& map) : kernel_(kernel), map_(map) {}

  std::vector<std::string> run() {
    if (!kernel_.buffers.contains(map_.buffer)) {
      report("{} of {}, which does not exist", map_.name, map_.buffer);
      return std::move(problems_);
    }
    const Buffer& buffer = kernel_.buffers[map_.buffer];
    element_bytes_ = bytes_of(buffer.type);
    if (buffer.space != Space::kGlobal || buffer.is_table() || buffer.access == Access::kWrite)
      report("{} of {}, which is no single global tensor that is read", map_.name, buffer.name);
    if (buffer.alignment < kMapUnit) {
      report("{} of {}, which is aligned to {}, not {}", map_.name, buffer.name, buffer.alignment,
             kMapUnit);
    }
    if (map_.to_tf32 && buffer.type != DType::kF32)
      report("{} rounds {} to TF32, which is {}", map_.name, buffer.name, buffer.type);
    if (map_.offset < 0 || map_.offset > kMostMapStrideBytes ||
        map_.offset * element_bytes_ % kMapUnit != 0) {
      report("{} begins at element {} of {} bytes, at no multiple of {} bytes", map_.name,
             map_.offset, element_bytes_, kMapUnit);
    }
    const auto axes = std::ssize(map_.axes);
    if (axes < 1 || axes > kMostMapAxes) {
      report("{} has {} axes, not 1 to {}", map_.name, axes, kMostMapAxes);
      return std::move(problems_);
    }
    for (size_t i = 0; i < map_.axes.size(); ++i) check_axis(i);
    if (problems_.empty()) check_box();
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_axis(size_t number) {
    const MapAxis& axis = map_.axes[number];
    if (axis.launched.valid()) {
      if (!kernel_.params.contains(axis.launched)) {
        report("axis {} of {} has the size {}, which does not exist", number, map_.name,
               axis.launched);
      }
      if (axis.size != 0) {
        report("axis {} of {} has the size {}, and {} at launch", number, map_.name, axis.size,
               axis.launched);
      }
    } else if (axis.size < 1 || axis.size > kMostMapSize) {
      report("axis {} of {} has {} elements, not 1 to {}", number, map_.name, axis.size,
             kMostMapSize);
    }
    if (axis.box < 1 || axis.box > kMostMapBox) {
      report("a box of {} has {} elements along axis {}, not 1 to {}", map_.name, axis.box, number,
             kMostMapBox);
    }
    if (number == 0) {
      if (axis.stride != 1) report("axis 0 of {} has the stride {}, not 1", map_.name, axis.stride);
      return;
    }
    const bool is_in_range =
        axis.stride >= 1 && axis.stride <= kMostMapStrideBytes / element_bytes_;
    if (!is_in_range || axis.stride * element_bytes_ % kMapUnit != 0) {
      report("axis {} of {} has a stride of {} elements of {} bytes, not a multiple of {} bytes",
             number, map_.name, axis.stride, element_bytes_, kMapUnit);
    }
  }

  void check_box() {
    const int64_t inner = map_.axes[0].box * element_bytes_;
    if (inner % kMapUnit != 0) {
      report("a box of {} has {} bytes along axis 0, not a multiple of {}", map_.name, inner,
             kMapUnit);
    }
    if (map_.swizzle != 0 && map_.swizzle != 32 && map_.swizzle != 64 && map_.swizzle != 128) {
      report("{} is swizzled by {} bytes, not 0, 32, 64 or 128", map_.name, map_.swizzle);
    } else if (map_.swizzle != 0 && inner != map_.swizzle) {
      // Narrower rows would be stored with gaps (CUDA programming guide, "Tensor Memory
      // Accelerator", "Swizzle").
      report("a box of {} has {} bytes along axis 0, its swizzle {}", map_.name, inner,
             map_.swizzle);
    }
    const int64_t bytes = box_elements(map_) * element_bytes_;
    if (bytes > kMostBoxBytes)
      report("a box of {} has {} bytes; a phase counts {}", map_.name, bytes, kMostBoxBytes);
  }

  const Kernel& kernel_;
  const TensorMap& map_;
  int64_t element_bytes_ = 1;
  std::vector<std::string> problems_;
};

/// Field of 14 bits in units of 16 bytes (PTX ISA, "Matrix Descriptor Format").
constexpr int64_t kMostMatrixStride = ((1 << 14) - 1) * 16;

class ProductProblems {
 public:
  ProductProblems(const Kernel& kernel, const Wgmma& product)
      : kernel_(kernel), product_(product) {}

  std::vector<std::string> run() {
    if (std::ranges::find(Wgmma::kColumns, product_.columns) == Wgmma::kColumns.end()) {
      report("a product of {} columns; there are {}", product_.columns,
             fmt::join(Wgmma::kColumns, ", "));
      return std::move(problems_);
    }
    const Var& accumulator = kernel_.vars[product_.accumulator];
    const DType left = left_type(kernel_, product_);
    const DType right = kernel_.buffers[product_.right.buffer].type;
    const auto needed = mma_accumulator(left, right);
    if (accumulator.lanes != Mma::kAccumulatorLanes) {
      report("{} ({}) has {} lanes; an accumulator has {}", product_.accumulator, accumulator.name,
             accumulator.lanes, Mma::kAccumulatorLanes);
    }
    if (!needed) {
      report("no product of matrices of {} and {}", left, right);
    } else if (accumulator.type != *needed) {
      report("{} ({}) is {}; products of {} and {} are {}", product_.accumulator, accumulator.name,
             accumulator.type, left, right, *needed);
    }
    if (const auto* matrix = std::get_if<SharedMatrix>(&product_.left))
      check(*matrix, Wgmma::kRows);
    check(product_.right, product_.columns);
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void check(const SharedMatrix& matrix, int64_t own) {
    const Buffer& buffer = kernel_.buffers[matrix.buffer];
    const int64_t element_bytes = bytes_of(buffer.type);
    if (buffer.space != Space::kShared) {
      report("{} ({}) is not shared", matrix.buffer, buffer.name);
      return;
    }
    if (matrix.swizzle != 32 && matrix.swizzle != 64 && matrix.swizzle != 128) {
      report("a matrix in {} has lines of {} bytes, not 32, 64 or 128", buffer.name,
             matrix.swizzle);
      return;
    }
    const int64_t line = matrix.swizzle / element_bytes;
    if (matrix.transposed && element_bytes != 2) {
      report("a transposed matrix in {} of {} bytes, not 2", buffer.name, element_bytes);
      return;
    }
    if (matrix.transposed && own % line != 0) {
      report("{} elements of a transposed matrix in {}, whose lines have {}", own, buffer.name,
             line);
      return;
    }
    if (buffer.alignment < matrix.period()) {
      report("{} ({}) is aligned to {}, not {}", matrix.buffer, buffer.name, buffer.alignment,
             matrix.period());
    } else if (buffer.offset > 0 && buffer.offset % matrix.period() != 0) {
      report("{} ({}) is at offset {}, not at a multiple of {}", matrix.buffer, buffer.name,
             buffer.offset, matrix.period());
    }
    const bool is_one_group = !matrix.transposed && own == 8;
    const bool is_one_block = !matrix.transposed || own == line;
    check_stride(matrix, "groups", matrix.group_stride, element_bytes, is_one_group);
    check_stride(matrix, "blocks", matrix.block_stride, element_bytes, is_one_block);
    if (problems_.empty() && matrix.elements_spanned(own, element_bytes) > buffer.count) {
      report("a matrix of {} elements in {}, which has {}",
             matrix.elements_spanned(own, element_bytes), buffer.name, buffer.count);
    }
  }

  void check_stride(const SharedMatrix& matrix, std::string_view what, int64_t stride,
                    int64_t element_bytes, bool may_be_none) {
    if (stride == 0 && may_be_none) return;
    const int64_t period = matrix.period();
    const bool is_in_range = stride > 0 && stride <= kMostMatrixStride / element_bytes;
    if (is_in_range && stride * element_bytes % period == 0) return;
    report(
        "{} of a matrix in {} are {} elements of {} bytes apart, not a multiple of {} bytes up "
        "to {}",
        what, kernel_.buffers[matrix.buffer].name, stride, element_bytes, period,
        kMostMatrixStride);
  }

  const Kernel& kernel_;
  const Wgmma& product_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_of(const Kernel& kernel, const Wgmma& product) {
  return ProductProblems(kernel, product).run();
}

std::vector<std::string> problems_of(const Kernel& kernel, const TensorMap& map) {
  return MapProblems(kernel, map).run();
}

}  // namespace sinter
