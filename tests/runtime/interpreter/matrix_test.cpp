// Loads and products of matrices, and groups of asynchronous copies, against plain loops; and each
// mistake that a kernel can make with them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/float_bits.h"
#include "tests/codegen/matrix_kernel.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::matrix_test {

using interpreter::f32_to_bf16;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Bytes of floats from -4 to 4 with a few infinities, NaN and zeros.
Bytes random_floats(DType type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-4.0, 4.0);
  Bytes bytes;
  for (size_t i = 0; i < count; ++i) {
    double value = uniform(random);
    if (i % 97 == 13) value = std::numeric_limits<double>::infinity();
    if (i % 101 == 7) value = -std::numeric_limits<double>::infinity();
    if (i % 131 == 100) value = std::numeric_limits<double>::quiet_NaN();
    if (i % 11 == 5) value = 0.0;
    const uint64_t bits = encode(type, value);
    const auto* first = reinterpret_cast<const uint8_t*>(&bits);
    bytes.insert(bytes.end(), first, first + sinter::bytes_of(type));
  }
  return bytes;
}

double element_of(DType type, const Bytes& bytes, size_t index) {
  const auto size = static_cast<size_t>(sinter::bytes_of(type));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, size);
  return decode(type, bits);
}

/// The operands of one product: 16 rows and 8 columns of 32 bytes each.
struct Operands {
  DType left_type, right_type;
  Bytes left, right;
  [[nodiscard]] int64_t depth() const { return 32 / sinter::bytes_of(left_type); }
};

/// start + left * right by the interpreter, in row-major order, with fragments that are loaded
/// element by element where the PTX ISA has them ("Matrix Fragments for mma.m16n8k16").
template <class Sum>
std::vector<Sum> interpreted(const Operands& operands, const std::vector<Sum>& start) {
  const DType sum_type = std::is_same_v<Sum, float> ? DType::kF32 : DType::kI32;
  KernelRun run(32);
  const auto a = run.global("a", operands.left_type, operands.left);
  const auto b = run.global("b", operands.right_type, operands.right);
  const auto c = run.global("c", sum_type, start, kir::Access::kReadWrite);
  kir::KernelBuilder& builder = run.b;
  const int64_t lanes = 4 / sinter::bytes_of(operands.left_type);
  const kir::VarId left = builder.declare_tile("left", operands.left_type, 5, lanes);
  const kir::VarId right = builder.declare_tile("right", operands.right_type, 2, lanes);
  const kir::VarId sum = builder.declare_tile("sum", sum_type, 3, 2);
  const auto integer = [&](int64_t value) { return builder.integer(value); };
  const kir::ExprId row = builder.div(run.thread(), integer(4));
  const kir::ExprId word = builder.rem(run.thread(), integer(4));
  const auto load = [&](kir::VarId tile, int64_t group, int64_t width, kir::BufferId buffer,
                        kir::ExprId index) {
    builder.append(kir::Load{.tile = tile,
                             .group = integer(group),
                             .lane = integer(0),
                             .width = width,
                             .buffer = buffer,
                             .index = index});
  };
  const auto index_of = [&](kir::ExprId vector, int64_t words) {
    return builder.add(builder.mul(vector, integer(operands.depth())),
                       builder.mul(builder.add(word, integer(words)), integer(lanes)));
  };
  const auto place = [&](int64_t half) {
    return builder.add(builder.mul(builder.add(row, integer(8 * half)), integer(8)),
                       builder.mul(word, integer(2)));
  };
  // Groups from 1 on, to see that they need not be the first.
  for (int64_t i = 0; i < 4; ++i)
    load(left, 1 + i, lanes, a, index_of(builder.add(row, integer(8 * (i % 2))), 4 * (i / 2)));
  for (int64_t i = 0; i < 2; ++i) load(right, i, lanes, b, index_of(row, 4 * i));
  for (int64_t i = 0; i < 2; ++i) load(sum, 1 + i, 2, c, place(i));
  builder.append(kir::Mma{.accumulator = sum,
                          .accumulator_group = integer(1),
                          .left = left,
                          .left_group = integer(1),
                          .right = right,
                          .right_group = integer(0)});
  for (int64_t i = 0; i < 2; ++i) {
    builder.append(kir::Store{.buffer = c,
                              .index = place(i),
                              .width = 2,
                              .tile = sum,
                              .group = integer(1 + i),
                              .lane = integer(0)});
  }
  run.run_clean(1);
  return run.contents<Sum>(2);
}

