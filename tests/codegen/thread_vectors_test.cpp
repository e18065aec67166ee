#include "codegen/lower/thread_vectors.h"

#include <gtest/gtest.h>

#include "codegen/passes/kernel_passes.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::thread_vectors_test {

using kir::ExprId;
using kir::VarId;

constexpr int64_t kGroups = 3;

struct Shape {
  DType type = DType::kF32;
  int64_t threads = 32;
  int64_t lanes = 1;
};

std::vector<Shape> all_shapes() {
  std::vector<Shape> out;
  for (const DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    for (const int64_t threads : {32, 96, 128}) {
      for (const int64_t lanes : {1, 2, 4, 8, 16}) out.push_back({type, threads, lanes});
    }
  }
  return out;
}

/// Number of an element: 1000 times the thread, then group by group.
ExprId number_of(KernelRun& run, const Shape& shape, ExprId group, ExprId lane) {
  const ExprId element = run.b.add(run.b.mul(group, run.b.integer(shape.lanes)), lane);
  const ExprId number = run.b.add(run.b.mul(run.thread(), run.b.integer(1000)), element);
  return run.b.cast(number, shape.type);
}

// No thread sees what another keeps, no access is out of bounds or misaligned, and a warp's access
// takes no bank twice: the interpreter works these out from the addresses of its 32 lanes.
TEST(ThreadVectorsTest, KeepWhatEveryThreadStoresWithoutBankConflicts) {
  for (const Shape& shape : all_shapes()) {
    SCOPED_TRACE(
        fmt::format("{} threads, {} lanes of {}", shape.threads, shape.lanes, name_of(shape.type)));
    KernelRun run(shape.threads);
    const kir::BufferId wrong = run.output("wrong", DType::kI32, shape.threads);
    const ThreadVectors vectors(run.b, "kept", shape.type, kGroups, shape.threads, shape.lanes);
    const VarId tile = run.b.declare_tile("tile", shape.type, 1, shape.lanes);
    const auto for_groups = [&](const std::function<void(ExprId)>& body) {
      run.b.loop("group", run.zero(), run.b.integer(kGroups), run.b.integer(1), false, body);
    };
    for_groups([&](ExprId group) {
      run.b.unrolled("v", shape.lanes, [&](ExprId lane) {
        run.b.set(tile, run.zero(), lane, number_of(run, shape, group, lane));
      });
      vectors.store(tile, group, run.thread());
    });
    const VarId count = run.b.declare("count", run.zero());
    for_groups([&](ExprId group) {
      vectors.load(tile, group, run.thread());
      run.b.unrolled("v", shape.lanes, [&](ExprId lane) {
        const ExprId found = run.b.element(tile, run.zero(), lane);
        const ExprId same = run.b.equal(found, number_of(run, shape, group, lane));
        run.b.assign(count,
                     run.b.add(run.b.ref(count), run.b.select(same, run.zero(), run.b.integer(1))));
      });
    });
    run.store(wrong, run.thread(), count);
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    EXPECT_EQ(kir::shared_bytes(run.kernel),
              kGroups * shape.threads * shape.lanes * bytes_of(shape.type));
    const InterpreterReport report = run.run_clean(1);
    EXPECT_EQ(report.work.bank_conflicts, 0);
    EXPECT_EQ(run.contents<int32_t>(0),
              std::vector<int32_t>(static_cast<size_t>(shape.threads), 0));
  }
}

// Elements of a thread's vector side by side, as registers have them, would make two lanes of a
// quarter warp meet in every bank.
TEST(ThreadVectorsTest, PiecesOfOneThreadDoNotLieSideBySide) {
  KernelRun run(32);
  const ThreadVectors vectors(run.b, "kept", DType::kF32, 1, 32, 8);
  const VarId tile = run.b.declare_tile("tile", DType::kF32, 1, 8);
  vectors.load(tile, run.zero(), run.zero());
  std::vector<int64_t> indices;
  for (const kir::StmtId id : run.kernel.body) {
    const auto* load = std::get_if<kir::Load>(&run.kernel.stmts[id].kind);
    if (load == nullptr) continue;
    EXPECT_EQ(load->width, 4);
    indices.push_back(run.b.as_integer(load->index)->value);
  }
  EXPECT_EQ(indices, (std::vector<int64_t>{0, 32 * 4}));
}

}  // namespace sinter::thread_vectors_test
