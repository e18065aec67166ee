// What passes on the kernel IR leave behind: calls in other forms, loads under a predicate,
// extremes of the lanes of a vector.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "codegen/passes/pack_maxima.h"
#include "codegen/passes/predicate_loads.h"
#include "codegen/passes/share_random_rounds.h"
#include "codegen/passes/take_fast_paths.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::call_forms_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Bits, so that NaN equals itself and -0 does not equal 0.
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

/// y[thread] = the sum over four elements of log(x), and z = each of these logarithms.
KernelRun sums_of_logarithms(const std::vector<float>& x) {
  KernelRun run(32, 32);
  const auto xs = run.global("x", DType::kF32, x);
  const auto ys = run.output("y", DType::kF32, 32);
  const auto zs = run.output("z", DType::kF32, 128);
  kir::KernelBuilder& b = run.b;
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  const kir::VarId logs = b.declare_tile("logs", DType::kF32, 1, 4);
  const kir::ExprId first = b.mul(run.thread(), b.integer(4));
  run.load(tile, xs, first, 4);
  const kir::VarId sum = b.declare("sum", b.real(0.5));
  b.unrolled("v", 4, [&](kir::ExprId v) {
    const kir::VarId log =
        b.declare("log", b.apply(PointwiseFn::kLog, {b.element(tile, run.zero(), v)}));
    b.set(logs, run.zero(), v, b.ref(log));
    b.assign(sum, b.add(b.ref(sum), b.ref(log)));
  });
  run.store(ys, run.thread(), sum);
  run.store(zs, first, logs, 4);
  return run;
}

/// Arguments for which one instruction is right, and in every other group of four one for which it
/// is not.
std::vector<float> hard_arguments() {
  constexpr std::array kHard = {
      0.0F, -0.0F,     1.0F,      0x1.000002p0F,   0x1.fffffep-1F, -1.0F,    kInfinity, -kInfinity,
      kNan, 0x1p-149F, 0x1p-127F, 0x1.fffffep127F, 0x1p-126F,      0x1.8p0F, 0.75F,     0x1.4p-2F};
  std::vector<float> x;
  for (size_t i = 0; i < 128; ++i) {
    const bool is_hard = i % 8 == 5;
    x.push_back(is_hard ? kHard[i / 8] : 3.0F + static_cast<float>(i));
  }
  return x;
}

TEST(CallForms, ALoopWithAFastPathRunsAgainWhereThatWasNotRight) {
  KernelRun plain = sums_of_logarithms(hard_arguments());
  plain.run_clean(32);
  KernelRun run = sums_of_logarithms(hard_arguments());
  run.kernel = take_fast_paths(run.kernel);
  run.run_clean(32);
  for (const size_t buffer : {size_t{1}, size_t{2}})
    EXPECT_EQ(bits_of(run.contents<float>(buffer)), bits_of(plain.contents<float>(buffer)));
}

/// Takes the second run of each loop away.
void drop_second_runs(kir::Kernel& kernel) {
  for (kir::Stmt& stmt : kernel.stmts) {
    if (auto* branch = std::get_if<kir::If>(&stmt.kind)) branch->then_body.clear();
  }
}

TEST(CallForms, AFastPathThatIsNotRunAgainShows) {
  KernelRun run = sums_of_logarithms(hard_arguments());
  run.kernel = take_fast_paths(run.kernel);
  drop_second_runs(run.kernel);
  run.run_clean(32);
  const std::vector<float> sums = run.contents<float>(1);
  for (size_t thread = 0; thread < 32; ++thread) {
    // The last two hard arguments are ordinary ones: 0.75 is not, its logarithm is above -1.
    const bool has_hard = thread % 2 == 1 && thread / 2 != 12 && thread / 2 != 15;
    EXPECT_EQ(std::isnan(sums[thread]), has_hard) << thread;
  }
}

