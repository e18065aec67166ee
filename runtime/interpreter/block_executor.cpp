#include "runtime/interpreter/block_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "fusion_ir/error.h"
#include "runtime/interpreter/random_sequence.h"

namespace sinter::interpreter {
namespace {

/// Most instructions that a warp runs before another may: few enough that warps overtake each other
/// between barriers, and enough that switching costs nothing.
constexpr uint64_t kMostStepsAtOnce = 512;

template <class T>
void broadcast(std::byte* reg, T value) {
  for (size_t i = 0; i < kLanes; ++i) std::memcpy(reg + i * sizeof(T), &value, sizeof(T));
}

void broadcast_bits(std::byte* reg, uint64_t bits, uint8_t element_bytes) {
  for (size_t i = 0; i < kLanes; ++i) std::memcpy(reg + i * element_bytes, &bits, element_bytes);
}

}  // namespace

BlockExecutor::BlockExecutor(const kir::Kernel& kernel, const Program& program,
                             const Launch& launch, const Limits& limits, GlobalMemory* memory,
                             FindingLog* log)
    : kernel_(kernel),
      program_(program),
      limits_(limits),
      global_(memory),
      log_(log),
      order_(kir::blocks_together(kernel) * kernel.threads,
             kir::blocks_together(kernel) * Mbarriers::count_of(kernel)),
      device_order_(&order_),
      warps_(static_cast<size_t>(kir::blocks_together(kernel) * kernel.threads / kLanes)) {
  global_->ordered_by(&device_order_);
  for (const kir::TensorMap& map : kernel.tensor_maps) {
    std::vector<int64_t>& sizes = map_sizes_.emplace_back();
    for (const kir::MapAxis& axis : map.axes) {
      const bool is_launched = kernel.params.contains(axis.launched);
      sizes.push_back(is_launched ? launch.params[axis.launched.index] : axis.size);
    }
  }
  for (int64_t rank = 0; rank < kir::blocks_together(kernel); ++rank) {
    mbarriers_.emplace_back(kernel, rank, &order_, log);
    shared_.emplace_back(kernel, limits.check_races, &order_, log);
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    warp.first_actor = static_cast<int64_t>(i) * kLanes;
    warp.first_thread = warp.first_actor % kernel.threads;
    warp.rank = static_cast<size_t>(warp.first_actor / kernel.threads);
    prepare_registers(&warp, launch);
  }
}

void BlockExecutor::prepare_registers(Warp* warp, const Launch& launch) {
  warp->registers.resize(static_cast<size_t>(program_.register_bytes));
  for (const PresetRegister& preset : program_.constants) {
    broadcast_bits(warp->at(preset.offset), preset.bits, preset.element_bytes);
  }
  for (const ParamRegister& param : program_.params) {
    broadcast_bits(warp->at(param.offset), static_cast<uint64_t>(launch.params[param.param.index]),
                   param.element_bytes);
  }
  if (program_.grid_size != Program::kUnused) {
    broadcast(warp->at(program_.grid_size), static_cast<int32_t>(launch.blocks));
  }
  if (program_.thread_index != Program::kUnused) {
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      const auto thread = static_cast<int32_t>(warp->first_thread) + lane;
      std::memcpy(warp->at(program_.thread_index) + static_cast<size_t>(lane) * sizeof thread,
                  &thread, sizeof thread);
    }
  }
}

void BlockExecutor::start_cluster() {
  order_.start_cluster();
  device_order_.start_cluster(block_ / kir::blocks_together(kernel_));
  for (Mbarriers& mbarriers : mbarriers_) mbarriers.start_block();
  for (SharedMemory& shared : shared_) shared.start_block();
  transfers_.clear();
  unread_.assign(static_cast<size_t>(kernel_.team * kernel_.message_places), 0);
  arrived_in_cluster_ = 0;
  known_in_cluster_.clear();
  for (Warp& warp : warps_) {
    std::memset(warp.registers.data(), 0xff, static_cast<size_t>(program_.variable_bytes));
    warp.written.assign(program_.tracked.size(), 0);
    warp.frames.clear();
    warp.copies.clear();
    warp.groups.fill(0);
    warp.products.clear();
    warp.product_groups = 0;
    warp.unfenced.assign(static_cast<size_t>(program_.product_elements), 0);
    warp.group_work = 0;
    warp.position = 0;
    warp.mask = kAllLanes;
    warp.state = State::kReady;
    warp.passed = 0;
    warp.limits = 0;
    warp.steps = 0;
    if (program_.block_index != Program::kUnused) {
      broadcast(warp.at(program_.block_index), static_cast<int32_t>(block_of(warp)));
    }
  }
}

