#include "fusion_ir/passes/place_contractions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "runtime/oracle/oracle.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::place_contractions_test {

using Make = std::function<ValueId(FusionBuilder&, ValueId x, ValueId w)>;

/// Of two inputs of a type, [8, 16] and [16, 4].
Fusion graph(DType type, const Make& make) {
  FusionBuilder b("under_test");
  const ValueId x = b.input(type, {8, 16}, "x");
  const ValueId w = b.input(type, {16, 4}, "w");
  b.output(make(b, x, w));
  return b.build();
}

void expect_same(DType type, const Make& before, const Make& after) {
  const Fusion placed = applied(place_contractions, graph(type, before));
  EXPECT_TRUE(structurally_equal(placed, graph(type, after)))
      << print(placed) << print(graph(type, after));
}
void expect_kept(DType type, const Make& make) { expect_same(type, make, make); }

TEST(PlaceContractions, ReadThroughPermutations) {
  expect_same(
      DType::kF32,
      [](auto& b, ValueId x, ValueId w) {
        return b.contract("km,nk->mn", b.permute(x, {1, 0}), b.permute(w, {1, 0}));
      },
      [](auto& b, ValueId x, ValueId w) { return b.contract("mk,kn->mn", x, w); });
}

// One permutation behind the other, and beside axes of a batch.
TEST(PlaceContractions, ReadThroughSeveralPermutations) {
  const auto made = [](bool before) {
    FusionBuilder b("under_test");
    const ValueId x = b.input(DType::kF32, {2, 3, 5});
    const ValueId y = b.input(DType::kF32, {5, 2});
    const auto moved = [&] { return b.permute(b.permute(x, {2, 0, 1}), {1, 0, 2}); };  // [2, 5, 3]
    b.output(before ? b.contract("bkm,kb->bm", moved(), y) : b.contract("bmk,kb->bm", x, y));
    return b.build();
  };
  const Fusion placed = applied(place_contractions, made(true));
  EXPECT_TRUE(structurally_equal(placed, made(false))) << print(placed);
}

TEST(PlaceContractions, ReadThroughBroadcastsOfWhatTheOtherHas) {
  const auto repeated = [](FusionBuilder& b, ValueId x) {
    return b.broadcast(x, {3, 8, 16}, {1, 2});
  };
  // Both repeat along the batch: one of them has to have it.
  expect_same(
      DType::kF32,
      [&](auto& b, ValueId x, ValueId w) {
        return b.contract("bmk,bkn->bmn", repeated(b, x), b.broadcast(w, {3, 16, 4}, {1, 2}));
      },
      [&](auto& b, ValueId x, ValueId w) {
        return b.contract("mk,bkn->bmn", x, b.broadcast(w, {3, 16, 4}, {1, 2}));
      });
  // Nothing else has the axis, or it is reduced.
  expect_kept(DType::kF32, [&](auto& b, ValueId x, ValueId w) {
    return b.contract("bmk,kn->bmn", repeated(b, x), w);
  });
  expect_kept(DType::kF32, [](auto& b, ValueId x, ValueId w) {
    const ValueId sums = b.sum(x, {0});
    return b.contract("mk,kn->mn", b.broadcast(b.sum(x, {1}), {8, 16}, {0}),
                      b.mul(w, b.broadcast(sums, {16, 4}, {0})));
  });
  expect_kept(DType::kF32, [](auto& b, ValueId x, ValueId w) {
    const ValueId one = b.reshape(b.sum(x, {0}), {1, 16});
    return b.contract("mk,kn->mn", b.broadcast(one, {8, 16}, {0, 1}), w);
  });
}

