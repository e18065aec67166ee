#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "tests/campaign/drawn_inputs.h"
#include "tests/campaign/graph_generator.h"
#include "tests/campaign/plain_evaluator.h"

namespace sinter {

/// One graph of the campaign, and how it is tried: all that its outcome depends on.
struct Case {
  uint64_t seed = 0;  ///< What it was drawn from; pins and schedules are drawn from it as well.
  GraphKind kind = GraphKind::kTame;
  Fusion fusion;
  ExtentValues extents{};
  std::string device = "H200";
  int64_t sm_count = 0;  ///< What the device has of its SMs, with their share of memory; 0: all.
  /// How many times slower the device computes and moves data, with as much less L2. Launches and
  /// waits take what they take, so that small graphs are planned as large ones are: in parts, in
  /// clusters, read once.
  int64_t slowness = 1;
  bool simplify = true;
  bool check_indices = false;
  bool cut_if_needed_only = false;  ///< Cutting::kNeeded.
  bool contract_always = false;     ///< Contracting::kKernels.
  int pinned_cuts = 0;              ///< Values that a second plan sends through memory.
  int pinned_joins = 0;             ///< Pairs of values that it has one kernel make.
  int followed_plans = 0;           ///< Plans of other sizes that a plan of these follows.
  int other_families = 0;           ///< Runs with a family's best candidate that was not chosen.
  int drawn_schedules = 1;          ///< Runs with a random legal schedule for every segment.
  DrawnKind data = DrawnKind::kUniform;
  uint64_t data_seed = 0;
};

Case draw_case(uint64_t seed);

/// Text that parse_case() reads: .fir with directives in comments, in the form of
/// tests/regressions.
std::string print_case(const Case& test_case);
Result<Case> parse_case(const std::string& text);

/// Something that must not be.
struct CaseFinding {
  std::string what;   ///< Which comparison or step: "kernels against the oracle", "plan", ...
  std::string where;  ///< "chosen schedules", "drawn schedules 2", "pinned cuts: ..."
  std::string text;
  std::string schedules{};  ///< .sched text of each segment, if kernels ran.
};

/// What a case came to.
struct Outcome {
  std::vector<CaseFinding> findings{};
  std::map<std::string, int64_t> refusals{};  ///< Graphs not planned, by the error's wording.
  std::map<std::string, int64_t> families{};  ///< Kernels run.
  std::map<std::string, int64_t> features{};  ///< What the graph and its plans have.
  int64_t runs = 0;                           ///< Executions of a plan.
  int64_t elements = 0;                       ///< Of outputs, compared with the oracle.
  int64_t open_elements = 0;                  ///< Of those, which the oracle's bound leaves open.

  void merge(const Outcome& other);
};

/// What tests ask of a check beyond its findings.
struct CheckOptions {
  /// Change results before they are compared, so that a difference is there to be found.
  std::function<void(std::vector<HostTensor>&)> spoil_run{};  ///< Outputs of kernels.
  std::function<void(std::vector<PlainTensor>&)> spoil_plain{};
  std::function<void(const Plan&)> see_plan{};  ///< Each that is run.
  bool executes = true;  ///< False: graphs are planned and schedules drawn, and nothing is run.
};

/// Evaluates the graph in the oracle and in the plain evaluator, and compares them; then plans it,
/// runs it in the interpreter as often as the case asks for, and compares each run with the oracle.
/// Depends on its arguments alone. Throws nothing: what throws is a finding.
Outcome check_case(const Case& test_case, const CheckOptions& options = {});

/// Threads of a kernel's grid, or the elements that its blocks leave for another kernel if there
/// are more of those: what the interpreter's time grows with where a graph is small.
int64_t threads_run(const SegmentFacts& facts, const ProposedSchedule& proposed);
/// Of those, up to which the campaign runs a schedule that it has drawn: about two seconds.
inline constexpr int64_t kMostThreadsRun = int64_t{1} << 21;

}  // namespace sinter
