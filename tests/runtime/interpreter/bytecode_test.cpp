#include "runtime/interpreter/bytecode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::interpreter::bytecode_test {

using testing::HasSubstr;

int64_t count(const Program& program, Opcode opcode) {
  return std::ranges::count(program.code, opcode, &Instruction::opcode);
}

Program compiled(const kir::Kernel& kernel) {
  Result<Program> program = compile(kernel);
  EXPECT_TRUE(program.has_value()) << (program ? "" : program.error().text());
  return program ? std::move(*program) : Program{};
}

void expect_malformed(const KernelRun& run, const std::string& message) {
  const Result<Program> program = compile(run.kernel);
  ASSERT_FALSE(program.has_value()) << message;
  EXPECT_EQ(program.error().kind, ErrorKind::kInternalError);
  EXPECT_THAT(program.error().message, HasSubstr(message));
}

TEST(Bytecode, ExpandsUnrolledLoopsAndFoldsTheirIndices) {
  KernelRun run(32);
  const auto y = run.output("y", DType::kI32, 128);
  kir::KernelBuilder& b = run.b;
  const kir::VarId tile = b.declare_tile("tile", DType::kI32, 4, 1);
  b.loop("i", b.integer(0), b.integer(4), b.integer(1), true, [&](kir::ExprId i) {
    b.set(tile, i, run.zero(), b.mul(b.add(i, b.integer(1)), b.integer(7)));
  });
  run.store(y, run.thread(), tile);
  const Program program = compiled(run.kernel);
  // Four constants to assign, one index to widen.
  EXPECT_EQ(count(program, Opcode::kAssign), 4);
  EXPECT_EQ(count(program, Opcode::kCompute), 1);
  EXPECT_EQ(count(program, Opcode::kLoopTest), 0);
  EXPECT_EQ(program.constants.size(), 4U);
}

TEST(Bytecode, ChecksOnlyReadsThatMightPrecedeTheirWrite) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId sure = b.declare_scalar("sure", DType::kI32);
  const kir::VarId unsure = b.declare_scalar("unsure", DType::kI32);
  b.when(
      b.less(run.thread(), b.integer(5)),
      [&] {
        b.assign(sure, b.integer(1));
        b.assign(unsure, b.integer(1));
      },
      [&] { b.assign(sure, b.integer(2)); });
  b.declare("sum", b.add(b.ref(sure), b.ref(unsure)));
  const Program program = compiled(run.kernel);
  EXPECT_EQ(count(program, Opcode::kCheckWritten), 1);
  EXPECT_EQ(count(program, Opcode::kMarkWritten), 1);
  ASSERT_EQ(program.tracked.size(), 1U);
  EXPECT_EQ(program.tracked[0].var, unsure);
}

TEST(Bytecode, AComputedValueGoesStraightToItsVariable) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId x = b.declare("x", b.add(run.thread(), b.integer(1)));
  b.assign(x, b.mul(b.add(b.ref(x), run.block()), b.ref(x)));
  const Program program = compiled(run.kernel);
  EXPECT_EQ(count(program, Opcode::kAssign), 2);
  EXPECT_EQ(count(program, Opcode::kCompute), 1);
}

