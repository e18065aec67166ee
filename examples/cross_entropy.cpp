#include "examples/cross_entropy.h"

#include "fusion_ir/composites.h"

namespace sinter::examples {

constexpr int64_t kVocabulary = 128'256;  // vocab_size of the checkpoint's config.json.

Fusion vocabulary_cross_entropy() {
  FusionBuilder b("vocabulary_cross_entropy");
  const Extent tokens = b.symbol("tokens", 8192);
  const ValueId logits = b.input(DType::kBF16, {tokens, kVocabulary}, "logits");
  const ValueId labels = b.input(DType::kI64, {tokens}, "labels");

  // The same, written out:
  //   m = amax(logits); loss = log(sum(exp(logits - m))) + m - take(logits, labels)
  b.output(cross_entropy(b, logits, labels), "loss");
  return b.build();
}

}  // namespace sinter::examples
