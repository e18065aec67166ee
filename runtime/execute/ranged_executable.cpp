#include "runtime/execute/ranged_executable.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/driver/device_context.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"

namespace sinter {
namespace {

constexpr size_t kSymbolsOnStack = 16;

/// Orders sizes, and finds them without a vector of their own.
struct SizesOrder {
  using is_transparent = void;
  bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const {
    return std::ranges::lexicographical_compare(a, b);
  }
};

/// The sizes at which a range is prepared first.
Result<Sizes> first_sizes(const Fusion& fusion, std::span<const ExtentRange> ranges,
                          const ExtentValues& first) {
  ExtentValues extents = first;
  for (uint32_t i = 0; i < ranges.size(); ++i)
    extents.try_emplace(fusion.symbols[SymbolId{i}].name, ranges[i].most);
  return sizes_in_ranges(fusion, ranges, extents);
}

/// What sizes are taken instead, where those outside the ranges get plans of their own: any of a
/// symbol that has a range.
std::vector<ExtentRange> taken_ranges(std::vector<ExtentRange> ranges, OutsideRange outside) {
  if (outside == OutsideRange::kRefuse) return ranges;
  for (ExtentRange& range : ranges) {
    if (range.least != range.most) range = {0, std::numeric_limits<int64_t>::max()};
  }
  return ranges;
}

PreparedExtents summary_of(const CompiledPlan& compiled) {
  PreparedExtents out{.extents = {},
                      .workspace_bytes = compiled.plan.workspace_bytes,
                      .kernels = compiled.kernels.size(),
                      .predicted_us = compiled.plan.predicted_us()};
  out.compiled = static_cast<size_t>(
      std::ranges::count(compiled.kernels, KernelOrigin::kCompiled, &KernelBuild::origin));
  return out;
}

}  // namespace

/// Executables by the sizes they were prepared for. An executable leaves only when nobody but this
/// holds it, and after the device has finished: whoever executed it last may have let go of it
/// while its kernels run.
class RangedExecutable::State {
 public:
  /// What prepare() is asked for.
  struct Request {
    Fusion fusion;
    std::vector<ExtentRange> ranges;
    DeviceLimits limits;
    PlanCompiler compile;
    RangedOptions options;
  };

  State(Request request, DeviceDriver& driver, DeviceContext context)
      : fusion_(std::move(request.fusion)),
        ranges_(std::move(request.ranges)),
        taken_(taken_ranges(ranges_, request.options.outside)),
        limits_(std::move(request.limits)),
        compile_(std::move(request.compile)),
        driver_(driver),
        context_(std::move(context)),
        options_(std::move(request.options)) {
    if (!options_.prepare.loaded) options_.prepare.loaded = std::make_shared<LoadedKernels>();
  }

  [[nodiscard]] const Fusion& fusion() const { return fusion_; }
  [[nodiscard]] std::span<const ExtentRange> ranges() const { return ranges_; }
  /// Sizes that at() is asked for.
  [[nodiscard]] std::span<const ExtentRange> taken() const { return taken_; }

  /// Prepares the sizes whose plan the others follow.
  Result<void> prepare_first(std::span<const int64_t> sizes) {
    auto first = at(sizes);
    if (!first) return fail(first.error());
    if (options_.plans == RangePlans::kOne)
      model_ = std::make_shared<const Plan>(plan_as_compiled((*first)->compiled()));
    return {};
  }

  Result<ExecutablePtr> at_sizes_of(std::span<const Tensor> inputs,
                                    std::span<const Tensor> outputs) {
    boost::container::small_vector<int64_t, kSymbolsOnStack> sizes(ranges_.size());
    auto read = sizes_of_tensors(fusion_, taken(), inputs, outputs, {sizes.data(), sizes.size()});
    if (!read) return fail(read.error());
    return at({sizes.data(), sizes.size()});
  }

  Result<ExecutablePtr> at(std::span<const int64_t> sizes) {
    std::optional<std::promise<Result<ExecutablePtr>>> promise;
    std::shared_future<Result<ExecutablePtr>> others;
    {
      const std::lock_guard lock(mutex_);
      ++uses_;
      if (const auto slot = slots_.find(sizes); slot != slots_.end()) {
        ++slot->second.uses;
        slot->second.last_use = uses_;
        if (slot->second.executable) return slot->second.executable;
        others = slot->second.pending;
      } else {
        ++plans_;
        promise.emplace();
        slots_.emplace(Sizes(sizes.begin(), sizes.end()),
                       Slot{.pending = promise->get_future().share(),
                            .executable = {},
                            .own_plan = {},
                            .uses = 1,
                            .last_use = uses_});
      }
    }
    if (!promise) return others.get();
    Result<ExecutablePtr> made = make(sizes, *promise);
    if (made) make_room();
    return made;
  }

