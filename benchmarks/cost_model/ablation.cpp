#include "benchmarks/cost_model/ablation.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "fusion_ir/error.h"

namespace sinter::bench {
namespace {

/// A rate or a count so large that what it limits is free.
constexpr double kUnlimited = 1e30;
constexpr int kResamples = 2000;
constexpr uint64_t kSeed = 1;

std::pair<double, double> interval_of(const std::vector<double>& differences) {
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<size_t> any(0, differences.size() - 1);
  std::vector<double> means;
  for (int i = 0; i < kResamples; ++i) {
    double sum = 0.0;
    for (size_t k = 0; k < differences.size(); ++k) sum += differences[any(random)];
    means.push_back(sum / static_cast<double>(differences.size()));
  }
  std::ranges::sort(means);
  constexpr size_t kTail = kResamples / 40;  // 2.5 % at each end.
  return {100.0 * std::expm1(means[kTail]), 100.0 * std::expm1(means[means.size() - 1 - kTail])};
}

}  // namespace

std::vector<CostTerm> cost_terms() {
  return {
      {"write-back",
       "reads of normal priority alternate with write-backs",
       {{"normal_read_us_per_gb", 0.0}}},
      {"dirty lines", "reads evict lines that earlier kernels wrote", {{"dirty_line_bytes", 0.0}}},
      {"evict first", "reads that leave L2 first are slower", {{"evict_first_penalty", 0.0}}},
      {"room in L2",
       "little traffic stays in L2",
       {{"l2_room_share", 0.0}},
       "decides which small kernels ask for an L2 priority, which costs the next kernel"},
      {"second reads", "rows that are read again", {{"non_persistent.second_reads_share", 0.0}}},
      {"missed reads", "second reads that miss L1", {{"non_persistent.missed_reads_share", 0.0}}},
      {"cluster slots",
       "blocks of a cluster wait for slots",
       {{"non_persistent.cluster_gather_ns", 0.0}}},
      {"alternation",
       "a lone block alternates between loads and arithmetic",
       {{"non_persistent.alternation_share", 0.0}}},
      {"draining",
       "write-back overlaps the next wave",
       {{"non_persistent.draining_ns_per_byte", 0.0}}},
      {"instruction chain",
       "dependent instructions of a thread",
       {{"non_persistent.clocks_per_instruction", 0.0}}},
      {"instruction fetch",
       "code beyond the instruction cache",
       {{"text_bytes_per_clock", kUnlimited}}},
      {"late loads",
       "loads that ptxas moves behind the first use",
       {{"non_persistent.late_loads_share", 0.0}}},
      {"growth of overlap",
       "more resident blocks overlap more",
       {{"non_persistent.overlap_growth", 0.0}}},
      {"lone overlap", "warps of one block hide latency", {{"non_persistent.lone_overlap", 0.0}}},
      {"waiting compute",
       "little arithmetic hides the latency of reductions",
       {{"non_persistent.waiting_compute_share", 1e-9}}},
      {"warps at a barrier",
       "a barrier waits for the slowest warp",
       {{"non_persistent.warps_doubling_ns", 0.0}}},
      {"few warps", "few warps issue less", {{"non_persistent.warps_exponent", 0.0}}},
      {"rows in flight",
       "more rows in flight slow DRAM down",
       {{"non_persistent.row_doubling_share", 0.0}}},
      {"last wave",
       "part of the last block's path is hidden",
       {{"non_persistent.last_share", 1.0}}},
      {"idle latency",
       "a lone round of loads takes the idle latency",
       {{"non_persistent.idle_latency_share", 1.0}}},
      {"short runs", "short runs of a column strip open DRAM pages", {{"short_run_penalty", 0.0}}},
      {"cluster exchange",
       "exchanges across a cluster",
       {{"cluster_exchange_ns", 0.0}, {"cluster_doubling_ns", 0.0}}},
      {"cluster start", "blocks of a cluster start together", {{"cluster_start_us", 0.0}}},
      {"pipeline instructions", "instructions of a row", {{"pipeline_instruction_ns", 0.0}}},
      {"pipeline warps", "warps of an exchange", {{"pipeline_warp_ns", 0.0}}},
      {"pipeline registers", "consumers with few registers", {{"pipeline_register_limit", 0.0}}},
      {"pipeline weights", "vectors of weights from cache", {{"pipeline_weight_ns", 0.0}}},
      {"pipeline fill", "wait for the first row", {{"pipeline_fill_share", 0.0}}},
      {"pipeline starvation", "no load in flight", {{"pipeline_starved_penalty", 0.0}}},
      {"pipeline refill", "from release to the next row", {{"pipeline_refill_ns", 0.0}}},
      {"pipeline overfull", "more bytes in flight than help", {{"pipeline_overfull_penalty", 0.0}}},
      {"pipeline issue", "few consumer warps issue less", {{"pipeline_warps_exponent", 0.0}}},
      {"steps of contractions", "warps wait in each step", {{"matmul.step_clocks", 0.0}}},
      {"functions of fragments",
       "special functions behind products",
       {{"matmul.fragment_function_clocks", 0.0}}},
      {"inputs of fragments",
       "other inputs behind products",
       {{"matmul.fragment_input_clocks", 0.0}}},
      {"turns", "from the last product to the next one", {{"matmul.turn_clocks", 0.0}}},
      {"turned steps",
       "a warp group that multiplies alone waits in each step",
       {{"matmul.turned_step_clocks", 0.0}}},
      {"beside products", "work behind products is slower", {{"matmul.beside_products", 1.0}}},
      {"epilogue issue",
       "instructions of the warps of an epilogue",
       {{"matmul.epilogue_issue_per_clock", kUnlimited}}},
      {"row iterations",
       "an iteration over rows that are reduced",
       {{"matmul.row_iteration_clocks", 0.0}}},
      {"reduction steps",
       "lanes of an epilogue combine sums",
       {{"matmul.reduction_step_clocks", 0.0}}},
      {"remote stores", "stores to other blocks", {{"matmul.remote_store_clocks", 0.0}}},
      {"messages", "waits for other blocks through L2", {{"matmul.message_clocks", 0.0}}},
      {"waits of an epilogue", "other inputs of its rows", {{"matmul.input_wait_clocks", 0.0}}},
      {"idle SMs",
       "power that SMs without clusters leave to the others",
       {{"matmul.idle_sms_exponent", 0.0}}},
      {"narrow instructions",
       "instructions that read an operand again",
       {{"matmul.narrow_instructions", 1.0}}},
      {"handover",
       "tiles handed over to an epilogue",
       {{"matmul.handover_elements_per_clock", kUnlimited}}},
      {"tensor copies", "copies from L2", {{"matmul.copy_bytes_per_clock", kUnlimited}}},
      {"copy latency", "few stages of copies", {{"matmul.copy_latency_clocks", 0.0}}},
  };
}

DeviceLimits without(const CostTerm& term, DeviceLimits limits) {
  for (const auto& [name, value] : term.off) {
    const CostConstantField* field = find_cost_constant(name);
    SINTER_CHECK(field != nullptr, "there is no constant {}", name);
    field->of(limits.cost) = value;
  }
  return limits;
}

std::vector<TermWorth> ablate(const TimedSet& set) {
  const std::vector<ProblemAccuracy> with = accuracy_of(set, set.limits);
  const Accuracy mean = mean_of(with);
  std::vector<TermWorth> out;
  for (const CostTerm& term : cost_terms()) {
    const std::vector<ProblemAccuracy> off = accuracy_of(set, without(term, set.limits));
    std::vector<double> differences;
    for (size_t i = 0; i < with.size(); ++i) differences.push_back(off[i].behind - with[i].behind);
    const auto [low, high] = interval_of(differences);
    const Accuracy now = mean_of(off);
    out.push_back({.term = term.name,
                   .must_show = term.stays_because.empty(),
                   .without = now,
                   .error = now.error - mean.error,
                   .behind = now.behind - mean.behind,
                   .low = low,
                   .high = high,
                   .first_behind = now.first_behind - mean.first_behind});
  }
  return out;
}

}  // namespace sinter::bench
