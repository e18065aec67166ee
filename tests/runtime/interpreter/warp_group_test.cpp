// Products of warp groups against plain loops, and each mistake that a kernel can make with them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/float_bits.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/warp_group_kernel.h"

namespace sinter::warp_group_test {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::IsEmpty;
using testing::Not;

kir::Kernel lowered(std::string_view text) {
  const auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().text());
  return kernel ? run_kernel_passes(*kernel, {.verify = true}) : kir::Kernel{};
}

std::vector<FindingKind> kinds_of(const InterpreterReport& report) {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : report.findings) kinds.push_back(finding.kind);
  return kinds;
}

// ---- One product, of operands that threads have stored

/// How a test lays an operand out.
struct Layout {
  DType type;
  bool transposed;
  int64_t swizzle;
  int64_t own;  ///< Rows of the left operand, columns of the right one.

  [[nodiscard]] int64_t size() const { return bytes_of(type); }
  [[nodiscard]] int64_t depth() const { return 32 / size(); }
  [[nodiscard]] int64_t line() const { return swizzle / size(); }
  /// Strides in bytes, with gaps. The first element is not in the first group.
  [[nodiscard]] int64_t group() const { return 16 * swizzle; }
  [[nodiscard]] int64_t block() const { return transposed ? 40 * swizzle : 0; }
  [[nodiscard]] int64_t first() const { return 1024 + (transposed ? 0 : swizzle - 32); }
  /// Where a byte of element (own, k) is, after the figures of the PTX ISA.
  [[nodiscard]] int64_t place(int64_t i, int64_t k) const {
    int64_t at = first();
    if (transposed) {
      at += i / line() * block() + i % line() * size() + k / 8 * group() + k % 8 * swizzle;
    } else {
      at += i / 8 * group() + i % 8 * swizzle + k * size();
    }
    const int64_t row = at / 128 % (swizzle / 16);
    const int64_t chunk = at / 16 % (swizzle / 16);
    return at + ((chunk ^ row) - chunk) * 16;
  }
  [[nodiscard]] int64_t bytes() const {
    int64_t end = 0;
    for (int64_t i = 0; i < own; ++i) end = std::max(end, place(i, depth() - 1) + size());
    return (end + 2047) / 1024 * 1024;
  }
  /// Shared memory that holds these elements, own by own.
  [[nodiscard]] std::vector<std::byte> image(const std::vector<uint64_t>& elements) const {
    std::vector<std::byte> out(static_cast<size_t>(bytes()), std::byte{0x3c});
    for (int64_t i = 0; i < own; ++i) {
      for (int64_t k = 0; k < depth(); ++k) {
        std::memcpy(out.data() + place(i, k), &elements[static_cast<size_t>(i * depth() + k)],
                    static_cast<size_t>(size()));
      }
    }
    return out;
  }
  [[nodiscard]] std::string text(std::string_view buffer) const {
    return fmt::format("{}[{}] swizzle {} groups {}{}", buffer, first() / size(), swizzle,
                       group() / size(),
                       transposed ? fmt::format(" transposed {}", block() / size()) : "");
  }
};

