#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "runtime/interpreter/interpreter.h"

namespace sinter {

/// A kernel under construction with the memory it will run on. Every launch has one parameter, `n`,
/// the work that the grid divides.
class KernelRun {
 public:
  explicit KernelRun(int64_t threads, int64_t work_per_block = 1) : b(&kernel) {
    kernel.threads = threads;
    n = b.add_param("n");
    kernel.grid = {.work = n, .per_block = work_per_block};
  }

  /// A global buffer that holds `values`.
  template <class T>
  kir::BufferId global(std::string name, DType type, std::vector<T> values,
                       kir::Access access = kir::Access::kRead, int64_t alignment = 16) {
    std::vector<std::byte>& bytes = memory_.emplace_back(values.size() * sizeof(T));
    std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
    return b.add_buffer({.name = std::move(name),
                         .type = type,
                         .space = kir::Space::kGlobal,
                         .access = access,
                         .alignment = alignment,
                         .value = {},
                         .count = 0});
  }
  /// A global buffer of `count` elements to be written, all bytes 0xff.
  kir::BufferId output(std::string name, DType type, int64_t count,
                       kir::Access access = kir::Access::kWrite) {
    return global(std::move(name), type,
                  std::vector<uint8_t>(static_cast<size_t>(count * bytes_of(type)), 0xff), access);
  }
  /// A shared buffer, placed behind those before it.
  kir::BufferId shared(std::string name, DType type, int64_t count) {
    const int64_t offset = (kir::shared_bytes(kernel) + 15) / 16 * 16;
    return b.add_buffer({.name = std::move(name),
                         .type = type,
                         .space = kir::Space::kShared,
                         .access = kir::Access::kReadWrite,
                         .alignment = 16,
                         .value = {},
                         .count = count,
                         .offset = offset});
  }

  kir::ExprId thread() { return b.special(kir::Special::kThreadIndex); }
  kir::ExprId block() { return b.special(kir::Special::kBlockIndex); }
  /// Number of the thread in the launch, i64.
  kir::ExprId thread_of_launch() {
    return b.add(b.mul(b.cast(block(), DType::kI64), b.integer(kernel.threads, DType::kI64)),
                 b.cast(thread(), DType::kI64));
  }
  kir::ExprId zero() { return b.integer(0); }

  void load(kir::VarId tile, kir::BufferId buffer, kir::ExprId index, int64_t width = 1) {
    b.append(kir::Load{.tile = tile,
                       .group = zero(),
                       .lane = zero(),
                       .width = width,
                       .buffer = buffer,
                       .index = index});
  }
  void store(kir::BufferId buffer, kir::ExprId index, kir::VarId tile, int64_t width = 1) {
    b.append(kir::Store{.buffer = buffer,
                        .index = index,
                        .width = width,
                        .tile = tile,
                        .group = zero(),
                        .lane = zero()});
  }
  /// A scalar loaded from a buffer of the same type.
  kir::VarId loaded(std::string name, kir::BufferId buffer, kir::ExprId index) {
    const kir::VarId var = b.declare_scalar(std::move(name), kernel.buffers[buffer].type);
    load(var, buffer, index);
    return var;
  }
  void barrier() { b.append(kir::Barrier{}); }
  kir::StmtId last_stmt() const { return {static_cast<uint32_t>(kernel.stmts.size() - 1)}; }

  Result<InterpreterReport> try_run(int64_t work, const InterpreterOptions& options = {}) {
    std::vector<LaunchMemory> memory;
    for (std::vector<std::byte>& bytes : memory_) memory.push_back({.bytes = bytes, .origin = 0});
    const std::vector<int64_t> params = {work};
    return interpret(kernel, memory, params, options);
  }
  InterpreterReport run(int64_t work, const InterpreterOptions& options = {}) {
    Result<InterpreterReport> report = try_run(work, options);
    EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().text());
    return report ? std::move(*report) : InterpreterReport{};
  }
  /// Runs and expects no findings.
  InterpreterReport run_clean(int64_t work, const InterpreterOptions& options = {}) {
    InterpreterReport report = run(work, options);
    EXPECT_TRUE(report.clean()) << report.text(kernel);
    return report;
  }

  /// The contents of the `number`-th global buffer.
  template <class T>
  std::vector<T> contents(size_t number) const {
    std::vector<T> values(memory_[number].size() / sizeof(T));
    std::ranges::copy(memory_[number], std::as_writable_bytes(std::span(values)).begin());
    return values;
  }
  const std::vector<std::vector<std::byte>>& memory() const { return memory_; }
  void reset_memory(std::vector<std::vector<std::byte>> memory) { memory_ = std::move(memory); }

  kir::Kernel kernel;
  kir::KernelBuilder b;
  kir::ParamId n;

 private:
  std::vector<std::vector<std::byte>> memory_;  ///< Of global buffers, in their order.
};

/// Sums `value` over the block: shuffles, one shared element for each warp, one barrier, shuffles
/// again. Every thread gets the sum.
inline kir::VarId emit_block_sum(KernelRun* run, kir::VarId value, bool with_barrier = true) {
  kir::KernelBuilder& b = run->b;
  const int64_t warps = run->kernel.threads / 32;
  const kir::BufferId scratch = run->shared("scratch", DType::kF32, warps);
  const kir::VarId other = b.declare_scalar("other", DType::kF32);
  const auto add_lanes = [&](kir::VarId sum, int32_t first_mask) {
    for (int32_t mask = first_mask; mask > 0; mask /= 2) {
      b.append(kir::ShuffleXor{.target = other, .source = b.ref(sum), .mask = mask});
      b.assign(sum, b.add(b.ref(sum), b.ref(other)));
    }
  };
  add_lanes(value, 16);
  const kir::ExprId lane = b.rem(run->thread(), b.integer(32));
  b.when(b.equal(lane, b.integer(0)),
         [&] { run->store(scratch, b.div(run->thread(), b.integer(32)), value); });
  if (with_barrier) run->barrier();
  const kir::VarId sum = run->loaded("sum", scratch, b.rem(lane, b.integer(warps)));
  add_lanes(sum, static_cast<int32_t>(warps / 2));
  return sum;
}

}  // namespace sinter