TEST(Bytecode, RejectsWhatALoweredKernelMayNotHold) {
  {
    KernelRun run(32);
    const kir::VarId x = run.b.declare("x", run.b.real(1.0));
    run.b.append(kir::AllReduce{.parts = {{kir::Combiner::kSum, {x}}}, .name = "total"});
    expect_malformed(run, "all-reduce total has not been lowered");
  }
  {
    KernelRun run(32);
    const auto cell = run.shared("cell", DType::kF32, 32);
    run.kernel.buffers[cell].offset = -1;
    run.loaded("x", cell, run.thread());
    expect_malformed(run, "shared buffer cell has not been placed");
  }
  {
    KernelRun run(32);
    const kir::VarId tile = run.b.declare_tile("tile", DType::kF32, 4, 1);
    run.b.set(tile, run.thread(), run.zero(), run.b.real(1.0));
    expect_malformed(run, "the group of a tile element is not an integer constant");
  }
  {
    KernelRun run(32);
    const kir::VarId tile = run.b.declare_tile("tile", DType::kF32, 4, 2);
    run.b.set(tile, run.b.integer(3), run.b.integer(2), run.b.real(1.0));
    expect_malformed(run, "element [3, 2] with width 1 is outside tile tile of 4 x 2");
  }
  {
    KernelRun run(32);
    const auto x = run.global("x", DType::kF32, std::vector<float>(32));
    const kir::VarId value = run.loaded("value", x, run.thread());
    run.store(x, run.thread(), value);
    expect_malformed(run, "buffer x may not be written");
  }
  {
    KernelRun run(32);
    const auto x = run.global("x", DType::kF32, std::vector<float>(32));
    const kir::VarId value = run.b.declare_scalar("value", DType::kF64);
    run.load(value, x, run.thread());
    expect_malformed(run, "a load of f32 fills a tile of f64");
  }
  {
    KernelRun run(32);
    const auto y = run.output("y", DType::kF16, 32);
    const kir::VarId value = run.b.declare("value", run.b.real(1.0, DType::kF64));
    run.store(y, run.thread(), value);
    expect_malformed(run, "a store to f16 takes a tile of f64");
  }
  {
    KernelRun run(32);
    const auto x = run.global("x", DType::kF32, std::vector<float>(32));
    const kir::VarId tile = run.b.declare_tile("tile", DType::kF32, 1, 4);
    run.load(tile, x, run.zero(), 3);
    expect_malformed(run, "an access has width 3");
  }
  {
    KernelRun run(32);
    const kir::VarId value = run.b.declare("value", run.b.real(1.0));
    run.b.append(kir::ShuffleXor{.target = value, .source = run.b.ref(value), .mask = 32});
    expect_malformed(run, "with mask 32");
  }
  {
    KernelRun run(32);
    const auto rows = run.shared("rows", DType::kBF16, 64);
    const kir::VarId tile = run.b.declare_tile("tile", DType::kBF16, 4, 2);
    const auto load = [&](int64_t group, int64_t matrices, kir::VarId to) {
      run.b.append(kir::LoadMatrix{.tile = to,
                                   .group = run.b.integer(group),
                                   .matrices = matrices,
                                   .shared = rows,
                                   .index = run.zero()});
    };
    load(0, 3, tile);
    expect_malformed(run, "no load of 3 matrices from rows into tile");
    run.kernel.body.clear();
    load(1, 4, tile);
    expect_malformed(run, "4 groups from 1 on are outside tile tile of 4 x 2");
    run.kernel.body.clear();
    load(0, 4, run.b.declare_tile("wide", DType::kBF16, 4, 4));
    expect_malformed(run, "wide of 4 lanes holds no matrices");
    run.kernel.body.clear();
    const kir::ExprId zero = run.zero();
    run.b.append(kir::Mma{tile, zero, tile, zero, tile, zero});
    expect_malformed(run, "no product of matrices of bf16 and bf16 into tile");
  }
  {
    KernelRun run(128);
    const auto x = run.output("x", DType::kBF16, 64, kir::Access::kReadWrite);
    const auto rows = run.shared("rows", DType::kBF16, 4096);
    const kir::ExprId zero = run.zero();
    run.b.add_mbarriers("full", 1, 1);
    kir::TensorMap map{.name = "map", .buffer = x};
    map.axes.push_back({.size = 64, .box = 4});
    const kir::TensorMapId narrow = run.b.add_tensor_map(map);
    map.axes[0].box = 64;
    const kir::TensorMapId wide = run.b.add_tensor_map(map);
    const auto copy = [&](kir::TensorMapId of, std::vector<kir::ExprId> coordinates) {
      run.kernel.body.clear();
      run.b.append(kir::TensorCopy{.shared = rows,
                                   .shared_index = zero,
                                   .map = of,
                                   .coordinates = std::move(coordinates),
                                   .array = kir::MbarrierId{0},
                                   .index = zero});
    };
    copy(narrow, {zero});
    expect_malformed(run, "has 8 bytes along axis 0, not a multiple of 16");
    copy(wide, {zero, zero});
    expect_malformed(run, "2 coordinates of 1 axes");
    copy(kir::TensorMapId{5}, {zero});
    expect_malformed(run, "there is no %t5");
    run.kernel.body.clear();
    const kir::VarId sum = run.b.declare_tile("sum", DType::kF32, 2, 2);
    const kir::SharedMatrix operand{.buffer = rows, .index = zero, .group_stride = 512};
    run.b.append(kir::Wgmma{.accumulator = sum,
                            .accumulator_group = zero,
                            .columns = 24,
                            .left = operand,
                            .right = operand});
    expect_malformed(run, "a product of 24 columns");
  }
  {
    KernelRun run(32);
    const kir::ExprId sum = run.b.add(run.thread(), run.block());
    run.kernel.exprs[sum].type = DType::kF32;
    run.b.append(kir::Declare{run.b.add_var("x", DType::kF32), sum});
    expect_malformed(run, "operands do not fit add of type f32");
  }
}

TEST(Bytecode, RefusesVariablesBeyondReason) {
  KernelRun run(1024);
  run.b.declare_tile("fits", DType::kF32, 1, 1 << 17);
  EXPECT_TRUE(compile(run.kernel));
  run.kernel.cluster = 4;
  const Result<Program> program = compile(run.kernel);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(program.error().measured, int64_t{4} << 29);
  EXPECT_EQ(program.error().limit, kMaxRegisterBytes);
}

TEST(Bytecode, RefusesToUnrollBeyondReason) {
  KernelRun run(32);
  kir::KernelBuilder& b = run.b;
  const kir::VarId x = b.declare("x", b.integer(0));
  b.loop("i", b.integer(0), b.integer(100'000), b.integer(1), true, [&](kir::ExprId) {
    b.loop("j", b.integer(0), b.integer(100'000), b.integer(1), true,
           [&](kir::ExprId) { b.assign(x, b.add(b.ref(x), run.thread())); });
  });
  const Result<Program> program = compile(run.kernel);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(program.error().limit, kMaxInstructions);
}

}  // namespace sinter::interpreter::bytecode_test