/// c += left * right of one warp group, the sum in groups from 2 on. `between` stands between the
/// stores of the operands and the product.
std::string one_product(const Layout& left, const Layout& right,
                        std::string_view between = "proxy_fence\n  barrier") {
  const DType sum = kir::mma_accumulator(left.type, right.type).value();
  const auto stores = [](int var, std::string_view from, std::string_view to,
                         const Layout& layout) {
    return fmt::format(R"(
  for %r{0} i : i32 = mul(thread_index, {4}) to {5} step {6} {{
    var %r{1} v : {7}[1][{4}]
    %r{1}[0, 0] = load {2}[%r{0}] width {4}
    store {3}[%r{0}] = %r{1}[0, 0] width {4}
  }})",
                       var, var + 1, from, to, 16 / layout.size(), layout.bytes() / layout.size(),
                       128 * 16 / layout.size(), layout.type);
  };
  return fmt::format(
      R"(kernel @one threads 128 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 a : {left} global read align 16
  buffer %b1 b : {right} global read align 16
  buffer %b2 c : {sum} global readwrite align 16
  buffer %b3 sa : {left} shared readwrite align 1024 count {left_count}
  buffer %b4 sb : {right} shared readwrite align 1024 count {right_count}
  {left_stores}{right_stores}
  {between}
  var %r0 sum : {sum}[{groups}][2]
  let %r1 first : i32 = add(mul(add(mul(div(thread_index, 32), 16), div(rem(thread_index, 32), 4)), {columns}), mul(rem(thread_index, 4), 2))
  for %r2 j : i32 = 0 to {eights} step 1 unroll {{
    for %r3 h : i32 = 0 to 2 step 1 unroll {{
      %r0[add(2, add(mul(%r2, 2), %r3)), 0] = load %b2[add(%r1, add(mul(%r2, 8), mul(%r3, {eight_rows})))] width 2
    }}
  }}
  wgmma_fence
  wgmma %r0[2] columns {columns} left {a} right {b}
  wgmma_commit
  wgmma_wait pending 0
  for %r4 j : i32 = 0 to {eights} step 1 unroll {{
    for %r5 h : i32 = 0 to 2 step 1 unroll {{
      store %b2[add(%r1, add(mul(%r4, 8), mul(%r5, {eight_rows})))] = %r0[add(2, add(mul(%r4, 2), %r5)), 0] width 2
    }}
  }}
}}
)",
      fmt::arg("left", left.type), fmt::arg("right", right.type), fmt::arg("sum", sum),
      fmt::arg("left_count", left.bytes() / left.size()),
      fmt::arg("right_count", right.bytes() / right.size()),
      fmt::arg("left_stores", stores(6, "%b0", "%b3", left)),
      fmt::arg("right_stores", stores(8, "%b1", "%b4", right)), fmt::arg("between", between),
      fmt::arg("groups", right.own / 4 + 3), fmt::arg("columns", right.own),
      fmt::arg("eights", right.own / 8), fmt::arg("eight_rows", 8 * right.own),
      fmt::arg("a", left.text("%b3")), fmt::arg("b", right.text("%b4")));
}

/// The same with the left operand in registers, from groups 1 on, loaded from its rows in order.
/// `before` and `after` stand around the product.
std::string one_product_in_registers(DType left, const Layout& right,
                                     std::string_view before = "wgmma_fence",
                                     std::string_view after = "") {
  const int64_t lanes = 4 / bytes_of(left);
  std::string text = one_product({left, false, 128, 64}, right);
  const auto replace = [&](std::string_view from, std::string_view to, std::string_view with) {
    const size_t begin = text.find(from);
    const size_t end = text.find(to, begin);
    EXPECT_NE(end, std::string::npos);
    text.replace(begin, end - begin, with);
  };
  replace("wgmma_fence", "wgmma %r0",
          fmt::format(R"(var %r10 left : {0}[6][{1}]
  for %r11 i : i32 = 0 to 4 step 1 unroll {{
    %r10[add(1, %r11), 0] = load %b0[add(mul(add(mul(div(thread_index, 32), 16), add(div(rem(thread_index, 32), 4), mul(rem(%r11, 2), 8))), {2}), mul(add(rem(thread_index, 4), mul(div(%r11, 2), 4)), {1}))] width {1}
  }}
  {3}
  )",
                      left, lanes, 32 / bytes_of(left), before));
  replace(" left %b3", " right", " left %r10[1]");
  replace("wgmma_commit", "wgmma_wait", fmt::format("wgmma_commit\n  {}\n  ", after));
  return text;
}

