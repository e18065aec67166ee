// Few long rows, reduced in parts: every reduction that has parts is the oracle's.

#include <gmock/gmock.h>

#include <functional>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/segmentation/uneven_parts.h"
#include "tests/integration/canned_case.h"
#include "tests/support/effort.h"

namespace sinter::row_parts_test {

/// One reduction of a matrix over its last axis, and what follows from it.
Fusion reduction(ReduceFn fn, DType type) {
  FusionBuilder b("reduction");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  b.output(b.reduce(fn, b.input(type, {rows, cols}, "x"), {1}), "y");
  return b.build();
}

Fusion moments() {
  FusionBuilder b("moments");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const auto [mean, m2] = b.welford(b.input(DType::kBF16, {rows, cols}, "x"), {1});
  b.output(mean, "mean");
  b.output(b.sqrt(m2), "deviation");
  return b.build();
}

/// `masked`: most of a row is -inf, and so are whole parts of it.
Fusion log_sum_exp(bool masked) {
  FusionBuilder b("log_sum_exp");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  ValueId x = b.cast(b.input(DType::kBF16, {rows, cols}, "x"), DType::kF32);
  if (masked) {
    const ValueId place = b.iota({rows, cols}, 1, DType::kI32);
    const ValueId nothing = b.constant(-std::numeric_limits<double>::infinity());
    x = b.select(b.pointwise(PointwiseFn::kLt, {place, b.constant_integer(5, DType::kI32)}), x,
                 nothing);
  }
  const auto [max, sum] = b.logsumexp_pair(x, {1});
  b.output(b.add(max, b.log(sum)), "y");
  return b.build();
}

Fusion norm_of_all(const std::vector<int>& axes) {
  FusionBuilder b("norm_of_all");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.cast(b.input(DType::kBF16, {rows, cols}, "x"), DType::kF32);
  b.output(b.sqrt(b.sum(b.mul(x, x), axes)), "norm");
  return b.build();
}

/// Plans for the device, checks that rows are in parts, and holds all kernels against the oracle.
void expect_in_parts(const Fusion& fusion, int64_t rows, int64_t columns) {
  const Plan planned = plan(fusion, {{"rows", rows}, {"cols", columns}}, *find_device("H200"),
                            {.families = builtin_families()})
                           .value();
  ASSERT_EQ(planned.kernels.size(), 2U) << fusion.name << " " << rows << " x " << columns;
  EXPECT_TRUE(computes_the_oracle(fusion, planned, planned.kernels.front().chosen().schedule));
}

class RowPartsAt : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(RowPartsAt, AreTheOracles) {
  const auto [rows, columns] = GetParam();
  using enum ReduceFn;
  for (const ReduceFn fn : {kSum, kProd, kMax, kMin, kArgMax, kArgMin})
    expect_in_parts(reduction(fn, DType::kF32), rows, columns);
  for (const ReduceFn fn : {kAny, kAll})
    expect_in_parts(reduction(fn, DType::kBool), rows, columns);
  expect_in_parts(reduction(kMax, DType::kI32), rows, columns);
  expect_in_parts(moments(), rows, columns);
  expect_in_parts(log_sum_exp(false), rows, columns);
  expect_in_parts(log_sum_exp(true), rows, columns);
  expect_in_parts(norm_of_all({0, 1}), rows, columns);
  expect_in_parts(norm_of_all({1}), rows, columns);
}

INSTANTIATE_TEST_SUITE_P(Extents, RowPartsAt,
                         testing::Values(std::pair(1, 524288), std::pair(3, 400000),
                                         std::pair(2, 333333)),
                         [](const auto& at) {
                           return fmt::format("{}x{}", at.param.first, at.param.second);
                         });

TEST(RowParts, OfTheMiddleAxisAreTheOracles) {
  for (const bool tuples : {false, true}) {
    FusionBuilder b("middle");
    const Extent rows = b.symbol("rows");
    const Extent cols = b.symbol("cols");
    const ValueId x = b.input(DType::kF32, {Extent(2), rows, cols}, "x");
    const auto [mean, m2] = b.welford(x, {1});
    tuples ? b.output(b.add(mean, m2), "y") : b.output(b.exp(b.sum(x, {1})), "y");
    expect_in_parts(b.build(), tuples ? 60000 : 200000, 3);
  }
}

/// Reductions of 53 elements in three parts of 16 and a rest of 5, over the first, a middle and the
/// last axis, on all kinds of hard data: what an uneven axis becomes is held against the graph as
/// it was written.
TEST(UnevenParts, AreTheOracles) {
  using enum ReduceFn;
  const std::vector<Shape> shapes = {{Extent(53)},
                                     {Extent(3), Extent(53)},
                                     {Extent(53), Extent(3)},
                                     {Extent(2), Extent(53), Extent(3)}};
  const auto make = [](const Shape& shape, int axis, auto&& reduce) {
    FusionBuilder b("uneven");
    reduce(b, b.input(DType::kF32, shape, "x"), axis);
    return b.build();
  };
  std::vector<std::function<void(FusionBuilder&, ValueId, int)>> reductions;
  for (const ReduceFn fn : {kSum, kProd, kMax, kMin, kArgMax, kArgMin})
    reductions.emplace_back(
        [fn](FusionBuilder& b, ValueId x, int axis) { b.output(b.reduce(fn, x, {axis}), "y"); });
  for (const ReduceFn fn : {kAny, kAll})
    reductions.emplace_back([fn](FusionBuilder& b, ValueId x, int axis) {
      b.output(b.reduce(fn, b.pointwise(PointwiseFn::kLt, {x, b.constant(0.5)}), {axis}), "y");
    });
  reductions.emplace_back([](FusionBuilder& b, ValueId x, int axis) {
    const auto [mean, m2] = b.welford(x, {axis});
    b.output(mean, "mean");
    b.output(m2, "m2");
  });
  reductions.emplace_back([](FusionBuilder& b, ValueId x, int axis) {
    const auto [max, sum] = b.logsumexp_pair(x, {axis});
    b.output(max, "max");
    b.output(sum, "sum");
  });
  Slice slice(3);
  for (const Shape& shape : shapes) {
    const auto axis = static_cast<int>(std::ranges::find(shape, Extent(53)) - shape.begin());
    for (size_t i = 0; i < reductions.size(); ++i) {
      if (!slice.takes()) continue;
      SCOPED_TRACE(fmt::format("{} axes, reduction {}", shape.size(), i));
      const Fusion fusion = make(shape, axis, reductions[i]);
      const auto reduction =
          std::ranges::find_if(fusion.ops, [](const Op& op) { return is_reduction(op.kind); });
      const Fusion parted = with_axes_in_parts(
          fusion, {{.reduction = OpId{static_cast<uint32_t>(reduction - fusion.ops.begin())},
                    .axis = axis,
                    .length = 53,
                    .parts = 3,
                    .part_length = 16}});
      const Plan planned =
          plan(parted, {}, *find_device("H200"), {.families = builtin_families()}).value();
      const auto check = check_on_host(fusion, planned.binding, planned, 1, builtin_families());
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->passed()) << check->text();
    }
  }
}

