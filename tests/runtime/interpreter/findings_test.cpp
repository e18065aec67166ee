// Each defect the interpreter looks for, planted once, beside the same kernel without it where that
// is not obvious.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "runtime/interpreter/interpreter.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::findings_test {

using testing::AllOf;
using testing::HasSubstr;

const Finding* find(const InterpreterReport& report, FindingKind kind) {
  for (const Finding& finding : report.findings) {
    if (finding.kind == kind) return &finding;
  }
  return nullptr;
}

/// The run shows this kind and nothing else.
void expect_only(const InterpreterReport& report, FindingKind kind, const KernelRun& run) {
  ASSERT_FALSE(report.clean()) << text_of(kind);
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.kind, kind) << report.text(run.kernel);
  }
}

TEST(InterpreterFindings, SharedRaceWithoutABarrier) {
  for (const bool with_barrier : {true, false}) {
    KernelRun run(64);
    const auto cell = run.shared("cell", DType::kF32, 64);
    kir::KernelBuilder& b = run.b;
    const kir::VarId one = b.declare("one", b.real(1.0));
    run.store(cell, run.thread(), one);
    if (with_barrier) run.barrier();
    run.loaded("mirrored", cell, b.sub(b.integer(63), run.thread()));
    const kir::StmtId load = run.last_stmt();
    const InterpreterReport report = run.run(1);
    if (with_barrier) {
      EXPECT_TRUE(report.clean()) << report.text(run.kernel);
      continue;
    }
    // Whichever of the two accesses comes second shows the race; unwritten reads may come first.
    const Finding* race = find(report, FindingKind::kSharedRace);
    ASSERT_NE(race, nullptr);
    EXPECT_EQ(race->buffer, cell);
    EXPECT_THAT(race->message, AllOf(HasSubstr("cell["), HasSubstr("no barrier between")));
    const Finding* unwritten = find(report, FindingKind::kUnwrittenShared);
    EXPECT_TRUE(unwritten == nullptr || unwritten->stmt == load);
  }
}

TEST(InterpreterFindings, SharedRaceBetweenLanesOfOneWarp) {
  KernelRun run(32);
  const auto cell = run.shared("cell", DType::kI32, 1);
  const kir::VarId mine = run.b.declare("mine", run.thread());
  run.store(cell, run.zero(), mine);
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kSharedRace, run);
  EXPECT_EQ(report.findings[0].count, 31);
  EXPECT_EQ(report.findings[0].index, 0);
}

TEST(InterpreterFindings, WriteAfterReadIsARaceToo) {
  KernelRun run(32);
  const auto cell = run.shared("cell", DType::kI32, 32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId mine = b.declare("mine", run.thread());
  run.store(cell, run.thread(), mine);
  run.barrier();
  const kir::VarId first = run.loaded("first", cell, run.zero());
  b.when(b.equal(run.thread(), b.integer(0)), [&] { run.store(cell, run.zero(), first); });
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kSharedRace, run);
  EXPECT_THAT(report.findings[0].message, HasSubstr("thread 0 of block 0 writes cell[0]"));
}

TEST(InterpreterFindings, UnwrittenSharedRead) {
  KernelRun run(32);
  const auto cell = run.shared("cell", DType::kF32, 40);
  kir::KernelBuilder& b = run.b;
  const kir::VarId one = b.declare("one", b.real(1.0));
  run.store(cell, run.thread(), one);
  run.barrier();
  run.loaded("value", cell, b.add(run.thread(), b.integer(3)));
  const InterpreterReport report = run.run(2);
  expect_only(report, FindingKind::kUnwrittenShared, run);
  EXPECT_EQ(report.findings[0].index, 32);
  EXPECT_EQ(report.findings[0].thread, 29);
  // Block 1 must not see what block 0 wrote.
  EXPECT_EQ(report.findings[0].count, 2 * 3);
  EXPECT_EQ(report.findings[0].stmt, run.last_stmt());
}

TEST(InterpreterFindings, GlobalOutOfBounds) {
  KernelRun run(32);
  const auto x = run.global("x", DType::kF32, std::vector<float>(30, 1.0F));
  const auto y = run.output("y", DType::kF32, 31);
  const kir::VarId value = run.loaded("value", x, run.thread());
  const kir::StmtId load = run.last_stmt();
  run.store(y, run.thread(), value);
  const kir::StmtId store = run.last_stmt();
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kGlobalOutOfBounds, run);
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].stmt, load);
  EXPECT_EQ(report.findings[0].index, 30);
  EXPECT_EQ(report.findings[0].count, 2);
  EXPECT_EQ(report.findings[1].stmt, store);
  EXPECT_EQ(report.findings[1].thread, 31);
  // The run went on, and loads outside gave 0.
  EXPECT_EQ(run.contents<float>(1)[29], 1.0F);
  EXPECT_EQ(run.contents<float>(1)[30], 0.0F);
  EXPECT_THAT(report.text(run.kernel), HasSubstr("load x["));
}