/// Products are exact in double; their sum is rounded once.
void expect_float_product(const Operands& operands, const std::vector<float>& start) {
  const std::vector<float> found = interpreted(operands, start);
  const auto depth = static_cast<size_t>(operands.depth());
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      double sum = start[row * 8 + column];
      for (size_t k = 0; k < depth; ++k) {
        sum += element_of(operands.left_type, operands.left, row * depth + k) *
               element_of(operands.right_type, operands.right, column * depth + k);
      }
      const auto expected = static_cast<float>(sum);
      const float value = found[row * 8 + column];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << row << ", " << column;
      } else {
        EXPECT_EQ(value, expected) << row << ", " << column;
      }
    }
  }
}

std::vector<float> random_start(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> start(128);
  for (float& value : start) value = normal(random);
  return start;
}

TEST(MmaTest, FloatsAreMultipliedExactlyAndRoundedOnce) {
  using enum DType;
  uint32_t seed = 1;
  for (const auto& [left, right] : std::vector<std::pair<DType, DType>>{{kBF16, kBF16},
                                                                        {kF16, kF16},
                                                                        {kF8E4M3, kF8E4M3},
                                                                        {kF8E4M3, kF8E5M2},
                                                                        {kF8E5M2, kF8E4M3},
                                                                        {kF8E5M2, kF8E5M2}}) {
    SCOPED_TRACE(fmt::format("{} {}", left, right));
    const auto depth = static_cast<size_t>(32 / sinter::bytes_of(left));
    expect_float_product({.left_type = left,
                          .right_type = right,
                          .left = random_floats(left, 16 * depth, seed++),
                          .right = random_floats(right, 8 * depth, seed++)},
                         random_start(seed++));
    // Any bits: subnormals, NaN of all kinds.
    expect_float_product({.left_type = left,
                          .right_type = right,
                          .left = random_bytes(512, seed++),
                          .right = random_bytes(256, seed++)},
                         random_start(seed++));
  }
}

TEST(MmaTest, SumsPassTheRangeOfF32Only) {
  const std::vector<uint16_t> large(16 * 16, f32_to_bf16(0x1p+100F));
  const std::vector<uint16_t> columns(8 * 16, f32_to_bf16(0x1p+100F));
  const Operands operands{.left_type = DType::kBF16,
                          .right_type = DType::kBF16,
                          .left = bytes_of_values(large),
                          .right = bytes_of_values(columns)};
  EXPECT_THAT(interpreted(operands, std::vector<float>(128)),
              Each(std::numeric_limits<float>::infinity()));
}

/// TF32 has 10 bits of mantissa; the 13 below are not read.
TEST(MmaTest, Tf32IgnoresLowBits) {
  const auto masked = [](Bytes bytes) {
    for (size_t i = 0; i < bytes.size(); i += 4) {
      bytes[i] = 0;
      bytes[i + 1] &= 0xe0;
    }
    return bytes;
  };
  Operands operands{.left_type = DType::kF32,
                    .right_type = DType::kF32,
                    .left = random_floats(DType::kF32, 16 * 8, 3),
                    .right = random_floats(DType::kF32, 8 * 8, 4)};
  const std::vector<float> start = random_start(5);
  const std::vector<float> of_all_bits = interpreted(operands, start);
  operands.left = masked(operands.left);
  operands.right = masked(operands.right);
  expect_float_product(operands, start);
  EXPECT_EQ(bytes_of_values(interpreted(operands, start)), bytes_of_values(of_all_bits));
}

