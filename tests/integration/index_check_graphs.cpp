#include "tests/integration/index_check_graphs.h"

#include <utility>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/check/host_execution.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter {

Result<Plan> checked_plan(const Fusion& fusion, const ExtentValues& extents, SchedulePin pin) {
  return plan(fusion, extents, *find_device("H200"),
              {.families = builtin_families(), .pin = std::move(pin), .check_indices = true});
}

Fusion cross_entropy_fusion(DType labels) {
  return find_canned_fusion(labels == DType::kI64 ? "cross_entropy" : "cross_entropy_i32")->build();
}

ValueId take_of(const Fusion& fusion, size_t nth) {
  for (const Op& op : fusion.ops) {
    if (std::holds_alternative<TakeOp>(op.kind) && nth-- == 0) return op.results.front();
  }
  return {};
}

std::vector<HostTensor> inputs_with(const Fusion& fusion, const Binding& binding,
                                    const std::map<int64_t, int64_t>& labels, size_t input,
                                    uint64_t seed) {
  std::vector<HostTensor> out = sample_inputs(fusion, binding, seed);
  for (const auto& [element, label] : labels) out[input].set_integer(element, label);
  return out;
}

Fusion losses_and_probabilities(DType labels_type) {
  FusionBuilder b("losses_and_probabilities");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(labels_type, {rows}, "labels");
  b.output(cross_entropy(b, logits, labels), "loss");
  b.output(softmax(b, logits, -1, DType::kBF16), "p");
  return b.build();
}

Fusion losses_and_column_sums() {
  FusionBuilder b("losses_and_columns");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(DType::kI64, {rows}, "labels");
  b.output(cross_entropy(b, logits, labels), "loss");
  b.output(b.reduce(ReduceFn::kSum, logits, {0}), "sums");
  return b.build();
}

}  // namespace sinter