TEST(InterpreterFindings, SharedOutOfBoundsStopsAtTheBuffer) {
  KernelRun run(32);
  const auto first = run.shared("first", DType::kF32, 31);
  run.shared("second", DType::kF32, 32);
  const kir::VarId one = run.b.declare("one", run.b.real(1.0));
  run.store(first, run.thread(), one);
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kSharedOutOfBounds, run);
  EXPECT_EQ(report.findings[0].buffer, first);
  EXPECT_EQ(report.findings[0].index, 31);
}

TEST(InterpreterFindings, MisalignedVectors) {
  for (const int64_t alignment : {16, 8}) {
    for (const int64_t shift : {0, 1}) {
      KernelRun run(32);
      const auto x = run.global("x", DType::kF32, std::vector<float>(132, 1.0F), kir::Access::kRead,
                                alignment);
      kir::KernelBuilder& b = run.b;
      const kir::VarId tile = b.declare_tile("tile", DType::kF32, 1, 4);
      run.load(tile, x, b.add(b.mul(run.thread(), b.integer(4)), b.integer(shift)), 4);
      const InterpreterReport report = run.run(1);
      if (alignment == 16 && shift == 0) {
        EXPECT_TRUE(report.clean()) << report.text(run.kernel);
      } else {
        expect_only(report, FindingKind::kMisaligned, run);
        EXPECT_EQ(report.findings[0].count, 32);
      }
    }
  }
}

TEST(InterpreterFindings, GlobalRaceBetweenBlocks) {
  for (const int threads : {1, 2}) {
    KernelRun run(32);
    const auto y = run.output("y", DType::kI32, 33);
    kir::KernelBuilder& b = run.b;
    const kir::VarId mine = b.declare("mine", run.thread());
    run.store(y, b.add(run.thread(), run.block()), mine);
    const InterpreterReport report = run.run(2, {.threads = threads});
    expect_only(report, FindingKind::kGlobalRace, run);
    EXPECT_EQ(report.findings[0].buffer, y);
    EXPECT_EQ(report.findings[0].index, 1);
    EXPECT_EQ(report.findings[0].count, 31);
    EXPECT_THAT(report.findings[0].message,
                AllOf(HasSubstr("thread 0 of block 1"), HasSubstr("thread 1 of block 0")));
  }
}

TEST(InterpreterFindings, GlobalRaceBetweenAReadAndAWrite) {
  for (const int threads : {1, 2}) {
    KernelRun run(32);
    const auto y = run.output("y", DType::kI32, 64, kir::Access::kReadWrite);
    kir::KernelBuilder& b = run.b;
    const kir::ExprId other =
        b.rem(b.add(b.cast(run.thread_of_launch(), DType::kI32), b.integer(32)), b.integer(64));
    const kir::VarId value = run.loaded("value", y, other);
    run.store(y, run.thread_of_launch(), value);
    expect_only(run.run(2, {.threads = threads}), FindingKind::kGlobalRace, run);
  }
}

/// Two blocks, of which one reads and the other writes element 0 of `y`; nothing else touches it.
InterpreterReport read_by_one_and_written_by_the_other(int reader, int threads) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kI32, 1, kir::Access::kReadWrite);
  const auto out = run.output("out", DType::kI32, 64);
  kir::KernelBuilder& b = run.b;
  const auto only = [&](int block, const std::function<void()>& body) {
    b.when(b.both(b.equal(run.block(), b.integer(block)), b.equal(run.thread(), b.integer(0))),
           body);
  };
  const auto read = [&] { run.store(out, b.integer(0), run.loaded("value", y, b.integer(0))); };
  const auto write = [&] { run.store(y, b.integer(0), b.declare("one", b.integer(1))); };
  only(reader, read);
  only(1 - reader, write);
  InterpreterReport report = run.run(2, {.threads = threads});
  expect_only(report, FindingKind::kGlobalRace, run);
  return report;
}

/// Blocks run in order: the first is the reader, so that its read comes before the write, or the
/// second, so that it comes after. On two host threads the two meet when their memories are joined.
TEST(InterpreterFindings, GlobalReadsRaceWithLaterWritesAndWritesWithLaterReads) {
  for (const int threads : {1, 2}) {
    for (const int reader : {0, 1}) {
      const InterpreterReport report = read_by_one_and_written_by_the_other(reader, threads);
      ASSERT_EQ(report.findings.size(), 1U) << reader << " " << threads;
      EXPECT_EQ(report.findings[0].count, 1);
      EXPECT_THAT(report.findings[0].message,
                  reader == 0 ? HasSubstr("thread 0 of block 1 writes y[0], which thread 0 of "
                                          "block 0 reads")
                              : HasSubstr("thread 0 of block 1 reads y[0], which thread 0 of "
                                          "block 0 writes"));
    }
  }
}

