// The calls in the device's arithmetic: run_reference_call().

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"
#include "tests/support/reference_call_shapes.h"
#include "tests/support/reference_calls.h"

namespace sinter {
namespace {

using namespace reference_calls;  // NOLINT(google-build-using-namespace): this file is about them

/// A tensor's elements in the type that the device computes in; in pieces, because matrices of
/// doubles would be large.
template <class Real>
std::vector<Real> read(const HostTensor& x) {
  constexpr size_t kPiece = 4096;
  std::vector<Real> out(static_cast<size_t>(x.count()));
  std::array<double, kPiece> piece{};
  for (size_t first = 0; first < out.size(); first += kPiece) {
    const std::span<double> part = std::span(piece).first(std::min(kPiece, out.size() - first));
    x.read(static_cast<int64_t>(first), part);
    std::ranges::transform(part, out.begin() + static_cast<ptrdiff_t>(first),
                           [](double value) { return static_cast<Real>(value); });
  }
  return out;
}
template <class Real>
void write(HostTensor& x, const std::vector<Real>& values) {
  x.write(0, std::vector<double>(values.begin(), values.end()));
}

/// Sums of every eighth product, then their sum: what a compiler turns into vectors.
template <class Real>
Real product_sum(const Real* a, const Real* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<Real, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) lanes[0] += a[i] * b[i];
  Real sum = 0;
  for (const Real lane : lanes) sum += lane;
  return sum;
}

template <class Real>
void device_matmul(const CallShape& shape, std::span<const HostTensor> inputs,
                   std::span<HostTensor> outputs) {
  const MatrixSizes& sizes = shape.matrix;
  std::vector<Real> a = read<Real>(inputs[0]);
  std::vector<Real> b = read<Real>(inputs[1]);
  if (shape.call == Call::kTn) a = transposed<Real>(a, sizes.depth, sizes.rows);
  if (shape.call != Call::kNt) b = transposed<Real>(b, sizes.depth, sizes.columns);
  std::vector<Real> out(static_cast<size_t>(sizes.rows * sizes.columns));
  if (inputs.size() == 3) out = read<Real>(inputs[2]);
  for_each_range(sizes.rows, 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < sizes.columns; ++column) {
        out[static_cast<size_t>(row * sizes.columns + column)] +=
            product_sum(a.data() + row * sizes.depth, b.data() + column * sizes.depth, sizes.depth);
      }
    }
  });
  write(outputs[0], out);
}

/// What is multiplied by a matrix unit, which takes operands of the storage type.
template <class Real>
Real as_operand(DType type, Real x) {
  return static_cast<Real>(round_to(type, static_cast<double>(x)));
}

template <class Real>
void device_attention(const CallShape& shape, std::span<const HostTensor> inputs,
                      std::span<HostTensor> outputs) {
  const AttentionSizes& sizes = shape.attention;
  const DType type = inputs[0].type();
  const auto scale = static_cast<Real>(sizes.scale());
  const std::vector<Real> q = read<Real>(inputs[0]);
  const std::vector<Real> k = read<Real>(inputs[1]);
  const std::vector<Real> v = read<Real>(inputs[2]);
  std::vector<Real> o(q.size());
  std::vector<Real> lse(static_cast<size_t>(sizes.heads * sizes.tokens));
  for (int64_t head = 0; head < sizes.heads; ++head) {
    const int64_t kv_head = head / sizes.group();
    for (int64_t i = 0; i < sizes.tokens; ++i) {
      const size_t row = sizes.row(i, head);
      std::vector<Real> weights;
      Real max = -std::numeric_limits<Real>::infinity();
      for (int64_t j = 0; j <= i; ++j) {
        weights.push_back(
            scale * product_sum(q.data() + row, k.data() + sizes.kv_row(j, kv_head), sizes.dim));
        max = std::max(max, weights.back());
      }
      Real sum = 0;
      for (Real& weight : weights) {
        weight = std::exp(weight - max);
        sum += weight;
      }
      for (int64_t j = 0; j <= i; ++j) {
        const Real p = as_operand(type, weights[static_cast<size_t>(j)]);
        for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d)
          o[row + d] += p * v[sizes.kv_row(j, kv_head) + d];
      }
      for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) o[row + d] /= sum;
      lse[sizes.lse_at(i, head)] = max + std::log(sum);
    }
  }
  write(outputs[0], o);
  write(outputs[1], lse);
}

template <class Real>
void device_attention_backward(const CallShape& shape, std::span<const HostTensor> inputs,
                               std::span<HostTensor> outputs) {
  const AttentionSizes& sizes = shape.attention;
  const DType type = inputs[1].type();
  const auto scale = static_cast<Real>(sizes.scale());
  const std::vector<Real> dout = read<Real>(inputs[0]);
  const std::vector<Real> q = read<Real>(inputs[1]);
  const std::vector<Real> k = read<Real>(inputs[2]);
  const std::vector<Real> v = read<Real>(inputs[3]);
  const std::vector<Real> o = read<Real>(inputs[4]);
  const std::vector<Real> lse = read<Real>(inputs[5]);
  std::vector<Real> dq(q.size());
  std::vector<Real> dk(k.size());
  std::vector<Real> dv(v.size());
  for (int64_t head = 0; head < sizes.heads; ++head) {
    for (int64_t i = 0; i < sizes.tokens; ++i) {
      const size_t row = sizes.row(i, head);
      const Real delta = product_sum(dout.data() + row, o.data() + row, sizes.dim);
      for (int64_t j = 0; j <= i; ++j) {
        const size_t kv_row = sizes.kv_row(j, head / sizes.group());
        const Real s = scale * product_sum(q.data() + row, k.data() + kv_row, sizes.dim);
        const Real p = std::exp(s - lse[sizes.lse_at(i, head)]);
        const Real product = product_sum(dout.data() + row, v.data() + kv_row, sizes.dim);
        const Real ds = as_operand(type, p * (product - delta) * scale);
        const Real weight = as_operand(type, p);
        for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) {
          dq[row + d] += ds * k[kv_row + d];
          dk[kv_row + d] += ds * q[row + d];
          dv[kv_row + d] += weight * dout[row + d];
        }
      }
    }
  }
  write(outputs[0], dq);
  write(outputs[1], dk);
  write(outputs[2], dv);
}

template <class Real>
void device_call(const CallShape& shape, std::span<const HostTensor> inputs,
                 std::span<HostTensor> outputs) {
  switch (shape.call) {
    case Call::kNt:
    case Call::kNn:
    case Call::kTn:
      return device_matmul<Real>(shape, inputs, outputs);
    case Call::kAttention:
      return device_attention<Real>(shape, inputs, outputs);
    case Call::kAttentionBackward:
      return device_attention_backward<Real>(shape, inputs, outputs);
  }
  unreachable();
}

}  // namespace

void run_reference_call(const ExternalOp& op, std::span<const HostTensor> inputs,
                        std::span<HostTensor> outputs) {
  std::vector<Sizes> sizes;
  for (const HostTensor& input : inputs) sizes.push_back(input.sizes());
  const CallShape shape(op, sizes);
  SINTER_CHECK_OP(outputs.size(), ==, op.results.size());
  if (inputs[0].type() == DType::kF64) return device_call<double>(shape, inputs, outputs);
  device_call<float>(shape, inputs, outputs);
}

}  // namespace sinter