/// Rows of 601 columns of a contraction: two tiles of 256 and a rest of 89, each a contraction of
/// its own, with what the columns are computed from cut alike.
TEST(UnevenParts, OfContractionsAreTheOracles) {
  using Reduce = std::function<void(FusionBuilder&, ValueId)>;
  const std::vector<Reduce> reductions = {
      [](FusionBuilder& b, ValueId x) {
        b.output(cross_entropy(b, x, b.input(DType::kI64, {21}, "labels")), "loss");
      },
      [](FusionBuilder& b, ValueId x) {
        const ValueId place = b.iota({21, 601}, 1, DType::kI32);
        const ValueId scaled = b.mul(x, b.cast(place, DType::kF32));
        b.output(b.sum(b.add(scaled, b.input(DType::kBF16, {601}, "bias")), {1}), "sum");
      },
      [](FusionBuilder& b, ValueId x) {
        const ValueId squares = b.input(DType::kF32, {21, 601}, "others");
        b.output(b.reduce(ReduceFn::kArgMax, b.add(x, squares), {1}), "place");
        b.output(b.amax(x, {1}), "largest");
      }};
  for (size_t i = 0; i < reductions.size(); ++i) {
    SCOPED_TRACE(i);
    FusionBuilder b("uneven");
    const ValueId x = b.input(DType::kBF16, {21, 40}, "x");
    reductions[i](b, b.linear(x, b.input(DType::kBF16, {601, 40}, "w")));
    const Fusion fusion = b.build();
    const std::vector<UnevenAxis> axes = find_uneven_axes(simplify(fusion), *find_device("H200"));
    ASSERT_FALSE(axes.empty());
    for (const UnevenAxis& axis : axes) {
      EXPECT_TRUE(axis.of_contraction);
      EXPECT_EQ(axis.parts, 2);
      EXPECT_EQ(axis.part_length, 256);
    }
    const Fusion parted = with_axes_in_parts(simplify(fusion), axes);
    for (const char* device : {"A100", "H200"}) {
      if (i > 0 && std::string_view(device) == "H200") continue;
      const PlanOptions options{.families = builtin_families(),
                                .contracting = Contracting::kKernels};
      const auto planned = plan(parted, {}, *find_device(device), options);
      ASSERT_TRUE(planned) << planned.error().text();
      const auto contractions = std::ranges::count_if(
          planned->kernels,
          [](const KernelPlan& kernel) { return kernel.chosen().schedule.family == kMatmul; });
      EXPECT_EQ(contractions, 2);
      const auto check = check_on_host(fusion, planned->binding, *planned, 1, builtin_families());
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->passed()) << check->text();
    }
  }
}

