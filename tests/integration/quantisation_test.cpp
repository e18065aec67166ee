// Quantisation to 8 bits, bit by bit: what saturates, how ties round, what becomes of infinities
// and NaN.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "fusion_ir/composites.h"
#include "runtime/check/host_execution.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/offers.h"

namespace sinter::quantisation_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kTypes = {DType::kF8E4M3, DType::kF8E5M2, DType::kI8};

/// What the first kernel of a fusion of constant extents stores.
std::vector<HostTensor> run(const Fusion& fusion, std::span<const HostTensor> inputs) {
  const Plan planned =
      plan(fusion, {}, *find_device("H200"), {.families = builtin_families()}).value();
  const KernelPlan& kernel = planned.kernels.front();
  const auto lowered = lower(kernel.facts, kernel.chosen().schedule).value();
  return execute_on_host(kernel.facts, lowered, inputs).value().outputs;
}

/// The nearest number of the type, ties to even, saturated; NaN is 0 in an integer.
uint64_t quantized_bits(DType type, double x) {
  if (type != DType::kI8) return encode(type, x);
  return encode(type, std::isnan(x) ? 0.0 : std::clamp(std::nearbyint(x), -127.0, 127.0));
}

/// Every bf16, in one row after the other: all ties, both ends of the range, subnormals,
/// infinities, NaN.
HostTensor every_bf16() {
  constexpr int64_t kRows = 256;
  HostTensor out = HostTensor::zeros(DType::kBF16, {kRows, kRows});
  for (int64_t i = 0; i < out.count(); ++i) out.set_bits(i, static_cast<uint64_t>(i));
  return out;
}

TEST(Quantisation, RoundsToEvenAndSaturates) {
  const HostTensor x = every_bf16();
  for (const DType type : kTypes) {
    FusionBuilder b("quantised");
    const ValueId in = b.input(DType::kBF16, {256, 256}, "x");
    b.output(quantize(b, in, b.input(DType::kF32, {}, "scale"), type), "q");
    const Fusion fusion = b.build();
    for (const double scale : {1.0, 0.125}) {
      const HostTensor q =
          run(fusion, std::vector{x, HostTensor::of(DType::kF32, {}, std::vector{scale})}).front();
      int64_t wrong = 0;
      for (int64_t i = 0; i < x.count(); ++i) {
        const double ratio = x.get(i) / scale;
        const bool both_nan = std::isnan(ratio) && std::isnan(q.get(i));
        if (!both_nan && q.bits(i) != quantized_bits(type, ratio)) ++wrong;
      }
      EXPECT_EQ(wrong, 0) << name_of(type) << " scale " << scale;
    }
  }
}

TEST(Quantisation, OfSomeNumbers) {
  struct Case {
    DType type;
    double x, q;
  };
  for (const Case& item : std::vector<Case>{{DType::kF8E4M3, 1.0625, 1.0},
                                            {DType::kF8E4M3, 1.1875, 1.25},
                                            {DType::kF8E4M3, 464.0, 448.0},
                                            {DType::kF8E4M3, 1e30, 448.0},
                                            {DType::kF8E4M3, -kInfinity, -448.0},
                                            {DType::kF8E4M3, 0x1p-10, 0.0},
                                            {DType::kF8E4M3, 0x3p-10, 0x1p-8},
                                            {DType::kF8E5M2, 1.125, 1.0},
                                            {DType::kF8E5M2, 65536.0, 57344.0},
                                            {DType::kF8E5M2, kInfinity, 57344.0},
                                            {DType::kF8E5M2, 0x3p-17, 0x1p-15},
                                            {DType::kI8, 0.5, 0.0},
                                            {DType::kI8, -1.5, -2.0},
                                            {DType::kI8, 126.5, 126.0},
                                            {DType::kI8, -1000.0, -127.0},
                                            {DType::kI8, kInfinity, 127.0},
                                            {DType::kI8, kNan, 0.0}}) {
    FusionBuilder b("quantised");
    const ValueId x = b.input(DType::kF32, {1, 1}, "x");
    b.output(quantize(b, x, b.constant(1.0), item.type), "q");
    const auto out =
        run(b.build(), std::vector{HostTensor::of(DType::kF32, {1, 1}, std::vector{item.x})});
    EXPECT_EQ(out.front().get(0), item.q) << item.x << " as " << name_of(item.type);
  }
}