TEST(MmaTest, IntegersWrapAround) {
  using enum DType;
  uint32_t seed = 7;
  for (const DType left : {kI8, kU8}) {
    for (const DType right : {kI8, kU8}) {
      SCOPED_TRACE(fmt::format("{} {}", left, right));
      const Operands operands{.left_type = left,
                              .right_type = right,
                              .left = random_bytes(512, seed++),
                              .right = random_bytes(256, seed++)};
      std::mt19937 random(seed++);
      std::vector<int32_t> start(128);
      for (int32_t& value : start) value = static_cast<int32_t>(random());
      start[0] = std::numeric_limits<int32_t>::max();
      start[1] = std::numeric_limits<int32_t>::min();
      const std::vector<int32_t> found = interpreted(operands, start);
      for (size_t i = 0; i < found.size(); ++i) {
        int64_t sum = start[i];
        for (size_t k = 0; k < 32; ++k) {
          sum += static_cast<int64_t>(element_of(left, operands.left, i / 8 * 32 + k) *
                                      element_of(right, operands.right, i % 8 * 32 + k));
        }
        EXPECT_EQ(found[i], static_cast<int32_t>(static_cast<uint32_t>(sum))) << i;
      }
    }
  }
}

// ---- Loads

/// A buffer whose row r of 16 bytes begins at 3 r mod 32 units of 16 bytes.
int64_t unit_of_row(int64_t row) { return 3 * row % 32; }

void append_load(KernelRun* run, kir::VarId tile, int64_t matrices, bool transpose,
                 kir::BufferId shared, kir::ExprId index) {
  run->b.append(kir::LoadMatrix{.tile = tile,
                                .group = run->b.integer(1),
                                .matrices = matrices,
                                .transpose = transpose,
                                .shared = shared,
                                .index = index});
}

void expect_loaded(DType type, int64_t matrices, bool transpose) {
  SCOPED_TRACE(fmt::format("{} matrices of {}{}", matrices, type, transpose ? " transposed" : ""));
  const int64_t size = sinter::bytes_of(type);
  const int64_t lanes = 4 / size;
  const int64_t per_row = 16 / size;
  const Bytes data = random_bytes(512, 11);
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const auto x = run.global("x", type, data);
  const auto y = run.output("y", type, matrices * 32 * lanes);
  const auto rows = run.shared("rows", type, 512 / size);
  const kir::VarId staged = b.declare_tile("staged", type, 1, per_row);
  const kir::ExprId own = b.mul(run.thread(), b.integer(per_row));
  run.load(staged, x, own, per_row);
  run.store(rows, own, staged, per_row);
  run.barrier();
  const kir::VarId tile = b.declare_tile("tile", type, 1 + matrices, lanes);
  // Lanes whose index is not used have one that is out of bounds.
  const kir::ExprId row = b.rem(b.mul(run.thread(), b.integer(3)), b.integer(32));
  const kir::ExprId index = b.select(b.less(run.thread(), b.integer(8 * matrices)),
                                     b.mul(row, b.integer(per_row)), b.integer(-5));
  append_load(&run, tile, matrices, transpose, rows, index);
  for (int64_t i = 0; i < matrices; ++i) {
    b.append(kir::Store{.buffer = y,
                        .index = b.mul(b.add(run.thread(), b.integer(32 * i)), b.integer(lanes)),
                        .width = lanes,
                        .tile = tile,
                        .group = b.integer(1 + i),
                        .lane = b.integer(0)});
  }
  const InterpreterReport report = run.run_clean(1);
  EXPECT_EQ(report.work.shared_bytes_read, matrices * 8 * 16);
  EXPECT_EQ(report.work.bank_conflicts, 0);
  const auto found = run.contents<uint8_t>(1);
  for (int64_t i = 0; i < matrices; ++i) {
    for (int64_t lane = 0; lane < 32; ++lane) {
      for (int64_t j = 0; j < lanes; ++j) {
        const int64_t from_row = transpose ? 2 * (lane % 4) + j : lane / 4;
        const int64_t column = transpose ? lane / 4 : lanes * (lane % 4) + j;
        const int64_t from = 16 * unit_of_row(8 * i + from_row) + column * size;
        const int64_t to = ((32 * i + lane) * lanes + j) * size;
        for (int64_t k = 0; k < size; ++k) {
          EXPECT_EQ(found[static_cast<size_t>(to + k)], data[static_cast<size_t>(from + k)])
              << "matrix " << i << ", lane " << lane << ", element " << j;
        }
      }
    }
  }
}

TEST(LoadMatrixTest, GivesEveryLaneItsBytes) {
  for (const int64_t matrices : {1, 2, 4}) {
    for (const DType type : {DType::kBF16, DType::kF8E5M2, DType::kI8, DType::kF32})
      expect_loaded(type, matrices, false);
    for (const DType type : {DType::kBF16, DType::kF16}) expect_loaded(type, matrices, true);
  }
}

