#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"

namespace sinter::printer_parser_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Canonical text with every op kind and every attribute in it.
constexpr std::string_view kEveryOp =
    R"fir(fusion @every_op extents(rows hint 8192 divisible_by 8, cols) {
  %v0 x : bf16[rows, cols] = input
  %v1 "weight, strided" : f32[cols] = input strides(2) align(4)
  %v2 labels : i64[rows] = input align(8)
  %v3 : f32 = constant 0x1p-1  ; 0.5
  %v4 : i8 = constant -128
  %v5 : bool = constant 1
  %v6 : f64 = constant 0x1.999999999999ap-4  ; 0.1
  %v7 : f32 = constant -inf
  %v8 : f32 = constant nan
  %v9 xf : f32[rows, cols] = cast %v0
  %v10 : f32[rows, cols] = broadcast %v1 axes(1)
  %v11 : f32[rows, cols] = fma %v9, %v10, %v9
  %v12 : f32[rows] = reduce.sum %v11 over(1)
  %v13 : i64[rows] = reduce.argmax %v11 over(1)
  %v14 mean, %v15 : f32[cols], f32[cols] = welford %v11 over(0)
  %v16, %v17 sum : f32, f32 = logsumexp %v11 over(0, 1)
  %v18 : bf16[rows] = take %v0, %v2 axis(1)
  %v19 : i64 = extent(rows, cols, 4)
  %v20 : i32[rows, 16] = iota axis(1)
  %v21 : bf16[cols, rows] = permute %v0 order(1, 0)
  %v22 : i32[rows, 4, 4] = reshape %v20
  %v23 : bf16[rows, 3] = slice %v0 start(0, 1) stop(-1, 9) step(1, 3)
  %v24 : f32[rows, cols] = broadcast %v3 axes()
  %v25 : bf16[rows, 6] = concatenate %v23, %v23 axis(1)
  %v26 : bf16[rows, 9] = pad %v25 low(0, 1) high(0, 2) value -0x1.8p+0  ; -1.5
  %v27 : i32[rows, 4, 5] = pad %v22 low(0, 0, 0) high(0, 0, 1) value -7
  %v28 : bf16[rows, cols] = external matmul %v0, %v21
  %v29 seeds, %v30 : i64, f32[2] = external "two seeds"
  %v31 : f32 = philox_uniform %v29, %v19
  %v32 : f32[rows, rows] = contract.sum %v0, %v21 left(0, 2) right(2, 1) over(2)
  %v33 : f32[cols] = contract.logsumexp %v9, %v10 left(1, 0) right(1, 0) over(1)
  %v34 : f32[rows] = contract.sum %v9, %v10 left(0, 1) right(0, 1) over(1) precision(tf32x3)
  %v35 : f32 = contract.max %v9, %v10 left(0, 1) right(0, 1) over(0, 1)
  return %v12, %v9
}
)fir";

