#include "runtime/interpreter/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/interpreter/float_bits.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::interpreter_test {

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// y = a x + y with a tail that no block fills.
TEST(Interpreter, SaxpyWithATail) {
  for (const int64_t n : {1, 31, 32, 33, 127, 128, 129, 1000}) {
    const auto count = static_cast<size_t>(n);
    const std::vector<float> x = random_floats(count, 1);
    const std::vector<float> y = random_floats(count, 2);
    KernelRun run(128, 128);
    const auto xs = run.global("x", DType::kF32, x);
    const auto ys = run.global("y", DType::kF32, y, kir::Access::kReadWrite);
    kir::KernelBuilder& b = run.b;
    const kir::VarId i = b.declare("i", run.thread_of_launch());
    b.when(b.less(b.ref(i), b.param(run.n)), [&] {
      const kir::VarId value = run.loaded("value", xs, b.ref(i));
      const kir::VarId sum = run.loaded("sum", ys, b.ref(i));
      b.assign(sum, b.add(b.mul(b.real(2.5), b.ref(value)), b.ref(sum)));
      run.store(ys, b.ref(i), sum);
    });
    const InterpreterReport report = run.run_clean(n);
    EXPECT_EQ(report.blocks, (n + 127) / 128);
    EXPECT_EQ(report.warps, 4 * report.blocks);
    const std::vector<float> result = run.contents<float>(1);
    for (size_t k = 0; k < count; ++k) EXPECT_EQ(result[k], 2.5F * x[k] + y[k]) << n << ": " << k;
  }
}

TEST(Interpreter, NoWorkLaunchesNothing) {
  KernelRun run(128, 128);
  const auto y = run.output("y", DType::kF32, 0);
  const kir::VarId one = run.b.declare("one", run.b.real(1.0));
  run.store(y, run.zero(), one);
  const InterpreterReport report = run.run_clean(0);
  EXPECT_EQ(report.blocks, 0);
  EXPECT_EQ(report.work.instructions, 0);
}

TEST(Interpreter, CountsTheTrafficOfACopyExactly) {
  constexpr int64_t kElements = 1024;
  std::vector<float> x(kElements);
  std::iota(x.begin(), x.end(), 0.0F);
  KernelRun run(64, 256);
  const auto from = run.global("x", DType::kF32, x);
  const auto to = run.output("y", DType::kF32, kElements);
  const auto strided = run.output("z", DType::kF32, kElements);
  kir::KernelBuilder& b = run.b;
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  const kir::VarId i = b.declare("i", b.mul(run.thread_of_launch(), b.integer(4, DType::kI64)));
  run.load(tile, from, b.ref(i), 4);
  run.store(to, b.ref(i), tile, 4);
  run.store(strided, b.ref(i), tile, 1);
  const InterpreterReport report = run.run_clean(kElements);
  EXPECT_EQ(report.blocks, 4);
  EXPECT_EQ(report.buffers[from], (BufferTraffic{.bytes_read = 4096, .load_sectors = 128}));
  EXPECT_EQ(report.buffers[to], (BufferTraffic{.bytes_written = 4096, .store_sectors = 128}));
  // One element in four: a quarter of the bytes, but every sector.
  EXPECT_EQ(report.buffers[strided], (BufferTraffic{.bytes_written = 1024, .store_sectors = 128}));
  EXPECT_EQ(
      report.total_traffic(),
      (BufferTraffic{
          .bytes_read = 4096, .bytes_written = 5120, .load_sectors = 128, .store_sectors = 256}));
  EXPECT_EQ(run.contents<float>(1), x);
}

TEST(Interpreter, MemoryBelowElementZeroIsReachable) {
  std::vector<float> x = {1, 2, 3, 4};
  KernelRun run(32);
  const auto buffer = run.global("x", DType::kF32, x, kir::Access::kReadWrite);
  kir::KernelBuilder& b = run.b;
  b.when(b.equal(run.thread(), b.integer(0)), [&] {
    const kir::VarId last = run.loaded("last", buffer, b.integer(-3));
    run.store(buffer, b.integer(0), last);
  });
  const LaunchMemory memory{.bytes = std::as_writable_bytes(std::span(x)), .origin = 12};
  const int64_t work = 1;
  const auto report = interpret(run.kernel, {&memory, 1}, {&work, 1});
  ASSERT_TRUE(report.has_value()) << report.error().text();
  EXPECT_TRUE(report->clean()) << report->text(run.kernel);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 1}));
}

