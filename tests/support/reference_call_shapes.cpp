#include "tests/support/reference_call_shapes.h"

#include <fmt/ranges.h>

#include <utility>

#include "fusion_ir/error.h"

namespace sinter::reference_calls {
namespace {

[[noreturn]] void refuse(const ExternalOp& op, std::span<const Sizes> operands) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("no reference for a call '{}' with {} results of operands {}",
                                      op.name, op.results.size(), operands),
               .remedy = "see training_layers.h for the calls and their shapes"});
}

}  // namespace

Sizes result_sizes(const ExternalOp& op, size_t i) {
  Sizes sizes;
  for (const Extent& extent : op.results[i].shape) sizes.push_back(extent.constant());
  return sizes;
}

CallShape::CallShape(const ExternalOp& op, std::vector<Sizes> operands)
    : op_(op), operands_(std::move(operands)) {
  if (op.name == "attention" || op.name == "attention_backward") {
    check_attention(op.name == "attention" ? Call::kAttention : Call::kAttentionBackward);
  } else if (op.name == "matmul_nt") {
    check_matmul(Call::kNt);
  } else if (op.name == "matmul_nn") {
    check_matmul(Call::kNn);
  } else if (op.name == "matmul_tn") {
    check_matmul(Call::kTn);
  } else {
    refuse(op, operands_);
  }
}

void CallShape::require(bool condition) const {
  if (!condition) refuse(op_, operands_);
}

void CallShape::require_results(const std::vector<Sizes>& expected) const {
  require(op_.results.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) require(result_sizes(op_, i) == expected[i]);
}

void CallShape::check_matmul(Call which) {
  call = which;
  const bool adds = which == Call::kNt && operands_.size() == 3;
  require((operands_.size() == 2 || adds) && operands_[0].size() == 2 && operands_[1].size() == 2);
  const size_t a_depth = which == Call::kTn ? 0 : 1;
  const size_t b_depth = which == Call::kNt ? 1 : 0;
  require(operands_[0][a_depth] == operands_[1][b_depth]);
  matrix = {.rows = operands_[0][1 - a_depth],
            .depth = operands_[0][a_depth],
            .columns = operands_[1][1 - b_depth]};
  require_results({{matrix.rows, matrix.columns}});
  if (adds) require(operands_[2] == Sizes{matrix.rows, matrix.columns});
}

void CallShape::check_attention(Call which) {
  call = which;
  const bool backward = which == Call::kAttentionBackward;
  const size_t first = backward ? 1 : 0;  // Where q stands.
  require(operands_.size() == (backward ? 6U : 3U));
  const Sizes& q = operands_[first];
  const Sizes& k = operands_[first + 1];
  require(q.size() == 3 && k.size() == 3);
  require(k[0] == q[0] && k[2] == q[2] && operands_[first + 2] == k);
  require(k[1] > 0 && q[1] % k[1] == 0 && q[2] > 0);
  attention = {.tokens = q[0], .heads = q[1], .kv_heads = k[1], .dim = q[2]};
  const Sizes lse = {q[1], q[0]};
  if (backward) {
    require(operands_[0] == q && operands_[4] == q && operands_[5] == lse);
    require_results({q, k, k});
  } else {
    require_results({q, lse});
  }
}

}  // namespace sinter::reference_calls