/// Within one block, with no barrier between the read and the write of another thread.
TEST(InterpreterFindings, GlobalWriteAfterAReadOfAnotherWarp) {
  for (const bool has_barrier : {false, true}) {
    KernelRun run(64);
    const auto y =
        run.global("y", DType::kI32, std::vector<int32_t>(64, 1), kir::Access::kReadWrite);
    const auto out = run.output("out", DType::kI32, 64);
    kir::KernelBuilder& b = run.b;
    const kir::ExprId other = b.rem(b.add(run.thread(), b.integer(32)), b.integer(64));
    run.store(out, run.thread(), run.loaded("value", y, other));
    if (has_barrier) run.barrier();
    run.store(y, run.thread(), b.declare("one", b.integer(1)));
    const InterpreterReport report = run.run(1);
    if (has_barrier) {
      EXPECT_TRUE(report.clean()) << report.text(run.kernel);
    } else {
      expect_only(report, FindingKind::kGlobalRace, run);
    }
  }
}

TEST(InterpreterFindings, UnwrittenRegisterOnOnePath) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kF32, 32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId value = b.declare_scalar("value", DType::kF32);
  b.when(b.less(run.thread(), b.integer(20)), [&] { b.assign(value, b.real(1.0)); });
  run.store(y, run.thread(), value);
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kUnwrittenRegister, run);
  EXPECT_EQ(report.findings[0].thread, 20);
  EXPECT_EQ(report.findings[0].count, 12);
  EXPECT_THAT(report.findings[0].message, HasSubstr("reads value[0, 0] before writing it"));
}

TEST(InterpreterFindings, RegistersWrittenOnAllPathsAreFine) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kF32, 32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId value = b.declare_scalar("value", DType::kF32);
  // No structural proof: each half is written under its own condition.
  b.when(b.less(run.thread(), b.integer(20)), [&] { b.assign(value, b.real(1.0)); });
  b.when(b.less_equal(b.integer(20), run.thread()), [&] { b.assign(value, b.real(2.0)); });
  run.store(y, run.thread(), value);
  run.run_clean(1);
}

TEST(InterpreterFindings, AVariableStartsEmptyInEachIteration) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kI32, 64);
  kir::KernelBuilder& b = run.b;
  b.loop("i", b.integer(0), b.integer(2), b.integer(1), false, [&](kir::ExprId i) {
    const kir::VarId value = b.declare_scalar("value", DType::kI32);
    b.when(b.equal(i, b.integer(0)), [&] { b.assign(value, i); });
    run.store(y, b.add(b.mul(i, b.integer(32)), run.thread()), value);
  });
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kUnwrittenRegister, run);
  EXPECT_EQ(report.findings[0].count, 32);
}

KernelRun async_kernel(bool with_wait, bool with_read) {
  KernelRun run(32);
  const auto x = run.global("x", DType::kF32, std::vector<float>(32, 1.0F));
  const auto staged = run.shared("staged", DType::kF32, 32);
  run.b.append(kir::AsyncCopy{.shared = staged,
                              .shared_index = run.thread(),
                              .global = x,
                              .global_index = run.thread(),
                              .width = 1});
  if (with_wait) run.b.append(kir::AsyncWait{});
  if (with_read) run.loaded("value", staged, run.thread());
  if (!with_wait) run.b.append(kir::AsyncWait{});
  return run;
}

TEST(InterpreterFindings, ReadBeforeTheAsyncCopyIsAwaited) {
  KernelRun good = async_kernel(true, true);
  good.run_clean(1);
  KernelRun bad = async_kernel(false, true);
  const InterpreterReport report = bad.run(1);
  expect_only(report, FindingKind::kAsyncPending, bad);
  EXPECT_EQ(report.findings[0].count, 32);
}

TEST(InterpreterFindings, AsyncCopyReachesOtherThreadsAfterABarrierOnly) {
  KernelRun run(32);
  const auto x = run.global("x", DType::kF32, std::vector<float>(32, 1.0F));
  const auto staged = run.shared("staged", DType::kF32, 32);
  kir::KernelBuilder& b = run.b;
  b.append(kir::AsyncCopy{.shared = staged,
                          .shared_index = run.thread(),
                          .global = x,
                          .global_index = run.thread(),
                          .width = 1});
  // The barrier orders the start of the copies, not their arrival.
  run.barrier();
  b.append(kir::AsyncWait{});
  run.loaded("value", staged, b.sub(b.integer(31), run.thread()));
  expect_only(run.run(1), FindingKind::kSharedRace, run);
}

