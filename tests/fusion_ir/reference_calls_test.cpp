#include "tests/support/reference_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "runtime/check/sample_data.h"
#include "runtime/oracle/comparison.h"

namespace sinter::reference_calls_test {

OracleOutput exact(const HostTensor& x) {
  OracleOutput out{.type = x.type(), .sizes = x.sizes()};
  out.real.resize(static_cast<size_t>(x.count()));
  x.read(0, out.real);
  out.bound.assign(out.real.size(), 0.0);
  return out;
}

ExternalOp call(std::string name, const std::vector<std::pair<DType, Sizes>>& results) {
  ExternalOp op{.name = std::move(name), .results = {}};
  for (const auto& [type, sizes] : results)
    op.results.push_back({type, Shape(sizes.begin(), sizes.end())});
  return op;
}

DType statistics(DType type) { return type == DType::kF64 ? type : DType::kF32; }

/// A bound that lets everything pass would be sound as well. A single token gives no gradients of
/// scores: then there is only the error.
void expect_of_use(const OracleOutput& output, std::string_view name) {
  double error = 0.0;
  double reach = 1e-3;
  for (size_t i = 0; i < output.real.size(); ++i) {
    error += output.bound[i];
    reach += std::fabs(output.real[i]);
  }
  EXPECT_LE(error, 0.125 * reach) << name;
}

/// Expects the device's results for `inputs` within the bounds for `operands`.
void expect_within(const ExternalOp& op, std::span<const OracleOutput> operands,
                   std::span<const HostTensor> inputs) {
  std::vector<HostTensor> actual;
  for (const ResultType& result : op.results) {
    Sizes sizes;
    for (const Extent& extent : result.shape) sizes.push_back(extent.constant());
    actual.push_back(HostTensor::poisoned(result.type, sizes));
  }
  run_reference_call(op, inputs, actual);
  const OracleResult expected{.outputs = reference_call(op, operands)};
  ASSERT_EQ(expected.outputs.size(), actual.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::optional<Mismatch> mismatch = compare(expected, i, actual[i]);
    EXPECT_FALSE(mismatch) << op.name << ": " << mismatch->text();
  }
}

/// Once with the operands as they are, and once with a device whose operands are off by a little.
void expect_sound(const ExternalOp& op, const std::vector<HostTensor>& inputs, uint64_t seed) {
  std::vector<OracleOutput> operands;
  for (const HostTensor& input : inputs) operands.push_back(exact(input));
  expect_within(op, operands, inputs);
  for (const OracleOutput& output : reference_call(op, operands)) expect_of_use(output, op.name);

  std::vector<HostTensor> moved = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor noise = HostTensor::random(DType::kF64, inputs[i].sizes(), {.seed = ++seed});
    for (int64_t k = 0; k < inputs[i].count(); ++k) {
      moved[i].set(k, inputs[i].get(k) * (1.0 + 0x1p-8 * noise.get(k)));
      operands[i].bound[static_cast<size_t>(k)] = std::fabs(moved[i].get(k) - inputs[i].get(k));
    }
  }
  expect_within(op, operands, moved);
}

TEST(ReferenceCalls, MatmulsOfADeviceLieWithinTheirBounds) {
  uint64_t seed = 1;
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {5, 7, 3}, {16, 24, 96}, {3, 4, 2048}, {0, 3, 4}, {2, 3, 0}}) {
      const auto random = [&](Sizes sizes) {
        return HostTensor::random(type, std::move(sizes), {.seed = ++seed});
      };
      const std::vector<std::pair<DType, Sizes>> result = {{type, {m, n}}};
      expect_sound(call("matmul_nt", result), {random({m, k}), random({n, k})}, seed);
      expect_sound(call("matmul_nn", result), {random({m, k}), random({k, n})}, seed);
      expect_sound(call("matmul_tn", result), {random({k, m}), random({k, n})}, seed);
      const std::vector<std::pair<DType, Sizes>> wide = {{statistics(type), {m, n}}};
      expect_sound(call("matmul_nt", wide), {random({m, k}), random({n, k})}, seed);
    }
  }
}

struct Heads {
  int64_t tokens, heads, kv_heads, dim;
};

TEST(ReferenceCalls, AttentionOfADeviceLiesWithinItsBounds) {
  uint64_t seed = 1000;
  for (const DType type : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const Heads& h : {Heads{1, 1, 1, 1}, Heads{9, 4, 2, 16}, Heads{40, 2, 2, 8},
                           Heads{17, 6, 1, 5}, Heads{0, 2, 1, 4}}) {
      const Sizes q_sizes = {h.tokens, h.heads, h.dim};
      const Sizes k_sizes = {h.tokens, h.kv_heads, h.dim};
      const Sizes lse_sizes = {h.heads, h.tokens};
      const auto random = [&](const Sizes& sizes) {
        return HostTensor::random(type, sizes, {.seed = ++seed});
      };
      const HostTensor q = random(q_sizes);
      const HostTensor k = random(k_sizes);
      const HostTensor v = random(k_sizes);
      const ExternalOp forward =
          call("attention", {{type, q_sizes}, {statistics(type), lse_sizes}});
      expect_sound(forward, {q, k, v}, seed);

      std::vector<HostTensor> left = {HostTensor::poisoned(type, q_sizes),
                                      HostTensor::poisoned(statistics(type), lse_sizes)};
      run_reference_call(forward, std::vector{q, k, v}, left);
      expect_sound(call("attention_backward", {{type, q_sizes}, {type, k_sizes}, {type, k_sizes}}),
                   {random(q_sizes), q, k, v, left[0], left[1]}, seed);
    }
  }
}

