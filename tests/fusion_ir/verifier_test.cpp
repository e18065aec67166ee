#include "fusion_ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"

namespace sinter::verifier_test {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

/// %op0 input %v0, %op1 input %v1, %op2 cast %v2, %op3 logsumexp %v3 %v4, %op4 constant %v5,
/// %op5 broadcast %v6, %op6 add %v7; outputs %v7 and %v4.
Fusion sample() {
  FusionBuilder b("sample");
  const Extent rows = b.symbol("rows", 8, 2);
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, cols}, "x");
  b.input(DType::kF32, {cols}, "w", {.strides = {2}, .alignment = 4});
  const auto [max, sum] = b.logsumexp_pair(x, {1});
  b.output(b.add(max, b.constant(1.0)));
  b.output(sum);
  return b.build();
}

struct Breakage {
  const char* name;
  const char* message;  ///< Part of the violation expected.
  std::function<void(Fusion&)> apply;
};

Op& op(Fusion& fusion, uint32_t index) { return fusion.ops[OpId{index}]; }
Value& value(Fusion& fusion, uint32_t index) { return fusion.values[ValueId{index}]; }
Symbol& symbol(Fusion& fusion, uint32_t index) { return fusion.symbols[SymbolId{index}]; }

const std::vector<Breakage>& breakages() {
  static const std::vector<Breakage> kAll = {
      {"symbol_name", "not an identifier", [](Fusion& f) { symbol(f, 0).name = "a b"; }},
      {"symbol_repeated", "declared twice", [](Fusion& f) { symbol(f, 0).name = "cols"; }},
      {"symbol_hint_negative", "has hint", [](Fusion& f) { symbol(f, 0).hint = -2; }},
      {"symbol_divisor_zero", "has hint", [](Fusion& f) { symbol(f, 0).divisible_by = 0; }},
      {"symbol_hint_uneven", "has hint", [](Fusion& f) { symbol(f, 0).hint = 7; }},
      {"operand_missing", "operand does not exist",
       [](Fusion& f) { op(f, 2).operands = {ValueId{999}}; }},
      {"operand_invalid", "operand does not exist",
       [](Fusion& f) { op(f, 2).operands = {ValueId{}}; }},
      {"operand_later", "earlier op", [](Fusion& f) { op(f, 2).operands = {ValueId{7}}; }},
      {"operand_itself", "earlier op", [](Fusion& f) { op(f, 2).operands = {ValueId{2}}; }},
      {"operand_count", "takes 2 operands, not 1", [](Fusion& f) { op(f, 6).operands.pop_back(); }},
      {"operand_types", "different types", [](Fusion& f) { value(f, 3).type = DType::kF64; }},
      {"result_missing", "result does not exist",
       [](Fusion& f) { op(f, 2).results = {ValueId{999}}; }},
      {"result_order", "not numbered in op order",
       [](Fusion& f) { std::swap(op(f, 3).results[0], op(f, 3).results[1]); }},
      {"result_shared", "not numbered in op order",
       [](Fusion& f) { op(f, 2).results = {ValueId{0}}; }},
      {"result_count", "has 2 results, not 1", [](Fusion& f) { op(f, 3).results.pop_back(); }},
      {"no_results", "not numbered", [](Fusion& f) { op(f, 2).results.clear(); }},
      {"value_def", "says that it is result", [](Fusion& f) { value(f, 2).def = OpId{0}; }},
      {"value_result", "says that it is result", [](Fusion& f) { value(f, 4).result = 0; }},
      {"value_orphan", "no op produces", [](Fusion& f) { f.values.push_back(Value{}); }},
      {"value_type", "but the value is", [](Fusion& f) { value(f, 7).type = DType::kI32; }},
      {"value_shape", "but the value is", [](Fusion& f) { value(f, 7).shape = {SymbolId{1}}; }},
      {"unknown_type", "element type is none",
       [](Fusion& f) { value(f, 0).type = static_cast<DType>(200); }},
      {"unknown_function", "function is none",
       [](Fusion& f) { op(f, 6).kind = PointwiseOp{static_cast<PointwiseFn>(250)}; }},
      {"unknown_reduction", "function is none",
       [](Fusion& f) {
         op(f, 3).kind = ReduceOp{static_cast<ReduceFn>(250), {1}};
       }},
      {"rank", "rank 9", [](Fusion& f) { value(f, 0).shape.assign(kMaxRank + 1, Extent(1)); }},
      {"extent_negative", "extent -1 is negative", [](Fusion& f) { value(f, 0).shape[0] = -1; }},
      {"extent_symbol", "not a symbol", [](Fusion& f) { value(f, 0).shape[0] = SymbolId{99}; }},
      {"stride_rank", "2 strides",
       [](Fusion& f) {
         std::get<InputOp>(op(f, 1).kind).strides = {1, 1};
       }},
      {"stride_negative", "stride -1 is negative",
       [](Fusion& f) { std::get<InputOp>(op(f, 1).kind).strides = {-1}; }},
      {"stride_symbol", "not a symbol",
       [](Fusion& f) { std::get<InputOp>(op(f, 1).kind).strides = {SymbolId{99}}; }},
      {"alignment_odd", "alignment of 24",
       [](Fusion& f) { std::get<InputOp>(op(f, 1).kind).alignment = 24; }},
      {"alignment_small", "alignment of 2",
       [](Fusion& f) { std::get<InputOp>(op(f, 1).kind).alignment = 2; }},
      {"axis_range", "names axis 7", [](Fusion& f) { op(f, 3).kind = LogSumExpOp{{7}}; }},
      {"axis_none", "names no axes", [](Fusion& f) { op(f, 3).kind = LogSumExpOp{}; }},
      {"axes_descend", "do not ascend",
       [](Fusion& f) {
         op(f, 3).kind = LogSumExpOp{{1, 0}};
       }},
      {"broadcast_axes", "names 1 axes", [](Fusion& f) { op(f, 5).kind = BroadcastOp{{0}}; }},
      {"constant_value", "not a value of f32",
       [](Fusion& f) { op(f, 4).kind = ConstantOp{.real = 0.1}; }},
      {"constant_field", "not a value of f32",
       [](Fusion& f) { op(f, 4).kind = ConstantOp{.real = 1.0, .integer = 1}; }},
      {"inputs_missing", "inputs are", [](Fusion& f) { f.inputs.pop_back(); }},
      {"inputs_swapped", "inputs are", [](Fusion& f) { std::swap(f.inputs[0], f.inputs[1]); }},
      {"inputs_foreign", "inputs are", [](Fusion& f) { f.inputs.push_back(ValueId{999}); }},
      {"outputs_none", "no outputs", [](Fusion& f) { f.outputs.clear(); }},
      {"outputs_missing", "output does not exist",
       [](Fusion& f) { f.outputs.push_back(ValueId{999}); }},
      {"outputs_repeated", "output twice", [](Fusion& f) { f.outputs.push_back(f.outputs[0]); }},
      {"outputs_input", "input is an output", [](Fusion& f) { f.outputs.push_back(f.inputs[0]); }},
  };
  return kAll;
}