std::vector<uint64_t> random_elements(const Layout& layout, std::mt19937* random) {
  std::vector<uint64_t> elements;
  std::uniform_real_distribution<double> uniform(-4.0, 4.0);
  for (int64_t i = 0; i < layout.own * layout.depth(); ++i) {
    double value = uniform(*random);
    if (is_float(layout.type)) {
      if (i % 797 == 13) value = std::numeric_limits<double>::infinity();
      if (i % 901 == 7) value = -std::numeric_limits<double>::infinity();
      if (i % 1031 == 100) value = std::numeric_limits<double>::quiet_NaN();
      elements.push_back(encode(layout.type, value));
    } else {
      elements.push_back((*random)() % 256);
    }
  }
  return elements;
}

InterpreterReport run(const kir::Kernel& kernel, std::vector<std::byte> a, std::vector<std::byte> b,
                      std::span<std::byte> c, const std::vector<int64_t>& params,
                      uint64_t seed = 0) {
  const std::array memory = {LaunchMemory{.bytes = a}, LaunchMemory{.bytes = b},
                             LaunchMemory{.bytes = c}};
  const auto report = interpret(kernel, memory, params, {.seed = seed});
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  return report ? *report : InterpreterReport{};
}

/// What the product reads of an element: TF32 ignores the low 13 bits.
double read_value(DType type, uint64_t bits) {
  return decode(type, type == DType::kF32 ? bits & ~uint64_t{0x1fff} : bits);
}

void expect_product(const Layout& left, const Layout& right, bool in_registers = false,
                    bool replaces = false) {
  SCOPED_TRACE(fmt::format("{}, {} columns, swizzles {} and {}{}", left.type, right.own,
                           left.swizzle, right.swizzle, in_registers ? ", in registers" : ""));
  std::mt19937 random(5);
  const std::vector<uint64_t> a = random_elements(left, &random);
  const std::vector<uint64_t> b = random_elements(right, &random);
  const auto count = static_cast<size_t>(64 * right.own);
  const bool is_integer = !is_float(left.type);
  std::vector<int32_t> c(count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i % 17) - 8.25F;
    c[i] = is_integer ? static_cast<int32_t>(random()) : std::bit_cast<int32_t>(value);
  }
  std::vector<int32_t> found = c;
  std::string text =
      in_registers ? one_product_in_registers(left.type, right) : one_product(left, right);
  if (replaces) text.replace(text.find(" left ", text.find("wgmma %r0")), 1, " replaces ");
  const kir::Kernel kernel = lowered(text);
  std::vector<std::byte> image = left.image(a);
  if (in_registers) {
    for (size_t i = 0; i < a.size(); ++i) {
      std::memcpy(image.data() + i * static_cast<size_t>(left.size()), &a[i],
                  static_cast<size_t>(left.size()));
    }
  }
  const InterpreterReport report =
      run(kernel, image, right.image(b), std::as_writable_bytes(std::span(found)), {1});
  ASSERT_TRUE(report.clean()) << report.text(kernel);
  const int64_t depth = left.depth();
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t column = 0; column < right.own; ++column) {
      const auto at = static_cast<size_t>(row * right.own + column);
      double sum = is_integer ? double{1} * c[at] : double{std::bit_cast<float>(c[at])};
      if (replaces) sum = 0.0;
      for (int64_t k = 0; k < depth; ++k) {
        sum += read_value(left.type, a[static_cast<size_t>(row * depth + k)]) *
               read_value(right.type, b[static_cast<size_t>(column * depth + k)]);
      }
      if (is_integer) {
        ASSERT_EQ(found[at],
                  static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum))));
      } else if (std::isnan(static_cast<float>(sum))) {
        ASSERT_TRUE(std::isnan(std::bit_cast<float>(found[at]))) << row << ", " << column;
      } else {
        ASSERT_EQ(std::bit_cast<float>(found[at]), static_cast<float>(sum))
            << row << ", " << column;
      }
    }
  }
}