TEST(PlaceContractions, ReadThroughCastsToTheirOwnType) {
  const auto wide = [](DType to, ContractOptions options = {}) -> Make {
    return [=](auto& b, ValueId x, ValueId w) {
      return b.matmul(b.cast(x, to), b.cast(w, to), options);
    };
  };
  const Make narrow = [](auto& b, ValueId x, ValueId w) { return b.matmul(x, w); };
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}) {
    expect_same(type, wide(DType::kF32), narrow);
    // What had 16 bits has no more in TF32.
    expect_same(type, wide(DType::kF32, {.precision = ContractPrecision::kTf32}), narrow);
    expect_kept(type, wide(DType::kF64));
  }
  for (const DType type : {DType::kI8, DType::kU8}) {
    expect_same(type, wide(DType::kI32), narrow);
    expect_kept(type, wide(DType::kF32));
  }
  // Of one operand alone, a cast stays.
  expect_kept(DType::kBF16, [](auto& b, ValueId x, ValueId w) {
    return b.matmul(b.cast(x, DType::kF32), b.exp(w));
  });
  expect_kept(DType::kBool, wide(DType::kI32));
}

TEST(PlaceContractions, StandsInThePipeline) {
  const Fusion simple = simplify(graph(DType::kBF16, [](auto& b, ValueId x, ValueId w) {
    const ValueId turned = b.permute(b.cast(w, DType::kF32), {1, 0});
    return b.contract("mk,nk->mn", b.cast(x, DType::kF32), turned);
  }));
  EXPECT_TRUE(structurally_equal(
      simple, graph(DType::kBF16, [](auto& b, ValueId x, ValueId w) { return b.matmul(x, w); })))
      << print(simple);
}

/// A value of the given shape: an input, permuted, repeated and cast at random.
ValueId dressed(FusionBuilder& b, const Shape& shape, std::mt19937& random) {
  const auto one_in = [&](uint32_t n) { return random() % n == 0; };
  std::vector<int> axes;
  Shape from;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (one_in(3)) continue;
    axes.push_back(static_cast<int>(axis));
    from.push_back(shape[axis]);
  }
  std::vector<int> order(from.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  Shape stored(from.size());
  for (size_t axis = 0; axis < order.size(); ++axis)
    stored[static_cast<size_t>(order[axis])] = from[axis];
  ValueId x = b.input(one_in(2) ? DType::kBF16 : DType::kF32, stored);
  if (one_in(2)) x = b.cast(x, DType::kF32);
  x = b.permute(x, order);
  return b.broadcast(b.cast(x, DType::kF32), shape, axes);
}

TEST(PlaceContractions, KeepValues) {
  std::mt19937 random(1);
  size_t placed_any = 0;
  for (int i = 0; i < 200; ++i) {
    FusionBuilder b("drawn");
    const ContractFn fn = static_cast<ContractFn>(random() % 3);
    const ValueId x = dressed(b, {2, 3, 5}, random);
    const ValueId w = dressed(b, {2, 5, 4}, random);
    b.output(b.contract(random() % 2 == 0 ? "bmk,bkn->bmn" : "bmk,bkn->nbm", x, w, {.fn = fn}));
    SCOPED_TRACE(print(b.build()));
    const Fusion before = b.build();
    const auto after = place_contractions(before);
    if (!after) continue;
    ++placed_any;
    EXPECT_TRUE(verify(*after).empty());
    EXPECT_FALSE(place_contractions(*after)) << "once is enough";
    std::vector<HostTensor> inputs;
    for (const ValueId input : before.inputs) {
      const Value& value = before.values[input];
      inputs.push_back(HostTensor::random(value.type, Binding{}.sizes_of(value.shape),
                                          {.seed = inputs.size() + 1, .deviation = 1.0}));
    }
    const OracleOutput expected = evaluate(before, Binding{}, inputs).outputs.front();
    const OracleOutput result = evaluate(*after, Binding{}, inputs).outputs.front();
    for (size_t at = 0; at < expected.bound.size(); ++at)
      ASSERT_LE(std::fabs(expected.real[at] - result.real[at]), expected.bound[at]) << at;
  }
  EXPECT_GT(placed_any, 100U);
}

}  // namespace sinter::place_contractions_test
