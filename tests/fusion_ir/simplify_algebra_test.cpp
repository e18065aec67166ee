#include "fusion_ir/passes/simplify_algebra.h"

#include <gtest/gtest.h>

#include "fusion_ir/match.h"
#include "fusion_ir/passes/remove_dead_values.h"
#include "fusion_ir/pipeline.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::simplify_algebra_test {

using Make = std::function<ValueId(FusionBuilder&, ValueId)>;

void expect_same(const Make& before, const Make& after, DType type = DType::kF32) {
  const Fusion simplified = applied(simplify_algebra, fusion_of(before, type));
  EXPECT_TRUE(structurally_equal(simplified, fusion_of(after, type)))
      << "last op is " << output_op(simplified);
}

/// `before` reduces to x itself. It is wrapped so that x need not be an output.
void expect_identity(const Make& before, DType type = DType::kF32) {
  const auto wrap = [](FusionBuilder& b, ValueId x) { return b.permute(x, {1, 0}); };
  expect_same([&](FusionBuilder& b, ValueId x) { return wrap(b, before(b, x)); }, wrap, type);
}

void expect_unchanged(const Make& make, DType type = DType::kF32) {
  const Fusion before = fusion_of(make, type);
  EXPECT_EQ(applied(simplify_algebra, before), before);
}

ValueId with(FusionBuilder& b, PointwiseFn fn, ValueId x, double number) {
  return b.pointwise(fn, {x, b.constant(number)});
}

TEST(SimplifyAlgebra, NeutralElements) {
  expect_identity([](auto& b, ValueId x) { return with(b, PointwiseFn::kMul, x, 1.0); });
  expect_identity([](auto& b, ValueId x) { return b.mul(b.constant(1.0), x); });
  expect_identity([](auto& b, ValueId x) { return with(b, PointwiseFn::kDiv, x, 1.0); });
  expect_identity([](auto& b, ValueId x) { return with(b, PointwiseFn::kAdd, x, -0.0); });
  expect_identity([](auto& b, ValueId x) { return with(b, PointwiseFn::kSub, x, 0.0); });
  expect_identity([](auto& b, ValueId x) { return with(b, PointwiseFn::kPow, x, 1.0); });
  expect_identity([](auto& b, ValueId x) { return b.add(x, b.constant_integer(0, DType::kI32)); },
                  DType::kI32);
}

TEST(SimplifyAlgebra, KeepsWhatNanInfinityOrSignedZeroWouldShow) {
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kAdd, x, 0.0); });
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kSub, x, -0.0); });
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kMul, x, 0.0); });
  expect_unchanged([](auto& b, ValueId x) { return b.sub(x, x); });
  expect_unchanged([](auto& b, ValueId x) { return b.div(x, x); });
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kPow, x, 0.5); });
}

TEST(SimplifyAlgebra, DivisionByAPowerOfTwoIsExact) {
  expect_same(
      [](auto& b, ValueId x) {
        return b.div(x, b.broadcast(b.constant(8.0), {8, 32}, {}));
      },
      [](auto& b, ValueId x) { return b.mul(x, b.constant(0.125)); });
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kDiv, x, 3.0); });
  // The reciprocal of 2^127 is subnormal and would be flushed.
  expect_unchanged([](auto& b, ValueId x) { return with(b, PointwiseFn::kDiv, x, 0x1p127); });
}

TEST(SimplifyAlgebra, TakingOfOneElementIsASelection) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    FusionBuilder b;
    const ValueId x = b.input(type, {8, 1});
    b.output(b.take(x, b.input(DType::kI64, {8}), 1));
    const Fusion after = simplify(b.build());
    EXPECT_EQ(count_ops(after, "take"), 0);
    EXPECT_EQ(count_ops(after, "select"), 1);
    EXPECT_EQ(after.values[after.outputs.front()].type, type);
  }
}

