// A whole row kernel as the schedules make them: 16-byte vectors of bf16 kept packed in registers,
// two reductions over the block, everything else recomputed from the packed row.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/interpreter/float_bits.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::layer_norm_test {

constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 4096;
constexpr int64_t kThreads = 256;
constexpr int64_t kLanesPerVector = 8;
constexpr int64_t kGroups = kColumns / kThreads / kLanesPerVector;
constexpr float kEpsilon = 0x1p-10F;

/// Opposite neighbours, so that every sum of the kernel is exact: the mean is 0, squares are small
/// integers. What is left to compare is bit for bit the same in any order of summation.
std::vector<uint16_t> exact_rows() {
  std::mt19937 random(17);
  std::vector<uint16_t> rows;
  for (int64_t i = 0; i < kRows * kColumns / 2; ++i) {
    const auto value = static_cast<float>(1 + random() % 15);
    rows.push_back(interpreter::f32_to_bf16(value));
    rows.push_back(interpreter::f32_to_bf16(-value));
  }
  return rows;
}

KernelRun layer_norm_kernel(const std::vector<uint16_t>& rows) {
  KernelRun run(kThreads);
  kir::KernelBuilder& b = run.b;
  const auto xs = run.global("x", DType::kBF16, rows);
  const auto ys = run.output("y", DType::kBF16, kRows * kColumns);
  const kir::VarId packed = b.declare_tile("packed", DType::kBF16, kGroups, kLanesPerVector);
  const kir::ExprId row = b.mul(run.block(), b.integer(kColumns));
  const auto index = [&](kir::ExprId group) {
    const kir::ExprId vector = b.add(b.mul(group, b.integer(kThreads)), run.thread());
    return b.add(row, b.mul(vector, b.integer(kLanesPerVector)));
  };
  b.unrolled("g", kGroups, [&](kir::ExprId g) {
    b.append(kir::Load{.tile = packed,
                       .group = g,
                       .lane = b.integer(0),
                       .width = kLanesPerVector,
                       .buffer = xs,
                       .index = index(g),
                       .hint = kir::CacheHint::kEvictLast});
  });
  const auto for_each_element = [&](const auto& body) {
    b.unrolled("g", kGroups, [&](kir::ExprId g) {
      b.unrolled("l", kLanesPerVector,
                 [&](kir::ExprId l) { body(g, l, b.cast(b.element(packed, g, l), DType::kF32)); });
    });
  };
  const kir::ExprId columns = b.real(kColumns);
  const kir::VarId total = b.declare("total", b.real(0.0));
  for_each_element(
      [&](kir::ExprId, kir::ExprId, kir::ExprId x) { b.assign(total, b.add(b.ref(total), x)); });
  const kir::VarId mean = b.declare("mean", b.div(b.ref(emit_block_sum(&run, total)), columns));
  const kir::VarId squares = b.declare("squares", b.real(0.0));
  for_each_element([&](kir::ExprId, kir::ExprId, kir::ExprId x) {
    const kir::ExprId centred = b.sub(x, b.ref(mean));
    b.assign(squares, b.add(b.ref(squares), b.mul(centred, centred)));
  });
  const kir::ExprId variance = b.div(b.ref(emit_block_sum(&run, squares)), columns);
  const kir::VarId scale =
      b.declare("scale", b.apply(PointwiseFn::kRsqrt, {b.add(variance, b.real(kEpsilon))}));
  b.unrolled("g", kGroups, [&](kir::ExprId g) {
    const kir::VarId result = b.declare_tile("result", DType::kF32, 1, kLanesPerVector);
    b.unrolled("l", kLanesPerVector, [&](kir::ExprId l) {
      const kir::ExprId x = b.cast(b.element(packed, g, l), DType::kF32);
      b.set(result, b.integer(0), l, b.mul(b.sub(x, b.ref(mean)), b.ref(scale)));
    });
    run.store(ys, index(g), result, kLanesPerVector);
  });
  return run;
}

TEST(InterpreterLayerNorm, IsExactAndReadsTheRowOnce) {
  const std::vector<uint16_t> rows = exact_rows();
  KernelRun run = layer_norm_kernel(rows);
  const InterpreterReport report = run.run_clean(kRows);
  constexpr int64_t kBytes = kRows * kColumns * 2;
  EXPECT_EQ(report.total_traffic(), (BufferTraffic{.bytes_read = kBytes,
                                                   .bytes_written = kBytes,
                                                   .load_sectors = kBytes / 32,
                                                   .store_sectors = kBytes / 32}));
  const std::vector<uint16_t> result = run.contents<uint16_t>(1);
  for (size_t row = 0; row < kRows; ++row) {
    const size_t first = row * kColumns;
    float squares = 0;
    for (size_t i = first; i < first + kColumns; ++i) {
      const float x = interpreter::bf16_to_f32(rows[i]);
      squares += x * x;
    }
    const auto scale = static_cast<float>(1.0 / std::sqrt(squares / kColumns + kEpsilon));
    for (size_t i = first; i < first + kColumns; ++i) {
      ASSERT_EQ(result[i], interpreter::f32_to_bf16(interpreter::bf16_to_f32(rows[i]) * scale))
          << i;
    }
  }
}

TEST(InterpreterLayerNorm, ReportsNothingUnderAnySeedOnTwoHostThreads) {
  KernelRun run = layer_norm_kernel(exact_rows());
  const auto memory = run.memory();
  run.run_clean(kRows);
  const std::vector<uint16_t> result = run.contents<uint16_t>(1);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    run.reset_memory(memory);
    run.run_clean(kRows, {.seed = seed, .threads = 2});
    EXPECT_EQ(run.contents<uint16_t>(1), result);
  }
}

}  // namespace sinter::layer_norm_test
