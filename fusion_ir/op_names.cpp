#include "fusion_ir/op_names.h"

#include "fusion_ir/dtype.h"
#include "fusion_ir/op.h"

namespace sinter {

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> out;
  for (const DType type : kAllDTypes) out.push_back(name_of(type));
  return out;
}

std::vector<std::string_view> pointwise_names() {
  return {
#define SINTER_POINTWISE(enumerator, text, arity, typing, issue, special, reference, cuda) text,
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
  };
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> out = pointwise_names();
  out.insert(out.end(),
             {
#define SINTER_REDUCE(enumerator, text) "reduce." text,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
                 "input", "constant", "cast", "broadcast", "welford", "logsumexp", "take", "extent",
                 "iota", "permute", "reshape", "slice", "concatenate", "pad", "external"});
  const auto contractions = contract_texts();
  out.insert(out.end(), contractions.begin(), contractions.end());
  return out;
}

}  // namespace sinter
