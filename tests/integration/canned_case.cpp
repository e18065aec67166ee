#include "tests/integration/canned_case.h"

#include <algorithm>
#include <set>

namespace sinter {
namespace {

/// Name of the symbol that the innermost axis has; empty if none.
std::string_view width_symbol(const CannedFusion& canned) {
  for (const std::string_view symbol : {"cols", "pixels"}) {
    if (canned.small.contains(symbol)) return symbol;
  }
  return {};
}

}  // namespace

const std::vector<std::string>& fusions_in_parts() {
  static const std::vector<std::string> kNames = {"two_independent_chains"};
  return kNames;
}

bool runs_in_parts(const CannedFusion& canned) {
  return std::ranges::count(fusions_in_parts(), canned.name) > 0;
}

bool is_mean_of_nothing(const CannedFusion& canned, const ExtentValues& extents) {
  return canned.name == "batch_norm_statistics" && extents.at("rows") == 0;
}

bool contracts(const Fusion& fusion) {
  return std::ranges::any_of(
      fusion.ops, [](const Op& op) { return std::holds_alternative<ContractOp>(op.kind); });
}

std::vector<CannedFusion> supported_fusions() {
  std::vector<CannedFusion> out;
  for (const CannedFusion& canned : canned_fusions()) {
    if (!runs_in_parts(canned)) out.push_back(canned);
  }
  return out;
}

bool has_width(const CannedFusion& canned) { return !width_symbol(canned).empty(); }

ExtentValues extents_of_width(const CannedFusion& canned, int64_t columns, int64_t rows) {
  ExtentValues extents = canned.small;
  if (extents.contains("rows")) extents["rows"] = rows;
  if (const std::string_view symbol = width_symbol(canned); !symbol.empty())
    extents.find(symbol)->second = columns;
  // A leading dimension leaves room after every row, in whole vectors.
  constexpr int64_t kVector = 8;
  if (extents.contains("ld")) extents["ld"] = (columns / kVector + 2) * kVector;
  return extents;
}

testing::AssertionResult computes_the_oracle(const Fusion& fusion, const Plan& plan,
                                             const Schedule& schedule, uint64_t seed) {
  const SegmentFacts& facts = plan.kernels.front().facts;
  const auto context = [&] {
    return fmt::format("{} with extents [{}], seed {}\n{}", fusion.name,
                       fmt::join(plan.binding.symbol_sizes, ", "), seed, print(schedule));
  };
  auto lowered = lower(facts, schedule, builtin_families(), {.verify = true});
  if (!lowered) return testing::AssertionFailure() << context() << lowered.error().text();
  const FamilySet families = builtin_families();
  const auto estimate =
      find_family(families, schedule.family)->estimate(facts, schedule, plan.limits);
  if (!estimate) return testing::AssertionFailure() << context() << text_of(estimate.error());
  if (const int64_t bytes = kir::shared_bytes(lowered->kernel); bytes != estimate->shared_bytes) {
    return testing::AssertionFailure()
           << context() << bytes << " shared bytes, predicted " << estimate->shared_bytes;
  }
  const auto inputs = sample_inputs(fusion, plan.binding, seed);
  const auto check =
      check_on_host(fusion, plan.binding, plan, schedule, inputs, families, {.seed = seed});
  if (!check) return testing::AssertionFailure() << context() << check.error().text();
  if (!check->passed()) return testing::AssertionFailure() << context() << check->text();
  return testing::AssertionSuccess();
}

std::vector<Schedule> chosen_and_best_of_families(const KernelPlan& kernel) {
  std::vector<Schedule> out = {kernel.chosen().schedule};
  std::set<std::string> seen = {kernel.chosen().schedule.family};
  for (const ProposedSchedule& candidate : kernel.candidates) {
    if (seen.insert(candidate.schedule.family).second) out.push_back(candidate.schedule);
  }
  return out;
}

}  // namespace sinter
