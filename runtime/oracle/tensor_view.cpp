#include "runtime/oracle/tensor_view.h"

namespace sinter {

TensorView dense_view(DType type, Sizes sizes, BoundedElements elements) {
  Sizes strides = dense_strides(sizes);
  return {type, std::move(sizes), std::move(strides), 0,
          std::make_shared<const BoundedElements>(std::move(elements))};
}

}  // namespace sinter
