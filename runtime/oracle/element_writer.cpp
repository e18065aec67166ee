#include "runtime/oracle/element_writer.h"

namespace sinter {

ElementWriter::ElementWriter(DType type, Sizes sizes)
    : type_(type), sizes_(std::move(sizes)), count_(element_count(sizes_)) {
  const auto count = static_cast<size_t>(count_);
  if (is_float(type_)) {
    elements_.real = ZeroedArray<double>(count);
  } else {
    elements_.integer = ZeroedArray<int64_t>(count);
  }
  elements_.bound = ZeroedArray<double>(count);
}

TensorView ElementWriter::finish() {
  if (!inexact_) elements_.bound = {};
  return dense_view(type_, std::move(sizes_), std::move(elements_));
}

}  // namespace sinter