KernelRun block_sum_kernel(const std::vector<float>& x, bool with_barrier = true) {
  KernelRun run(256);
  const auto xs = run.global("x", DType::kF32, x);
  const auto ys = run.output("y", DType::kF32, static_cast<int64_t>(x.size()) / 256);
  const kir::VarId value = run.loaded("value", xs, run.thread_of_launch());
  const kir::VarId sum = emit_block_sum(&run, value, with_barrier);
  run.b.when(run.b.equal(run.thread(), run.b.integer(0)), [&] { run.store(ys, run.block(), sum); });
  return run;
}

/// The tree of the kernel, in float.
float tree_sum(std::vector<float> values) {
  for (size_t half = 16; half > 0; half /= 2) {
    std::vector<float> next(values.size());
    for (size_t i = 0; i < values.size(); ++i) next[i] = values[i] + values[i ^ half];
    values = next;
  }
  std::vector<float> warps;
  for (size_t i = 0; i < values.size(); i += 32) warps.push_back(values[i]);
  for (size_t half = warps.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) warps[i] += warps[i + half];
  }
  return warps.front();
}

TEST(Interpreter, BlockReductionWithShufflesSharedMemoryAndABarrier) {
  const std::vector<float> x = random_floats(256 * 5, 3);
  KernelRun run = block_sum_kernel(x);
  const InterpreterReport report = run.run_clean(5);
  for (size_t block = 0; block < 5; ++block) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(256 * block);
    EXPECT_EQ(run.contents<float>(1)[block], tree_sum(std::vector<float>(first, first + 256)));
  }
  EXPECT_EQ(report.work.barriers, 5 * 8);
  EXPECT_EQ(report.work.shuffles, 5 * 8 * (5 + 3));
  EXPECT_EQ(report.work.shared_bytes_written, 5 * 8 * 4);
  EXPECT_EQ(report.work.shared_bytes_read, 5 * 256 * 4);
  EXPECT_EQ(report.work.bank_conflicts, 0);
}

TEST(Interpreter, SeedsAndHostThreadsChangeNothing) {
  const std::vector<float> x = random_floats(256 * 7, 4);
  KernelRun run = block_sum_kernel(x);
  const auto memory = run.memory();
  const InterpreterReport first = run.run_clean(7);
  const std::vector<float> sums = run.contents<float>(1);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    run.reset_memory(memory);
    const InterpreterReport report =
        run.run_clean(7, {.seed = seed, .threads = static_cast<int>(seed % 4)});
    EXPECT_EQ(run.contents<float>(1), sums);
    EXPECT_EQ(report.work, first.work);
    EXPECT_EQ(report.total_traffic(), first.total_traffic());
    EXPECT_EQ(report.blocks, first.blocks);
  }
}

TEST(Interpreter, ARacyKernelDependsOnTheSeed) {
  const std::vector<float> x = random_floats(256, 4);
  KernelRun run = block_sum_kernel(x, /*with_barrier=*/false);
  const auto memory = run.memory();
  std::vector<float> sums;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    run.reset_memory(memory);
    EXPECT_FALSE(run.run(1, {.seed = seed}).clean());
    sums.push_back(run.contents<float>(1)[0]);
  }
  EXPECT_TRUE(std::ranges::any_of(sums, [&](float sum) { return !(sum == sums[0]); }));
}