TEST(WgmmaTest, AProductMayReplaceTheSum) {
  for (const DType type : {DType::kBF16, DType::kI8}) {
    for (const bool in_registers : {false, true})
      expect_product({type, false, 128, 64}, {type, false, 128, 96}, in_registers, true);
  }
}

TEST(WgmmaTest, MultipliesEveryLayoutOfTwoBytes) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const int64_t swizzle : {32, 64, 128}) {
      for (const bool left_transposed : {false, true}) {
        for (const bool right_transposed : {false, true}) {
          expect_product({type, left_transposed, swizzle, 64},
                         {type, right_transposed, 160 - swizzle == 96 ? 64 : 160 - swizzle, 64});
        }
      }
    }
  }
}

TEST(WgmmaTest, MultipliesEveryTypeAndWidth) {
  using enum DType;
  for (const auto& [left, right] : std::vector<std::pair<DType, DType>>{{kF32, kF32},
                                                                        {kF8E4M3, kF8E4M3},
                                                                        {kF8E4M3, kF8E5M2},
                                                                        {kF8E5M2, kF8E4M3},
                                                                        {kI8, kI8},
                                                                        {kI8, kU8},
                                                                        {kU8, kU8}})
    expect_product({left, false, 128, 64}, {right, false, 64, 16});
  for (const int64_t columns : kir::Wgmma::kColumns)
    expect_product({kBF16, false, 32, 64}, {kBF16, false, 128, columns});
  for (const int64_t columns : {64, 128, 256})
    expect_product({kBF16, true, 64, 64}, {kBF16, true, 128, columns});
}

TEST(WgmmaTest, MultipliesRegistersOfEveryType) {
  using enum DType;
  for (const auto& [left, right] : std::vector<std::pair<DType, DType>>{{kBF16, kBF16},
                                                                        {kF16, kF16},
                                                                        {kF32, kF32},
                                                                        {kF8E4M3, kF8E5M2},
                                                                        {kF8E5M2, kF8E5M2},
                                                                        {kI8, kU8},
                                                                        {kU8, kI8}}) {
    for (const int64_t columns : {8, 96}) {
      for (const bool transposed : {false, true}) {
        if (transposed && (bytes_of(right) != 2 || columns % 32 != 0)) continue;
        expect_product({left, false, 128, 64}, {right, transposed, 64, columns}, true);
      }
    }
  }
}

TEST(WgmmaTest, MistakesWithRegistersAreFound) {
  const Layout left{DType::kF32, false, 128, 64};
  const Layout right{DType::kF32, false, 128, 16};
  const auto report_of = [&](std::string_view before, std::string_view after) {
    const kir::Kernel kernel = lowered(one_product_in_registers(DType::kF32, right, before, after));
    std::vector<float> c(64 * 16);
    return run(kernel, std::vector<std::byte>(static_cast<size_t>(left.bytes())),
               std::vector<std::byte>(static_cast<size_t>(right.bytes())),
               std::as_writable_bytes(std::span(c)), {1});
  };
  using enum FindingKind;
  EXPECT_THAT(kinds_of(report_of("wgmma_fence", "")), IsEmpty());
  EXPECT_THAT(kinds_of(report_of("", "")), testing::ElementsAre(kProductUnfenced));
  EXPECT_THAT(kinds_of(report_of("wgmma_fence\n%r10[4, 0] = 0x1p+0", "")),
              testing::ElementsAre(kProductUnfenced));
  EXPECT_THAT(kinds_of(report_of("wgmma_fence\n%r10[5, 0] = 0x1p+0", "")), IsEmpty())
      << "of another product";
  EXPECT_THAT(kinds_of(report_of("wgmma_fence", "%r10[1, 0] = 0x1p+0")),
              testing::ElementsAre(kProductPending));
  EXPECT_THAT(kinds_of(report_of("wgmma_fence",
                                 "let %r12 early : f32 = %r10[1, 0]\n"
                                 "store %b2[0] = %r12[0, 0] width 1")),
              Contains(kProductPending));
  EXPECT_THAT(kinds_of(report_of("wgmma_fence", "%r10[5, 0] = 0x1p+0")), IsEmpty());
}

