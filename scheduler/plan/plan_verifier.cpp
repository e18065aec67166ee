#include "scheduler/plan/plan_verifier.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "scheduler/analysis/tensor_list.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/transpose.h"
#include "scheduler/plan/plan_edit.h"
#include "scheduler/plan/tensor_region.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/plan/workspace.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

using TensorKey = std::pair<TensorSlot::Kind, size_t>;

struct Tensor {
  std::vector<TensorRegion> writes;
  std::vector<TensorRegion> reads;
};

class PlanVerifier {
 public:
  PlanVerifier(const Plan& plan, int64_t most_elements)
      : plan_(plan), slots_(plan), most_elements_(most_elements), steps_(plan.steps()) {
    for (size_t i = 0; i < plan.workspace.size(); ++i) {
      const WorkspaceTensor& tensor = plan.workspace[i];
      if (tensor.holds != WorkspaceTensor::Holds::kValue) scratch_of_[tensor.writer].push_back(i);
    }
    for (const StepId step : steps_.ids()) step_of_.emplace(steps_[step], step);
  }

  std::vector<std::string> run() {
    check_ids();
    if (!violations_.empty()) return std::move(violations_);
    check_places();
    if (!violations_.empty()) return std::move(violations_);
    check_repeats();
    for (step_ = {0}; steps_.contains(step_); ++step_.index) {
      if (const auto* call = std::get_if<CallId>(&steps_[step_])) {
        add_call(plan_.fusion.ops[plan_.externals[*call].op]);
      } else {
        const auto kernel = std::get<KernelId>(steps_[step_]);
        add_kernel(kernel);
        check_blocks(kernel);
        check_partials(kernel);
      }
    }
    add_results();
    for (const auto& [key, tensor] : tensors_) check_tensor(key, tensor);
    check_workspace();
    return std::move(violations_);
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> text, Args&&... args) {
    violations_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  static std::string name_of(const TensorKey& key) {
    constexpr std::array kNames = {"input", "output", "workspace tensor"};
    return fmt::format("{} {}", kNames[static_cast<size_t>(key.first)], key.second);
  }

  // ---- Ids

  /// Checks that everything that the plan refers to exists: the other checks rely on it.
  void check_ids() {
    for_each_kernel_id(plan_, [&](KernelId kernel, KernelMention mention) {
      const bool is_end = mention == KernelMention::kBefore && kernel == plan_.kernels.next_id();
      if (!is_end && !plan_.kernels.contains(kernel))
        report("{} names {}, but there are {} kernels", name_of(mention), kernel,
               plan_.kernels.size());
    });
    for (const WorkspaceTensor& tensor : plan_.workspace) {
      const auto* call = std::get_if<CallId>(&tensor.writer);
      if (call != nullptr && !plan_.externals.contains(*call))
        report("the writer of a workspace tensor is {}, but there are {} calls", *call,
               plan_.externals.size());
    }
  }

  /// Checks that all that steps read and write has a tensor: the checks behind it rely on that too.
  void check_places() {
    for (const KernelId id : plan_.kernels.ids()) {
      const Fusion& fusion = plan_.kernels[id].facts.fusion;
      for (const ValueId input : fusion.inputs) {
        if (!slots_.find(id, input, BufferUse::kRead))
          report("{} of segment {} is read and lies nowhere", input, id.index);
      }
      for (const ValueId output : stored_by(id)) {
        if (!slots_.find(id, output, BufferUse::kWrite))
          report("{} of segment {} is written and lies nowhere", output, id.index);
      }
    }
    const auto check = [&](ValueId value) {
      if (!slots_.find(value)) report("{} of the plan lies nowhere", value);
    };
    for (const ExternalCall& call : plan_.externals) {
      std::ranges::for_each(plan_.fusion.ops[call.op].operands, check);
      std::ranges::for_each(plan_.fusion.ops[call.op].results, check);
    }
    std::ranges::for_each(plan_.fusion.outputs, check);
  }

  /// Checks that a kernel that is the same as another one can run what is compiled for that.
  void check_repeats() {
    for (const KernelId id : plan_.kernels.ids()) {
      const KernelPlan& kernel = plan_.kernels[id];
      if (!kernel.same_as) continue;
      const KernelPlan& first = plan_.kernels[*kernel.same_as];
      if (*kernel.same_as >= id || first.same_as || first.finishes != kernel.finishes ||
          !structurally_equal(first.facts.fusion, kernel.facts.fusion))
        report("{} is said to be the same as {}, which is no first kernel of its graph", id,
               *kernel.same_as);
    }
  }

  static std::string_view name_of(KernelMention mention) {
    switch (mention) {
      case KernelMention::kSameAs:
        return "a kernel that is the same as another one";
      case KernelMention::kBefore:
        return "a call";
      case KernelMention::kWriter:
        return "a workspace tensor";
      case KernelMention::kCut:
        return "a cut";
    }
    unreachable();
  }

  // ---- What steps read and write

  [[nodiscard]] TensorRegion region(const Fusion& fusion, ValueId value, const TensorSlot& slot,
                                    Sizes strides) const {
    const Value& info = fusion.values[value];
    return {.step = step_,
            .offset = slot.offset,
            .element_bytes = bytes_of(info.type),
            .sizes = Binding{}.sizes_of(info.shape),
            .strides = std::move(strides)};
  }
  Tensor& at(const TensorSlot& slot) { return tensors_[{slot.kind, slot.index}]; }

  void add_call(const Op& op) {
    for (const ValueId operand : op.operands) {
      const TensorSlot slot = slots_.of(operand);
      at(slot).reads.push_back(region(plan_.fusion, operand, slot, slots_.strides_of(operand)));
    }
    for (const ValueId result : op.results) {
      const TensorSlot slot = slots_.of(result);
      at(slot).writes.push_back(region(plan_.fusion, result, slot, slots_.strides_of(result)));
    }
  }

  [[nodiscard]] bool is_finished(KernelId kernel) const {
    return plan_.finish_of(kernel).has_value();
  }
  /// The outputs that a kernel stores itself.
  [[nodiscard]] std::vector<ValueId> stored_by(KernelId kernel) const {
    const SegmentFacts& facts = plan_.kernels[kernel].facts;
    std::vector<ValueId> out;
    for (const ValueId output : facts.fusion.outputs) {
      if (!is_finished(kernel) || !facts.is_after_rows(output)) out.push_back(output);
    }
    return out;
  }

  void add_kernel(KernelId kernel) {
    const Fusion& fusion = plan_.kernels[kernel].facts.fusion;
    for (const ValueId input : fusion.inputs) {
      const TensorSlot slot = slots_.of(kernel, input, BufferUse::kRead);
      at(slot).reads.push_back(
          region(fusion, input, slot, input_strides(fusion, Binding{}, input)));
    }
    for (const ValueId output : stored_by(kernel)) {
      const TensorSlot slot = slots_.of(kernel, output, BufferUse::kWrite);
      at(slot).writes.push_back(
          region(fusion, output, slot, output_strides(fusion, Binding{}, output)));
    }
    if (!is_finished(kernel)) return;
    for (const size_t i : scratch_of(kernel)) {
      const WorkspaceTensor& tensor = plan_.workspace[i];
      if (tensor.holds != WorkspaceTensor::Holds::kPartials) continue;
      const int64_t size = bytes_of(plan_.fusion.values[tensor.value].type);
      tensors_[{TensorSlot::Kind::kWorkspace, i}].writes.push_back(
          {.step = step_, .element_bytes = size, .sizes = {tensor.bytes / size}, .strides = {1}});
    }
  }

  /// The caller, and the checks of indices, read after the last step.
  void add_results() {
    for (const ValueId output : plan_.fusion.outputs) {
      const TensorSlot slot = slots_.of(output);
      at(slot).reads.push_back(region(plan_.fusion, output, slot, slots_.strides_of(output)));
    }
  }

  // ---- Blocks

  void check_blocks(KernelId id) {
    const KernelPlan& kernel = plan_.kernels[id];
    const SegmentFacts& facts = kernel.facts;
    const Schedule& schedule = kernel.chosen().schedule;
    const int64_t blocks = kernel.chosen().estimate.blocks;
    if (schedule.dependent_launch == DependentLaunch::kPreload && !plan_.has_constant_columns(id))
      report("segment {} loads columns that the plan writes before it waits", id.index);
    const std::vector<ValueId> stored = stored_by(id);
    const bool writes = is_finished(id) ||
                        std::ranges::any_of(stored, [&](ValueId v) { return !facts.is_empty(v); });
    if (!writes) return;
    if (blocks < 1) {
      report("the kernel of segment {} writes, and has {} blocks", id.index, blocks);
      return;
    }
    const auto covers = [&](std::string_view what, int64_t covered, int64_t needed) {
      if (covered < needed)
        report("the blocks of segment {} cover {} of {} {}", id.index, covered, needed, what);
    };
    const int64_t reach = schedule.threads_per_row * schedule.vector_width;
    const bool walks_rows = schedule.family == kLooped || schedule.family == kMultiWave ||
                            schedule.family == kWarpSpecialised;
    if (facts.list) {
      // Each block takes a tile of one member; no member is longer than all tiles.
      for (const ValueId output : facts.fusion.outputs) {
        covers("elements of a member", blocks * reach * schedule.unroll,
               element_count(facts.fusion.values[output].shape));
      }
    } else if (schedule.family == kPointwise) {
      covers("elements", blocks * reach * schedule.unroll, facts.space.columns);
    } else if (schedule.family == kTranspose) {
      covers("elements", blocks * reach * schedule.rows_per_block * schedule.unroll,
             facts.space.rows * facts.space.columns);
    } else if (schedule.family == kMatmul && schedule.persistent_blocks == 0) {
      covers("elements", blocks * schedule.tile_rows() * schedule.tile_columns(),
             facts.space.rows * facts.space.columns);
    } else if (schedule.family == kColumn) {
      const int64_t sharing =
          std::max<int64_t>(schedule.persistent_blocks, schedule.cluster_size());
      covers("columns", blocks / sharing * reach, facts.space.columns);
    } else if (walks_rows && schedule.persistent_blocks == 0) {
      covers("rows", blocks / schedule.cluster_size() * schedule.rows_per_block, facts.space.rows);
    }
    // If several blocks share an outer reduction, each has only a part of it.
    const bool is_shared = facts.has_outer() && leaves_partials(facts, schedule);
    const bool is_whole = is_finished(id) || schedule.finish == Finish::kLastBlock;
    const bool has_results = std::ranges::any_of(facts.fusion.outputs, [&](ValueId output) {
      return facts.is_after_rows(output) && !facts.is_empty(output);
    });
    if (is_shared && has_results && !is_whole)
      report("nothing finishes the partial results of segment {}", id.index);
  }

  // ---- Partial results

  /// Checks that the tensors of a kernel's partial results are what its schedule leaves, and that
  /// what finishes them takes all of them. A schedule that was taken without plan_finish() breaks
  /// this.
  void check_partials(KernelId id) {
    const KernelPlan& kernel = plan_.kernels[id];
    if (kernel.finishes || kernel.is_part) return;
    const SegmentFacts& facts = kernel.facts;
    const Schedule& schedule = kernel.chosen().schedule;
    const bool is_shared = facts.has_outer() && leaves_partials(facts, schedule);
    const bool by_last_block = is_shared && schedule.finish == Finish::kLastBlock;
    if ((!is_shared || by_last_block) && is_finished(id))
      report("segment {} leaves no partial results for the kernel that finishes them", id.index);

    int64_t counters = 0;
    int64_t counted = 0;
    int64_t messages = 0;
    int64_t mails = 0;
    int64_t taken_by_call = 0;
    std::map<ValueId, int64_t> bytes_of_partials;  // By the reduction's result, in the plan.
    for (const size_t tensor : scratch_of(id)) {
      const WorkspaceTensor& scratch = plan_.workspace[tensor];
      if (scratch.holds == WorkspaceTensor::Holds::kCounters) {
        counters += scratch.bytes;
        ++counted;
      } else if (scratch.holds == WorkspaceTensor::Holds::kMessages) {
        messages += scratch.bytes;
        ++mails;
      } else if (scratch.holds == WorkspaceTensor::Holds::kScratch) {
        taken_by_call += scratch.bytes;
      } else if (by_last_block == (scratch.holds == WorkspaceTensor::Holds::kOwnPartials)) {
        bytes_of_partials.emplace(scratch.value, scratch.bytes);
      }
    }
    const int64_t of_call = schedule.family == kCublasLt ? kCublasLtWorkspace : 0;
    if (taken_by_call != of_call)
      report("the library call of segment {} takes {} bytes, and the workspace holds {}", id.index,
             of_call, taken_by_call);
    const int64_t needed = by_last_block ? last_block_bytes(facts, schedule) : 0;
    if (counters != needed)
      report(
          "segment {} counts the blocks that left partial results in {} bytes, and the workspace "
          "holds {}",
          id.index, needed, counters);
    if (const int64_t sent = message_bytes(facts, schedule); messages != sent)
      report("blocks of segment {} exchange messages in {} bytes, and the workspace holds {}",
             id.index, sent, messages);
    // The kernel gets the address of one tensor.
    if (mails + counted > 1)
      report("segment {} counts or exchanges in {} tensors, not one", id.index, mails + counted);
    const size_t reductions = is_shared ? facts.outer_reductions.size() : 0;
    if (bytes_of_partials.size() != reductions)
      report("segment {} leaves partial results of {} reductions, and the workspace holds {}",
             id.index, reductions, bytes_of_partials.size());
    for (size_t i = 0; i < reductions; ++i) {
      const OpId reduction = facts.outer_reductions[i];
      const ValueId result = facts.fusion.ops[reduction].results.front();
      const int64_t left =
          partial_rows(facts, schedule) * (facts.is_total(reduction) ? 1 : facts.space.columns);
      const auto tensor = bytes_of_partials.find(in_plan(kernel, result));
      if (tensor == bytes_of_partials.end()) {
        report("the workspace holds no partial results {} of segment {}", result, id.index);
        continue;
      }
      const int64_t element = bytes_of(facts.fusion.values[result].type);
      if (tensor->second != left * element)
        report("segment {} leaves {} partial results, and the workspace holds {}", id.index, left,
               tensor->second / element);
      if (is_finished(id)) check_finish(id, tensor->first, facts.is_empty(result) ? 0 : left);
    }
  }

  /// Checks that the kernel behind `id` reads so many partial results of a value of the plan.
  void check_finish(KernelId id, ValueId value, int64_t left) {
    const KernelId finish = *plan_.finish_of(id);
    const KernelPlan& kernel = plan_.kernels[finish];
    int64_t read = 0;
    for (const ValueId input : kernel.facts.fusion.inputs) {
      if (in_plan(kernel, input) == value)
        read = element_count(kernel.facts.fusion.values[input].shape);
    }
    if (read != left)
      report("segment {} leaves {} partial results, and segment {} finishes {}", id.index, left,
             finish.index, read);
  }

  /// The value of the plan that a kernel's own value is; invalid where the plan does not say.
  static ValueId in_plan(const KernelPlan& kernel, ValueId value) {
    if (kernel.in_plan.empty()) return value;
    const auto found = kernel.in_plan.find(value);
    return found == kernel.in_plan.end() ? ValueId{} : found->second;
  }

  /// Tensors of the workspace in which a kernel keeps partial results and counters.
  [[nodiscard]] std::span<const size_t> scratch_of(KernelId kernel) const {
    const auto found = scratch_of_.find(kernel);
    return found == scratch_of_.end() ? std::span<const size_t>{} : std::span(found->second);
  }

  // ---- Writers

  /// Checks the writers of one tensor: each element is written exactly once.
  void check_tensor(const TensorKey& key, const Tensor& tensor) {
    for (const std::vector<TensorRegion>* regions : {&tensor.writes, &tensor.reads}) {
      for (const TensorRegion& region : *regions) check_inside(key, region);
    }
    // Inputs exist already; check_overwriting() checks that none is read after it is overwritten.
    int64_t count = 0;
    for (const TensorRegion& region : tensor.writes) count += region.count();
    const bool is_compared = count <= most_elements_;
    std::optional<std::vector<std::pair<int64_t, StepId>>> addresses;
    const auto written = [&]() -> const std::vector<std::pair<int64_t, StepId>>& {
      if (!addresses) addresses = addresses_of(tensor.writes);
      return *addresses;
    };
    // Most tensors have one writer, and are read as they were written: nothing to compare.
    const bool has_one_writer = tensor.writes.size() == 1 && tensor.writes.front().is_injective();
    if (is_compared && !has_one_writer) {
      const auto twice = std::ranges::adjacent_find(
          written(), [](const auto& a, const auto& b) { return a.first == b.first; });
      if (twice != written().end())
        report("steps {} and {} write byte {} of {}", twice->second.index,
               std::next(twice)->second.index, twice->first, name_of(key));
    }
    if (!is_compared) check_first_bytes(key, tensor);
    for (const TensorRegion& read : tensor.reads) {
      const bool is_callers = key.first == TensorSlot::Kind::kInput;
      if (is_callers && steps_.contains(read.step)) continue;
      if (is_callers && tensor.writes.empty()) continue;  // An input that is also an output.
      if (read.count() == 0) continue;
      const auto is_all = [&](const TensorRegion& write) {
        return write.step < read.step && write.is_same_place(read);
      };
      if (std::ranges::any_of(tensor.writes, is_all)) continue;
      check_written(key, tensor, read, is_compared ? &written() : nullptr);
    }
  }

  /// Of tensors too large to compare element by element: no two writes begin at the same byte.
  void check_first_bytes(const TensorKey& key, const Tensor& tensor) {
    std::vector<std::pair<int64_t, StepId>> begins;  // Byte and step.
    for (const TensorRegion& write : tensor.writes) {
      if (write.count() > 0) begins.emplace_back(write.offset, write.step);
    }
    std::ranges::sort(begins);
    const auto twice = std::ranges::adjacent_find(begins, {}, &std::pair<int64_t, StepId>::first);
    if (twice != begins.end())
      report("steps {} and {} write byte {} of {}", twice->second.index,
             std::next(twice)->second.index, twice->first, name_of(key));
  }

  /// Addresses of all elements and the steps that write them, ascending. The addresses of one
  /// region are nearly always ascending, so that merging is enough.
  static std::vector<std::pair<int64_t, StepId>> addresses_of(
      const std::vector<TensorRegion>& writes) {
    std::vector<std::pair<int64_t, StepId>> out;
    std::vector<size_t> ends = {0};  // Ends of ascending runs.
    for (const TensorRegion& region : writes) {
      for (const int64_t address : region.addresses()) out.emplace_back(address, region.step);
      const auto begin = out.begin() + static_cast<ptrdiff_t>(ends.back());
      if (!std::is_sorted(begin, out.end())) std::sort(begin, out.end());
      ends.push_back(out.size());
    }
    while (ends.size() > 2) {
      std::vector<size_t> merged = {0};
      for (size_t i = 2; i < ends.size(); i += 2) {
        const auto at = [&](size_t end) { return out.begin() + static_cast<ptrdiff_t>(end); };
        std::inplace_merge(at(ends[i - 2]), at(ends[i - 1]), at(ends[i]));
        merged.push_back(ends[i]);
      }
      if (merged.back() != out.size()) merged.push_back(out.size());
      ends = std::move(merged);
    }
    return out;
  }

  void check_written(const TensorKey& key, const Tensor& tensor, const TensorRegion& read,
                     const std::vector<std::pair<int64_t, StepId>>* written) {
    if (written == nullptr || read.count() > most_elements_) {
      int64_t before = 0;
      for (const TensorRegion& write : tensor.writes)
        before += write.step < read.step ? write.count() : 0;
      // Strides of 0 read an element repeatedly.
      int64_t distinct = 1;
      for (size_t axis = 0; axis < read.sizes.size(); ++axis)
        distinct *= read.strides[axis] == 0 ? 1 : read.sizes[axis];
      if (before < distinct)
        report("{} reads {} elements of {}, of which {} are written before", read.step, distinct,
               name_of(key), before);
      return;
    }
    auto found = written->begin();
    for (const int64_t address : read.addresses()) {
      if (found == written->end() || found->first > address)
        found = std::ranges::lower_bound(*written, address, {}, &std::pair<int64_t, StepId>::first);
      while (found != written->end() && found->first < address) ++found;
      if (found != written->end() && found->first == address && found->second < read.step) continue;
      report("{} reads byte {} of {}, which no step before it writes", read.step, address,
             name_of(key));
      return;
    }
  }

  void check_inside(const TensorKey& key, const TensorRegion& region) {
    if (key.first != TensorSlot::Kind::kWorkspace || region.count() == 0) return;
    const int64_t bytes = plan_.workspace[key.second].bytes;
    if (region.offset < 0 || region.end() > bytes)
      report("{} needs bytes {} to {} of {}, which has {}", region.step, region.offset,
             region.end(), name_of(key), bytes);
  }

  // ---- Workspace

  struct Life {
    StepId first;
    StepId last;
  };

  [[nodiscard]] std::optional<Life> life_of(size_t index) const {
    const WorkspaceTensor& tensor = plan_.workspace[index];
    std::optional<Life> life;
    const auto use = [&](StepId step) {
      if (!life) life = Life{step, step};
      life->first = std::min(life->first, step);
      life->last = std::max(life->last, step);
    };
    if (const auto step = step_of_.find(tensor.writer); tensor.own() && step != step_of_.end())
      use(step->second);
    const auto found = tensors_.find({TensorSlot::Kind::kWorkspace, index});
    if (found == tensors_.end()) return life;
    for (const TensorRegion& region : found->second.writes) use(region.step);
    for (const TensorRegion& region : found->second.reads) use(region.step);
    return life;
  }

  /// True if two tensors that a step needs at once have a byte in common. Walks the steps, with the
  /// tensors that each needs ordered by offset: as long as none of them overlap, a tensor that is
  /// added can only overlap its neighbours.
  [[nodiscard]] bool share_bytes(const std::vector<std::optional<Life>>& lives) const {
    std::map<StepId, std::vector<size_t>> begins;  // By step: tensors.
    std::map<StepId, std::vector<size_t>> ends;
    for (size_t i = 0; i < lives.size(); ++i) {
      if (!lives[i] || plan_.workspace[i].bytes == 0) continue;
      begins[lives[i]->first].push_back(i);
      ends[lives[i]->last].push_back(i);
    }
    const auto end_of = [&](size_t i) {
      return plan_.workspace[i].offset + plan_.workspace[i].bytes;
    };
    std::map<int64_t, size_t> needed;  // By offset.
    auto ended = ends.begin();
    for (const auto& [step, tensors] : begins) {
      for (; ended != ends.end() && ended->first < step; ++ended) {
        for (const size_t i : ended->second) needed.erase(plan_.workspace[i].offset);
      }
      for (const size_t i : tensors) {
        const auto [at, is_new] = needed.emplace(plan_.workspace[i].offset, i);
        if (!is_new) return true;
        if (at != needed.begin() && end_of(std::prev(at)->second) > at->first) return true;
        if (std::next(at) != needed.end() && end_of(i) > std::next(at)->first) return true;
      }
    }
    return false;
  }

  void check_workspace() {
    std::vector<std::optional<Life>> lives;
    for (size_t i = 0; i < plan_.workspace.size(); ++i) lives.push_back(life_of(i));
    for (size_t i = 0; i < plan_.workspace.size(); ++i) {
      const WorkspaceTensor& a = plan_.workspace[i];
      if (a.offset < 0 || a.offset % kWorkspaceAlignment != 0 ||
          a.offset + a.bytes > plan_.workspace_bytes)
        report("workspace tensor {} of {} bytes lies at byte {} of {}", i, a.bytes, a.offset,
               plan_.workspace_bytes);
    }
    if (!share_bytes(lives)) return;
    for (size_t i = 0; i < plan_.workspace.size(); ++i) {
      const WorkspaceTensor& a = plan_.workspace[i];
      if (!lives[i] || a.bytes == 0) continue;
      for (size_t j = 0; j < i; ++j) {
        const WorkspaceTensor& b = plan_.workspace[j];
        if (!lives[j] || b.bytes == 0) continue;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        if (apart || lives[i]->last < lives[j]->first || lives[j]->last < lives[i]->first) continue;
        report("workspace tensors {} and {} share bytes, and steps {} to {} need both", j, i,
               std::max(lives[i]->first, lives[j]->first).index,
               std::min(lives[i]->last, lives[j]->last).index);
      }
    }
  }

  const Plan& plan_;
  const TensorSlots slots_;
  const int64_t most_elements_;
  const IdVector<StepId, PlanStep> steps_;
  /// Partial results and counters: indices in the workspace, by writer.
  std::map<PlanStep, std::vector<size_t>> scratch_of_;
  std::map<PlanStep, StepId> step_of_;
  StepId step_;  ///< The current step; after the last one, that of the caller.
  std::map<TensorKey, Tensor> tensors_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> plan_violations(const Plan& plan, int64_t most_elements) {
  return PlanVerifier(plan, most_elements).run();
}

void check_plan(const Plan& plan) {
  if (!kVerifyPlansByDefault) return;
  const std::vector<std::string> violations = plan_violations(plan);
  SINTER_CHECK(violations.empty(), "the plan of '{}': {}", plan.fusion.name, violations.front());
}

}  // namespace sinter
