#include "fusion_ir/passes/place_parts.h"

#include <gtest/gtest.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::place_parts_test {

using Make = std::function<void(FusionBuilder&, ValueId x, ValueId y)>;

/// Of two inputs [8, 32].
Fusion graph(const Make& make) {
  FusionBuilder b("under_test");
  const ValueId x = b.input(DType::kF32, {8, 32}, "x");
  const ValueId y = b.input(DType::kF32, {8, 32}, "y");
  make(b, x, y);
  return b.build();
}

void expect_same(const Make& before, const Make& after) {
  const Fusion placed = applied(place_parts, graph(before));
  EXPECT_TRUE(structurally_equal(placed, graph(after))) << print(placed) << print(graph(after));
}

void expect_kept(const Make& make) { expect_same(make, make); }

TEST(PlaceParts, ComputesWhatSlicesTake) {
  expect_same(
      [](auto& b, ValueId x, ValueId y) {
        const ValueId sum = b.add(x, y);
        b.output(b.slice(sum, {0, 0}, {-1, 16}));
        b.output(b.slice(sum, {0, 16}, {-1, 32}));
      },
      [](auto& b, ValueId x, ValueId y) {
        for (const int64_t at : {0, 16}) {
          const ValueId left = b.slice(x, {0, at}, {-1, at + 16});
          const ValueId right = b.slice(y, {0, at}, {-1, at + 16});
          b.output(b.add(left, right));
        }
      });
}

TEST(PlaceParts, TakesOnlyAsMuchOfABroadcastAsItNeeds) {
  expect_same(
      [](auto& b, ValueId x, ValueId) {
        const ValueId w = b.input(DType::kF32, {32}, "w");
        const ValueId wide = b.broadcast(w, {8, 32}, {1});
        b.output(b.slice(b.mul(x, wide), {2, 4}, {6, 8}));
      },
      [](auto& b, ValueId x, ValueId) {
        const ValueId w = b.input(DType::kF32, {32}, "w");
        const ValueId part = b.slice(x, {2, 4}, {6, 8});
        b.output(b.mul(part, b.broadcast(b.slice(w, {4}, {8}), {4, 4}, {1})));
      });
}

TEST(PlaceParts, CountsFromFurtherOn) {
  expect_same(
      [](auto& b, ValueId, ValueId) {
        b.output(b.slice(b.iota({8, 32}, 1, DType::kI64), {0, 3}, {-1, 31}, {1, 2}));
      },
      [](auto& b, ValueId, ValueId) {
        const ValueId count = b.iota({8, 14}, 1, DType::kI64);
        const auto number = [&](int64_t n) {
          return b.broadcast(b.constant_integer(n, DType::kI64), {8, 14}, {});
        };
        const ValueId twice = b.mul(count, number(2));
        b.output(b.add(twice, number(3)));
      });
}

TEST(PlaceParts, ComputesNothingTwice) {
  // All of the sum is needed, or overlapping parts of it.
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId sum = b.add(x, y);
    b.output(b.slice(sum, {0, 0}, {-1, 16}));
    b.output(sum);
  });
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId sum = b.add(x, y);
    b.output(b.slice(sum, {0, 0}, {-1, 20}));
    b.output(b.slice(sum, {0, 12}, {-1, 32}));
  });
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId sum = b.add(x, y);
    b.output(b.slice(sum, {0, 0}, {-1, 16}));
    b.output(b.sum(sum, {1}));
  });
}

TEST(PlaceParts, CutsNoSum) {
  expect_kept(
      [](auto& b, ValueId x, ValueId) { b.output(b.slice(b.exp(b.sum(x, {1})), {0}, {4})); });
}

TEST(PlaceParts, ComputesOnWhatIsJoined) {
  expect_same(
      [](auto& b, ValueId x, ValueId y) {
        const ValueId w = b.input(DType::kF32, {8, 64}, "w");
        const ValueId joined = b.concatenate({b.neg(x), y}, 1);
        b.output(b.cast(b.mul(joined, w), DType::kBF16));
      },
      [](auto& b, ValueId x, ValueId y) {
        const ValueId w = b.input(DType::kF32, {8, 64}, "w");
        const ValueId minus = b.neg(x);
        const ValueId first = b.mul(minus, b.slice(w, {0, 0}, {-1, 32}));
        const ValueId second = b.mul(y, b.slice(w, {0, 32}, {-1, 64}));
        b.output(b.cast(b.concatenate({first, second}, 1), DType::kBF16));
      });
  // The pipeline repeats passes until nothing changes.
  const Fusion fusion = simplify(graph([](auto& b, ValueId x, ValueId y) {
    b.output(b.cast(b.exp(b.concatenate({b.neg(x), y}, 1)), DType::kBF16));
  }));
  EXPECT_EQ(output_op(fusion), "concatenate") << print(fusion);
  EXPECT_EQ(count_ops(fusion, "cast"), 2);
}

