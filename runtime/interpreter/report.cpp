#include "runtime/interpreter/report.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "fusion_ir/error.h"
#include "fusion_ir/result.h"

namespace sinter {

std::string_view text_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::kGlobalOutOfBounds:
      return "global access out of bounds";
    case FindingKind::kSharedOutOfBounds:
      return "shared access out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned access";
    case FindingKind::kUnwrittenShared:
      return "read of unwritten shared memory";
    case FindingKind::kUnwrittenRegister:
      return "read of an unwritten register";
    case FindingKind::kSharedRace:
      return "race in shared memory";
    case FindingKind::kGlobalRace:
      return "race in global memory";
    case FindingKind::kAsyncPending:
      return "access before the asynchronous copy is awaited";
    case FindingKind::kAsyncNeverAwaited:
      return "asynchronous copy never awaited";
    case FindingKind::kDivergentBarrier:
      return "divergent barrier";
    case FindingKind::kMbarrierUninitialised:
      return "use of an mbarrier that is not initialised";
    case FindingKind::kMbarrierArrivals:
      return "more arrivals at an mbarrier than its phase expects";
    case FindingKind::kMbarrierBytes:
      return "more bytes of bulk copies than a phase expects";
    case FindingKind::kDivergentLimit:
      return "register limits that differ within four warps";
    case FindingKind::kDivergentShuffle:
      return "divergent shuffle";
    case FindingKind::kDivergentMatrix:
      return "divergent load or product of matrices";
    case FindingKind::kProductPending:
      return "access before the product is awaited";
    case FindingKind::kProductUnfenced:
      return "product after writes to its registers without a fence";
    case FindingKind::kMessageLost:
      return "message overwritten before it is taken, or left";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kStepLimit:
      return "step limit exceeded";
  }
  unreachable();
}

namespace {

/// What a statement does, in a few words, as a visitor.
class StmtDescription {
 public:
  explicit StmtDescription(const kir::Kernel& kernel) : kernel_(kernel) {}

