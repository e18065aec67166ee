// The printer writes the text that the parser reads back as the same kernel: it leaves out
// defaults, quotes names only where it has to, and keeps every bit of a float.

#include "codegen/kernel/kernel_printer.h"

#include <gmock/gmock.h>

#include <bit>
#include <limits>

#include "codegen/kernel/kernel_builder.h"
#include "tests/codegen/every_statement.h"
#include "tests/codegen/parsed_kernel.h"
#include "tests/codegen/team_kernel.h"

namespace sinter::kernel_printer_test {

using testing::EndsWith;
using testing::HasSubstr;

TEST(KernelPrinterTest, PrintsWhatWasParsed) { EXPECT_EQ(print(parsed(kEverything)), kEverything); }

TEST(KernelPrinterTest, PrintsTheBlocksOfATeam) {
  EXPECT_EQ(print(parsed(kTeamKernel)), kTeamKernel);
}

/// One without declarations and statements.
kir::Kernel empty_kernel(std::string name) {
  kir::Kernel kernel;
  kernel.name = std::move(name);
  kernel.grid.work = kir::ParamId{0};
  return kernel;
}

TEST(KernelPrinterTest, AnEmptyKernelHasItsHeadAlone) {
  kir::Kernel kernel = empty_kernel("k");
  EXPECT_EQ(print(kernel), "kernel @k threads 128 min_blocks 1 grid ceil(%p0 / 1) {\n}\n");
  kernel.cluster = 2;
  EXPECT_THAT(print(kernel), HasSubstr("min_blocks 1 cluster 2 grid"));
}

TEST(KernelPrinterTest, QuotesNamesThatAreNoWords) {
  const auto printed = [](std::string_view name) {
    const std::string text = print(empty_kernel(std::string(name)));
    return text.substr(8, text.find(" threads") - 8);
  };
  EXPECT_EQ(printed("a.1_B"), "a.1_B");
  EXPECT_EQ(printed(""), "\"\"");
  EXPECT_EQ(printed("1a"), "\"1a\"") << "a number in front would be read as one";
  EXPECT_EQ(printed(".a"), "\".a\"");
  EXPECT_EQ(printed("a b"), "\"a b\"");
  EXPECT_EQ(printed("\"\n"), "\"\\\"\\x0a\"");
}

/// The text of an expression of some type.
std::string text_of(DType type, kir::ExprKind kind) {
  kir::Kernel kernel;
  const kir::VarId x = kernel.vars.push_back({.name = "x", .type = type});
  const kir::ExprId value = kernel.exprs.push_back({.type = type, .kind = std::move(kind)});
  kernel.body.push_back(kernel.stmts.push_back({kir::Declare{x, value}}));
  const std::string text = print(kernel);
  const size_t begin = text.find(" = ") + 3;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(KernelPrinterTest, ConstantsNameTypesOtherThanTheUsual) {
  EXPECT_EQ(text_of(DType::kI32, kir::IntegerConstant{-7}), "-7");
  EXPECT_EQ(text_of(DType::kI64, kir::IntegerConstant{-7}), "-7:i64");
  EXPECT_EQ(text_of(DType::kF32, kir::FloatConstant{1.5}), "0x1.8p+0");
  EXPECT_EQ(text_of(DType::kBF16, kir::FloatConstant{1.5}), "0x1.8p+0:bf16");
  EXPECT_EQ(text_of(DType::kBool, kir::IntegerConstant{1}), "true");
  EXPECT_EQ(text_of(DType::kBool, kir::IntegerConstant{2}), "2:bool") << "which does not verify";
}

TEST(KernelPrinterTest, FloatsWithoutDigitsHaveWords) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(text_of(DType::kF32, kir::FloatConstant{-0.0}), "-0x0p+0");
  EXPECT_EQ(text_of(DType::kF32, kir::FloatConstant{-infinite}), "-inf");
  EXPECT_EQ(text_of(DType::kF64, kir::FloatConstant{std::bit_cast<double>(0xfff8000000000001U)}),
            "nan(0xfff8000000000001):f64");
}

TEST(KernelPrinterTest, FloatsKeepEveryBit) {
  for (const double value :
       {0.1, -0.0, 0x1p-1074, 1e300, std::bit_cast<double>(0xfff8000000000001U)}) {
    kir::Kernel kernel;
    kir::KernelBuilder b(&kernel);
    kernel.grid.work = b.add_param("n");
    kernel.exprs.push_back({.type = DType::kF64, .kind = kir::FloatConstant{value}});
    b.declare("x", kir::ExprId{0});
    EXPECT_EQ(parsed(print(kernel)), kernel) << value;
  }
}

/// A register that no statement declares stands before the statements, wherever its number is.
TEST(KernelPrinterTest, ListsRegistersThatNothingDeclares) {
  kir::Kernel kernel = empty_kernel("k");
  kernel.vars.push_back({.name = "used"});
  kernel.vars.push_back({.name = "unused", .groups = 2, .lanes = 1});
  kernel.body.push_back(kernel.stmts.push_back({kir::Declare{kir::VarId{0}, {}}}));
  EXPECT_THAT(print(kernel),
              EndsWith("{\n  register %r1 unused : f32[2][1]\n  var %r0 used : f32\n}\n"));
}

}  // namespace sinter::kernel_printer_test
