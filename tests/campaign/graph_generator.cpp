#include "tests/campaign/graph_generator.h"

#include <algorithm>
#include <array>

#include "fusion_ir/training_composites.h"
#include "tests/campaign/drawing.h"
#include "tests/support/random_fusion.h"
#include "tests/support/random_graph.h"

namespace sinter {
namespace {

/// Lengths of rows: none, few, around a warp, around a power of two, more than a block has threads.
constexpr std::array<int64_t, 16> kWidths = {0,  1,  2,  3,   7,   31,   32,   33,
                                             40, 64, 96, 257, 512, 1000, 1024, 4097};

DrawnGraph draw_fusion(uint64_t seed, Chance& chance) {
  const RandomFusionOptions options{.joins = chance.one_in(3), .picks = chance.one_in(2)};
  const int64_t columns = chance.one_of(std::span<const int64_t>(kWidths));
  const int64_t rows = columns > 512 ? chance.between(0, 4) : chance.between(0, 9);
  const int size = static_cast<int>(chance.between(3, 14));
  return {.kind = GraphKind::kFusion,
          .fusion = random_fusion(seed, size, options),
          .extents = {{"rows", rows}, {"cols", columns}}};
}

DrawnGraph draw_small_graph(uint64_t seed, Chance& chance) {
  const RandomGraphOptions options{.ops = static_cast<int>(chance.between(3, 20)),
                                   .batch = chance.between(1, 3),
                                   .rows = chance.between(1, 8),
                                   .columns = chance.between(1, 70),
                                   .joins = chance.one_in(2),
                                   .calls = chance.one_in(3)};
  return {.kind = GraphKind::kGraph, .fusion = random_graph(seed, options)};
}

/// What an optimizer does to the parameters of a model: one formula for tensors of other sizes.
DrawnGraph draw_list(Chance& chance) {
  FusionBuilder b("list");
  const auto members = static_cast<size_t>(chance.between(2, 24));
  const DType type = chance.one_of({DType::kF32, DType::kBF16, DType::kF16, DType::kF64});
  const int64_t alignment = chance.one_in(3) ? bytes_of(type) : 16;
  const auto form = chance.below(4);
  const bool in_place = chance.one_in(2);
  const ValueId rate = b.input(DType::kF32, {}, "rate");
  const auto replace = [&](ValueId result, ValueId input) {
    b.output(result, "", in_place ? OutputOptions{.alias = input} : OutputOptions{});
  };
  for (size_t i = 0; i < members; ++i) {
    Shape shape;
    const int64_t length = chance.one_of({int64_t{0}, int64_t{1}, int64_t{7}, int64_t{31},
                                          int64_t{64}, int64_t{129}, int64_t{300}, int64_t{1025}});
    for (int64_t axis = chance.between(0, 2); axis > 0; --axis)
      shape.emplace_back(shape.empty() ? length : chance.between(1, 4));
    const auto tensor = [&](std::string_view name, DType of) {
      return b.input(of, shape, fmt::format("{}{}", name, i),
                     {.alignment = std::max(alignment, bytes_of(of))});
    };
    const ValueId x = tensor("x", type);
    switch (form) {
      case 0:
        replace(b.cast(b.mul(x, rate), type), x);
        break;
      case 1:
        replace(b.cast(b.add(x, b.mul(tensor("g", type), rate)), type), x);
        break;
      case 2: {
        const ValueId m = tensor("m", DType::kF32);
        const ValueId v = tensor("v", DType::kF32);
        const AdamStep step = adam_step(b, x, tensor("g", type), m, b.abs(v),
                                        {rate, b.constant(0.5), b.constant(0.25)});
        replace(step.p, x);
        replace(step.m, m);
        replace(step.v, v);
        break;
      }
      default: {
        const ValueId sign = b.pointwise(PointwiseFn::kLt, {x, b.constant(0.0)});
        b.output(b.cast(b.select(sign, b.neg(rate), rate), DType::kF16));
        b.output(sign);
        break;
      }
    }
  }
  return {.kind = GraphKind::kList, .fusion = b.build()};
}

/// Elements of a value at most: a reduction of a tensor without elements may have any number, which
/// take all memory or all time.
constexpr double kMostElements = 1 << 17;

double elements_of_largest(const DrawnGraph& graph) {
  double most = 0.0;
  for (const Value& value : graph.fusion.values) {
    double count = 1.0;  // More than an i64 counts, perhaps.
    for (const Extent& extent : value.shape) {
      count *= static_cast<double>(
          extent.is_constant() ? extent.constant()
                               : graph.extents.at(graph.fusion.symbols[extent.symbol()].name));
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

std::string_view name_of(GraphKind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"tame",  "wild", "rows", "fusion",
                                                      "graph", "list", "long"};
  return kNames[static_cast<size_t>(kind)];
}

DrawnGraph draw_graph(uint64_t seed) {
  // In the order of GraphKind.
  constexpr std::array<int, 7> kWeights = {29, 19, 21, 7, 7, 7, 10};
  Chance chance(seed ^ 0x6772617068ULL);
  const auto kind = static_cast<GraphKind>(chance.weighted(kWeights));
  switch (kind) {
    case GraphKind::kTame:
    case GraphKind::kWild:
    case GraphKind::kRows: {
      DrawnGraph graph = draw_mixed_graph(chance.bits(), kind);
      while (elements_of_largest(graph) > kMostElements)
        graph = draw_mixed_graph(chance.bits(), kind);
      return graph;
    }
    case GraphKind::kFusion:
      return draw_fusion(seed, chance);
    case GraphKind::kGraph:
      return draw_small_graph(seed, chance);
    case GraphKind::kList:
      return draw_list(chance);
    case GraphKind::kLong:
      return draw_long_graph(chance.bits());
  }
  unreachable();
}

}  // namespace sinter