TEST(InterpreterFindings, AsyncCopyNeverAwaited) {
  KernelRun run = async_kernel(true, false);
  run.b.append(kir::AsyncCopy{.shared = kir::BufferId{1},
                              .shared_index = run.thread(),
                              .global = kir::BufferId{0},
                              .global_index = run.thread(),
                              .width = 1});
  expect_only(run.run(1), FindingKind::kAsyncNeverAwaited, run);
}

TEST(InterpreterFindings, BarrierInDivergentCode) {
  KernelRun run(64);
  run.b.when(run.b.less(run.b.rem(run.thread(), run.b.integer(32)), run.b.integer(7)),
             [&] { run.barrier(); });
  const InterpreterReport report = run.run(1);
  expect_only(report, FindingKind::kDivergentBarrier, run);
  EXPECT_THAT(report.findings[0].message, HasSubstr("0x0000007f"));
  EXPECT_EQ(report.findings[0].count, 2);
}

TEST(InterpreterFindings, WarpsAtDifferentBarriers) {
  KernelRun run(64);
  run.b.when(
      run.b.less(run.thread(), run.b.integer(32)), [&] { run.barrier(); }, [&] { run.barrier(); });
  expect_only(run.run(1), FindingKind::kDivergentBarrier, run);
}

TEST(InterpreterFindings, ShuffleInDivergentCode) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId value = b.declare("value", b.real(1.0));
  b.when(b.less(run.thread(), b.integer(16)),
         [&] { b.append(kir::ShuffleXor{.target = value, .source = b.ref(value), .mask = 1}); });
  expect_only(run.run(1), FindingKind::kDivergentShuffle, run);
}

TEST(InterpreterFindings, DeadlockNamesTheStateOfEveryWarp) {
  KernelRun run(96);
  run.b.when(run.b.less(run.thread(), run.b.integer(64)), [&] { run.barrier(); });
  const kir::StmtId barrier{0};
  const InterpreterReport report = run.run(3);
  expect_only(report, FindingKind::kDeadlock, run);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].stmt, barrier);
  EXPECT_EQ(report.findings[0].count, 3 * 2);
  EXPECT_THAT(report.findings[0].message,
              AllOf(HasSubstr("warp 0 waits"), HasSubstr("warp 1 waits"),
                    HasSubstr("warp 2 has finished")));
  EXPECT_EQ(report.blocks, 3);
}

TEST(InterpreterFindings, EndlessLoopMeetsTheStepLimit) {
  KernelRun run(64);
  kir::KernelBuilder& b = run.b;
  const kir::VarId bound = b.declare("bound", b.integer(1));
  b.loop("i", b.integer(0), b.ref(bound), b.integer(1), false,
         [&](kir::ExprId i) { b.assign(bound, b.add(i, b.integer(2))); });
  const InterpreterReport report = run.run(5, {.max_steps = 10'000});
  expect_only(report, FindingKind::kStepLimit, run);
  EXPECT_THAT(report.findings[0].message, HasSubstr("has executed 10000 instructions"));
  EXPECT_EQ(report.blocks, 1);
  EXPECT_EQ(report.work.max_warp_instructions, 10'000);
}

TEST(InterpreterFindings, ChecksOfRacesCanBeLeftOut) {
  KernelRun run(32);
  const auto cell = run.shared("cell", DType::kI32, 1);
  const auto y = run.output("y", DType::kI32, 1);
  const kir::VarId mine = run.b.declare("mine", run.thread());
  run.store(cell, run.zero(), mine);
  run.store(y, run.zero(), mine);
  EXPECT_FALSE(run.run(1).clean());
  EXPECT_TRUE(run.run(1, {.check_races = false}).clean());
}

TEST(InterpreterFindings, AreCappedAndCounted) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kI32, 1);
  const kir::VarId mine = run.b.declare("mine", run.thread());
  for (int i = 0; i < 10; ++i) run.store(y, run.b.add(run.thread(), run.b.integer(i + 1)), mine);
  const InterpreterReport report = run.run(4, {.max_findings = 3});
  EXPECT_EQ(report.findings.size(), 3U);
  EXPECT_EQ(report.findings_left_out, 7);
  EXPECT_EQ(report.findings[0].count, 4 * 32);
  EXPECT_THAT(report.text(run.kernel), HasSubstr("and 7 more findings"));
}

TEST(InterpreterFindings, ReportIsTheSameForEqualSeeds) {
  const auto report_of = [](uint64_t seed) {
    KernelRun run(128);
    const auto cell = run.shared("cell", DType::kF32, 128);
    const kir::VarId one = run.b.declare("one", run.b.real(1.0));
    run.store(cell, run.thread(), one);
    run.loaded("mirrored", cell, run.b.sub(run.b.integer(127), run.thread()));
    return run.run(3, {.seed = seed}).text(run.kernel);
  };
  EXPECT_EQ(report_of(5), report_of(5));
}

}  // namespace sinter::findings_test
