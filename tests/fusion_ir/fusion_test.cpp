#include "fusion_ir/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/integers.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/verifier.h"

namespace sinter::fusion_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Names {
  std::string fusion = "norm";
  std::string rows = "rows";
  std::string x = "x";
};

/// A mean over symbolic columns, scaled by a strided weight: covers symbols, strides and `extent`.
Fusion mean_times_weight(const Names& names = {}) {
  FusionBuilder b(names.fusion);
  const Extent rows = b.symbol(names.rows, 64);
  const Extent cols = b.symbol("cols", 0, 8);
  const ValueId x = b.input(DType::kBF16, {rows, cols}, names.x);
  const ValueId w = b.input(DType::kF32, {rows}, "w", {.strides = {cols}});
  const ValueId mean = b.div(b.sum(x, {1}), b.element_count(x, {1}));
  b.output(b.mul(mean, w), "y");
  return b.build();
}

TEST(FusionTest, FindsSymbolsByName) {
  const Fusion fusion = mean_times_weight();
  EXPECT_EQ(fusion.find_symbol("cols"), SymbolId{1});
  EXPECT_FALSE(fusion.find_symbol("depth").valid());
}

TEST(FusionTest, UsersAreAscendingWithoutRepeats) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4});
  const ValueId square = b.mul(x, x);
  const ValueId y = b.add(square, x);
  b.output(y);
  const auto users = users_of(b.fusion());
  EXPECT_THAT(users[x], ElementsAre(OpId{1}, OpId{2}));
  EXPECT_THAT(users[square], ElementsAre(OpId{2}));
  EXPECT_THAT(users[y], IsEmpty());
}

TEST(FusionHashTest, NamesDoNotMatter) {
  const Fusion a = mean_times_weight();
  const Fusion b = mean_times_weight({.fusion = "other", .rows = "tokens", .x = "hidden"});
  EXPECT_NE(a, b);
  EXPECT_TRUE(structurally_equal(a, b));
  EXPECT_EQ(structural_hash(a), structural_hash(b));
}

/// Every field that is not a name takes part in equality and hash.
TEST(FusionHashTest, StructureMatters) {
  const Fusion base = mean_times_weight();
  const ValueId x = base.inputs[0];
  const std::vector<std::pair<std::string, std::function<void(Fusion&)>>> changes = {
      {"hint", [](Fusion& f) { f.symbols[SymbolId{0}].hint = 128; }},
      {"divisor", [](Fusion& f) { f.symbols[SymbolId{1}].divisible_by = 16; }},
      {"type", [&](Fusion& f) { f.values[x].type = DType::kF16; }},
      {"shape", [&](Fusion& f) { f.values[x].shape[1] = 4096; }},
      {"symbol or constant", [&](Fusion& f) { f.values[x].shape[1] = 1; }},
      {"result number", [&](Fusion& f) { f.values[x].result = 1; }},
      {"def", [&](Fusion& f) { f.values[x].def = OpId{1}; }},
      {"strides", [](Fusion& f) { std::get<InputOp>(f.ops[OpId{1}].kind).strides = {2}; }},
      {"alignment", [](Fusion& f) { std::get<InputOp>(f.ops[OpId{0}].kind).alignment = 2; }},
      {"axes",
       [](Fusion& f) {
         for (Op& op : f.ops) {
           if (auto* reduce = std::get_if<ReduceOp>(&op.kind)) reduce->axes = {0};
         }
       }},
      {"reduction",
       [](Fusion& f) {
         for (Op& op : f.ops) {
           if (auto* reduce = std::get_if<ReduceOp>(&op.kind)) reduce->fn = ReduceFn::kMax;
         }
       }},
      {"function",
       [](Fusion& f) { f.ops[f.values[f.outputs[0]].def].kind = PointwiseOp{PointwiseFn::kAdd}; }},
      {"operands",
       [](Fusion& f) {
         std::swap(f.ops[f.values[f.outputs[0]].def].operands[0],
                   f.ops[f.values[f.outputs[0]].def].operands[1]);
       }},
      {"outputs", [](Fusion& f) { f.outputs.push_back(ValueId{2}); }},
      {"inputs", [](Fusion& f) { std::swap(f.inputs[0], f.inputs[1]); }},
  };
  for (const auto& [what, change] : changes) {
    Fusion changed = base;
    change(changed);
    EXPECT_FALSE(structurally_equal(base, changed)) << what;
    EXPECT_NE(structural_hash(base), structural_hash(changed)) << what;
  }
}