  [[nodiscard]] RangedReport report() const {
    const std::lock_guard lock(mutex_);
    RangedReport out{.uses = uses_,
                     .plans = plans_,
                     .shared = shared_,
                     .failures = failures_,
                     .dropped = dropped_,
                     .kept = {}};
    std::vector<std::pair<int64_t, PreparedExtents>> kept;
    for (const auto& [sizes, slot] : slots_) {
      if (!slot.executable) continue;
      PreparedExtents prepared = summary_of(slot.executable->compiled());
      prepared.extents = named_sizes(fusion_, sizes);
      prepared.own_plan = slot.own_plan;
      prepared.uses = slot.uses;
      kept.emplace_back(-slot.last_use, std::move(prepared));
    }
    std::ranges::sort(kept, {}, [](const auto& entry) { return entry.first; });
    for (auto& entry : kept) out.kept.push_back(std::move(entry.second));
    return out;
  }

 private:
  struct Slot {
    std::shared_future<Result<ExecutablePtr>> pending;  // Until the executable is there.
    ExecutablePtr executable;
    std::string own_plan;
    int64_t uses = 0;
    int64_t last_use = 0;
  };
  /// An executable, and why it does not run the one plan; empty if it does, or there is none.
  struct Prepared {
    ExecutablePtr executable;
    std::string own_plan;
    bool is_shared = false;
  };
  struct Planned {
    Plan plan;
    std::string own_plan;
    bool is_shared = false;
  };
  using Slots = std::map<Sizes, Slot, SizesOrder>;