// tanh(x) beside 1 alone needs no tanh.
TEST(SimplifyAlgebra, OneAndTanh) {
  const auto tanh_of = [](FusionBuilder& b, ValueId x) {
    return b.pointwise(PointwiseFn::kTanh, {x});
  };
  const auto expect_without = [&](const Make& before, double factor) {
    const Fusion simplified =
        applied(remove_dead_values, applied(simplify_algebra, fusion_of(before, DType::kF32)));
    const Fusion after = fusion_of(
        [&](FusionBuilder& b, ValueId x) {
          ValueId y = b.pointwise(PointwiseFn::kExp, {with(b, PointwiseFn::kMul, x, factor)});
          y = b.pointwise(PointwiseFn::kReciprocal, {with(b, PointwiseFn::kAdd, y, 1.0)});
          return with(b, PointwiseFn::kMul, y, 2.0);
        },
        DType::kF32);
    EXPECT_TRUE(structurally_equal(simplified, after)) << print(simplified);
  };
  expect_without([&](auto& b, ValueId x) { return b.add(tanh_of(b, x), b.constant(1.0)); }, -2.0);
  expect_without([&](auto& b, ValueId x) { return b.add(b.constant(1.0), tanh_of(b, x)); }, -2.0);
  expect_without([&](auto& b, ValueId x) { return b.sub(b.constant(1.0), tanh_of(b, x)); }, 2.0);
  expect_unchanged([&](auto& b, ValueId x) { return b.add(tanh_of(b, x), b.constant(2.0)); });
  expect_unchanged([&](auto& b, ValueId x) { return b.sub(tanh_of(b, x), b.constant(1.0)); });
  // What else reads it needs it.
  expect_unchanged([&](auto& b, ValueId x) {
    const ValueId tanh = tanh_of(b, x);
    return b.mul(b.add(tanh, b.constant(1.0)), tanh);
  });
  expect_unchanged([&](auto& b, ValueId x) {
    const ValueId tanh = tanh_of(b, x);
    b.output(tanh, "tanh");
    return b.add(tanh, b.constant(1.0));
  });
}

TEST(SimplifyAlgebra, Negations) {
  expect_identity([](auto& b, ValueId x) { return b.neg(b.neg(x)); });
  expect_same([](auto& b, ValueId x) { return b.abs(b.neg(x)); },
              [](auto& b, ValueId x) { return b.abs(x); });
  expect_same([](auto& b, ValueId x) { return b.add(b.exp(x), b.neg(x)); },
              [](auto& b, ValueId x) { return b.sub(b.exp(x), x); });
  expect_same([](auto& b, ValueId x) { return with(b, PointwiseFn::kMul, x, -1.0); },
              [](auto& b, ValueId x) { return b.neg(x); });
  // x + broadcast(-m) -> x - broadcast(m), the form that recognition expects.
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId negated = b.neg(b.amax(x, {1}));
        return b.add(x, b.broadcast_over(negated, x, {1}));
      },
      [](auto& b, ValueId x) { return b.sub(x, b.broadcast_over(b.amax(x, {1}), x, {1})); });
}

TEST(SimplifyAlgebra, Powers) {
  expect_same([](auto& b, ValueId x) { return with(b, PointwiseFn::kPow, x, 2.0); },
              [](auto& b, ValueId x) { return b.mul(x, x); });
  expect_same([](auto& b, ValueId x) { return with(b, PointwiseFn::kPow, x, 3.0); },
              [](auto& b, ValueId x) { return b.mul(b.mul(x, x), x); });
  expect_same([](auto& b, ValueId x) { return b.pointwise(PointwiseFn::kReciprocal, {b.sqrt(x)}); },
              [](auto& b, ValueId x) { return b.rsqrt(x); });
}