bool BlockExecutor::run_cluster(int64_t cluster) {
  block_ = cluster * kir::blocks_together(kernel_);
  start_cluster();
  RandomSequence random(limits_.seed, static_cast<uint64_t>(cluster));
  bool is_within_limit = true;
  std::vector<Warp*> ready;
  for (bool can_go_on = true; can_go_on;) {
    ready.clear();
    has_woken_ = false;
    for (Warp& warp : warps_) {
      if (warp.state == State::kReady) ready.push_back(&warp);
    }
    while (!ready.empty() && !has_woken_ && is_within_limit) {
      const size_t chosen = random.below(ready.size());
      Warp* warp = ready[chosen];
      const auto steps = static_cast<int64_t>(1 + random.below(kMostStepsAtOnce));
      advance(warp, std::min(steps, limits_.max_steps - warp->steps));
      if (warp->state != State::kReady) {
        ready[chosen] = ready.back();
        ready.pop_back();
      } else if (warp->steps >= limits_.max_steps) {
        report_step_limit(*warp);
        is_within_limit = false;
      }
      if (!transfers_.empty() && random.below(2) == 0) land(random.below(transfers_.size()));
    }
    if (!is_within_limit) break;
    if (!has_woken_ && !transfers_.empty()) land(random.below(transfers_.size()));
    can_go_on = has_woken_ || !transfers_.empty() || pass_barrier();
  }
  end_cluster();
  return is_within_limit;
}