std::vector<FindingKind> kinds_of(const InterpreterReport& report) {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : report.findings) kinds.push_back(finding.kind);
  return kinds;
}

/// One warp fills 32 f32, loads them as a matrix, and lets lane l store to element l or 31 - l. It
/// is lane l that the load gives element l.
KernelRun overwriting_kernel(bool transposed_lanes) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const auto rows = run.shared("rows", DType::kF32, 32);
  const kir::VarId one = b.declare("one", b.real(1.0));
  run.store(rows, run.thread(), one);
  b.append(kir::WarpBarrier{});
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 2, 1);
  append_load(&run, tile, 1, false, rows, b.mul(b.rem(run.thread(), b.integer(8)), b.integer(4)));
  run.store(rows, transposed_lanes ? b.sub(b.integer(31), run.thread()) : run.thread(), one);
  return run;
}

TEST(LoadMatrixTest, ALaneReadsWhatItReceives) {
  overwriting_kernel(false).run_clean(1);
  KernelRun bad = overwriting_kernel(true);
  const InterpreterReport report = bad.run(1);
  EXPECT_THAT(kinds_of(report),
              AllOf(testing::Not(testing::IsEmpty()), Each(FindingKind::kSharedRace)))
      << report.text(bad.kernel);
}

TEST(LoadMatrixTest, RowsLieInsideAndAreAligned) {
  for (const auto& [factor, kind] : std::vector<std::pair<int64_t, FindingKind>>{
           {12, FindingKind::kSharedOutOfBounds}, {6, FindingKind::kMisaligned}}) {
    KernelRun run(32);
    kir::KernelBuilder& b = run.b;
    const auto rows = run.shared("rows", DType::kBF16, 64);
    const kir::VarId zero = b.declare("zero", b.cast(b.real(0.0), DType::kBF16));
    run.store(rows, run.thread(), zero);
    run.store(rows, b.add(run.thread(), b.integer(32)), zero);
    run.barrier();
    const kir::VarId tile = b.declare_tile("tile", DType::kBF16, 2, 2);
    append_load(&run, tile, 1, false, rows,
                b.mul(b.rem(run.thread(), b.integer(8)), b.integer(factor)));
    EXPECT_THAT(kinds_of(run.run(1)), testing::Contains(kind));
  }
}

TEST(MatrixMistakeTest, PartOfAWarp) {
  for (const bool loads : {true, false}) {
    KernelRun run(32);
    kir::KernelBuilder& b = run.b;
    const auto rows = run.shared("rows", DType::kBF16, 64);
    const kir::VarId zero = b.declare("zero", b.cast(b.real(0.0), DType::kBF16));
    run.store(rows, run.thread(), zero);
    run.store(rows, b.add(run.thread(), b.integer(32)), zero);
    run.barrier();
    const kir::VarId tile = b.declare_tile("tile", DType::kBF16, 5, 2);
    const kir::VarId sum = b.declare_tile("sum", DType::kF32, 2, 2);
    const kir::ExprId index = b.mul(b.rem(run.thread(), b.integer(8)), b.integer(8));
    append_load(&run, tile, 4, false, rows, index);
    for (int64_t i = 0; i < 4; ++i) b.set(sum, b.integer(i / 2), b.integer(i % 2), b.real(0.0));
    b.when(b.less(run.thread(), b.integer(16)), [&] {
      if (loads) {
        append_load(&run, tile, 1, false, rows, index);
      } else {
        b.append(kir::Mma{sum, b.integer(0), tile, b.integer(1), tile, b.integer(1)});
      }
    });
    const InterpreterReport report = run.run(1);
    EXPECT_THAT(kinds_of(report), Each(FindingKind::kDivergentMatrix)) << report.text(run.kernel);
    ASSERT_FALSE(report.clean());
    EXPECT_THAT(report.findings[0].message, HasSubstr("0x0000ffff"));
  }
}