void expect_round_trip(const Fusion& fusion) {
  const std::string text = print(fusion);
  const Result<Fusion> parsed = parse_fusion(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text() << "\n" << text;
  EXPECT_EQ(*parsed, fusion) << text;
  EXPECT_EQ(print(*parsed), text);
}

TEST(PrinterParserTest, CanonicalTextIsAFixedPoint) {
  const Result<Fusion> fusion = parse_fusion(kEveryOp);
  ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
  EXPECT_TRUE(verify(*fusion).empty());
  EXPECT_EQ(print(*fusion), kEveryOp);
  expect_round_trip(*fusion);
}

/// What a line of .fir says about an op, without its values: "reduce.sum over(1)".
struct OpText {
  std::string op;
  std::string types;
  std::vector<std::string> names;
};

OpText op_text(const Fusion& fusion, const Op& op) {
  Fusion alone = fusion;
  OpText out;
  for (const ValueId result : op.results) {
    const Value& value = fusion.values[result];
    out.names.push_back(value.name);
    out.types += (out.types.empty() ? "" : ", ") + text_of(fusion, value.type, value.shape);
    alone.values[result].name.clear();
  }
  const std::string text = print(alone);
  const std::string start = fmt::format("  {}", op.results[0]);
  const size_t line = text.find("\n" + start) + 1;
  const size_t from = text.find(" = ", line) + 3;
  out.op = text.substr(from, text.find_first_of(";\n", from) - from);
  for (size_t at = out.op.find('%'); at != std::string::npos; at = out.op.find('%')) {
    size_t end = out.op.find_first_of(", \n", at);
    if (end != std::string::npos && out.op[end] == ',') ++end;
    out.op.erase(at, end == std::string::npos ? end : end - at);
  }
  return out;
}

TEST(PrinterParserTest, EveryOpCanBeAppendedFromItsText) {
  const Fusion fusion = parse_fusion(kEveryOp).value();
  FusionBuilder b(fusion.name);
  for (const Symbol& symbol : fusion.symbols)
    b.symbol(symbol.name, symbol.hint, symbol.divisible_by);
  for (const Op& op : fusion.ops) {
    const OpText text = op_text(fusion, op);
    const auto results = append_op(b, text.op, op.operands, text.types, text.names);
    ASSERT_TRUE(results) << text.op << ": " << results.error().text();
    EXPECT_EQ(*results, op.results) << text.op;
  }
  for (const ValueId output : fusion.outputs) b.output(output);
  EXPECT_EQ(print(b.build()), kEveryOp);
}

TEST(PrinterParserTest, AppendedOpsMakeTheirOperandsAlike) {
  FusionBuilder b("f");
  b.symbol("rows");
  const ValueId x = append_op(b, "input", {}, "bf16[rows, 8]").value()[0];
  const ValueId one = append_op(b, "constant 1", {}, "f32").value()[0];
  const ValueId y = append_op(b, "add", {x, one}).value()[0];
  EXPECT_EQ(text_of(b.fusion(), b.fusion().values[y].type, b.fusion().values[y].shape),
            "f32[rows, 8]");
  const auto mean = append_op(b, "welford over(-1)", {x}, "f32[rows], f32[rows]");
  ASSERT_TRUE(mean) << mean.error().text();
  const ValueId z = append_op(b, "input", {}, "f32[8, 2]").value()[0];
  const ValueId product =
      append_op(b, "contract.sum left(0, 2) right(2, 1) over(2)", {x, z}).value()[0];
  EXPECT_EQ(text_of(b.fusion(), b.value(product).type, b.value(product).shape), "f32[rows, 2]");
  EXPECT_EQ(append_op(b, "reduce.max over()", {x}, "f32").value().size(), 1U) << "over all axes";
  EXPECT_EQ(append_op(b, "pad low(0, 1) high(0, 0) value 0x1p-1", {x}, "").value().size(), 1U);
}

TEST(PrinterParserTest, AppendedOpsAreRefusedWithAReason) {
  FusionBuilder b("f");
  const ValueId x = b.input(DType::kF32, {4, 8});
  const auto expect_error = [&](std::string_view op, std::string_view types,
                                std::string_view message, std::vector<std::string> names = {}) {
    const auto made = append_op(b, op, {x}, types, std::move(names));
    ASSERT_FALSE(made) << op;
    EXPECT_EQ(made.error().kind, ErrorKind::kInvalidFusion);
    EXPECT_EQ(made.error().message, message);
  };
  expect_error("cast", "", "1:1: the op needs the type of its result, found 'cast'");
  expect_error("exp", "f32[8, 4]", "1:1: %v1 is f32[4, 8], not f32[8, 4], found 'exp'");
  expect_error("exp over(1)", "", "1:5: expected nothing behind the op, found 'over'");
  expect_error("soar", "", "1:1: unknown op, found 'soar'");
  expect_error("welford over(1)", "", "1:1: the op has 2 results, not 1, found 'welford'", {"m"});
  expect_error("exp", "f31", "1:1: expected an element type, found 'f31'");
  expect_error("", "", "1:1: expected an op, found end of text");
  expect_error("cast", "f32[rows]", "1:5: the symbol is not declared in extents(), found 'rows'");
}

TEST(PrinterParserTest, LayoutsCanBeReadAlone) {
  FusionBuilder b("f");
  b.symbol("rows");
  const ValueId x = append_op(b, "input", {}, "f32[rows, 8]").value()[0];
  EXPECT_EQ(parse_layout(b, "").value(), OutputOptions{});
  const auto layout = parse_layout(b, "strides(16, 1) align(8) alias(%v0)");
  ASSERT_TRUE(layout) << layout.error().text();
  EXPECT_EQ(*layout, (OutputOptions{.strides = {16, 1}, .alignment = 8, .alias = x}));
  EXPECT_EQ(parse_layout(b, "alias(%v9)").error().message,
            "1:7: the value is not defined above, found '%v9'");
}

TEST(PrinterParserTest, TheReadmesExampleIsCanonical) {
  std::ifstream file(SINTER_TEST_DATA_DIR "/../fusion_ir/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  const size_t start = readme.find("fusion @");
  ASSERT_NE(start, std::string::npos);
  const std::string example = readme.substr(start, readme.find("```", start) - start);
  const Result<Fusion> fusion = parse_fusion(example);
  ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
  EXPECT_EQ(print(*fusion), example);
}

TEST(PrinterParserTest, EveryKindOfOpIsCovered) {
  const Fusion fusion = parse_fusion(kEveryOp).value();
  std::vector<bool> seen(std::variant_size_v<OpKind>);
  // Reads only with its row of traits: tests/integration/tuple_reduction_test.cpp.
  seen[OpKind(TupleReduceOp{}).index()] = true;
  for (const Op& op : fusion.ops) seen[op.kind.index()] = true;
  for (size_t kind = 0; kind < seen.size(); ++kind) EXPECT_TRUE(seen[kind]) << "op kind " << kind;
}

TEST(PrinterParserTest, EveryFunctionRoundTrips) {
  FusionBuilder b("functions");
  const ValueId x = b.input(DType::kF32, {4, 4});
  const ValueId flag = b.input(DType::kBool, {4, 4});
  const ValueId number = b.input(DType::kI64, {4, 4});
  const auto pointwise = [&](PointwiseFn fn) {
    const PointwiseInfo& info = info_of(fn);
    const ValueId operand = info.typing == Typing::kLogic    ? flag
                            : info.typing == Typing::kRandom ? number
                                                             : x;
    std::vector<ValueId> operands(static_cast<size_t>(info.arity), operand);
    if (info.typing == Typing::kSelect) operands[0] = flag;
    b.output(b.pointwise(fn, operands));
  };
#define SINTER_POINTWISE(enumerator, ...) pointwise(PointwiseFn::enumerator);
#define SINTER_REDUCE(enumerator, text) b.output(b.reduce(ReduceFn::enumerator, x, {1}));
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
#undef SINTER_POINTWISE
  expect_round_trip(b.build());
}

TEST(PrinterParserTest, AnyNameRoundTrips) {
  for (const std::string& name :
       {std::string("input"), std::string("2x"), std::string("a\"b\\c"), std::string("\\x41"),
        std::string("line\nbreak ; not a comment"), std::string("h\xc3\xa9\xff"),
        std::string("\0", 1), std::string(" ")}) {
    FusionBuilder b(name);
    b.output(b.neg(b.input(DType::kF32, {2}, name)), name);
    expect_round_trip(b.build());
  }
}

/// Where a call has no operands, the value that follows defines the next one's result.
TEST(PrinterParserTest, ExternalCallsTakeAnyNumberOfOperands) {
  FusionBuilder b("calls");
  const ValueId a = b.external("none", {}, {{DType::kF32, {2}}})[0];
  const ValueId c = b.external("a \"quoted\" name", {}, {{DType::kI8, {}}})[0];
  b.output(b.external("return", {a, c, a}, {{DType::kF32, {2}}})[0]);
  b.output(b.external("input", {}, {{DType::kF32, {}}})[0]);
  expect_round_trip(b.build());
}

RC_GTEST_PROP(PrinterParserTest, AnyConstantRoundTrips, (uint64_t bits)) {
  for (const DType type : kAllDTypes) {
    FusionBuilder b("constant");
    const double real = std::bit_cast<double>(bits);
    if (is_float(type)) {
      b.output(b.constant(real, type));
    } else {
      b.output(b.constant_integer(
          static_cast<int64_t>(std::isnan(real) ? 0.0 : decode(type, bits)) % (int64_t{1} << 53),
          type));
    }
    const Fusion fusion = b.build();
    const auto parsed = parse_fusion(print(fusion));
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parsed == fusion);
  }
}

TEST(PrinterParserTest, ExtremeConstantsRoundTrip) {
  FusionBuilder b("extremes");
  for (const double real : {0.0, -0.0, 0x1p-1074, -0x1.fffffffffffffp1023, 0x1p-1022, 0.1,
                            std::numeric_limits<double>::infinity()}) {
    b.output(b.constant(real, DType::kF64));
  }
  b.output(b.constant_integer(std::numeric_limits<int64_t>::min()));
  b.output(b.constant_integer(std::numeric_limits<int64_t>::max()));
  expect_round_trip(b.build());
}

TEST(PrinterParserTest, DecimalsRoundToTheirTypeAndBlanksAreFree) {
  const auto fusion = parse_fusion(
      "fusion@f{%v0:f32=constant 0.1 ; a comment\n"
      "%v1:bf16 = constant\n -1.00390625e0 return %v0,%v1}");
  ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
  EXPECT_EQ(fusion->def_as<ConstantOp>(ValueId{0})->real, static_cast<double>(0.1F));
  EXPECT_EQ(fusion->def_as<ConstantOp>(ValueId{1})->real, -1.0);
}

/// Position, text and offending token of each mistake.
TEST(PrinterParserTest, ErrorsSayWhereAndWhat) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1:1: expected 'fusion', found end of text"},
      {"fusion f {}", "1:8: expected '@', found 'f'"},
      {"fusion @f {\n}", "2:1: expected a value or 'return', found '}'"},
      {"fusion @f {\n  return\n}", "3:1: expected an output value, found '}'"},
      {"fusion @f {\n  return %v0\n}", "2:10: the value is not defined above, found '%v0'"},
      {"fusion @f { %v0 : f99 = input return %v0 }", "1:19: expected an element type, found 'f99'"},
      {"fusion @f { %v0 : f32[n] = input return %v0 }",
       "1:23: the symbol is not declared in extents(), found 'n'"},
      {"fusion @f extents(n, n) { }", "1:22: symbol 'n' is declared twice, found 'n'"},
      {"fusion @f extents(n hint 7 divisible_by 2) { }",
       "1:19: symbol 'n' has hint 7 and divisor 2, found 'n'"},
      {"fusion @f { %v1 : f32 = constant 1 }",
       "1:13: values are numbered in order: expected %v0, found '%v1'"},
      {"fusion @f { %v0 : f32 = frob }", "1:25: unknown op, found 'frob'"},
      {"fusion @f { %v0 : f32 = reduce.frob }", "1:25: unknown op, found 'reduce.frob'"},
      {"fusion @f { %v0 : f32 = constant 1x }", "1:34: expected a number, found '1x'"},
      {"fusion @f { %v0 : f32 = constant 0x1.8p-200 }",
       "1:25: 9.334522916791713e-61 is not a value of f32, found 'constant'"},
      {"fusion @f { %v0 : f64 = constant 1e999 }", "1:34: the number is out of range, found"},
      {"fusion @f { %v0 : i32 = constant 99999999999999999999 }",
       "1:34: the number is out of range, found"},
      {"fusion @f { %v0 : i8 = constant 128 }", "1:24: 128 is not a value of i8"},
      {"fusion @f { %v0 : f32[2] = input\n %v1 : f32[3] = neg %v0 return %v1 }",
       "2:8: %v1 is f32[2], not f32[3], found 'f32'"},
      {"fusion @f { %v0 : f32[2] = input\n %v1 : f32[2] = add %v0 return %v1 }",
       "2:17: add takes 2 operands, not 1, found 'add'"},
      {"fusion @f { %v0 : f32[2] = input return %v0 }",
       "1:41: input %v0 cannot be an output, found '%v0'"},
      {"fusion @f { %v0 : f32 = constant 1 return %v0, %v0 }",
       "1:48: %v0 is already an output, found '%v0'"},
      {"fusion @f { %v0 : f32 = constant 1 return %v0 } x",
       "1:49: expected nothing after the fusion, found 'x'"},
      {"fusion @f { %v0, %v1 : f32, f32 = constant 1 return %v0 }",
       "1:35: the op has 1 results, not 2 with 2 types, found 'constant'"},
      {"fusion @f { %v0 \"open : f32 = constant 1 }", "1:17: expected ':', found '\\\"open"},
      {"fusion @\"\\q\" { }", "1:9: escapes are"},
      {"fusion @f { %v0 : f32[9, 9, 9, 9, 9, 9, 9, 9, 9] = input return %v0 }",
       "1:52: a shape of rank 9 is beyond the limit, found 'input'"},
      {"fusion @f { %v0 : f32[-4] = input return %v0 }", "1:29: extent -4 is negative"},
      {"fusion @f { %v99999999999 : f32 = input }", "1:13: expected a value such as %v0"},
      {"fusion @f { %v0 : f32 = external }", "1:34: expected a name, found '}'"},
      {"fusion @f { %v0 : f32 = external f %v0 return %v0 }",
       "1:36: the value is not defined above, found '%v0'"},
      {"fusion @f { %v0 : f32 = external f %v2 return %v0 }",
       "1:36: the value is not defined above, found '%v2'"},
      {"fusion @f { %v0, %v1 : f32 = external f return %v0 }",
       "1:30: the op has 1 results, not 2 with 1 types, found 'external'"},
      {"fusion @f { %v0 : f32[2] = input %v1 : f32[3] = pad %v0 low(0) high(1) 0 return %v1 }",
       "1:72: expected 'value', found '0'"},
      {"fusion @f {\n\t\x01 }", "2:2: expected a value or 'return', found '\\x01'"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Fusion> fusion = parse_fusion(text);
    ASSERT_FALSE(fusion.has_value()) << text;
    EXPECT_EQ(fusion.error().kind, ErrorKind::kInvalidFusion) << text;
    EXPECT_THAT(fusion.error().message, StartsWith(message)) << text;
    EXPECT_THAT(fusion.error().message, HasSubstr(", found ")) << text;
    EXPECT_FALSE(fusion.error().remedy.empty()) << text;
  }
}

TEST(PrinterParserTest, LongTextsAreReadInTime) {
  // A linear search for each repeated symbol or output would run into the test's time limit.
  constexpr int kCount = 200'000;
  std::string text = "fusion @long extents(s0";
  for (int i = 1; i < kCount; ++i) text += fmt::format(", s{}", i);
  text += ") {\n";
  std::string outputs = "%v0";
  for (int i = 0; i < kCount; ++i) text += fmt::format("%v{} : i64 = extent(s{})\n", i, i);
  for (int i = 1; i < kCount; ++i) outputs += fmt::format(", %v{}", i);
  const auto fusion = parse_fusion(text + "return " + outputs + "}");
  ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
  EXPECT_EQ(fusion->outputs.size(), static_cast<size_t>(kCount));
}

}  // namespace sinter::printer_parser_test