// Over 80 lines because it is one switch with a case per opcode; what takes more than a few lines
// is a member of its own. The interpreter spends its time here, so the opcodes share one dispatch.
void BlockExecutor::advance(Warp* warp, int64_t steps) {
  const Instruction* const code = program_.code.data();
  uint32_t position = warp->position;
  int64_t left = steps;
  while (left > 0 && warp->state == State::kReady) {
    --left;
    const Instruction& instruction = code[position++];
    switch (instruction.opcode) {
      case Opcode::kCompute:
        instruction.function(warp->at(instruction.result), warp->at(instruction.a),
                             warp->at(instruction.b), warp->at(instruction.c));
        break;
      case Opcode::kAssign:
        assign(warp, instruction);
        break;
      case Opcode::kMarkWritten:
        warp->written[static_cast<size_t>(instruction.a)] |= warp->mask;
        break;
      case Opcode::kClearWritten:
        warp->written[static_cast<size_t>(instruction.a)] &= ~warp->mask;
        break;
      case Opcode::kCheckWritten:
        check_written(warp, instruction);
        break;
      case Opcode::kIf: {
        const uint32_t taken = warp->mask & lanes_where(warp->at(instruction.a));
        warp->frames.push_back({.outer = warp->mask, .other = warp->mask & ~taken});
        warp->mask = taken;
        if (taken == 0) position = instruction.target;
        break;
      }
      case Opcode::kElse:
        warp->mask = warp->frames.back().other;
        if (warp->mask == 0) position = instruction.target;
        break;
      case Opcode::kLoopEnter:
        warp->frames.push_back({.outer = warp->mask});
        break;
      case Opcode::kLoopTest:
        warp->mask &= lanes_where(warp->at(instruction.a));
        if (warp->mask == 0) position = instruction.target;
        break;
      case Opcode::kJump:
        position = instruction.target;
        break;
      case Opcode::kEndIf:
      case Opcode::kLoopLeave:
        warp->mask = warp->frames.back().outer;
        warp->frames.pop_back();
        break;
      case Opcode::kLoad:
        load(warp, instruction);
        break;
      case Opcode::kStore:
        store(warp, instruction);
        break;
      case Opcode::kAsyncCopy:
        start_copy(warp, instruction);
        break;
      case Opcode::kAsyncCommit:
        commit_copies(warp);
        break;
      case Opcode::kAsyncWait:
        finish_copies(warp, instruction.width);
        break;
      case Opcode::kInitMbarriers:
        mbarriers_[warp->rank].initialise(site_of(*warp, instruction, warp->mask));
        break;
      case Opcode::kArrive:
        arrive(warp, instruction);
        break;
      case Opcode::kBulkCopy:
        start_bulk_copy(warp, instruction);
        break;
      case Opcode::kTensorCopy:
        start_tensor_copy(warp, instruction);
        break;
      case Opcode::kProxyFence:
        if (!limits_.check_races) break;
        for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1)
          order_.fence_proxy(warp->first_actor + std::countr_zero(lanes));
        break;
      case Opcode::kClusterStore:
        store_in_cluster(warp, instruction);
        break;
      case Opcode::kMessageStore:
        send_message(warp, instruction);
        break;
      case Opcode::kMessageWait:
        if (!take_message(warp, instruction)) {
          // It is executed again, and counted then.
          --position;
          ++left;
          warp->state = State::kAtMessage;
        }
        break;
      case Opcode::kMbarrierWait:
        if (!wait_for_mbarrier(warp, instruction)) {
          // It is executed again, and counted then.
          --position;
          ++left;
          warp->state = State::kAtMbarrier;
        }
        break;
      case Opcode::kGroupBarrier:
        wait_at_group_barrier(warp, instruction);
        break;
      case Opcode::kLimitRegisters:
        warp->limits = warp->limits * 31 + instruction.stmt.index + 1;
        break;
      case Opcode::kBarrier:
        ++work_.barriers;
        check_converged(FindingKind::kDivergentBarrier, *warp, instruction);
        warp->state = State::kAtBarrier;
        break;
      case Opcode::kDeviceFence:
        if (!limits_.check_races) break;
        for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1)
          device_order_.fence(warp->first_actor + std::countr_zero(lanes));
        break;
      case Opcode::kAtomicCount:
        count(warp, instruction);
        break;
      case Opcode::kWarpBarrier:
        // Lanes are interpreted in step; what they know of each other is not.
        if (limits_.check_races) order_.synchronise(std::span(&warp->first_actor, 1));
        break;
      case Opcode::kClusterBarrier:
        ++work_.barriers;
        check_converged(FindingKind::kDivergentBarrier, *warp, instruction);
        warp->state = State::kAtClusterBarrier;
        break;
      case Opcode::kClusterArrive:
        ++work_.barriers;
        check_converged(FindingKind::kDivergentBarrier, *warp, instruction);
        arrive_in_cluster(warp);
        break;
      case Opcode::kClusterWait:
        check_converged(FindingKind::kDivergentBarrier, *warp, instruction);
        if (!wait_for_cluster(warp)) {
          // It is executed again, and counted then.
          --position;
          ++left;
          warp->state = State::kAtClusterWait;
        }
        break;
      case Opcode::kShuffle:
        shuffle(warp, instruction);
        break;
      case Opcode::kLoadMatrix:
        load_matrices(warp, instruction);
        break;
      case Opcode::kMma:
        multiply_matrices(warp, instruction);
        break;
      case Opcode::kWgmma:
        start_product(warp, instruction);
        break;
      case Opcode::kWgmmaFence:
        join_group(warp, instruction);
        std::ranges::fill(warp->unfenced, uint8_t{0});
        break;
      case Opcode::kWgmmaCommit:
        join_group(warp, instruction);
        commit_products(warp);
        break;
      case Opcode::kWgmmaWait:
        join_group(warp, instruction);
        finish_products(warp, instruction.width);
        break;
      case Opcode::kReadOfProduct:
      case Opcode::kWriteOfProduct:
        touch_product(warp, instruction);
        break;
      case Opcode::kEnd:
        warp->state = State::kFinished;
        break;
    }
  }
  warp->position = position;
  warp->steps += steps - left;
}