  /// Others wait for the promise: it must be kept whatever happens.
  Result<ExecutablePtr> make(std::span<const int64_t> sizes,
                             std::promise<Result<ExecutablePtr>>& promise) {
    try {
      const Result<Prepared> prepared = prepare_at(sizes);
      settle(sizes, prepared);
      auto made = prepared.map([](const Prepared& p) { return p.executable; });
      promise.set_value(made);
      return made;
    } catch (...) {
      settle(sizes, fail({}));
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  /// Which size is outside the ranges; empty if none is.
  [[nodiscard]] std::string outside(std::span<const int64_t> sizes) const {
    for (uint32_t i = 0; i < ranges_.size(); ++i) {
      if (!ranges_[i].has(sizes[i]))
        return fmt::format("{} is {}, outside the served range {} to {}",
                           fusion_.symbols[SymbolId{i}].name, sizes[i], ranges_[i].least,
                           ranges_[i].most);
    }
    return {};
  }

  /// The one plan at these sizes, or their own and why.
  [[nodiscard]] Result<Planned> plan_at(std::span<const int64_t> sizes) const {
    const ExtentValues extents = named_sizes(fusion_, sizes);
    const auto own = [&](std::string why) {
      return plan(fusion_, extents, limits_, options_.plan).map([&](Plan planned) {
        return Planned{.plan = std::move(planned), .own_plan = std::move(why)};
      });
    };
    std::string why = outside(sizes);
    if (!model_ || !why.empty()) return own(std::move(why));
    PlanOptions like = options_.plan;
    like.cuts.clear();  // The plan that is followed obeys them.
    like.joins.clear();
    like.pin = {};
    like.like = model_;
    auto followed = plan(fusion_, extents, limits_, like);
    if (!followed && ends_the_work(followed.error())) return fail(followed.error());
    if (!followed) return own(followed.error().message);
    if (std::isfinite(options_.slower_at_most)) {
      auto planned = own({});
      const double one_us = followed->predicted_us();
      if (planned && one_us > options_.slower_at_most * planned->plan.predicted_us()) {
        planned->own_plan =
            fmt::format("the one plan is predicted to take {:.1f} us, its own {:.1f}", one_us,
                        planned->plan.predicted_us());
        return planned;
      }
    }
    return Planned{.plan = std::move(*followed), .own_plan = {}, .is_shared = true};
  }

  [[nodiscard]] Result<Prepared> prepare_at(std::span<const int64_t> sizes) const {
    auto planned = plan_at(sizes);
    Prepared out;
    if (planned) {
      out.own_plan = std::move(planned->own_plan);
      out.is_shared = planned->is_shared;
    }
    auto prepared =
        std::move(planned)
            .map([](Planned made) { return std::move(made.plan); })
            .and_then(compile_)
            .and_then([&](CompiledPlan compiled) {
              return Executable::prepare(std::move(compiled), driver_, options_.prepare);
            });
    if (prepared) {
      out.executable = std::make_shared<const Executable>(std::move(*prepared));
      return out;
    }
    Error error = std::move(prepared.error());
    error.message = fmt::format("for {}: {}", text_of_sizes(fusion_, sizes), error.message);
    return fail(std::move(error));
  }

  /// Keeps what was made, or forgets that it was tried.
  void settle(std::span<const int64_t> sizes, const Result<Prepared>& made) {
    const std::lock_guard lock(mutex_);
    const auto slot = slots_.find(sizes);
    SINTER_CHECK(slot != slots_.end(), "the slot for {} vanished while it was made",
                 text_of_sizes(fusion_, sizes));
    if (made) {
      slot->second.executable = made->executable;
      slot->second.own_plan = made->own_plan;
      slot->second.pending = {};
      shared_ += static_cast<int64_t>(made->is_shared);
    } else {
      ++failures_;
      slots_.erase(slot);
    }
  }

  /// The least recently used executable that nobody holds.
  [[nodiscard]] Slots::iterator oldest_idle() {
    auto oldest = slots_.end();
    for (auto it = slots_.begin(); it != slots_.end(); ++it) {
      // Copies are made under the lock, so that a count of one stays one. Whoever let go has handed
      // its launches to the driver before.
      if (!it->second.executable || it->second.executable.use_count() > 1) continue;
      if (oldest == slots_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
    }
    return oldest;
  }

  /// Takes executables out of the slots until few enough are left.
  void retire() {
    auto count = static_cast<size_t>(std::ranges::count_if(
        slots_, [](const auto& entry) { return entry.second.executable != nullptr; }));
    for (; count > options_.kept; --count) {
      const auto oldest = oldest_idle();
      if (oldest == slots_.end()) return;
      retired_.push_back(std::move(oldest->second.executable));
      slots_.erase(oldest);
      ++dropped_;
    }
  }

  void make_room() {
    std::vector<ExecutablePtr> gone;
    {
      const std::lock_guard lock(mutex_);
      retire();
      gone.swap(retired_);
    }
    if (gone.empty()) return;
    const auto current = CurrentContext::enter(driver_, context_);
    if (current && driver_.context_synchronize() == DriverStatus::kSuccess) {
      gone.clear();  // While the context is current, for the modules.
      return;
    }
    const std::lock_guard lock(mutex_);
    std::ranges::move(gone, std::back_inserter(retired_));
  }

  const Fusion fusion_;
  const std::vector<ExtentRange> ranges_;
  const std::vector<ExtentRange> taken_;
  const DeviceLimits limits_;
  const PlanCompiler compile_;
  DeviceDriver& driver_;
  DeviceContext context_;
  RangedOptions options_;
  std::shared_ptr<const Plan> model_;  // What others follow; set before there are others.

  mutable std::mutex mutex_;  // Guards all below; never held while planning or waiting.
  Slots slots_;
  std::vector<ExecutablePtr> retired_;  // To go when the device has finished.
  int64_t uses_ = 0;
  int64_t plans_ = 0;
  int64_t shared_ = 0;
  int64_t failures_ = 0;
  int64_t dropped_ = 0;
};

RangedExecutable::RangedExecutable(std::unique_ptr<State> state) : state_(std::move(state)) {}
RangedExecutable::RangedExecutable(RangedExecutable&& other) noexcept = default;
RangedExecutable& RangedExecutable::operator=(RangedExecutable&& other) noexcept = default;
RangedExecutable::~RangedExecutable() = default;

Result<RangedExecutable> RangedExecutable::prepare(Fusion fusion, const ExtentRanges& ranges,
                                                   const DeviceLimits& limits, PlanCompiler compile,
                                                   DeviceDriver& driver, RangedOptions options) {
  return as_result([&]() -> Result<RangedExecutable> {
    const auto refuse = [](std::string message, std::string remedy) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = std::move(message),
                   .remedy = std::move(remedy)});
    };
    if (!compile)
      return refuse("a ranged executable has nothing to compile plans with", "pass one");
    if (options.plan.like)
      return refuse("a plan to follow is given for sizes that follow the first ones' plan",
                    "leave it out, or name the sizes to plan first");
    if (!(options.slower_at_most >= 1.0))
      return refuse(fmt::format("the one plan cannot be held to {} times what another takes",
                                options.slower_at_most),
                    "pass at least 1");
    if (options.kept == 0) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = "a ranged executable that keeps nothing prepares at every execution",
                   .remedy = "keep at least one",
                   .measured = 0,
                   .limit = 1});
    }
    auto resolved = resolve_ranges(fusion, ranges, options.fixed);
    if (!resolved) return fail(resolved.error());
    const auto first = first_sizes(fusion, *resolved, options.first);
    if (!first) return fail(first.error());
    auto context = DeviceContext::retain(driver, options.prepare.device);
    if (!context) return fail(context.error());
    State::Request request{.fusion = std::move(fusion),
                           .ranges = std::move(*resolved),
                           .limits = limits,
                           .compile = std::move(compile),
                           .options = std::move(options)};
    RangedExecutable out(std::make_unique<State>(std::move(request), driver, std::move(*context)));
    if (auto prepared = out.state_->prepare_first(*first); !prepared) return fail(prepared.error());
    return out;
  });
}

