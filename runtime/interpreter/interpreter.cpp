#include "runtime/interpreter/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/interpreter/block_executor.h"
#include "runtime/interpreter/bytecode.h"
#include "runtime/interpreter/global_memory.h"
#include "runtime/interpreter/random_sequence.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {
namespace {

using interpreter::BlockExecutor;
using interpreter::GlobalMemory;
using interpreter::Program;

tl::unexpected<Error> malformed(const kir::Kernel& kernel, const std::string& what) {
  return fail({.kind = ErrorKind::kInternalError,
               .message = fmt::format("kernel {}: {}", kernel.name, what),
               .remedy = "Verify the kernel and run all lowering passes before interpreting it."});
}

tl::unexpected<Error> invalid(const kir::Kernel& kernel, const std::string& what) {
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("kernel {}: {}", kernel.name, what),
               .remedy = "pass one memory per global buffer and one value per parameter"});
}

Result<void> check_kernel(const kir::Kernel& kernel) {
  constexpr int64_t kMaxThreads = 1024;
  if (kernel.threads < interpreter::kLanes || kernel.threads > kMaxThreads ||
      kernel.threads % interpreter::kLanes != 0) {
    return malformed(kernel, fmt::format("a block has {} threads", kernel.threads));
  }
  if (kernel.cluster < 1 || kernel.cluster > kMostClusterBlocks)
    return malformed(kernel, fmt::format("a cluster has {} blocks", kernel.cluster));
  if (kernel.team < 1 || kernel.team > kMostClusterBlocks || kernel.message_places < 0)
    return malformed(kernel, fmt::format("a team has {} blocks with {} places", kernel.team,
                                         kernel.message_places));
  if (!kernel.params.contains(kernel.grid.work) || kernel.grid.per_block < 1) {
    return malformed(kernel, "the grid has no work parameter, or no work per block");
  }
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space == kir::Space::kShared && (buffer.offset < 0 || buffer.count < 0)) {
      return malformed(kernel, fmt::format("shared buffer {} has not been placed", buffer.name));
    }
  }
  return {};
}

Result<void> check_arguments(const kir::Kernel& kernel, std::span<const LaunchMemory> memory,
                             std::span<const int64_t> params) {
  size_t globals = 0;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kir::Space::kShared)
      globals += buffer.is_table() ? buffer.values.size() : 1;
  }
  if (memory.size() != globals) {
    return invalid(kernel, fmt::format("got memory for {} global buffers, which are {}",
                                       memory.size(), globals));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].origin < 0 || std::cmp_greater(memory[i].origin, memory[i].bytes.size())) {
      return invalid(kernel, fmt::format("element 0 of global buffer {} lies at byte {} of {}", i,
                                         memory[i].origin, memory[i].bytes.size()));
    }
  }
  if (params.size() != kernel.params.size()) {
    return invalid(kernel, fmt::format("got {} parameters, which are {}", params.size(),
                                       kernel.params.size()));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const kir::Param& param = kernel.params[kir::ParamId{static_cast<uint32_t>(i)}];
    if (param.type == DType::kI32 && !std::in_range<int32_t>(params[i])) {
      return invalid(kernel,
                     fmt::format("parameter {} is i32 and cannot be {}", param.name, params[i]));
    }
  }
  return {};
}

/// The blocks of one host thread, with everything they count and find.
struct Share {
  Share(const kir::Kernel& kernel, const Program& program, std::span<const LaunchMemory> memory,
        const std::vector<int64_t>& params, int64_t blocks, const InterpreterOptions& options)
      : log(static_cast<size_t>(std::max<int64_t>(options.max_findings, 1))),
        global(kernel, memory, options.check_races, &log),
        executor(kernel, program, {.params = params, .blocks = blocks},
                 {.seed = options.seed,
                  .max_steps = std::max<int64_t>(options.max_steps, 1),
                  .check_races = options.check_races},
                 &global, &log) {}

  /// Runs the clusters at [begin, end) of an order, of their numbers if it is empty; keeps an
  /// exception for the thread that waits.
  void run(int64_t begin, int64_t end, std::span<const int64_t> order) noexcept {
    try {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t cluster = order.empty() ? i : order[static_cast<size_t>(i)];
        ++clusters_run;
        if (!executor.run_cluster(cluster)) break;
      }
    } catch (...) {
      failure = std::current_exception();
    }
  }

  FindingLog log;
  GlobalMemory global;
  BlockExecutor executor;
  int64_t clusters_run = 0;
  std::exception_ptr failure;
};