TEST(FusionHashTest, AttributesOfJoinsAndCallsMatter) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 4});
  const ValueId joined = b.concatenate({x, x}, 0);
  const ValueId padded = b.pad(x, {1, 0}, {0, 2}, 0.5);
  b.output(b.external("f", {joined, padded}, {{DType::kF32, {4}}})[0]);
  const Fusion base = b.build();
  const auto kind = [](Fusion& f, uint32_t op) -> OpKind& { return f.ops[OpId{op}].kind; };
  const std::vector<std::pair<std::string, std::function<void(Fusion&)>>> changes = {
      {"axis", [&](Fusion& f) { std::get<ConcatenateOp>(kind(f, 1)).axis = 1; }},
      {"low",
       [&](Fusion& f) {
         std::get<PadOp>(kind(f, 2)).low = {0, 0};
       }},
      {"high",
       [&](Fusion& f) {
         std::get<PadOp>(kind(f, 2)).high = {0, 1};
       }},
      {"value", [&](Fusion& f) { std::get<PadOp>(kind(f, 2)).value.real = 0.25; }},
      {"name", [&](Fusion& f) { std::get<ExternalOp>(kind(f, 3)).name = "g"; }},
      {"declared type",
       [&](Fusion& f) { std::get<ExternalOp>(kind(f, 3)).results[0].type = DType::kF16; }},
      {"declared shape",
       [&](Fusion& f) { std::get<ExternalOp>(kind(f, 3)).results[0].shape = {5}; }},
  };
  for (const auto& [what, change] : changes) {
    Fusion changed = base;
    change(changed);
    EXPECT_FALSE(structurally_equal(base, changed)) << what;
    EXPECT_NE(structural_hash(base), structural_hash(changed)) << what;
  }
}

TEST(FusionHashTest, ConstantsMatterByValue) {
  const auto with = [](ConstantOp op, DType type) {
    FusionBuilder b;
    b.output(b.append(op, {}, type, {})[0]);
    return b.build();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(structural_hash(with({.real = 0.0}, DType::kF32)),
            structural_hash(with({.real = -0.0}, DType::kF32)));
  EXPECT_EQ(structural_hash(with({.real = nan}, DType::kF32)),
            structural_hash(with({.real = -nan}, DType::kF32)));
  EXPECT_NE(structural_hash(with({.integer = 1}, DType::kI64)),
            structural_hash(with({.integer = 2}, DType::kI64)));
}

TEST(BindExtentsTest, SizesComeFromTheCallOrTheHint) {
  const Fusion fusion = mean_times_weight();
  const auto binding = bind_extents(fusion, {{"cols", 4096}});
  ASSERT_TRUE(binding.has_value()) << binding.error().text();
  EXPECT_THAT(binding->symbol_sizes, ElementsAre(64, 4096));
  EXPECT_THAT(binding->sizes_of(fusion.values[fusion.inputs[0]].shape), ElementsAre(64, 4096));
  EXPECT_THAT(input_strides(fusion, *binding, fusion.inputs[0]), ElementsAre(4096, 1));
  EXPECT_THAT(input_strides(fusion, *binding, fusion.inputs[1]), ElementsAre(4096));
}

TEST(BindExtentsTest, ZeroWorks) {
  EXPECT_TRUE(bind_extents(mean_times_weight(), {{"rows", 0}, {"cols", 0}}).has_value());
}

TEST(BindExtentsTest, RefusesWrongSizes) {
  const Fusion fusion = mean_times_weight();
  const auto error = [&](const ExtentValues& extents) {
    const auto binding = bind_extents(fusion, extents);
    if (binding) return Error{.message = "bound"};
    EXPECT_EQ(binding.error().kind, ErrorKind::kInvalidArgument);
    return binding.error();
  };
  EXPECT_THAT(error({{"depth", 1}}).message, HasSubstr("no symbol 'depth'"));
  EXPECT_THAT(error({{"depth", 1}}).remedy, HasSubstr("rows, cols"));
  EXPECT_THAT(error({{"rows", 4}}).message, HasSubstr("neither a size nor a hint"));
  const Error negative = error({{"rows", -4}, {"cols", 8}});
  EXPECT_EQ(negative.measured, -4);
  const Error uneven = error({{"cols", 12}});
  EXPECT_EQ(uneven.measured, 12);
  EXPECT_EQ(uneven.limit, 8);
  const Error large = error({{"rows", kHuge}, {"cols", kHuge / 8 * 8}});
  EXPECT_THAT(large.message, HasSubstr("2^63 bytes"));
  EXPECT_THAT(large.values, ElementsAre(fusion.inputs[0]));
}

TEST(BindExtentsTest, StridesMustReachWithinTheAddressSpace) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {3}, "x", {.strides = {kHuge / 4}});
  b.output(b.neg(x));
  const auto binding = bind_extents(b.build(), {});
  ASSERT_FALSE(binding.has_value());
  EXPECT_THAT(binding.error().message, HasSubstr("2^63 bytes"));
}

