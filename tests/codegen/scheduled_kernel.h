#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_traversal.h"
#include "runtime/check/host_execution.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/scheduler/facts_of.h"

namespace sinter {

/// A fusion of f32 tensors with constant extents that becomes one kernel by a given schedule, and
/// one that finishes it where that leaves partial results. It runs in the interpreter on whole
/// numbers of -4 to 4, whose sums and products are exact in any order, so that results are compared
/// with `==` against loops of the test's own.
class ScheduledKernel {
 public:
  /// Elements of tensors in row-major order.
  using Tensors = std::vector<std::vector<float>>;

  ScheduledKernel(const Fusion& fusion, const Schedule& schedule) {
    auto planned = plan(fusion, {}, *find_device("H200"),
                        {.families = builtin_families(),
                         .pin = {.schedule = schedule},
                         .cutting = Cutting::kNeeded});
    if (!planned) throw_error(planned.error());
    plan_ = std::move(*planned);
    for (size_t i = 0; i < plan_.fusion.inputs.size(); ++i) {
      const Value& value = plan_.fusion.values[plan_.fusion.inputs[i]];
      HostTensor& tensor =
          tensors_.emplace_back(HostTensor::zeros(value.type, Binding{}.sizes_of(value.shape)));
      std::vector<float>& values = inputs_.emplace_back(static_cast<size_t>(tensor.count()));
      for (int64_t at = 0; at < tensor.count(); ++at) {
        const int64_t number = (at * 7 + at / 11 + static_cast<int64_t>(i) * 3) % 9 - 4;
        values[static_cast<size_t>(at)] = static_cast<float>(number);
        tensor.set(at, static_cast<double>(number));
      }
    }
  }

  /// The same of .fir and .sched text.
  ScheduledKernel(std::string_view fir, std::string_view sched)
      : ScheduledKernel(parsed_fusion(fir), parsed_schedule(sched)) {}

  [[nodiscard]] const Plan& planned() const { return plan_; }
  [[nodiscard]] const SegmentFacts& facts() const { return plan_.kernels.front().facts; }
  /// The first kernel of the plan, with every invariant verified.
  [[nodiscard]] kir::Kernel lowered() const {
    auto lowered = lower(facts(), plan_.kernels.front().chosen().schedule, builtin_families(),
                         {.verify = true});
    if (!lowered) throw_error(lowered.error());
    return lowered->kernel;
  }

  /// Runs the plan with the warps of a block, and clusters, in the order of some seeds. Expects
  /// that no run has a finding (race, access outside of a tensor, deadlock), and that all outputs
  /// are those that `evaluate` makes of the inputs.
  void expect_outputs(const std::function<Tensors(const Tensors&)>& evaluate,
                      uint64_t seeds = 4) const {
    const Tensors expected = evaluate(inputs_);
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const auto run = execute_on_host(plan_, tensors_, builtin_families(), {.seed = seed});
      ASSERT_TRUE(run) << run.error().text();
      ASSERT_TRUE(run->report.clean())
          << run->report.findings.front().message << "\nseed " << seed << "\n"
          << text();
      ASSERT_EQ(run->outputs.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const HostTensor& output = run->outputs[i];
        for (int64_t at = 0; at < output.count(); ++at) {
          ASSERT_EQ(static_cast<float>(output.get(at)), expected[i].at(static_cast<size_t>(at)))
              << "output " << i << ", element " << at << ", seed " << seed << "\n"
              << text();
        }
      }
    }
  }

 private:
  [[nodiscard]] std::string text() const {
    return print(plan_.kernels.front().chosen().schedule) + print(lowered());
  }

  Plan plan_;
  std::vector<HostTensor> tensors_;
  Tensors inputs_;  ///< The same numbers.
};

/// Sums of the columns of a matrix.
inline std::vector<float> column_sums(const std::vector<float>& matrix, int64_t columns) {
  std::vector<float> sums(static_cast<size_t>(columns));
  for (size_t i = 0; i < matrix.size(); ++i) sums[i % sums.size()] += matrix[i];
  return sums;
}

/// Visits the statements of one kind in a block and all that it holds.
template <class Stmt>
void for_each(const kir::Kernel& kernel, const kir::Block& block,
              const std::function<void(const Stmt&)>& visit) {
  kir::for_each_stmt(kernel, block, [&](kir::StmtId id) {
    if (const auto* stmt = std::get_if<Stmt>(&kernel.stmts[id].kind)) visit(*stmt);
  });
}

/// Statements of one kind in a block and all that it holds, of those that `counts` admits.
template <class Stmt>
int64_t count_of(const kir::Kernel& kernel, const kir::Block& block,
                 const std::function<bool(const Stmt&)>& counts = {}) {
  int64_t count = 0;
  for_each<Stmt>(kernel, block,
                 [&](const Stmt& stmt) { count += !counts || counts(stmt) ? 1 : 0; });
  return count;
}

}  // namespace sinter