TEST(PlaceParts, JoinedAlikeIsComputedPartByPart) {
  expect_same(
      [](auto& b, ValueId x, ValueId y) {
        const ValueId first = b.concatenate({x, y}, 0);
        b.output(b.sub(first, b.concatenate({y, x}, 0)));
      },
      [](auto& b, ValueId x, ValueId y) {
        const ValueId first = b.sub(x, y);
        b.output(b.concatenate({first, b.sub(y, x)}, 0));
      });
}

TEST(PlaceParts, AJoinedTensorThatOthersNeedStays) {
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId joined = b.concatenate({x, y}, 1);
    b.output(b.exp(joined));
    b.output(joined);
  });
  // A norm over joined rows reads them once.
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId joined = b.concatenate({x, y}, 0);
    b.output(rms_norm(b, joined, {}).y);
  });
}

TEST(PlaceParts, ReducesWhatIsJoinedAlongAnotherAxis) {
  expect_same(
      [](auto& b, ValueId x, ValueId y) {
        b.output(b.sum(b.concatenate({x, y}, 1), {0}));
      },
      [](auto& b, ValueId x, ValueId y) {
        const ValueId first = b.sum(x, {0});
        b.output(b.concatenate({first, b.sum(y, {0})}, 0));
      });
  expect_kept([](auto& b, ValueId x, ValueId y) {
    b.output(b.sum(b.concatenate({x, y}, 1), {1}));
  });
}

TEST(PlaceParts, ReducesPartsOfWhatACallTakesWhole) {
  const Fusion fusion = simplify(graph([](auto& b, ValueId x, ValueId y) {
    const ValueId joined = b.concatenate({b.exp(x), y}, 1);
    b.output(b.external("matmul", {joined}, {{DType::kF32, {8, 8}}}).front());
    b.output(b.sum(b.mul(joined, b.constant(2.0)), {0}));
  }));
  EXPECT_EQ(count_ops(fusion, "reduce.sum"), 2) << print(fusion);
  EXPECT_EQ(count_ops(fusion, "concatenate"), 2);
}

TEST(PlaceParts, ManyJoinedOperandsStayJoined) {
  expect_kept([](auto& b, ValueId x, ValueId y) {
    const ValueId joined = b.concatenate({x, y, x, y, x, y, x, y, x}, 1);
    b.output(b.exp(joined));
  });
}

TEST(PlaceParts, PartsOfSquaresOfSquaresAreMadeOnce) {
  constexpr int kSquares = 60;  // 2^60 ways from the slice to x.
  const Fusion fusion = simplify(graph([](auto& b, ValueId x, ValueId) {
    for (int i = 0; i < kSquares; ++i) x = b.mul(x, x);
    b.output(b.slice(x, {0, 0}, {1, -1}));
  }));
  EXPECT_EQ(count_ops(fusion, "mul"), kSquares);
  EXPECT_EQ(count_ops(fusion, "slice"), 1);
}

TEST(PlaceParts, CountsThatWouldRoundStay) {
  const auto sliced = [](DType type, int64_t extent) {
    FusionBuilder b("count");
    b.output(b.slice(b.iota({extent}, 0, type), {extent - 8}, {extent}));
    return count_ops(applied(place_parts, b.build()), "slice");
  };
  EXPECT_EQ(sliced(DType::kF32, int64_t{1} << 24), 0);
  EXPECT_EQ(sliced(DType::kF32, (int64_t{1} << 24) + 1), 1);
  EXPECT_EQ(sliced(DType::kI64, int64_t{1} << 40), 0);
}

TEST(PlaceParts, ASliceOfOneOperandIsOneOfThatOperand) {
  expect_same(
      [](auto& b, ValueId x, ValueId y) {
        const ValueId joined = b.concatenate({x, y}, 1);
        b.output(b.slice(joined, {0, 40}, {-1, 48}));
        b.output(b.slice(joined, {0, 24}, {-1, 40}));
      },
      [](auto& b, ValueId x, ValueId y) {
        const ValueId joined = b.concatenate({x, y}, 1);
        b.output(b.slice(y, {0, 8}, {-1, 16}));
        b.output(b.slice(joined, {0, 24}, {-1, 40}));
      });
}

}  // namespace sinter::place_parts_test