// Sums that overflow in one order only, infinities and NaN, in every place.
TEST(ReferenceCalls, HoldForHardData) {
  uint64_t seed = 2000;
  for (const DType type : {DType::kBF16, DType::kF32}) {
    for (const SampleData data : sample_data()) {
      SCOPED_TRACE(name_of(data));
      const auto draw = [&](const Sizes& sizes) {
        HostTensor tensor = HostTensor::random(type, sizes, {.seed = ++seed});
        draw_sample_data(tensor, data, seed);
        return tensor;
      };
      const auto expect_holds = [&](const ExternalOp& op, const std::vector<HostTensor>& inputs) {
        std::vector<OracleOutput> operands;
        for (const HostTensor& input : inputs) operands.push_back(exact(input));
        expect_within(op, operands, inputs);
      };
      const Sizes q_sizes = {9, 4, 16};
      const Sizes k_sizes = {9, 2, 16};
      const Sizes lse_sizes = {4, 9};
      expect_holds(call("matmul_nt", {{DType::kF32, {9, 7}}}),
                   {draw({9, 24}), draw({7, 24}), draw({9, 7})});
      const HostTensor q = draw(q_sizes);
      const HostTensor k = draw(k_sizes);
      const HostTensor v = draw(k_sizes);
      const ExternalOp forward = call("attention", {{type, q_sizes}, {DType::kF32, lse_sizes}});
      expect_holds(forward, {q, k, v});
      std::vector<HostTensor> left = {HostTensor::poisoned(type, q_sizes),
                                      HostTensor::poisoned(DType::kF32, lse_sizes)};
      run_reference_call(forward, std::vector{q, k, v}, left);
      expect_holds(call("attention_backward", {{type, q_sizes}, {type, k_sizes}, {type, k_sizes}}),
                   {draw(q_sizes), q, k, v, left[0], left[1]});
    }
  }
}

TEST(ReferenceCalls, MatmulsSumOverTheNamedAxes) {
  const auto tensor = [](Sizes sizes, std::vector<double> values) {
    return exact(HostTensor::of(DType::kBF16, std::move(sizes), values));
  };
  const OracleOutput a = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const OracleOutput b = tensor({2, 3}, {1, 0, -1, 2, 1, 0});
  const auto values = [&](std::string name, Sizes sizes, std::vector<OracleOutput> operands) {
    return reference_call(call(std::move(name), {{DType::kF32, std::move(sizes)}}), operands)[0]
        .real;
  };
  EXPECT_EQ(values("matmul_nt", {2, 2}, {a, b}), (std::vector<double>{-2, 4, -2, 13}));
  EXPECT_EQ(values("matmul_tn", {3, 3}, {a, b}),
            (std::vector<double>{9, 4, -1, 12, 5, -2, 15, 6, -3}));
  const OracleOutput c = tensor({3, 1}, {1, 1, 2});
  EXPECT_EQ(values("matmul_nn", {2, 1}, {a, c}), (std::vector<double>{9, 21}));
}

TEST(ReferenceCalls, AttentionSeesOnlyWhatCameBefore) {
  const Sizes sizes = {2, 2, 4};
  const Sizes kv_sizes = {2, 1, 4};
  const OracleOutput q = exact(HostTensor::random(DType::kF64, sizes, {.seed = 1}));
  const OracleOutput k = exact(HostTensor::random(DType::kF64, kv_sizes, {.seed = 2}));
  const OracleOutput v = exact(HostTensor::random(DType::kF64, kv_sizes, {.seed = 3}));
  const auto out = reference_call(call("attention", {{DType::kF64, sizes}, {DType::kF64, {2, 2}}}),
                                  std::vector{q, k, v});
  const auto score = [&](size_t head, size_t i, size_t j) {
    double sum = 0.0;
    for (size_t d = 0; d < 4; ++d) sum += q.real[(i * 2 + head) * 4 + d] * k.real[j * 4 + d];
    return sum / 2.0;
  };
  for (size_t head = 0; head < 2; ++head) {
    const double near = std::exp(score(head, 1, 1));
    const double far = std::exp(score(head, 1, 0));
    EXPECT_DOUBLE_EQ(out[1].real[head * 2], score(head, 0, 0));
    EXPECT_NEAR(out[1].real[head * 2 + 1], std::log(near + far), 1e-14);
    for (size_t d = 0; d < 4; ++d) {
      EXPECT_DOUBLE_EQ(out[0].real[head * 4 + d], v.real[d]);
      EXPECT_NEAR(out[0].real[(2 + head) * 4 + d],
                  (far * v.real[d] + near * v.real[4 + d]) / (near + far), 1e-14);
    }
  }
}

TEST(ReferenceCalls, OthersAreRefused) {
  const OracleOutput x = exact(HostTensor::zeros(DType::kBF16, {2, 3}));
  const OracleOutput heads = exact(HostTensor::zeros(DType::kBF16, {2, 3, 4}));
  const OracleOutput kv = exact(HostTensor::zeros(DType::kBF16, {2, 2, 4}));
  const ExternalOp square = call("matmul_nn", {{DType::kBF16, {2, 3}}});
  const ExternalOp attention =
      call("attention", {{DType::kBF16, {2, 3, 4}}, {DType::kF32, {3, 2}}});
  EXPECT_THROW(reference_call(square, std::vector{x, x}), SinterException);
  EXPECT_THROW(reference_call(square, std::vector{x}), SinterException);
  EXPECT_THROW(reference_call(attention, std::vector{heads, kv, kv}), SinterException);
  EXPECT_THROW(reference_call(call("f", {{DType::kBF16, {2, 3}}}), std::vector{x}),
               SinterException);
}

}  // namespace sinter::reference_calls_test