  std::string operator()(const kir::Comment&) const { return "comment"; }
  std::string operator()(const kir::Declare& s) const {
    return fmt::format("declare {}", var(s.var));
  }
  std::string operator()(const kir::Assign& s) const {
    return fmt::format("{} = {}", var(s.var), s.value);
  }
  std::string operator()(const kir::SetElement& s) const {
    return fmt::format("{}[{}, {}] = {}", var(s.tile), s.group, s.lane, s.value);
  }
  std::string operator()(const kir::For& s) const {
    return fmt::format("for {} from {} to {}", var(s.index), s.begin, s.end);
  }
  std::string operator()(const kir::LaneExtreme& s) const {
    return fmt::format("{} of the lanes of {}", info_of(s.fn).text, var(s.tile));
  }
  std::string operator()(const kir::If& s) const { return fmt::format("if {}", s.condition); }
  std::string operator()(const kir::Load& s) const {
    return fmt::format("load {}[{}], width {}, to {}", buffer(s.buffer), s.index, s.width,
                       var(s.tile));
  }
  std::string operator()(const kir::Store& s) const {
    return fmt::format("store {}[{}], width {}, from {}", buffer(s.buffer), s.index, s.width,
                       var(s.tile));
  }
  std::string operator()(const kir::AsyncCopy& s) const {
    return fmt::format("asynchronous copy {}[{}] from {}[{}], width {}", buffer(s.shared),
                       s.shared_index, buffer(s.global), s.global_index, s.width);
  }
  std::string operator()(const kir::AsyncCommit&) const { return "commit asynchronous copies"; }
  std::string operator()(const kir::AsyncWait& s) const {
    if (s.pending == -1) return "wait for asynchronous copies";
    return fmt::format("wait for asynchronous copies, {} groups pending", s.pending);
  }
  std::string operator()(const kir::InitMbarriers&) const { return "initialise mbarriers"; }
  std::string operator()(const kir::ExpectBytes& s) const {
    return fmt::format("expect {} bytes at {}[{}]", s.bytes, mbarrier(s.array), s.index);
  }
  std::string operator()(const kir::BulkCopy& s) const {
    return fmt::format("bulk copy {}[{}] from {}[{}], {} elements, at {}[{}]", buffer(s.shared),
                       s.shared_index, buffer(s.global), s.global_index, s.elements,
                       mbarrier(s.array), s.index);
  }
  std::string operator()(const kir::TensorCopy& s) const {
    // The map may be missing: the compiler of bytecode describes what it refuses.
    const bool exists = kernel_.tensor_maps.contains(s.map);
    return fmt::format("tensor copy {}[{}] from {}, at {}[{}]", buffer(s.shared), s.shared_index,
                       exists ? kernel_.tensor_maps[s.map].name : fmt::format("{}", s.map),
                       mbarrier(s.array), s.index);
  }
  std::string operator()(const kir::ProxyFence&) const { return "proxy fence"; }
  std::string operator()(const kir::MbarrierArrive& s) const {
    return fmt::format("arrive at {}[{}]", mbarrier(s.array), s.index);
  }
  std::string operator()(const kir::ClusterStore& s) const {
    return fmt::format("store to {}[{}] of block {} in the cluster", buffer(s.shared), s.index,
                       s.block);
  }
  std::string operator()(const kir::MessageStore& s) const {
    return fmt::format("message {} to place {} of block {} in the team", s.number, s.place,
                       s.block);
  }
  std::string operator()(const kir::MessageWait& s) const {
    return fmt::format("wait for message {} at place {}", s.number, s.place);
  }
  std::string operator()(const kir::MbarrierWait& s) const {
    return fmt::format("wait for {}[{}], parity {}", mbarrier(s.array), s.index, s.parity);
  }
  std::string operator()(const kir::ClusterBarrier&) const { return "barrier of the cluster"; }
  std::string operator()(const kir::ClusterArrive&) const { return "arrival of the cluster"; }
  std::string operator()(const kir::ClusterWait&) const { return "wait for the cluster"; }
  std::string operator()(const kir::Barrier&) const { return "barrier"; }
  std::string operator()(const kir::GroupBarrier& s) const {
    return fmt::format("barrier {} of {} threads", s.id, s.threads);
  }
  std::string operator()(const kir::SetMaxRegisters& s) const {
    return fmt::format("{} registers to {}", s.increase ? "increase" : "decrease", s.registers);
  }
  std::string operator()(const kir::WarpBarrier&) const { return "warp barrier"; }
  std::string operator()(const kir::LaunchDependents&) const { return "launch dependents"; }
  std::string operator()(const kir::WaitForPrevious&) const { return "wait for previous"; }
  std::string operator()(const kir::DeviceFence&) const { return "fence of the device"; }
  std::string operator()(const kir::AtomicCount& s) const {
    return fmt::format("{} = count {}[{}] up to {}", var(s.target), buffer(s.buffer), s.index,
                       s.last);
  }
  std::string operator()(const kir::ShuffleXor& s) const {
    return fmt::format("{} = shuffle {} xor {}", var(s.target), s.source, s.mask);
  }
  std::string operator()(const kir::LoadMatrix& s) const {
    return fmt::format("load {} matrices {}[{}] to {}", s.matrices, buffer(s.shared), s.index,
                       var(s.tile));
  }
  std::string operator()(const kir::Mma& s) const {
    return fmt::format("{} += {} * {}", var(s.accumulator), var(s.left), var(s.right));
  }
  std::string operator()(const kir::Wgmma& s) const {
    const std::string left =
        std::visit(overloaded{
                       [&](const kir::SharedMatrix& m) {
                         return fmt::format("{}[{}]", buffer(m.buffer), m.index);
                       },
                       [&](const kir::RegisterMatrix& m) { return var(m.tile); },
                   },
                   s.left);
    return fmt::format("{} += {} * {}[{}], {} columns", var(s.accumulator), left,
                       buffer(s.right.buffer), s.right.index, s.columns);
  }
  std::string operator()(const kir::WgmmaFence&) const { return "fence of products"; }
  std::string operator()(const kir::WgmmaCommit&) const { return "commit products"; }
  std::string operator()(const kir::WgmmaWait& s) const {
    return fmt::format("wait for products, {} groups pending", s.pending);
  }
  std::string operator()(const kir::AllReduce& s) const {
    return fmt::format("all-reduce {}", s.name);
  }