TEST(CallForms, LanesAreComparedAsTheLoopComparesThem) {
  const std::vector<uint16_t> x = {0x3f80, 0xc000, 0x7fc0, 0x0000, 0xff80, 0x7f80, 0x8000, 0x0000,
                                   0xc040, 0x3f80, 0xbf80, 0x4000, 0x0001, 0x8001, 0x8000, 0x0000};
  const auto run_of = [&](bool packed, PointwiseFn fn, bool of_magnitudes) {
    KernelRun run(32, 1);
    const auto xs = run.global("x", DType::kBF16, x);
    const auto ys = run.output("y", DType::kF32, 4);
    kir::KernelBuilder& b = run.b;
    const kir::VarId tile = b.declare_tile("tile", DType::kBF16, 1, 4);
    b.when(b.less(run.thread(), b.integer(4)), [&] {
      run.load(tile, xs, b.mul(run.thread(), b.integer(4)), 4);
      const kir::VarId most = b.declare("most", b.real(-3.0));
      b.unrolled("v", 4, [&](kir::ExprId v) {
        kir::ExprId wide = b.cast(b.element(tile, run.zero(), v), DType::kF32);
        if (of_magnitudes) wide = b.apply(PointwiseFn::kAbs, {wide});
        b.assign(most, b.apply(fn, {b.ref(most), wide}));
      });
      run.store(ys, run.thread(), most);
    });
    if (packed) run.kernel = pack_maxima(run.kernel);
    bool has_extreme = false;
    for (const kir::Stmt& stmt : run.kernel.stmts)
      has_extreme |= std::holds_alternative<kir::LaneExtreme>(stmt.kind);
    EXPECT_EQ(has_extreme, packed);
    run.run_clean(1);
    return bits_of(run.contents<float>(1));
  };
  for (const PointwiseFn fn : {PointwiseFn::kMax, PointwiseFn::kMin}) {
    for (const bool of_magnitudes : {false, true})
      EXPECT_EQ(run_of(true, fn, of_magnitudes), run_of(false, fn, of_magnitudes));
  }
}

TEST(CallForms, ALoadUnderAFalsePredicateReadsNothingAndKeepsTheTile) {
  KernelRun run(32, 32);
  const auto xs = run.global("x", DType::kF32, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const auto ys = run.output("y", DType::kF32, 128);
  kir::KernelBuilder& b = run.b;
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  for (int64_t lane = 0; lane < 4; ++lane) b.set(tile, run.zero(), b.integer(lane), b.real(-1.0));
  const kir::ExprId first = b.mul(run.thread(), b.integer(4));
  // Only the first two threads have elements; others would read out of bounds.
  b.when(b.less(run.thread(), b.integer(2)), [&] { run.load(tile, xs, first, 4); });
  run.store(ys, first, tile, 4);
  run.kernel = predicate_loads(run.kernel);
  for (const kir::StmtId id : run.kernel.body)
    EXPECT_FALSE(std::holds_alternative<kir::If>(run.kernel.stmts[id].kind));
  run.run_clean(32);
  std::vector<float> expected = {1, 2, 3, 4, 5, 6, 7, 8};
  expected.resize(128, -1.0F);
  EXPECT_EQ(run.contents<float>(1), expected);
}

/// What a load may have left alone is not known to be written.
TEST(CallForms, ATileThatALoadUnderAPredicateLeftAloneIsFoundUnwritten) {
  KernelRun run(32, 32);
  const auto xs = run.global("x", DType::kF32, std::vector<float>{1, 2, 3, 4});
  const auto ys = run.output("y", DType::kF32, 128);
  kir::KernelBuilder& b = run.b;
  const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
  b.when(b.equal(run.thread(), b.integer(0)), [&] { run.load(tile, xs, run.zero(), 4); });
  run.store(ys, b.mul(run.thread(), b.integer(4)), tile, 4);
  run.kernel = predicate_loads(run.kernel);
  EXPECT_FALSE(run.run(32).clean());
}

TEST(CallForms, SharedRoundsDrawTheSameNumbers) {
  const auto numbers = [](bool shares) {
    KernelRun run(32, 32);
    const auto ys = run.output("y", DType::kF32, 256);
    kir::KernelBuilder& b = run.b;
    const kir::VarId out = b.declare_tile("out", DType::kF32, 1, 8);
    const kir::ExprId first = b.cast(b.mul(run.thread(), b.integer(8)), DType::kI64);
    b.unrolled("v", 8, [&](kir::ExprId v) {
      b.set(out, run.zero(), v,
            b.apply(PointwiseFn::kPhiloxUniform,
                    {b.param(run.n), b.add(first, b.cast(v, DType::kI64))}));
    });
    run.store(ys, first, out, 4);
    b.append(kir::Store{.buffer = ys,
                        .index = b.add(first, b.integer(4, DType::kI64)),
                        .width = 4,
                        .tile = out,
                        .group = run.zero(),
                        .lane = b.integer(4)});
    if (shares) run.kernel = share_random_rounds(run.kernel);
    run.run_clean(32);
    return bits_of(run.contents<float>(0));
  };
  EXPECT_EQ(numbers(true), numbers(false));
}

}  // namespace sinter::call_forms_test
