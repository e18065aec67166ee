#include "scheduler/report/sweep.h"
#include "scheduler/planning/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "fusion_ir/nearest_name.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {
namespace {

Error bad_sweep(std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

std::optional<Error> check(const Fusion& fusion, const std::vector<SweepAxis>& axes) {
  if (axes.empty() || axes.size() > 2) {
    return bad_sweep(fmt::format("{} extents are swept", axes.size()), "sweep one or two");
  }
  if (axes.size() == 2 && axes[0].extent == axes[1].extent) {
    return bad_sweep(fmt::format("the extent '{}' is swept twice", axes[0].extent),
                     "sweep each extent once");
  }
  int64_t cells = 1;
  for (const SweepAxis& axis : axes) {
    if (!fusion.find_symbol(axis.extent).valid()) {
      std::vector<std::string_view> names;
      for (const Symbol& symbol : fusion.symbols) names.push_back(symbol.name);
      return bad_sweep(
          fmt::format("the fusion '{}' has no extent '{}' to sweep", fusion.name, axis.extent),
          names.empty()
              ? "all of its extents are constants"
              : suggestion(axis.extent, names, fmt::format("sweep {}", fmt::join(names, " or "))));
    }
    if (axis.sizes.empty()) {
      return bad_sweep(fmt::format("the extent '{}' is swept over no sizes", axis.extent),
                       "give it sizes");
    }
    const auto sizes = static_cast<int64_t>(axis.sizes.size());
    cells = sizes > kMaxSweepCells ? kMaxSweepCells + 1 : cells * sizes;
    if (cells > kMaxSweepCells) {
      return Error{.kind = ErrorKind::kResourceExhausted,
                   .message = fmt::format("a sweep has at most {} cells", kMaxSweepCells),
                   .remedy = "take larger steps, or sweep a part",
                   .measured = cells,
                   .limit = kMaxSweepCells};
    }
  }
  return std::nullopt;
}

double bytes_of(const Fusion& fusion, const std::vector<ValueId>& tensors) {
  const Binding binding{};  // A planned fusion is specialised.
  double bytes = 0.0;
  for (const ValueId id : tensors) {
    const Value& value = fusion.values[id];
    bytes += static_cast<double>(element_count(binding.sizes_of(value.shape))) *
             static_cast<double>(bytes_of(value.type));
  }
  return bytes;
}

SweepCell cell_of(const Result<Plan>& planned) {
  if (!planned) return {.refusal = planned.error()};
  if (planned->kernels.empty()) {
    return {.refusal = {.kind = ErrorKind::kUnsupported,
                        .message = fmt::format("no kernel takes part in the fusion '{}'",
                                               planned->fusion.name),
                        .remedy = "sweep a graph that is more than external calls"}};
  }
  const double read = bytes_of(planned->fusion, planned->fusion.inputs);
  const double written = bytes_of(planned->fusion, planned->fusion.outputs);
  const double streamed = (read + written) / mixed_bandwidth(planned->limits, read, written);
  const double predicted = planned->predicted_us();
  return {.kind = kind_of(*planned),
          .schedule = planned->kernels.front().chosen().schedule,
          .predicted_us = predicted,
          .sol = predicted > 0.0 ? streamed / predicted : 0.0};
}

/// The kinds, in the order of their first kernel's family in the set.
std::vector<std::string> kinds_of(const std::vector<SweepCell>& cells, const FamilySet& families) {
  std::set<std::pair<std::ptrdiff_t, std::string>> kinds;
  for (const SweepCell& cell : cells) {
    if (cell.kind.empty()) continue;
    const auto family = std::ranges::find(families, cell.schedule.family, &Family::name);
    kinds.emplace(family - families.begin(), cell.kind);
  }
  std::vector<std::string> out;
  for (const auto& [place, kind] : kinds) out.push_back(kind);
  return out;
}

bool is_innermost(const Fusion& fusion, SymbolId symbol) {
  return std::ranges::any_of(fusion.value_ids(), [&](ValueId id) {
    const Shape& shape = fusion.values[id].shape;
    return !shape.empty() && shape.back() == Extent(symbol);
  });
}

/// Smallest change of an extent: about a hundredth. Along rows it is also a multiple of the largest
/// power of two that divides the size, up to the width of vectors.
int64_t step_of(const Fusion& fusion, SymbolId symbol, int64_t size) {
  constexpr int64_t kResolution = 128;
  constexpr int64_t kVectorElements = 64;
  constexpr int64_t kFewestSteps = 4;  // From a small size down to 0.
  const auto power_below = [](int64_t value) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
  };
  int64_t step = power_below(size / kResolution);
  if (is_innermost(fusion, symbol)) {
    const int64_t vectors = std::min(kVectorElements, power_below(size / kFewestSteps));
    step = std::max(step, std::gcd(size, vectors));
  }
  const int64_t divisor = std::max<int64_t>(fusion.symbols[symbol].divisible_by, 1);
  step /= std::gcd(step, divisor);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return step > kMost / divisor ? kMost : step * divisor;
}

/// The search along one extent. Sizes are counted in steps from the present one.
class ChangeSearch {
 public:
  ChangeSearch(const Fusion& fusion, ExtentValues extents, const DeviceLimits& limits,
               const PlanOptions& options, SymbolId symbol, std::string kind)
      : fusion_(fusion),
        extents_(std::move(extents)),
        limits_(limits),
        options_(options),
        name_(fusion.symbols[symbol].name),
        size_(extents_.at(name_)),
        step_(step_of(fusion, symbol, size_)),
        kind_(std::move(kind)) {}