TEST(SimplifyAlgebra, Selections) {
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId condition = with(b, PointwiseFn::kLt, x, 1.0);
        return b.exp(b.select(condition, x, x));
      },
      [](auto& b, ValueId x) { return b.exp(x); });
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId condition = with(b, PointwiseFn::kLt, x, 1.0);
        const ValueId exp = b.exp(x);
        return b.select(b.pointwise(PointwiseFn::kNot, {condition}), x, exp);
      },
      [](auto& b, ValueId x) {
        const ValueId condition = with(b, PointwiseFn::kLt, x, 1.0);
        return b.select(condition, b.exp(x), x);
      });
}

TEST(SimplifyAlgebra, CastsThroughAWiderTypeCollapse) {
  expect_identity([](auto& b, ValueId x) { return b.cast(b.cast(x, DType::kF32), DType::kBF16); },
                  DType::kBF16);
  expect_same([](auto& b, ValueId x) { return b.cast(b.cast(x, DType::kF32), DType::kF64); },
              [](auto& b, ValueId x) { return b.cast(x, DType::kF64); }, DType::kF16);
  expect_same([](auto& b, ValueId x) { return b.cast(b.cast(x, DType::kF32), DType::kI32); },
              [](auto& b, ValueId x) { return b.cast(x, DType::kI32); }, DType::kI8);
  // The rounding to bf16 is part of the graph's meaning.
  expect_unchanged([](auto& b, ValueId x) { return b.cast(b.cast(x, DType::kBF16), DType::kF32); });
  expect_unchanged([](auto& b, ValueId x) { return b.cast(b.cast(x, DType::kF32), DType::kI32); },
                   DType::kI32);
}

TEST(SimplifyAlgebra, WhatBecomesAnIntegerIsRoundedLast) {
  const auto clamp = [](FusionBuilder& b, ValueId x, double low, double high) {
    return b.pointwise(PointwiseFn::kClamp, {x, b.constant(low), b.constant(high)});
  };
  const auto round = [](FusionBuilder& b, ValueId x) {
    return b.pointwise(PointwiseFn::kRound, {x});
  };
  const auto clamped_last = [&](double low, double high, DType type) {
    return
        [=](FusionBuilder& b, ValueId x) { return b.cast(clamp(b, round(b, x), low, high), type); };
  };
  expect_same(clamped_last(-127.0, 127.0, DType::kI8), [&](auto& b, ValueId x) {
    return b.cast(round(b, clamp(b, x, -127.0, 127.0)), DType::kI8);
  });
  expect_unchanged(clamped_last(-127.5, 127.0, DType::kI8));
  expect_unchanged(clamped_last(-127.0, 127.5, DType::kI8));
  expect_unchanged(clamped_last(-127.0, 127.0, DType::kBF16));
}

/// Each element counts as often in a sum as it is repeated, and once in an extreme.
TEST(SimplifyAlgebra, RepeatedElementsAreReducedOnce) {
  const auto repeated = [](auto& b, ValueId x) { return b.broadcast(x, {3, 8, 32, 5}, {1, 2}); };
  expect_same(
      [&](auto& b, ValueId x) {
        return b.sum(repeated(b, x), {0, 2, 3});
      },
      [](auto& b, ValueId x) {
        const ValueId once = b.sum(x, {1});
        return b.mul(once, b.constant(15.0));
      });
  expect_same(
      [&](auto& b, ValueId x) {
        return b.amax(repeated(b, x), {0, 2, 3});
      },
      [](auto& b, ValueId x) { return b.amax(x, {1}); });
  // Repetitions that stay are not touched.
  expect_same(
      [&](auto& b, ValueId x) {
        return b.sum(repeated(b, x), {2, 3});
      },
      [](auto& b, ValueId x) {
        const ValueId once = b.sum(b.broadcast(x, {3, 8, 32}, {1, 2}), {2});
        return b.mul(once, b.constant(5.0));
      });
  expect_unchanged([](auto& b, ValueId x) {
    return b.reduce(ReduceFn::kProd, b.broadcast(x, {3, 8, 32}, {1, 2}), {0});
  });
  expect_unchanged([](auto& b, ValueId x) {
    return b.reduce(ReduceFn::kArgMax, b.broadcast(x, {3, 8, 32}, {1, 2}), {0});
  });
  // A sum of nothing is 0, whatever the elements are.
  expect_unchanged([](auto& b, ValueId x) {
    return b.sum(b.broadcast(x, {0, 8, 32}, {1, 2}), {0});
  });
}