TEST(MatrixMistakeTest, AnOperandWithoutAValue) {
  for (const int missing : {0, 1, 2}) {
    KernelRun run(32);
    kir::KernelBuilder& b = run.b;
    const kir::VarId left = b.declare_tile("left", DType::kF32, 4, 1);
    const kir::VarId right = b.declare_tile("right", DType::kF32, 2, 1);
    const kir::VarId sum = b.declare_tile("sum", DType::kF32, 2, 2);
    const auto fill = [&](kir::VarId tile, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t lanes = run.kernel.vars[tile].lanes;
        b.set(tile, b.integer(i / lanes), b.integer(i % lanes), b.real(1.0));
      }
    };
    fill(sum, missing == 0 ? 3 : 4);
    fill(left, missing == 1 ? 3 : 4);
    fill(right, missing == 2 ? 1 : 2);
    b.append(kir::Mma{sum, b.integer(0), left, b.integer(0), right, b.integer(0)});
    const InterpreterReport report = run.run(1);
    ASSERT_EQ(kinds_of(report), std::vector{FindingKind::kUnwrittenRegister});
    EXPECT_EQ(report.findings[0].count, 32);
    constexpr std::array kNames = {"sum[1, 1]", "left[3, 0]", "right[1, 0]"};
    EXPECT_THAT(report.findings[0].message, HasSubstr(kNames[static_cast<size_t>(missing)]));
  }
}

// ---- Groups of asynchronous copies

/// Copies element 0 in one group and element 1 in the next, waits until `pending` groups are left,
/// and reads one of them.
KernelRun two_groups(int64_t pending, bool commits_second, int64_t read) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const auto x = run.global("x", DType::kF32, std::vector<float>(64, 3.0F));
  const auto staged = run.shared("staged", DType::kF32, 64);
  for (int64_t i = 0; i < 2; ++i) {
    const kir::ExprId index = b.add(run.thread(), b.integer(32 * i));
    b.append(kir::AsyncCopy{
        .shared = staged, .shared_index = index, .global = x, .global_index = index});
    if (i == 0 || commits_second) b.append(kir::AsyncCommit{});
  }
  b.append(kir::AsyncWait{.pending = pending});
  run.loaded("value", staged, b.add(run.thread(), b.integer(32 * read)));
  b.append(kir::AsyncWait{});
  return run;
}

TEST(AsyncGroupsTest, AWaitLeavesTheLastGroups) {
  two_groups(1, true, 0).run_clean(1);
  two_groups(0, true, 1).run_clean(1);
  two_groups(0, false, 0).run_clean(1);
  two_groups(-1, false, 1).run_clean(1);
  struct Wait {
    int64_t pending;
    bool commits_second;
    int64_t read;
  };
  for (const Wait& wait :
       {Wait{1, true, 1}, Wait{2, true, 0}, Wait{0, false, 1}, Wait{1, false, 0}}) {
    KernelRun bad = two_groups(wait.pending, wait.commits_second, wait.read);
    const InterpreterReport report = bad.run(1);
    EXPECT_EQ(kinds_of(report), std::vector{FindingKind::kAsyncPending}) << report.text(bad.kernel);
    EXPECT_EQ(report.findings[0].count, 32);
  }
}

/// A group that nobody waits for never arrives.
TEST(AsyncGroupsTest, TheLastGroupIsAwaitedAsWell) {
  KernelRun run = two_groups(1, true, 0);
  run.kernel.body.pop_back();
  EXPECT_EQ(kinds_of(run.run(1)), std::vector{FindingKind::kAsyncNeverAwaited});
}

TEST(AsyncCopyTest, ZerosArriveWhereThePredicateIsFalse) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const auto x = run.global("x", DType::kF32, std::vector<float>(40, 3.0F));
  const auto y = run.output("y", DType::kF32, 128);
  const auto staged = run.shared("staged", DType::kF32, 128);
  const kir::ExprId index = b.mul(run.thread(), b.integer(4));
  // Most sources would lie outside of x.
  b.append(kir::AsyncCopy{.shared = staged,
                          .shared_index = index,
                          .global = x,
                          .global_index = index,
                          .width = 4,
                          .predicate = b.less(run.thread(), b.integer(10))});
  b.append(kir::AsyncWait{});
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  run.load(tile, staged, index, 4);
  run.store(y, index, tile, 4);
  const InterpreterReport report = run.run_clean(1);
  EXPECT_EQ(report.buffers[x], (BufferTraffic{.bytes_read = 160, .async_sectors = 5}));
  EXPECT_EQ(report.work.shared_bytes_written, 512);
  std::vector<float> expected(128);
  std::fill_n(expected.begin(), 40, 3.0F);
  EXPECT_EQ(run.contents<float>(1), expected);
}