/// An order of clusters drawn from the seed, for kernels whose last cluster does more than others:
/// each is the last for some.
std::vector<int64_t> drawn_order(int64_t clusters, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(clusters));
  std::iota(order.begin(), order.end(), int64_t{0});
  // No cluster has this number, so that its own sequence is another one.
  interpreter::RandomSequence random(seed, UINT64_MAX);
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

void add_work(WorkCounts* sum, const WorkCounts& more) {
  sum->instructions += more.instructions;
  sum->max_warp_instructions = std::max(sum->max_warp_instructions, more.max_warp_instructions);
  sum->shared_bytes_read += more.shared_bytes_read;
  sum->shared_bytes_written += more.shared_bytes_written;
  sum->bank_conflicts += more.bank_conflicts;
  sum->barriers += more.barriers;
  sum->shuffles += more.shuffles;
}

/// Joins the shares in block order, so that the report does not depend on timing.
InterpreterReport joined(const kir::Kernel& kernel,
                         const std::vector<std::unique_ptr<Share>>& shares) {
  Share& first = *shares.front();
  InterpreterReport report;
  for (const auto& share : shares) {
    if (share->failure) std::rethrow_exception(share->failure);
    report.blocks += share->clusters_run * kir::blocks_together(kernel);
    add_work(&report.work, share->executor.work());
    if (share.get() == &first) continue;
    first.log.absorb(share->log);
    first.global.absorb(share->global);
  }
  report.warps = report.blocks * (kernel.threads / interpreter::kLanes);
  report.buffers = first.global.traffic();
  report.findings = first.log.findings();
  report.findings_left_out = first.log.left_out();
  return report;
}

}  // namespace

Result<InterpreterReport> interpret(const kir::Kernel& kernel, std::span<const LaunchMemory> memory,
                                    std::span<const int64_t> params,
                                    const InterpreterOptions& options) {
  return as_result([&]() -> Result<InterpreterReport> {
    if (const auto checked = check_kernel(kernel); !checked) return fail(checked.error());
    if (const auto checked = check_arguments(kernel, memory, params); !checked) {
      return fail(checked.error());
    }
    const Result<Program> program = interpreter::compile(kernel);
    if (!program) return fail(program.error());

    const int64_t work = std::max<int64_t>(params[kernel.grid.work.index], 0);
    const int64_t clusters =
        work / kernel.grid.per_block + (work % kernel.grid.per_block != 0 ? 1 : 0);
    const int64_t limit = interpreter::kMaxFollowedThreads / kernel.threads;
    // What is over the limit anyway is not multiplied: it could overflow.
    const int64_t blocks = clusters > limit ? clusters : clusters * kir::blocks_together(kernel);
    if (blocks > limit) {
      return fail(
          {.kind = ErrorKind::kResourceExhausted,
           .message = fmt::format("kernel {} would run {} blocks, and the interpreter follows "
                                  "at most {}",
                                  kernel.name, blocks, limit),
           .remedy = "Interpret a smaller problem.",
           .measured = blocks,
           .limit = limit});
    }

    const std::vector<int64_t> values(params.begin(), params.end());
    const bool counts = std::ranges::any_of(kernel.stmts, [](const kir::Stmt& stmt) {
      return std::holds_alternative<kir::AtomicCount>(stmt.kind);
    });
    const std::vector<int64_t> order =
        counts ? drawn_order(clusters, options.seed) : std::vector<int64_t>{};
    const int64_t share_count =
        counts ? 1 : std::clamp<int64_t>(options.threads, 1, std::max<int64_t>(clusters, 1));
    std::vector<std::unique_ptr<Share>> shares;
    for (int64_t i = 0; i < share_count; ++i) {
      shares.push_back(std::make_unique<Share>(kernel, *program, memory, values, blocks, options));
    }
    const auto begin_of = [&](int64_t share) {
      return share * (clusters / share_count) + std::min(share, clusters % share_count);
    };
    {
      std::vector<std::jthread> threads;
      for (int64_t i = 1; i < share_count; ++i) {
        threads.emplace_back(
            [&, i] { shares[static_cast<size_t>(i)]->run(begin_of(i), begin_of(i + 1), order); });
      }
      shares.front()->run(begin_of(0), begin_of(1), order);
    }
    return joined(kernel, shares);
  });
}

}  // namespace sinter