TEST(BindExtentsTest, ReshapesAndSlicesMustFit) {
  FusionBuilder b;
  const Extent n = b.symbol("n");
  const Extent m = b.symbol("m");
  const ValueId x = b.input(DType::kF32, {n, 6});
  b.output(b.reshape(x, {m, 4}));
  b.output(b.slice(x, {2, 0}, {5, -1}));
  const Fusion fusion = b.build();
  EXPECT_TRUE(bind_extents(fusion, {{"n", 6}, {"m", 9}}).has_value());
  const auto uneven = bind_extents(fusion, {{"n", 6}, {"m", 8}});
  ASSERT_FALSE(uneven.has_value());
  EXPECT_THAT(uneven.error().ops, ElementsAre(OpId{1}));
  const auto shorter = bind_extents(fusion, {{"n", 4}, {"m", 6}});
  ASSERT_FALSE(shorter.has_value());
  EXPECT_EQ(shorter.error().measured, 5);
  EXPECT_EQ(shorter.error().limit, 4);
}

TEST(BindExtentsTest, ProductsOfExtentsMustFit) {
  FusionBuilder b;
  const Extent n = b.symbol("n");
  b.output(b.append(ExtentOp{{n, n}}, {}, DType::kI64, {})[0]);
  const Fusion fusion = b.build();
  EXPECT_TRUE(bind_extents(fusion, {{"n", int64_t{1} << 31}}).has_value());
  EXPECT_FALSE(bind_extents(fusion, {{"n", int64_t{1} << 32}}).has_value());
}

TEST(SpecializeTest, KeepsIdsAndNamesAndTurnsExtentsIntoConstants) {
  const Fusion fusion = mean_times_weight();
  const Binding binding = bind_extents(fusion, {{"cols", 4096}}).value();
  const Fusion bound = specialize(fusion, binding);
  EXPECT_TRUE(verify(bound).empty()) << text_of(verify(bound));
  EXPECT_TRUE(bound.symbols.empty());
  ASSERT_EQ(bound.ops.size(), fusion.ops.size());
  ASSERT_EQ(bound.values.size(), fusion.values.size());
  int extents = 0;
  for (const OpId id : fusion.op_ids()) {
    EXPECT_EQ(bound.ops[id].operands, fusion.ops[id].operands);
    EXPECT_EQ(bound.ops[id].results, fusion.ops[id].results);
    if (!std::holds_alternative<ExtentOp>(fusion.ops[id].kind)) continue;
    ++extents;
    EXPECT_EQ(std::get<ConstantOp>(bound.ops[id].kind), ConstantOp{.integer = 4096});
  }
  EXPECT_EQ(extents, 1);
  for (const ValueId id : fusion.value_ids()) {
    EXPECT_EQ(bound.values[id].name, fusion.values[id].name);
    EXPECT_EQ(Binding{}.sizes_of(bound.values[id].shape),
              binding.sizes_of(fusion.values[id].shape));
  }
  EXPECT_THAT(input_strides(bound, {}, bound.inputs[1]), ElementsAre(4096));
}

/// Softmax's maximum with a slice, a pad and a size among its ops.
Fusion with_sizes(int64_t columns, int64_t stop) {
  FusionBuilder b("with_sizes");
  const Extent n = b.symbol("n", 4);
  const ValueId x = b.input(DType::kF32, {n, columns});
  const ValueId part = b.slice(x, {0, 2}, {-1, stop}, {1, 1});
  b.output(b.div(b.sum(part, {1}), b.cast(b.element_count(x, {0}), DType::kF32)));
  return b.build();
}