TEST(WgmmaTest, ReadsStoresThatAreFenced) {
  const Layout left{DType::kBF16, false, 128, 64};
  const Layout right{DType::kBF16, true, 64, 64};
  for (const char* too_little : {"", "barrier", "proxy_fence", "barrier\nproxy_fence",
                                 "if lt(thread_index, 64) { proxy_fence }\nbarrier"}) {
    const kir::Kernel kernel = lowered(one_product(left, right, too_little));
    for (uint64_t seed = 0; seed < 4; ++seed) {
      std::vector<float> c(64 * 64);
      const InterpreterReport report =
          run(kernel, std::vector<std::byte>(static_cast<size_t>(left.bytes())),
              std::vector<std::byte>(static_cast<size_t>(right.bytes())),
              std::as_writable_bytes(std::span(c)), {1}, seed);
      EXPECT_THAT(
          kinds_of(report),
          AllOf(Not(IsEmpty()), Each(AnyOf(FindingKind::kSharedRace, FindingKind::kUnwrittenShared,
                                           FindingKind::kProductPending))))
          << too_little << report.text(kernel);
    }
  }
}

// ---- A ring of stages that tensor copies fill

struct Problem {
  int64_t steps;
  int64_t rows, columns;
  std::vector<uint16_t> a, b;
  std::vector<float> c;

  Problem(const WarpGroupKernel& kernel, int64_t of_steps)
      : steps(of_steps),
        rows(64 * kernel.groups),
        columns(kernel.columns),
        a(static_cast<size_t>(64 * rows * steps)),
        b(static_cast<size_t>(64 * columns * steps)),
        c(static_cast<size_t>(rows * columns), -1.0F) {
    std::mt19937 random(17);
    // Small whole numbers: every sum is exact.
    for (std::vector<uint16_t>* operand : {&a, &b}) {
      for (uint16_t& x : *operand) {
        x = interpreter::f32_to_bf16(static_cast<float>(static_cast<int>(random() % 9) - 4));
      }
    }
  }
  /// a lies by steps of 64 along the depth.
  [[nodiscard]] float expected(int64_t row, int64_t column) const {
    float sum = 0.0F;
    for (int64_t k = 0; k < 64 * steps; ++k) {
      const int64_t from = (k / 64 * rows + row) * 64 + k % 64;
      sum += interpreter::bf16_to_f32(a[static_cast<size_t>(from)]) *
             interpreter::bf16_to_f32(b[static_cast<size_t>(k * columns + column)]);
    }
    return sum;
  }
  [[nodiscard]] bool is_right() const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        if (c[static_cast<size_t>(row * columns + column)] != expected(row, column)) return false;
      }
    }
    return true;
  }
  InterpreterReport run(const kir::Kernel& kernel, uint64_t seed) {
    const std::array memory = {LaunchMemory{.bytes = std::as_writable_bytes(std::span(a))},
                               LaunchMemory{.bytes = std::as_writable_bytes(std::span(b))},
                               LaunchMemory{.bytes = std::as_writable_bytes(std::span(c))}};
    const std::array<int64_t, 3> params = {1, steps, 64 * steps};
    const auto report = interpret(kernel, memory, params, {.seed = seed});
    EXPECT_TRUE(report) << (report ? "" : report.error().text());
    return report ? *report : InterpreterReport{};
  }
};

TEST(WarpGroupPipelineTest, MultipliesMatrices) {
  for (const WarpGroupKernel& shape :
       {WarpGroupKernel{}, WarpGroupKernel{.groups = 2, .columns = 128, .stages = 3}}) {
    const kir::Kernel kernel = lowered(warp_group_kernel(shape));
    for (const int64_t steps : {1, 2, 3, 5}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        Problem problem(shape, steps);
        const InterpreterReport report = problem.run(kernel, seed);
        ASSERT_TRUE(report.clean()) << report.text(kernel);
        ASSERT_TRUE(problem.is_right()) << steps;
      }
    }
  }
}