/// Lanes take different branches and leave a loop at different times.
TEST(Interpreter, DivergenceInsideAWarp) {
  KernelRun run(64, 64);
  const auto out = run.output("steps", DType::kI32, 64);
  kir::KernelBuilder& b = run.b;
  const kir::VarId steps = b.declare("steps", b.integer(0));
  const kir::VarId x = b.declare("x", b.add(run.thread(), b.integer(1)));
  // Each thread walks the 3x + 1 sequence from its own number; the bound shrinks to leave the loop.
  const kir::VarId bound = b.declare("bound", b.integer(1000));
  b.loop("i", b.integer(0), b.ref(bound), b.integer(1), false, [&](kir::ExprId) {
    b.when(
        b.equal(b.ref(x), b.integer(1)), [&] { b.assign(bound, b.integer(0)); },
        [&] {
          b.assign(steps, b.add(b.ref(steps), b.integer(1)));
          b.when(
              b.equal(b.rem(b.ref(x), b.integer(2)), b.integer(0)),
              [&] { b.assign(x, b.div(b.ref(x), b.integer(2))); },
              [&] { b.assign(x, b.add(b.mul(b.ref(x), b.integer(3)), b.integer(1))); });
        });
  });
  run.store(out, run.thread(), steps);
  run.run_clean(64);
  const std::vector<int32_t> result = run.contents<int32_t>(0);
  for (int32_t thread = 0; thread < 64; ++thread) {
    int32_t expected = 0;
    for (int32_t v = thread + 1; v != 1; v = v % 2 == 0 ? v / 2 : 3 * v + 1) ++expected;
    EXPECT_EQ(result[static_cast<size_t>(thread)], expected) << thread;
  }
}

