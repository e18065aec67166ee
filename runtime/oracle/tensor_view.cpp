#include "runtime/oracle/tensor_view.h"

namespace sinter {

TensorView dense_view(DType type, Sizes sizes, BoundedElements elements) {
  Sizes strides = dense_strides(sizes);
  return {type, std::move(sizes), std::move(strides), 0,
          std::make_shared<const BoundedElements>(std::move(elements))};
}

std::vector<int64_t> offsets_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(element_count(sizes)));
  TensorView window;
  window.sizes.assign(sizes.begin(), sizes.end());
  window.strides.assign(strides.begin(), strides.end());
  for_each_element<1>(sizes, {&window}, [&](const auto& at) { offsets.push_back(at[0]); });
  return offsets;
}

ElementWriter::ElementWriter(DType type, Sizes sizes) : type_(type), sizes_(std::move(sizes)) {
  const auto count = static_cast<size_t>(element_count(sizes_));
  if (is_float(type_)) {
    elements_.real.reserve(count);
  } else {
    elements_.integer.reserve(count);
  }
  elements_.bound.reserve(count);
}

TensorView ElementWriter::finish() && {
  if (!inexact_) elements_.bound = {};
  return dense_view(type_, std::move(sizes_), std::move(elements_));
}

}  // namespace sinter
