#include "scheduler/plan/workspace.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/step_graph.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"
#include "tests/support/training_layers.h"

namespace sinter::workspace_test {

/// Of every two tensors, by the steps that write and read them (step_graph); plan_verifier_test.cpp
/// has the other properties of memory.
TEST(WorkspaceTest, TensorsShareBytesOnlyIfTheyDoNotMeet) {
  int shared = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Plan planned =
        plan(random_graph(seed, {.ops = 40, .calls = true}), {}, kLimits, {.check_indices = true})
            .value();
    std::map<ValueId, std::pair<StepId, StepId>> lives;  // By value: first and last step.
    for (const PassedTensor& tensor : step_graph(planned).tensors) {
      if (tensor.is_input || tensor.is_output || tensor.writers.empty()) continue;
      if (tensor.holds != PassedTensor::Holds::kValue) continue;
      StepId last = tensor.writers.back();
      if (!tensor.readers.empty()) last = std::max(last, tensor.readers.back());
      lives[tensor.value] = {tensor.writers.front(), last};
    }
    for (const WorkspaceTensor& a : planned.workspace) {
      EXPECT_EQ(a.offset % kWorkspaceAlignment, 0);
      EXPECT_LE(a.offset + a.bytes, planned.workspace_bytes);
      const auto first = lives.find(a.value);
      if (a.holds != WorkspaceTensor::Holds::kValue || first == lives.end()) continue;
      for (const WorkspaceTensor& b : planned.workspace) {
        const auto second = lives.find(b.value);
        if (b.value <= a.value || b.holds != a.holds || second == lives.end()) continue;
        if (a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) continue;
        ++shared;
        const auto& [begin, end] = first->second;
        EXPECT_TRUE(end < second->second.first || second->second.second < begin)
            << fmt::format("seed {}: {} and {}", seed, a.value, b.value);
      }
    }
    EXPECT_THAT(plan_violations(planned), ::testing::IsEmpty()) << "seed " << seed;
  }
  EXPECT_GT(shared, 0);
}

/// Bytes of intermediate results if every op ran alone: each result lies in memory from its op to
/// its last reader, views and constants excepted.
int64_t peak_of_ops_one_by_one(const Fusion& fusion) {
  const auto is_stored = [&](ValueId value) {
    const OpKind& kind = fusion.def_of(value).kind;
    return !std::holds_alternative<InputOp>(kind) && !std::holds_alternative<ConstantOp>(kind) &&
           !std::holds_alternative<BroadcastOp>(kind) && !std::holds_alternative<PermuteOp>(kind) &&
           !std::holds_alternative<ReshapeOp>(kind) && !std::holds_alternative<SliceOp>(kind);
  };
  const std::set<ValueId> outputs(fusion.outputs.begin(), fusion.outputs.end());
  std::map<ValueId, uint32_t> last;
  for (const OpId id : fusion.op_ids()) {
    for (ValueId operand : fusion.ops[id].operands) {
      while (!is_stored(operand) && !fusion.def_of(operand).operands.empty())
        operand = fusion.def_of(operand).operands.front();
      last[operand] = id.index;
    }
  }
  int64_t live = 0;
  int64_t peak = 0;
  const auto bytes = [&](ValueId value) {
    const int64_t exact =
        element_count(fusion.values[value].shape) * bytes_of(fusion.values[value].type);
    return (exact + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  };
  for (const OpId id : fusion.op_ids()) {
    for (const ValueId result : fusion.ops[id].results) {
      if (is_stored(result) && !outputs.contains(result)) live += bytes(result);
    }
    peak = std::max(peak, live);
    for (const auto& [value, reader] : last) {
      if (reader == id.index && is_stored(value) && !outputs.contains(value)) live -= bytes(value);
    }
  }
  return peak;
}

TEST(WorkspaceTest, IsNoLargerThanThatOfOpsOneByOne) {
  for (const Fusion& fusion : {gpt2_layer_forward(kGpt2), bert_layer_forward(kBertBase)}) {
    const Plan planned = plan(fusion, {}, kLimits).value();
    EXPECT_LE(planned.workspace_bytes, peak_of_ops_one_by_one(planned.fusion)) << fusion.name;
  }
}

}  // namespace sinter::workspace_test