Result<RangedExecutable> RangedExecutable::prepare(Fusion fusion, const ExtentRanges& ranges,
                                                   const DeviceLimits& limits,
                                                   const NvrtcCompiler& compiler,
                                                   KernelCache& cache, DeviceDriver& driver,
                                                   RangedOptions options) {
  auto compile = [compiler, &cache, how = options.compile](Plan planned) {
    return compile_plan(std::move(planned), compiler, cache, how);
  };
  return prepare(std::move(fusion), ranges, limits, PlanCompiler(std::move(compile)), driver,
                 std::move(options));
}

Result<ExecutablePtr> RangedExecutable::at(const ExtentValues& extents) {
  return as_result([&]() -> Result<ExecutablePtr> {
    const auto sizes = sizes_in_ranges(state_->fusion(), state_->taken(), extents);
    if (!sizes) return fail(sizes.error());
    return state_->at(*sizes);
  });
}

Result<void> RangedExecutable::execute(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs, DevicePointer workspace,
                                       int64_t workspace_bytes, StreamHandle stream) {
  return as_result([&]() -> Result<void> {
    const auto executable = state_->at_sizes_of(inputs, outputs);
    if (!executable) return fail(executable.error());
    return (*executable)->execute(inputs, outputs, workspace, workspace_bytes, stream);
  });
}

Result<void> RangedExecutable::execute(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs,
                                       const WorkspaceAllocator& allocator, StreamHandle stream) {
  return as_result([&]() -> Result<void> {
    const auto executable = state_->at_sizes_of(inputs, outputs);
    if (!executable) return fail(executable.error());
    return (*executable)->execute(inputs, outputs, allocator, stream);
  });
}

Result<int64_t> RangedExecutable::workspace_bytes(const ExtentValues& extents) {
  return at(extents).map([](const ExecutablePtr& ready) { return ready->workspace_bytes(); });
}

RangedReport RangedExecutable::report() const { return state_->report(); }

std::span<const ExtentRange> RangedExecutable::ranges() const { return state_->ranges(); }

std::string RangedReport::text() const {
  std::string out =
      fmt::format("{} uses, {} plans, {} of them like the first, {} failures, {} dropped\n", uses,
                  plans, shared, failures, dropped);
  for (const PreparedExtents& prepared : kept) {
    std::string sizes;
    for (const auto& [name, size] : prepared.extents)
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : " ", name, size);
    out += fmt::format(
        "{}: {} kernels, {} of them compiled, {:.1f} us predicted, {} B of workspace, {} uses{}\n",
        sizes.empty() ? "constant" : sizes, prepared.kernels, prepared.compiled,
        prepared.predicted_us, prepared.workspace_bytes, prepared.uses,
        prepared.own_plan.empty() ? "" : "; a plan of its own: " + prepared.own_plan);
  }
  return out;
}

}  // namespace sinter
