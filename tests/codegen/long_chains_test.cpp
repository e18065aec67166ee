// Chains of hundreds of thousands of ops go all the way to CUDA text on a small stack.

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <string>

#include "codegen/cuda/emit.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"
#include "tests/support/effort.h"

namespace sinter::long_chains_test {

/// What musl gives a thread at least twice over, and glibc a thirty-second part of.
constexpr size_t kStackBytes = size_t{256} * 1024;
/// Whatever has a frame an op needs more than the stack: 16 bytes an op are three times as much.
const int64_t kOps = takes_all_cases() ? 200'000 : 50'000;

/// Runs work in a thread with a small stack, and waits for it.
void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  const auto enter = [](void* of) -> void* {
    (*static_cast<const std::function<void()>*>(of))();
    return nullptr;
  };
  pthread_t thread{};
  std::function<void()> copy = work;
  ASSERT_EQ(pthread_create(&thread, &attributes, enter, &copy), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
}

using Step = std::function<ValueId(FusionBuilder&, ValueId value, ValueId x, int64_t i)>;

Fusion chain(int64_t steps, const Step& step) {
  FusionBuilder b("chain");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  ValueId value = x;
  for (int64_t i = 0; i < steps; ++i) value = step(b, value, x, i);
  b.output(value);
  return b.build();
}

/// Plans a graph, says why, and emits the first kernels of it. `family`: of the one kernel that has
/// to run it.
void expect_emitted(const Fusion& fusion, const std::optional<std::string>& family = {}) {
  constexpr size_t kKernels = 3;
  const auto planned = plan(fusion, {}, *find_device("H200"),
                            {.families = builtin_families(), .pin = {.family = family}});
  ASSERT_TRUE(planned.has_value()) << planned.error().text();
  EXPECT_FALSE(explain(*planned).empty());
  for (const KernelPlan& kernel : planned->kernels | std::views::take(kKernels)) {
    const auto source = emit(kernel.facts, kernel.chosen().schedule);
    ASSERT_TRUE(source.has_value()) << source.error().text();
    EXPECT_FALSE(source->text.empty());
  }
}

TEST(LongChainsTest, FunctionsAreParsedPlannedAndEmitted) {
  on_small_stack([] {
    const Fusion fusion = chain(kOps, [](FusionBuilder& b, ValueId value, ValueId, int64_t i) {
      return i % 2 == 0 ? b.exp(value) : b.pointwise(PointwiseFn::kTanh, {value});
    });
    const auto parsed = parse_fusion(print(fusion));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
    EXPECT_EQ(structural_hash(*parsed), structural_hash(fusion));
    expect_emitted(*parsed);
  });
}

TEST(LongChainsTest, ChoicesAndCastsAreEmitted) {
  on_small_stack([] {
    expect_emitted(chain(kOps / 20, [](FusionBuilder& b, ValueId value, ValueId x, int64_t i) {
      const PointwiseFn compares = i % 2 == 0 ? PointwiseFn::kLt : PointwiseFn::kGt;
      const ValueId chosen = b.select(b.pointwise(compares, {value, x}), x, b.exp(value));
      return b.cast(b.cast(chosen, i % 2 == 0 ? DType::kBF16 : DType::kF16), DType::kF32);
    }));
  });
}

TEST(LongChainsTest, ScalarsAndRowValuesAreEmitted) {
  on_small_stack([] {
    FusionBuilder b("row_values");
    const ValueId x = b.input(DType::kF32, {64, 32}, "x");
    ValueId value = b.sum(x, {1});
    for (int64_t i = 0; i < kOps / 10; ++i)
      value = i % 2 == 0 ? b.exp(value) : b.pointwise(PointwiseFn::kTanh, {value});
    b.output(b.mul(x, b.broadcast_over(value, x, {1})));
    expect_emitted(b.build());
  });
}

/// Where no cut keeps chains short: reductions ask what evaluating their operands again takes.
TEST(LongChainsTest, ReductionsOfChainsAreOneKernelIfPinned) {
  const auto reduced = [](int axis, const auto& reduce) {
    FusionBuilder b("reduced");
    ValueId value = b.input(DType::kF32, {64, 32}, "x");
    for (int64_t i = 0; i < kOps / 20; ++i)
      value = i % 2 == 0 ? b.exp(value) : b.pointwise(PointwiseFn::kTanh, {value});
    reduce(b, value, axis);
    expect_emitted(b.build(), axis == 1 ? "looped" : "column");
  };
  on_small_stack([&] {
    for (const int axis : {0, 1}) {
      reduced(axis, [](auto& b, ValueId x, int over) { b.output(b.sum(x, {over})); });
      reduced(axis, [](auto& b, ValueId x, int over) {
        b.output(b.reduce(ReduceFn::kArgMax, x, {over}));
      });
      reduced(axis, [](auto& b, ValueId x, int over) { b.output(b.welford(x, {over}).m2); });
      reduced(axis, [](auto& b, ValueId x, int over) {
        const auto pair = b.logsumexp_pair(x, {over});
        b.output(b.add(pair.max, b.log(pair.sum)));
      });
    }
  });
}

TEST(LongChainsTest, NestedMovesAndJoinsArePlanned) {
  on_small_stack([] {
    expect_emitted(chain(kOps / 4, [](FusionBuilder& b, ValueId value, ValueId, int64_t i) {
      return b.reshape(b.permute(value, {1, 0}), i % 2 == 0 ? Shape{64, 32} : Shape{128, 16});
    }));
    expect_emitted(chain(kOps / 20, [](FusionBuilder& b, ValueId value, ValueId x, int64_t) {
      return b.concatenate({value, b.exp(x)}, 0);
    }));
  });
}

/// Each index is what a table holds where the one before it points.
Fusion takes(int64_t count, const Shape& shape) {
  FusionBuilder b("takes");
  Shape table = {16};
  table.insert(table.end(), shape.begin(), shape.end());
  const ValueId next = b.input(DType::kI32, table, "next");
  ValueId index = b.input(DType::kI32, shape, "index");
  for (int64_t i = 0; i < count; ++i) index = b.take(next, index, 0);
  b.output(index);
  return b.build();
}

TEST(LongChainsTest, TakesOfTakesAreEmitted) {
  on_small_stack([] {
    expect_emitted(takes(kOps / 20, {64}));
    expect_emitted(takes(kOps / 20, {}));  // Of scalars.
  });
}

/// Kernels of rows look elements up along the row that they reduce.
TEST(LongChainsTest, TakesAlongReducedRowsAreEmitted) {
  on_small_stack([] {
    FusionBuilder b("takes");
    const ValueId x = b.input(DType::kF32, {64, 32}, "x");
    const ValueId index = b.input(DType::kI32, {64}, "index");
    ValueId value = b.sum(x, {1});
    for (int64_t i = 0; i < 200; ++i)
      value = b.take(b.mul(x, b.broadcast_over(value, x, {1})), index, 1);
    b.output(value);
    expect_emitted(b.build());
  });
}

TEST(LongChainsTest, ReductionsOfWhatWasReducedAreEmitted) {
  on_small_stack([] {
    expect_emitted(chain(kOps / 60, [](FusionBuilder& b, ValueId value, ValueId, int64_t i) {
      const int axis = static_cast<int>(i % 2);
      return b.mul(value, b.broadcast_over(b.sum(value, {axis}), value, {axis}));
    }));
    expect_emitted(chain(kOps / 60, [](FusionBuilder& b, ValueId value, ValueId, int64_t) {
      return b.mul(value, b.broadcast_over(b.sum(value, {1}), value, {1}));
    }));
  });
}

}  // namespace sinter::long_chains_test