 private:
  [[nodiscard]] const std::string& var(kir::VarId id) const { return kernel_.vars[id].name; }
  [[nodiscard]] const std::string& buffer(kir::BufferId id) const {
    return kernel_.buffers[id].name;
  }
  [[nodiscard]] const std::string& mbarrier(kir::MbarrierId id) const {
    return kernel_.mbarriers[id].name;
  }

  const kir::Kernel& kernel_;
};

}  // namespace

std::string describe(const kir::Kernel& kernel, kir::StmtId stmt) {
  if (!stmt.valid()) return "no statement";
  return fmt::format("{} {}", stmt, std::visit(StmtDescription(kernel), kernel.stmts[stmt].kind));
}

BufferTraffic InterpreterReport::total_traffic() const {
  BufferTraffic total;
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const BufferTraffic& buffer = buffers[kir::BufferId{i}];
    total.bytes_read += buffer.bytes_read;
    total.bytes_written += buffer.bytes_written;
    total.load_sectors += buffer.load_sectors;
    total.store_sectors += buffer.store_sectors;
    total.async_sectors += buffer.async_sectors;
  }
  return total;
}

std::string InterpreterReport::text(const kir::Kernel& kernel) const {
  std::string out;
  const auto line = std::back_inserter(out);
  fmt::format_to(line, "{}: {} blocks, {} warps, {} instructions (busiest warp {})\n", kernel.name,
                 blocks, warps, work.instructions, work.max_warp_instructions);
  fmt::format_to(line,
                 "  shared: {} bytes read, {} written, {} bank conflicts; {} barrier arrivals, {} "
                 "shuffles\n",
                 work.shared_bytes_read, work.shared_bytes_written, work.bank_conflicts,
                 work.barriers, work.shuffles);
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    const kir::BufferId id{i};
    if (kernel.buffers[id].space == kir::Space::kShared) continue;
    const BufferTraffic& traffic = buffers[id];
    fmt::format_to(line,
                   "  {}: {} bytes read, {} written; sectors: {} loaded, {} stored, {} copied\n",
                   kernel.buffers[id].name, traffic.bytes_read, traffic.bytes_written,
                   traffic.load_sectors, traffic.store_sectors, traffic.async_sectors);
  }
  for (const Finding& finding : findings) {
    fmt::format_to(line, "  {} (seen {} times): {}\n", text_of(finding.kind), finding.count,
                   finding.message);
    if (finding.stmt.valid()) fmt::format_to(line, "    at {}\n", describe(kernel, finding.stmt));
  }
  if (findings_left_out > 0) {
    fmt::format_to(line, "  and {} more findings\n", findings_left_out);
  }
  return out;
}

Finding* FindingLog::admit(Finding& finding) {
  const Key key{finding.kind, finding.stmt, finding.buffer};
  if (const auto known = position_.find(key); known != position_.end()) {
    if (known->second != kLeftOut) findings_[known->second].count += finding.count;
    return nullptr;
  }
  if (findings_.size() >= capacity_) {
    position_.emplace(key, kLeftOut);
    ++left_out_;
    return nullptr;
  }
  position_.emplace(key, findings_.size());
  findings_.push_back(std::move(finding));
  return &findings_.back();
}

void FindingLog::absorb(const FindingLog& other) {
  for (const Finding& finding : other.findings_) {
    add(finding, [&] { return finding.message; });
  }
  for (const auto& [key, position] : other.position_) {
    if (position == kLeftOut && position_.emplace(key, kLeftOut).second) ++left_out_;
  }
}

}  // namespace sinter