void BlockExecutor::assign(Warp* warp, const Instruction& instruction) const {
  const bool is_whole = warp->mask == kAllLanes;
  std::byte* result = warp->at(instruction.result);
  std::byte* computed = is_whole ? result : warp->at(program_.scratch);
  instruction.function(computed, warp->at(instruction.a), warp->at(instruction.b),
                       warp->at(instruction.c));
  if (!is_whole) copy_active(result, computed, warp->mask, instruction.element_bytes);
}

void BlockExecutor::shuffle(Warp* warp, const Instruction& instruction) {
  ++work_.shuffles;
  check_converged(FindingKind::kDivergentShuffle, *warp, instruction);
  const size_t size = instruction.element_bytes;
  const std::byte* source = warp->at(instruction.a);
  std::byte* exchanged = warp->at(program_.scratch);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t partner = lane ^ static_cast<size_t>(instruction.width);
    std::memcpy(exchanged + lane * size, source + partner * size, size);
  }
  copy_active(warp->at(instruction.result), exchanged, warp->mask, size);
}

WarpSite BlockExecutor::site_of(const Warp& warp, const Instruction& instruction,
                                uint32_t mask) const {
  return {.stmt = instruction.stmt,
          .block = block_of(warp),
          .first_thread = warp.first_thread,
          .first_actor = warp.first_actor,
          .mask = mask};
}

void BlockExecutor::arrive(Warp* warp, const Instruction& instruction) {
  const WarpSite site = site_of(*warp, instruction, warp->mask);
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    Mbarriers& mbarriers = mbarriers_[warp->rank];
    const int64_t number = mbarriers.find(site, lane, instruction.mbarrier,
                                          value_of<int64_t>(warp->at(instruction.a), lane));
    if (number < 0) continue;
    const int64_t bytes =
        instruction.width == 0 ? 0 : value_of<int32_t>(warp->at(instruction.b), lane);
    if (mbarriers.arrive(site, lane, number, bytes)) wake(State::kAtMbarrier);
  }
}

void BlockExecutor::check_written(Warp* warp, const Instruction& instruction) {
  const auto number = static_cast<size_t>(instruction.a);
  const uint32_t missing = warp->mask & ~warp->written[number];
  if (missing == 0) return;
  const TrackedElement& element = program_.tracked[number];
  const int64_t thread = warp->first_thread + std::countr_zero(missing);
  log_->add({.kind = FindingKind::kUnwrittenRegister,
             .stmt = instruction.stmt,
             .block = block_of(*warp),
             .thread = thread,
             .count = std::popcount(missing)},
            [&] {
              return fmt::format("thread {} of block {} reads {}[{}, {}] before writing it", thread,
                                 block_of(*warp), kernel_.vars[element.var].name, element.group,
                                 element.lane);
            });
}

void BlockExecutor::end_cluster() {
  const auto has_ended = [](const Warp& warp) { return warp.state == State::kFinished; };
  if (std::ranges::all_of(warps_, has_ended)) {
    for (size_t rank = 0; rank < mbarriers_.size(); ++rank)
      mbarriers_[rank].end_block(block_ + static_cast<int64_t>(rank));
    check_limits();
    check_messages();
  }
  for (Warp& warp : warps_) {
    work_.instructions += warp.steps;
    work_.max_warp_instructions = std::max(work_.max_warp_instructions, warp.steps);
    const bool has_finished = warp.state == State::kFinished;
    if (has_finished) check_products(warp);
    for (const PendingCopy& copy : warp.copies) {
      const int64_t thread = warp.first_thread + copy.lane;
      const int64_t block = block_of(warp);
      shared_[warp.rank].finish_copy(copy.address, copy.bytes, warp.first_actor + copy.lane);
      if (!has_finished) continue;
      log_->add({.kind = FindingKind::kAsyncNeverAwaited, .block = block, .thread = thread}, [&] {
        return fmt::format(
            "thread {} of block {} ends with asynchronous copies that it never awaited", thread,
            block);
      });
    }
  }
}

WorkCounts BlockExecutor::work() const {
  WorkCounts work = work_;
  for (const SharedMemory& shared : shared_) {
    work.shared_bytes_read += shared.bytes_read();
    work.shared_bytes_written += shared.bytes_written();
    work.bank_conflicts += shared.conflicts();
  }
  return work;
}

}  // namespace sinter::interpreter