// ---- A pipeline of three stages

struct Product {
  int64_t blocks, steps;
  std::vector<uint16_t> a, b;
  std::vector<float> c;
  Product(int64_t of_blocks, int64_t of_steps)
      : blocks(of_blocks), steps(of_steps), c(static_cast<size_t>(256 * blocks), -1.0F) {
    std::mt19937 random(17);
    for (std::vector<uint16_t>* operand : {&a, &b}) {
      operand->resize(static_cast<size_t>(256 * blocks * steps));
      // Small whole numbers: every sum is exact.
      for (uint16_t& x : *operand)
        x = f32_to_bf16(static_cast<float>(static_cast<int>(random() % 9) - 4));
    }
  }
  [[nodiscard]] float expected(size_t block, size_t row, size_t column) const {
    const auto depth = static_cast<size_t>(16 * steps);
    float sum = 0.0F;
    for (size_t k = 0; k < depth; ++k) {
      sum += interpreter::bf16_to_f32(a[(block * 16 + row) * depth + k]) *
             interpreter::bf16_to_f32(b[(block * 16 + column) * depth + k]);
    }
    return sum;
  }
};

InterpreterReport run_product(const kir::Kernel& kernel, Product* product, uint64_t seed) {
  const std::array memory = {LaunchMemory{.bytes = std::as_writable_bytes(std::span(product->a))},
                             LaunchMemory{.bytes = std::as_writable_bytes(std::span(product->b))},
                             LaunchMemory{.bytes = std::as_writable_bytes(std::span(product->c))}};
  const std::array params = {product->blocks, product->steps};
  const auto report = interpret(kernel, memory, params, {.seed = seed});
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  return report ? *report : InterpreterReport{};
}

kir::Kernel lowered_product(const ProductMistakes& mistakes = {}) {
  const auto kernel = parse_kernel(product_kernel(mistakes));
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().text());
  return kernel ? run_kernel_passes(*kernel, {.verify = true}) : kir::Kernel{};
}

TEST(MatrixPipelineTest, MultipliesMatrices) {
  const kir::Kernel kernel = lowered_product();
  for (const int64_t steps : {1, 2, 3, 7}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Product product(2, steps);
      const InterpreterReport report = run_product(kernel, &product, seed);
      ASSERT_TRUE(report.clean()) << report.text(kernel);
      for (size_t i = 0; i < product.c.size(); ++i) {
        ASSERT_EQ(product.c[i], product.expected(i / 256, i / 16 % 16, i % 16)) << i;
      }
    }
  }
}

struct PlantedMistake {
  const char* name;
  ProductMistakes mistakes;
  std::vector<FindingKind> kinds;  ///< What may show.
};

class MatrixPipelineMistakeTest : public testing::TestWithParam<PlantedMistake> {};

TEST_P(MatrixPipelineMistakeTest, IsFoundInWhateverOrderWarpsRun) {
  const kir::Kernel kernel = lowered_product(GetParam().mistakes);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Product product(1, 6);
    const InterpreterReport report = run_product(kernel, &product, seed);
    EXPECT_FALSE(report.clean()) << seed;
    for (const Finding& finding : report.findings)
      EXPECT_THAT(GetParam().kinds, testing::Contains(finding.kind)) << report.text(kernel);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MatrixPipelineMistakeTest,
    testing::Values(
        // One warp reads what the other copies, before it arrives or with nothing that orders it.
        PlantedMistake{"OneGroupTooMany",
                       {.pending = 2},
                       {FindingKind::kAsyncPending, FindingKind::kSharedRace}},
        PlantedMistake{"NoCommit",
                       {.no_commit = true},
                       {FindingKind::kAsyncPending, FindingKind::kSharedRace}},
        PlantedMistake{
            "NoBarrier",
            {.no_barrier = true},
            {FindingKind::kSharedRace, FindingKind::kAsyncPending, FindingKind::kUnwrittenShared}},
        PlantedMistake{"OverwrittenStage",
                       {.pending = 2, .copies_first = true},
                       {FindingKind::kSharedRace, FindingKind::kAsyncPending}},
        PlantedMistake{
            "NoStartValue", {.no_start_value = true}, {FindingKind::kUnwrittenRegister}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace sinter::matrix_test