/// Single reductions over any axes, odd sizes among them.
TEST(Reductions, OverAnyAxesAreTheOracles) {
  const std::vector<std::pair<Shape, std::vector<int>>> cases = {
      {{Extent(37), Extent(1)}, {0}},
      {{Extent(37), Extent(3)}, {0}},
      {{Extent(37), Extent(8)}, {0}},
      {{Extent(37), Extent(100)}, {0}},
      {{Extent(5), Extent(65537)}, {0}},
      {{Extent(2), Extent(37), Extent(100)}, {1}},
      {{Extent(5), Extent(3), Extent(1)}, {1}},
      {{Extent(3), Extent(17), Extent(8)}, {0, 2}},
      {{Extent(3), Extent(17), Extent(129)}, {0, 2}},
      {{Extent(3), Extent(5), Extent(7), Extent(9)}, {0, 2}},
      {{Extent(3), Extent(5), Extent(7), Extent(9)}, {1, 3}},
      {{Extent(4), Extent(8), Extent(16), Extent(32)}, {0, 2}},
      {{Extent(4), Extent(8), Extent(16), Extent(32)}, {1, 3}},
      {{Extent(4), Extent(8), Extent(16), Extent(32)}, {1, 2}},
      {{Extent(1), Extent(7), Extent(1), Extent(5)}, {0, 2}},
  };
  for (const auto& [shape, axes] : cases) {
    for (const ReduceFn fn : {ReduceFn::kSum, ReduceFn::kMax}) {
      FusionBuilder b("reduction");
      b.output(b.reduce(fn, b.input(DType::kBF16, shape, "x"), axes), "y");
      const Fusion fusion = b.build();
      const Plan planned =
          plan(fusion, {}, *find_device("H200"), {.families = builtin_families()}).value();
      for (const Schedule& schedule : chosen_and_best_of_families(planned.kernels.front()))
        EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
    }
  }
}

}  // namespace sinter::row_parts_test
