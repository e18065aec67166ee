#include "codegen/kernel/verify_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/kernel/matrix_limits.h"
#include "fusion_ir/result.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

/// More than the shared-memory bytes of any device; keeps sums of offsets far from overflow.
constexpr int64_t kMostSharedElements = 1 << 20;

/// Bytes of a thread's local memory, to which registers spill (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability", all since 2.0): no tile can have more.
constexpr int64_t kMostTileBytes = int64_t{512} << 10;

/// More than the argument bytes of any kernel.
constexpr int64_t kMostPlaces = 1 << 16;

class TableVerifier {
 public:
  TableVerifier(const Kernel& kernel, KernelStage stage, std::vector<KernelViolation>* violations)
      : kernel_(kernel), stage_(stage), violations_(violations) {}

  void run() {
    check_launch();
    check_declarations();
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) check(BufferId{i});
    for (uint32_t i = 0; i < kernel_.mbarriers.size(); ++i) check(MbarrierId{i});
    for (uint32_t i = 0; i < kernel_.tensor_maps.size(); ++i) {
      for (const std::string& problem : problems_of(kernel_, kernel_.tensor_maps[TensorMapId{i}]))
        report(fmt::format("{}", TensorMapId{i}), "{}", problem);
    }
    if (stage_ == KernelStage::kLowered) check_placement();
    for (uint32_t i = 0; i < kernel_.exprs.size(); ++i) check(ExprId{i});
    check(kernel_.body);
  }

 private:
  template <class... Args>
  void report(std::string where, fmt::format_string<Args...> format, Args&&... args) {
    violations_->push_back({std::move(where), fmt::format(format, std::forward<Args>(args)...)});
  }

  void check_launch() {
    if (kernel_.threads < 32 || kernel_.threads > 1024 || kernel_.threads % 32 != 0) {
      report("kernel", "{} threads; a block has a multiple of 32, from 32 to 1024",
             kernel_.threads);
    }
    if (kernel_.min_blocks_per_sm < 1) {
      report("kernel", "{} blocks per multiprocessor", kernel_.min_blocks_per_sm);
    }
    if (kernel_.cluster < 1 || kernel_.cluster > kMostClusterBlocks ||
        !std::has_single_bit(static_cast<uint64_t>(kernel_.cluster))) {
      report("kernel", "{} blocks in a cluster; they are a power of two up to {}", kernel_.cluster,
             kMostClusterBlocks);
    }
    if (kernel_.team < 1 || kernel_.team > kMostClusterBlocks ||
        !std::has_single_bit(static_cast<uint64_t>(kernel_.team)) ||
        (kernel_.team > 1 && kernel_.cluster > 1)) {
      report("kernel", "{} blocks in a team, {} in a cluster; a team is a power of two up to {}",
             kernel_.team, kernel_.cluster, kMostClusterBlocks);
    }
    if (kernel_.message_places < 0 || (kernel_.message_places > 0) != (kernel_.team > 1)) {
      report("kernel", "{} places for messages of each block in a team of {}",
             kernel_.message_places, kernel_.team);
    }
    if (!kernel_.params.contains(kernel_.grid.work)) {
      report("kernel", "the grid counts {}, which does not exist", kernel_.grid.work);
    }
    if (kernel_.grid.per_block < 1) report("kernel", "{} per block", kernel_.grid.per_block);
  }

  void check_declarations() {
    for (uint32_t i = 0; i < kernel_.params.size(); ++i) {
      const Param& param = kernel_.params[ParamId{i}];
      if (param.type != DType::kI32 && param.type != DType::kI64) {
        report(fmt::format("{}", ParamId{i}), "parameter {} is {}", param.name, param.type);
      }
    }
    for (uint32_t i = 0; i < kernel_.vars.size(); ++i) {
      const Var& var = kernel_.vars[VarId{i}];
      if (var.groups < 1 || var.lanes < 1) {
        report(fmt::format("{}", VarId{i}), "{} has {} groups of {} lanes", var.name, var.groups,
               var.lanes);
      } else if (var.groups > kMostTileBytes / bytes_of(var.type) / var.lanes) {
        report(fmt::format("{}", VarId{i}),
               "{} has {} groups of {} lanes, more than the {} bytes of a thread", var.name,
               var.groups, var.lanes, kMostTileBytes);
      }
    }
  }

  void check(BufferId id) {
    const Buffer& buffer = kernel_.buffers[id];
    const std::string where = fmt::format("{}", id);
    const bool aligned = buffer.alignment >= bytes_of(buffer.type) &&
                         std::has_single_bit(static_cast<uint64_t>(buffer.alignment));
    if (!aligned)
      report(where, "{} of {} is aligned to {}", buffer.name, buffer.type, buffer.alignment);
    if (buffer.space == Space::kArgument) {
      check_argument(where, buffer);
      return;
    }
    check_places(where, buffer);
    if (buffer.space == Space::kGlobal) {
      if (buffer.count != 0 || buffer.offset != -1) {
        report(where, "global {} has a count or an offset", buffer.name);
      }
      return;
    }
    if (buffer.count < 1 || buffer.count > kMostSharedElements) {
      report(where, "shared {} has {} elements", buffer.name, buffer.count);
    }
    if (buffer.access != Access::kReadWrite) {
      report(where, "shared {} is not both read and written", buffer.name);
    }
  }

  /// Integers among the arguments.
  void check_argument(const std::string& where, const Buffer& buffer) {
    if (buffer.type != DType::kI32 && buffer.type != DType::kI64)
      report(where, "argument {} is {}, not i32 or i64", buffer.name, buffer.type);
    if (buffer.access != Access::kRead) report(where, "argument {} is written", buffer.name);
    if (buffer.count < 1 || buffer.count > kMostPlaces)
      report(where, "argument {} has {} elements", buffer.name, buffer.count);
    if (buffer.offset != -1 || buffer.value.valid() || buffer.tensors != 0)
      report(where, "argument {} has an offset, a value or tensors", buffer.name);
  }

  /// The places of a table of tensors; other buffers have none.
  void check_places(const std::string& where, const Buffer& buffer) {
    const auto held = static_cast<int64_t>(buffer.values.size());
    if (buffer.tensors < 0 || buffer.tensors > kMostPlaces || held > buffer.tensors)
      report(where, "{} holds {} tensors in {} places", buffer.name, held, buffer.tensors);
    if (!buffer.is_table()) return;
    if (buffer.space != Space::kGlobal)
      report(where, "shared {} is a table of tensors", buffer.name);
    if (buffer.value.valid()) report(where, "the table {} holds a single value", buffer.name);
  }

  void check(MbarrierId id) {
    constexpr int64_t kMostArrivals = (1 << 20) - 1;  // PTX ISA, "mbarrier.init".
    const Mbarrier& mbarrier = kernel_.mbarriers[id];
    if (mbarrier.count < 1 || mbarrier.count > kMostSharedElements) {
      report(fmt::format("{}", id), "there are {} mbarriers {}", mbarrier.count, mbarrier.name);
    }
    if (mbarrier.arrivals < 1 || mbarrier.arrivals > kMostArrivals) {
      report(fmt::format("{}", id), "{} expects {} arrivals, which are 1 to {}", mbarrier.name,
             mbarrier.arrivals, kMostArrivals);
    }
  }

  /// An object with an offset in shared memory.
  struct Placed {
    std::string id, name;
    int64_t begin = 0, end = 0;
  };

  void check_placement() {
    std::vector<Placed> placed;
    const auto place = [&](std::string id, std::string_view name, int64_t offset, int64_t bytes,
                           int64_t unit) {
      if (offset < 0 || offset > 16 * kMostSharedElements || offset % unit != 0) {
        report(std::move(id), "shared {} is at offset {}", name, offset);
      } else {
        placed.push_back({std::move(id), std::string(name), offset, offset + bytes});
      }
    };
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& buffer = kernel_.buffers[BufferId{i}];
      if (buffer.space != Space::kShared) continue;
      place(fmt::format("{}", BufferId{i}), buffer.name, buffer.offset,
            buffer.count * bytes_of(buffer.type), kSharedUnit);
    }
    for (uint32_t i = 0; i < kernel_.mbarriers.size(); ++i) {
      const Mbarrier& mbarrier = kernel_.mbarriers[MbarrierId{i}];
      place(fmt::format("{}", MbarrierId{i}), mbarrier.name, mbarrier.offset,
            mbarrier.count * kMbarrierBytes, kMbarrierBytes);
    }
    std::ranges::stable_sort(placed, {}, &Placed::begin);
    for (size_t i = 1; i < placed.size(); ++i) {
      const Placed& before = placed[i - 1];
      if (before.end > placed[i].begin) {
        report(placed[i].id, "shared {} at {} overlaps {}, which ends at {}", placed[i].name,
               placed[i].begin, before.name, before.end);
      }
    }
  }

  // ---- Ids

  template <class Table, class Key>
  void check_id(const std::string& where, const Table& table, Key id) {
    if (!table.contains(id)) report(where, "{} does not exist", id);
  }

  void check(ExprId id) {
    const Expr& expr = kernel_.exprs[id];
    const std::string where = fmt::format("{}", id);
    for_each_operand(expr, [&](ExprId operand) {
      if (operand.index >= id.index) report(where, "operand {} is not below its user", operand);
    });
    if (const auto* ref = std::get_if<VarRef>(&expr.kind)) check_id(where, kernel_.vars, ref->var);
    if (const auto* element = std::get_if<ElementRef>(&expr.kind)) {
      check_id(where, kernel_.vars, element->tile);
    }
    if (const auto* call = std::get_if<PointwiseExpr>(&expr.kind); call && call->state.valid())
      check_id(where, kernel_.vars, call->state);
    if (const auto* ref = std::get_if<ParamRef>(&expr.kind)) {
      check_id(where, kernel_.params, ref->param);
    }
  }

  void check(const Block& block) {
    for (const StmtId id : block) {
      const std::string where = fmt::format("{}", id);
      if (!kernel_.stmts.contains(id)) {
        report(where, "does not exist");
        continue;
      }
      if (std::exchange(placed_[id], 1) != 0) {
        report(where, "stands in two places");
        continue;
      }
      const StmtKind& stmt = kernel_.stmts[id].kind;
      for_each_expr(stmt, [&](ExprId expr) { check_id(where, kernel_.exprs, expr); });
      check_names(where, stmt);
      for_each_block(stmt, [this](const Block& inner) { check(inner); });
    }
  }

  void check_names(const std::string& where, const StmtKind& stmt) {
    const auto check_var = [&](VarId id) { check_id(where, kernel_.vars, id); };
    const auto check_buffer = [&](BufferId id) { check_id(where, kernel_.buffers, id); };
    const auto check_mbarrier = [&](MbarrierId id) { check_id(where, kernel_.mbarriers, id); };
    std::visit(overloaded{
                   [](const Comment&) {},
                   [&](const Declare& s) { check_var(s.var); },
                   [&](const Assign& s) { check_var(s.var); },
                   [&](const SetElement& s) { check_var(s.tile); },
                   [&](const For& s) { check_var(s.index); },
                   [](const If&) {},
                   [&](const Load& s) {
                     check_var(s.tile);
                     check_buffer(s.buffer);
                   },
                   [&](const Store& s) {
                     check_buffer(s.buffer);
                     check_var(s.tile);
                   },
                   [&](const AsyncCopy& s) {
                     check_buffer(s.shared);
                     check_buffer(s.global);
                   },
                   [](const AsyncCommit&) {},
                   [](const AsyncWait&) {},
                   [](const InitMbarriers&) {},
                   [&](const ExpectBytes& s) { check_mbarrier(s.array); },
                   [&](const BulkCopy& s) {
                     check_buffer(s.shared);
                     check_buffer(s.global);
                     check_mbarrier(s.array);
                   },
                   [&](const TensorCopy& s) {
                     check_buffer(s.shared);
                     check_id(where, kernel_.tensor_maps, s.map);
                     check_mbarrier(s.array);
                   },
                   [](const ProxyFence&) {},
                   [&](const MbarrierArrive& s) { check_mbarrier(s.array); },
                   [&](const ClusterStore& s) {
                     check_buffer(s.shared);
                     check_var(s.source);
                     check_mbarrier(s.array);
                   },
                   [&](const MbarrierWait& s) { check_mbarrier(s.array); },
                   [](const ClusterBarrier&) {},
                   [](const ClusterArrive&) {},
                   [](const ClusterWait&) {},
                   [&](const MessageStore& s) {
                     check_buffer(s.mail);
                     for (const VarId id : s.values) check_var(id);
                   },
                   [&](const MessageWait& s) {
                     check_buffer(s.mail);
                     for (const VarId id : s.values) check_var(id);
                   },
                   [](const Barrier&) {},
                   [](const GroupBarrier&) {},
                   [](const SetMaxRegisters&) {},
                   [](const LaunchDependents&) {},
                   [](const WarpBarrier&) {},
                   [](const WaitForPrevious&) {},
                   [](const DeviceFence&) {},
                   [&](const AtomicCount& s) {
                     check_buffer(s.buffer);
                     check_var(s.target);
                   },
                   [&](const ShuffleXor& s) { check_var(s.target); },
                   [&](const LaneExtreme& s) {
                     check_var(s.target);
                     check_var(s.tile);
                   },
                   [&](const LoadMatrix& s) {
                     check_var(s.tile);
                     check_buffer(s.shared);
                   },
                   [&](const Mma& s) {
                     check_var(s.accumulator);
                     check_var(s.left);
                     check_var(s.right);
                   },
                   [&](const Wgmma& s) {
                     check_var(s.accumulator);
                     std::visit(overloaded{
                                    [&](const SharedMatrix& m) { check_buffer(m.buffer); },
                                    [&](const RegisterMatrix& m) { check_var(m.tile); },
                                },
                                s.left);
                     check_buffer(s.right.buffer);
                   },
                   [](const WgmmaFence&) {},
                   [](const WgmmaCommit&) {},
                   [](const WgmmaWait&) {},
                   [&](const AllReduce& s) {
                     if (s.arrived.valid()) check_mbarrier(s.arrived);
                     if (s.mail.valid()) check_buffer(s.mail);
                     for (const ReducePart& part : s.parts) {
                       for (const VarId id : part.vars) check_var(id);
                     }
                   },
               },
               stmt);
  }

  const Kernel& kernel_;
  KernelStage stage_;
  std::vector<KernelViolation>* violations_;
  IdMap<StmtId, uint8_t> placed_;
};

}  // namespace

void verify_tables(const Kernel& kernel, KernelStage stage,
                   std::vector<KernelViolation>* violations) {
  TableVerifier(kernel, stage, violations).run();
}

}  // namespace sinter