class VerifierTest : public ::testing::TestWithParam<Breakage> {};

TEST_P(VerifierTest, FindsTheBrokenInvariant) {
  Fusion fusion = sample();
  ASSERT_TRUE(verify(fusion).empty()) << text_of(verify(fusion));
  GetParam().apply(fusion);
  EXPECT_THAT(verify(fusion), Contains(Field(&Violation::message, HasSubstr(GetParam().message))))
      << text_of(verify(fusion));
}

INSTANTIATE_TEST_SUITE_P(Invariants, VerifierTest, ::testing::ValuesIn(breakages()),
                         [](const auto& instance) { return instance.param.name; });

TEST(VerifierReportTest, NamesOpsAndValues) {
  Fusion fusion = sample();
  value(fusion, 7).type = DType::kI32;
  EXPECT_EQ(text_of(verify(fusion)), "%op6 %v7: add gives f32[rows], but the value is i32[rows]\n");
}

TEST(VerifierReportTest, FindsDamageInJoinsAndCalls) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4});
  const ValueId padded = b.pad(b.concatenate({x, x}, 0), {1}, {1});
  b.output(b.external("f", {padded}, {{DType::kF32, {4}}})[0]);
  const Fusion sound = b.build();
  ASSERT_TRUE(verify(sound).empty());
  const auto report = [&](uint32_t id, const std::function<void(OpKind&)>& damage) {
    Fusion fusion = sound;
    damage(op(fusion, id).kind);
    return text_of(verify(fusion));
  };
  EXPECT_THAT(report(1, [](OpKind& k) { std::get<ConcatenateOp>(k).axis = -1; }),
              HasSubstr("names axis -1"));
  EXPECT_THAT(report(2, [](OpKind& k) { std::get<PadOp>(k).low = {}; }), HasSubstr("0 lows"));
  EXPECT_THAT(report(2, [](OpKind& k) { std::get<PadOp>(k).value.real = 0.1; }),
              HasSubstr("0.1 is not a value of f32"));
  EXPECT_THAT(report(2, [](OpKind& k) { std::get<PadOp>(k).high = {2}; }),
              HasSubstr("pad gives f32[11], but the value is f32[10]"));
  EXPECT_THAT(report(3, [](OpKind& k) { std::get<ExternalOp>(k).name = ""; }),
              HasSubstr("has no name"));
  EXPECT_THAT(report(3, [](OpKind& k) { std::get<ExternalOp>(k).results = {}; }),
              HasSubstr("declares no results"));
  EXPECT_THAT(
      report(3,
             [](OpKind& k) { std::get<ExternalOp>(k).results[0].type = static_cast<DType>(99); }),
      HasSubstr("none that Sinter knows"));
  EXPECT_THAT(report(3, [](OpKind& k) { std::get<ExternalOp>(k).results[0].shape = {5}; }),
              HasSubstr("external gives f32[5], but the value is f32[4]"));
}