/// A loop over chunks around unrolled loops over a tile: every thread sums its own row.
TEST(Interpreter, NestedLoopsOverTiles) {
  constexpr int64_t kColumns = 24;
  const std::vector<float> x = random_floats(32 * kColumns, 5);
  KernelRun run(32, 32);
  const auto xs = run.global("x", DType::kF32, x);
  const auto ys = run.output("y", DType::kF32, 32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId sum = b.declare("sum", b.real(0.0));
  b.loop("chunk", b.integer(0), b.integer(kColumns), b.integer(8), false, [&](kir::ExprId chunk) {
    const kir::VarId tile = b.declare_tile("tile", DType::kF32, 2, 4);
    b.unrolled("g", 2, [&](kir::ExprId g) {
      const kir::ExprId column = b.add(chunk, b.mul(g, b.integer(4)));
      b.append(kir::Load{.tile = tile,
                         .group = g,
                         .lane = run.zero(),
                         .width = 4,
                         .buffer = xs,
                         .index = b.add(b.mul(run.thread(), b.integer(kColumns)), column)});
    });
    b.unrolled("g", 2, [&](kir::ExprId g) {
      b.unrolled("l", 4,
                 [&](kir::ExprId l) { b.assign(sum, b.add(b.ref(sum), b.element(tile, g, l))); });
    });
  });
  run.store(ys, run.thread(), sum);
  run.run_clean(32);
  const std::vector<float> result = run.contents<float>(1);
  for (size_t row = 0; row < 32; ++row) {
    float expected = 0;
    for (size_t column = 0; column < kColumns; ++column) expected += x[row * kColumns + column];
    EXPECT_EQ(result[row], expected);
  }
}

TEST(Interpreter, StoresRoundToTheBufferAndLoadsKeepStorageBits) {
  const std::vector<float> x = random_floats(32, 6);
  KernelRun run(32, 32);
  const auto xs = run.global("x", DType::kF32, x);
  const auto half = run.output("half", DType::kF16, 32, kir::Access::kReadWrite);
  const auto brain = run.output("brain", DType::kBF16, 32);
  const auto bytes = run.output("bytes", DType::kI8, 32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId value = run.loaded("value", xs, run.thread());
  run.store(half, run.thread(), value);
  const kir::VarId stored = run.loaded("stored", half, run.thread());
  const kir::VarId widened = b.declare("widened", b.cast(b.ref(stored), DType::kF32));
  run.store(brain, run.thread(), widened);
  const kir::VarId hundredfold =
      b.declare("hundredfold", b.cast(b.mul(b.ref(value), b.real(100.0)), DType::kI32));
  run.store(bytes, run.thread(), hundredfold);
  run.run_clean(32);
  for (size_t i = 0; i < 32; ++i) {
    const uint16_t as_half = interpreter::f32_to_f16(x[i]);
    EXPECT_EQ(run.contents<uint16_t>(1)[i], as_half);
    EXPECT_EQ(run.contents<uint16_t>(2)[i],
              interpreter::f32_to_bf16(interpreter::f16_to_f32(as_half)));
    EXPECT_EQ(run.contents<int8_t>(3)[i], std::clamp(std::trunc(x[i] * 100.0F), -128.0F, 127.0F));
  }
}

TEST(Interpreter, AsyncCopyArrivesAtTheWait) {
  const std::vector<float> x = random_floats(512, 8);
  KernelRun run(128, 512);
  const auto xs = run.global("x", DType::kF32, x);
  const auto ys = run.output("y", DType::kF32, 512);
  const auto staged = run.shared("staged", DType::kF32, 512);
  kir::KernelBuilder& b = run.b;
  const kir::ExprId index = b.mul(run.thread(), b.integer(4));
  b.append(kir::AsyncCopy{
      .shared = staged, .shared_index = index, .global = xs, .global_index = index, .width = 4});
  b.append(kir::AsyncWait{});
  run.barrier();
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  const kir::ExprId mirrored = b.sub(b.integer(508), index);
  run.load(tile, staged, mirrored, 4);
  run.store(ys, mirrored, tile, 4);
  const InterpreterReport report = run.run_clean(512);
  EXPECT_EQ(run.contents<float>(1), x);
  EXPECT_EQ(report.buffers[xs], (BufferTraffic{.bytes_read = 2048, .async_sectors = 64}));
  EXPECT_EQ(report.work.shared_bytes_written, 2048);
}

TEST(Interpreter, CountsBankConflicts) {
  for (const int64_t pitch : {32, 33}) {
    KernelRun run(32, 32);
    const auto tile = run.shared("tile", DType::kF32, 32 * pitch);
    kir::KernelBuilder& b = run.b;
    const kir::VarId one = b.declare("one", b.real(1.0));
    run.store(tile, b.mul(run.thread(), b.integer(pitch)), one);
    EXPECT_EQ(run.run_clean(32).work.bank_conflicts, pitch == 32 ? 31 : 0);
  }
}

TEST(Interpreter, GridAndParametersReachTheKernel) {
  KernelRun run(32, 3);
  const auto out = run.output("out", DType::kI64, 4);
  kir::KernelBuilder& b = run.b;
  const kir::VarId value = b.declare(
      "value", b.add(b.param(run.n), b.cast(b.special(kir::Special::kGridSize), DType::kI64)));
  b.when(b.equal(run.thread(), b.integer(0)), [&] { run.store(out, run.block(), value); });
  run.run_clean(10);
  EXPECT_EQ(run.contents<int64_t>(0), (std::vector<int64_t>{14, 14, 14, 14}));
}

TEST(Interpreter, RejectsArgumentsThatDoNotFit) {
  KernelRun run(32);
  run.output("y", DType::kF32, 4);
  std::vector<std::byte> bytes(16);
  const std::vector<int64_t> one = {1};
  const auto kind_of = [](const Result<InterpreterReport>& result) {
    return result ? std::optional<ErrorKind>{} : result.error().kind;
  };
  EXPECT_EQ(kind_of(interpret(run.kernel, {}, one)), ErrorKind::kInvalidArgument);
  const LaunchMemory outside{.bytes = bytes, .origin = 17};
  EXPECT_EQ(kind_of(interpret(run.kernel, {&outside, 1}, one)), ErrorKind::kInvalidArgument);
  const LaunchMemory fits{.bytes = bytes};
  EXPECT_EQ(kind_of(interpret(run.kernel, {&fits, 1}, {})), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of(interpret(run.kernel, {&fits, 1}, one)), std::nullopt);
  const std::vector<int64_t> huge = {int64_t{1} << 60};
  EXPECT_EQ(kind_of(interpret(run.kernel, {&fits, 1}, huge)), ErrorKind::kResourceExhausted);
  run.kernel.params[run.n].type = DType::kI32;
  EXPECT_EQ(kind_of(interpret(run.kernel, {&fits, 1}, huge)), ErrorKind::kInvalidArgument);
  run.kernel.threads = 48;
  EXPECT_EQ(kind_of(interpret(run.kernel, {&fits, 1}, one)), ErrorKind::kInternalError);
}

}  // namespace sinter::interpreter_test