// Rows of four: zeros; an infinity; a NaN; subnormal numbers; what needs no rounding.
TEST(Quantisation, OfSpecialRows) {
  for (const DType type : kTypes) {
    const double largest = largest_finite(type);
    FusionBuilder b("quantised");
    const ValueId x = b.input(DType::kF32, {5, 4}, "x");
    constexpr double kSmallest = 0x1p-10;
    const Quantized rows = quantize_per_row(b, x, {.type = type, .smallest_scale = kSmallest});
    b.output(rows.q, "q");
    b.output(rows.scale, "scale");
    const double half = largest / 2.0;
    const std::vector<double> values = {0.0,        -0.0, 0.0, 0.0,      1.0,       kInfinity, -1.0,
                                        -kInfinity, 1.0,  2.0, kNan,     kInfinity, 0x1p-149,  0.0,
                                        0x1p-130,   0.0,  1.0, -largest, 0.0,       half};
    const auto out = run(b.build(), std::vector{HostTensor::of(DType::kF32, {5, 4}, values)});
    const HostTensor& q = out[0];
    const auto is_nothing = [&](int64_t i) {
      return type == DType::kI8 ? q.get(i) == 0.0 : std::isnan(q.get(i));
    };
    for (const int64_t i : {0, 1, 2, 3, 4, 6, 12, 13, 14, 15, 18}) EXPECT_EQ(q.get(i), 0.0) << i;
    for (const int64_t i : {5, 7, 8, 9, 10, 11}) EXPECT_TRUE(is_nothing(i)) << i;
    EXPECT_EQ(q.get(17), -largest);
    EXPECT_EQ(q.get(16), 1.0);
    EXPECT_EQ(out[1].get(0), kSmallest);
    EXPECT_EQ(out[1].get(1), kInfinity);
    EXPECT_TRUE(std::isnan(out[1].get(2)));
    EXPECT_EQ(out[1].get(3), kSmallest);
    EXPECT_NEAR(out[1].get(4), 1.0, 0x1p-23);
  }
}

/// Numbers of every size, ties and ends of 8-bit types, and what no number is; each as `type` has
/// it.
HostTensor edges_of(DType type) {
  std::vector<double> values = {0.0, -0.0, kInfinity, -kInfinity, kNan};
  for (const double x :
       {0x1p-149, 0x1p-20, 0x3p-17, 0x1p-10, 0.49,    0.5,          1.0,   1.0625, 1.125, 1.5,
        2.5,      126.5,   127.0,   127.9,   128.0,   254.5,        255.0, 256.0,  448.0, 464.0,
        465.0,    57344.0, 61440.0, 65504.0, 65520.0, 2147483648.0, 1e20,  3e38}) {
    values.push_back(x);
    values.push_back(-x);
  }
  while (values.size() % 64 != 0) values.push_back(1.0);
  const auto count = static_cast<int64_t>(values.size());
  return HostTensor::of(type, {count}, values);
}

// An output that is a cast is stored from a tile of the compute type, which the store rounds: in
// two steps where the operand is of a third type.
TEST(StoredCasts, GiveTheBitsOfTheCast) {
  for (const DType from : kAllDTypes) {
    const HostTensor x = edges_of(from);
    for (const DType to : kAllDTypes) {
      if (to == from || compute_type(to) == to) continue;
      FusionBuilder b("cast");
      b.output(b.cast(b.input(from, {x.count()}, "x"), to), "y");
      const HostTensor y = run(b.build(), std::vector{x}).front();
      for (int64_t i = 0; i < x.count(); ++i) {
        if (std::isnan(x.get(i)) && std::isnan(y.get(i))) continue;
        EXPECT_EQ(y.bits(i), encode(to, x.get(i)))
            << name_of(from) << " " << x.get(i) << " to " << name_of(to);
      }
    }
  }
}

// Without this, bytes would be converted and put into words one by one.
TEST(StoredCasts, LeaveBytesToTheStore) {
  for (const DType to : {DType::kI8, DType::kU8, DType::kF8E4M3}) {
    FusionBuilder b("cast");
    b.output(b.cast(b.input(DType::kBF16, {4096}, "x"), to), "y");
    const Plan planned = plan(b.build(), {}, *find_device("H200")).value();
    const KernelPlan& kernel = planned.kernels.front();
    const auto lowered = lower(kernel.facts, kernel.chosen().schedule).value();
    for (const kir::Var& var : lowered.kernel.vars) EXPECT_NE(var.type, to) << var.name;
  }
}

}  // namespace sinter::quantisation_test