  std::optional<NearestChange> smaller() {
    std::vector<int64_t> probes;
    for (int64_t part = 2; part <= kChangeFactor; part *= 2) {
      probes.push_back(-(size_ - size_ / part * 3 / 2) / step_);
      probes.push_back(-(size_ - size_ / part) / step_);
    }
    return nearest(probes);
  }

  std::optional<NearestChange> larger() {
    std::vector<int64_t> probes;
    for (int64_t factor = 1; factor < kChangeFactor; factor *= 2) {
      probes.push_back((size_ * factor / 2 * 3 - size_) / step_);
      probes.push_back((size_ * factor * 2 - size_) / step_);
    }
    return nearest(probes);
  }

 private:
  [[nodiscard]] int64_t size_at(int64_t steps) const { return size_ + steps * step_; }

  /// The other kind that wins there; no value if the same kind wins or the fusion has no such size.
  std::optional<std::string> other_at(int64_t steps) {
    extents_[name_] = size_at(steps);
    const auto planned = plan(fusion_, extents_, limits_, options_);
    if (!planned && ends_the_work(planned.error())) throw_error(planned.error());
    if (!planned && planned.error().kind != ErrorKind::kUnsupported) return std::nullopt;
    std::string wins = planned ? kind_of(*planned) : "";
    return wins == kind_ ? std::nullopt : std::optional(std::move(wins));
  }

  std::optional<NearestChange> nearest(const std::vector<int64_t>& probes) {
    int64_t same = 0;
    for (const int64_t probe : probes) {
      if (probe == same || size_at(probe) <= 0) continue;
      auto other = other_at(probe);
      if (!other) {
        same = probe;
        continue;
      }
      int64_t change = probe;
      while (std::abs(change - same) > 1) {
        const int64_t middle = std::midpoint(same, change);
        if (auto found = other_at(middle)) {
          change = middle;
          other = std::move(found);
        } else {
          same = middle;
        }
      }
      return NearestChange{name_, size_at(change), std::move(*other)};
    }
    return std::nullopt;
  }

  const Fusion& fusion_;
  ExtentValues extents_;
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  std::string name_;
  int64_t size_;
  int64_t step_;
  std::string kind_;
};

}  // namespace

Result<Sweep> sweep(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                    std::vector<SweepAxis> axes, const PlanOptions& options) {
  if (auto error = check(fusion, axes)) return fail(std::move(*error));
  Sweep out{.fusion = fusion.name,
            .device = limits.name,
            .axes = std::move(axes),
            .cells = {},
            .kinds = {}};
  ExtentValues at = extents;
  for (size_t line = 0; line < out.lines(); ++line) {
    if (out.axes.size() > 1) at[out.axes[1].extent] = out.axes[1].sizes[line];
    for (const int64_t size : out.axes[0].sizes) {
      at[out.axes[0].extent] = size;
      const auto planned = plan(fusion, at, limits, options);
      if (!planned && ends_the_work(planned.error())) return fail(planned.error());
      out.cells.push_back(cell_of(planned));
    }
  }
  out.kinds = kinds_of(out.cells, options.families);
  if (out.kinds.empty()) return fail(out.cells.front().refusal);
  return out;
}

std::string kind_of(const Plan& plan) {
  std::string out;
  for (const KernelPlan* kernel : plan.leading_kernels())
    out += (out.empty() ? "" : " + ") + kernel->chosen().schedule.family;
  return out;
}

std::vector<NearestChange> nearest_changes(const Fusion& fusion, const ExtentValues& extents,
                                           const DeviceLimits& limits, const PlanOptions& options) {
  if (!(options.pin == SchedulePin{}) || fusion.symbols.empty()) return {};
  const auto planned = plan(fusion, extents, limits, options);
  if (!planned) return {};
  const std::string kind = kind_of(*planned);
  ExtentValues bound;
  std::vector<SymbolId> symbols;
  for (uint32_t i = 0; i < fusion.symbols.size(); ++i) {
    symbols.push_back(SymbolId{i});
    bound[fusion.symbols[SymbolId{i}].name] = planned->binding.symbol_sizes[i];
  }
  std::vector<NearestChange> out;
  for (const SymbolId symbol : symbols) {
    const int64_t size = planned->binding.symbol_sizes[symbol.index];
    // Twice the factor leaves room for a step.
    if (size <= 0 || size > std::numeric_limits<int64_t>::max() / kChangeFactor / 2) continue;
    ChangeSearch search(fusion, bound, limits, options, symbol, kind);
    if (auto change = search.smaller()) out.push_back(std::move(*change));
    if (auto change = search.larger()) out.push_back(std::move(*change));
  }
  return out;
}

}  // namespace sinter