struct PlantedMistake {
  const char* name;
  WarpGroupKernel kernel;
  std::vector<FindingKind> kinds;  ///< What may show.
};

class WarpGroupMistakeTest : public testing::TestWithParam<PlantedMistake> {};

TEST_P(WarpGroupMistakeTest, IsFoundInWhateverOrderWarpsRun) {
  const kir::Kernel kernel = lowered(warp_group_kernel(GetParam().kernel));
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Problem problem(GetParam().kernel, 5);
    const InterpreterReport report = problem.run(kernel, seed);
    EXPECT_FALSE(report.clean()) << seed;
    for (const Finding& finding : report.findings)
      EXPECT_THAT(GetParam().kinds, testing::Contains(finding.kind)) << report.text(kernel);
  }
}

using enum FindingKind;
INSTANTIATE_TEST_SUITE_P(
    All, WarpGroupMistakeTest,
    testing::Values(
        PlantedMistake{"AddsToNothing", {.adds_to_nothing = true}, {kUnwrittenRegister}},
        PlantedMistake{"NoFence", {.no_fence = true}, {kProductUnfenced}},
        PlantedMistake{"NoCommit", {.no_commit = true}, {kProductPending, kAsyncNeverAwaited}},
        PlantedMistake{"NoWait", {.no_wait = true}, {kProductPending, kAsyncNeverAwaited}},
        PlantedMistake{"OneGroupTooMany", {.pending = 2}, {kProductPending}},
        PlantedMistake{
            "LastGroupNotAwaited", {.last_pending = 1}, {kProductPending, kAsyncNeverAwaited}},
        PlantedMistake{"AccumulatorChangedEarly", {.reads_early = true}, {kProductPending}},
        PlantedMistake{"StageOverwritten", {.frees_early = true}, {kProductPending}},
        PlantedMistake{"TooManyBytes", {.missing_bytes = 1024}, {kMbarrierBytes}},
        PlantedMistake{"TooFewBytes", {.missing_bytes = -1024}, {kDeadlock}},
        PlantedMistake{"OneWarpWaits",
                       {.one_warp_waits = true},
                       {kAsyncPending, kUnwrittenShared, kProductPending, kSharedRace,
                        kMbarrierArrivals, kMbarrierBytes, kDeadlock}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(WarpGroupPipelineTest, AnotherSwizzleGivesOtherNumbers) {
  const WarpGroupKernel shape{.left_swizzle = 64};
  Problem problem(shape, 2);
  problem.run(lowered(warp_group_kernel(shape)), 0);
  EXPECT_FALSE(problem.is_right());
}

/// All warps of a group execute the same products.
TEST(WarpGroupPipelineTest, FindsWarpsThatStayAway) {
  const Layout left{DType::kBF16, false, 128, 64};
  const Layout right{DType::kBF16, false, 128, 8};
  std::string text = one_product(left, right);
  const size_t begin = text.find("wgmma_fence");
  text.insert(text.find("wgmma_commit", begin), "}\n  ");
  text.insert(begin, "if lt(thread_index, 64) { ");
  const kir::Kernel kernel = lowered(text);
  std::vector<float> c(64 * 8);
  const InterpreterReport report =
      run(kernel, std::vector<std::byte>(static_cast<size_t>(left.bytes())),
          std::vector<std::byte>(static_cast<size_t>(right.bytes())),
          std::as_writable_bytes(std::span(c)), {1});
  EXPECT_THAT(kinds_of(report), testing::ElementsAre(kDivergentMatrix)) << report.text(kernel);
}

}  // namespace sinter::warp_group_test