TEST(FusionTest, SizesDoNotMakeGraphsDiffer) {
  const auto at = [](const Fusion& fusion, int64_t n) {
    return specialize_alike(fusion, bind_extents(fusion, {{"n", n}}).value());
  };
  const Fusion base = at(with_sizes(64, 10), 7);
  EXPECT_TRUE(equal_but_for_sizes(base, at(with_sizes(64, 10), 1)));
  EXPECT_TRUE(equal_but_for_sizes(base, at(with_sizes(32, 9), 0)));
  EXPECT_FALSE(structurally_equal(base, at(with_sizes(32, 9), 7)));
  const auto differs = [&](const char* what, const std::function<void(Fusion&)>& change) {
    Fusion changed = base;
    change(changed);
    EXPECT_FALSE(equal_but_for_sizes(base, changed)) << what;
  };
  differs("type", [](Fusion& f) { f.values[f.inputs[0]].type = DType::kF16; });
  differs("rank", [](Fusion& f) { f.values[f.inputs[0]].shape.push_back(1); });
  differs("output", [](Fusion& f) { f.outputs[0] = f.inputs[0]; });
  differs("alignment", [](Fusion& f) {
    std::get<InputOp>(f.ops[f.values[f.inputs[0]].def].kind).alignment = 4;
  });
  differs("step", [](Fusion& f) {
    for (Op& op : f.ops) {
      if (auto* slice = std::get_if<SliceOp>(&op.kind)) slice->step[1] = 2;
    }
  });
  differs("function", [](Fusion& f) {
    for (Op& op : f.ops) {
      if (auto* pointwise = std::get_if<PointwiseOp>(&op.kind)) pointwise->fn = PointwiseFn::kMul;
    }
  });
}

TEST(FusionTest, AlikeSpecializedGraphsSimplifyAlike) {
  FusionBuilder b("alike");
  const Extent n = b.symbol("n", 4);
  const ValueId x = b.input(DType::kF32, {n, 1, 8});
  b.output(b.sum(b.sub(x, b.broadcast(b.sum(x, {1, 2}), {n, 1, 8}, {0})), {0, 1}));
  const Fusion fusion = b.build();
  const auto at = [&](int64_t size, auto specialized) {
    return simplify(specialized(fusion, bind_extents(fusion, {{"n", size}}).value()));
  };
  const Fusion many = at(5, specialize);
  EXPECT_TRUE(equal_but_for_sizes(many, at(1, specialize_alike)));
  EXPECT_TRUE(equal_but_for_sizes(many, at(0, specialize_alike)));
  EXPECT_FALSE(equal_but_for_sizes(many, at(1, specialize))) << "a sum of one row is the row";
}

TEST(SpecializeTest, BindsTheDeclaredResultsOfExternalCalls) {
  FusionBuilder b;
  const Extent n = b.symbol("n");
  b.output(b.external("f", {}, {{DType::kF32, {n, 3}}})[0]);
  const Fusion fusion = b.build();
  const Fusion bound = specialize(fusion, bind_extents(fusion, {{"n", 5}}).value());
  EXPECT_TRUE(verify(bound).empty()) << text_of(verify(bound));
  EXPECT_EQ(std::get<ExternalOp>(bound.ops[OpId{0}].kind).results[0].shape, (Shape{5, 3}));
  EXPECT_THAT(bind_extents(fusion, {{"n", kHuge}}).error().message, HasSubstr("2^63 bytes"));
}

TEST(ShapeTest, ReachIsFromTheFirstToPastTheLastElement) {
  EXPECT_EQ(reach_of(Sizes{2, 3}, Sizes{3, 1}), 6);
  EXPECT_EQ(reach_of(Sizes{2, 3}, Sizes{8, 2}), 13);
  EXPECT_EQ(reach_of(Sizes{2, 0}, Sizes{8, 2}), 0);
  EXPECT_EQ(reach_of(Sizes{}, Sizes{}), 1);
}

TEST(IntegersTest, RoundUp) {
  EXPECT_EQ(divided_up(0, 4), 0);
  EXPECT_EQ(divided_up(7, 4), 2);
  EXPECT_EQ(divided_up(8, 4), 2);
  EXPECT_EQ(rounded_up(1, 256), 256);
  EXPECT_EQ(rounded_up(512, 256), 512);
}

TEST(FusionTest, StridesOfAnIntermediateAreADefect) {
  const Fusion fusion = mean_times_weight();
  const Binding binding = bind_extents(fusion, {{"cols", 8}}).value();
  EXPECT_THROW(input_strides(fusion, binding, fusion.outputs[0]), SinterException);
}

}  // namespace sinter::fusion_test