TEST(VerifierReportTest, ReportsAllDamageAtOnce) {
  Fusion fusion = sample();
  fusion.outputs.clear();
  symbol(fusion, 0).hint = -1;
  value(fusion, 7).type = DType::kI32;
  EXPECT_EQ(verify(fusion).size(), 3U);
}

/// Many breakages at once, in random order: verifier and printer survive them, and what passes the
/// verifier all the same (breakages can cancel out) is sound enough to be read back.
TEST(VerifierReportTest, SurvivesAnyDamage) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    Fusion fusion = sample();
    for (int i = 0; i < 4; ++i) {
      // Later breakages may find the op that they change replaced; they do not apply then.
      try {
        breakages()[random() % breakages().size()].apply(fusion);
      } catch (const std::bad_variant_access&) {
        continue;
      }
      const auto id = [&] { return static_cast<uint32_t>(random() % 12); };
      Op& damaged = fusion.ops[OpId{id() % static_cast<uint32_t>(fusion.ops.size())}];
      if (random() % 2 == 0) damaged.operands.push_back(ValueId{id()});
      if (random() % 4 == 0) damaged.results.push_back(ValueId{id()});
      if (damaged.results.empty() || op(fusion, 3).results.size() < 2 ||
          op(fusion, 6).operands.empty() || fusion.outputs.empty() || fusion.inputs.size() < 2) {
        break;
      }
    }
    const auto violations = verify(fusion);
    const auto is_unknown = [](const Violation& violation) {
      return violation.message.find("is none that Sinter knows") != std::string::npos;
    };
    if (std::ranges::any_of(violations, is_unknown)) continue;  // No text names these.
    const bool sound = violations.empty();
    const auto parsed = parse_fusion(print(fusion));
    ASSERT_EQ(sound, parsed.has_value() && *parsed == fusion) << print(fusion);
  }
}

}  // namespace sinter::verifier_test