TEST(SimplifyAlgebra, ChainsOfMovesBecomeOne) {
  expect_identity([](auto& b, ValueId x) { return b.permute(b.permute(x, {1, 0}), {1, 0}); });
  // Orders that are not their own inverse: axes move twice in the order given.
  expect_same(
      [](auto& b, ValueId x) {
        return b.permute(b.permute(b.reshape(x, {4, 2, 16, 2}), {1, 2, 0, 3}), {3, 0, 1, 2});
      },
      [](auto& b, ValueId x) {
        return b.permute(b.reshape(x, {4, 2, 16, 2}), {3, 1, 2, 0});
      });
  expect_same(
      [](auto& b, ValueId x) {
        return b.reshape(b.reshape(x, {256}), {16, 16});
      },
      [](auto& b, ValueId x) {
        return b.reshape(x, {16, 16});
      });
  expect_identity([](auto& b, ValueId x) { return b.slice(x, {0, 0}, {8, -1}); });
  // Rows 1, 3, 5, 7, then the second and the fourth of these.
  expect_same(
      [](auto& b, ValueId x) {
        return b.slice(b.slice(x, {1, 0}, {-1, -1}, {2, 1}), {1, 4}, {4, 8}, {2, 1});
      },
      [](auto& b, ValueId x) {
        return b.slice(x, {3, 4}, {8, 8}, {4, 1});
      });
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId max = b.amax(x, {1});
        return b.broadcast(b.broadcast(max, {8, 4}, {0}), {2, 8, 4}, {1, 2});
      },
      [](auto& b, ValueId x) {
        return b.broadcast(b.amax(x, {1}), {2, 8, 4}, {1});
      });
}

/// An index reduction over one element gives 0, not the element, of whatever type that is.
TEST(SimplifyAlgebra, IndexReductionsOfOneElementStay) {
  FusionBuilder b;
  b.output(b.reduce(ReduceFn::kArgMax, b.input(DType::kI64, {8, 1}), {1}));
  b.output(b.sum(b.input(DType::kF32, {8, 32}), {1}));
  const Fusion before = b.build();
  EXPECT_EQ(applied(simplify_algebra, before), before);
}

TEST(SimplifyAlgebra, JoinsThatAddNothingVanish) {
  expect_identity([](auto& b, ValueId x) { return b.concatenate({x}, 1); });
  expect_identity([](auto& b, ValueId x) { return b.pad(x, {0, 0}, {0, 0}, 1.0); });
  expect_unchanged([](auto& b, ValueId x) { return b.pad(x, {0, 0}, {0, 1}, 1.0); });
  expect_unchanged([](auto& b, ValueId x) {
    return b.external("f", {x}, {{DType::kF32, {8, 32}}})[0];
  });
}

TEST(SimplifyAlgebra, AKeptUnitAxisIsNoObstacleToABroadcast) {
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId column = b.reshape(b.amax(x, {1}), {8, 1});
        return b.broadcast(column, {8, 32}, {0, 1});
      },
      [](auto& b, ValueId x) {
        return b.broadcast(b.amax(x, {1}), {8, 32}, {0});
      });
}

TEST(SimplifyAlgebra, AnOutputThatCopiesAnInputStays) {
  expect_unchanged([](auto& b, ValueId x) { return b.broadcast(x, {8, 32}, {0, 1}); });
}

}  // namespace sinter::simplify_algebra_test
