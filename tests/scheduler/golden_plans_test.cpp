// What is planned for norms, softmax, losses and gradients on three devices, as text to be reviewed
// when it changes. golden_plans.txt is rewritten by
//
//     SINTER_UPDATE_GOLDEN=1 sinter_scheduler_tests --gtest_filter='GoldenPlans.*'

#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_verifier.h"
#include "tests/golden_file.h"
#include "tests/support/plan_matchers.h"

namespace sinter::golden_plans_test {

constexpr const char* kPath = SINTER_TEST_DATA_DIR "/scheduler/golden_plans.txt";

constexpr std::string_view kHeader =
    "# Plans by fusion, rows x columns and device, with predicted microseconds in all. Then a "
    "line\n"
    "# for each kernel: its family, threads x rows of a block, vector width, batches loaded at "
    "once,\n"
    "# blocks promised to an SM, what only some schedules have, what is kept, and its own time.\n"
    "# Rewritten by SINTER_UPDATE_GOLDEN=1 sinter_scheduler_tests --gtest_filter='GoldenPlans.*'\n";

constexpr std::array kFusions = {
    "layer_norm_backward",  "rms_norm_backward", "rms_norm_backward_f32",
    "dyt_backward",         "softmax_backward",  "softmax_backward_bias",
    "bias_gradient",        "rms_norm",          "layer_norm",
    "fused_add_layer_norm", "softmax",           "log_softmax",
    "cross_entropy",        "row_and_total_loss"};
/// Few rows, rows that are no whole vectors, rows that fill the device, and wide ones.
constexpr std::array<std::pair<int64_t, int64_t>, 4> kSizes = {
    {{17, 4096}, {2048, 1543}, {8192, 4096}, {4096, 16384}}};
constexpr std::array kDevices = {"H200", "A100", "L4"};

/// To a tenth. Times that lie on a border but for the last bits, which compilers may differ in, go
/// up.
std::string microseconds(double us) {
  constexpr double kLastBits = 1e-6;
  return fmt::format("{:.1f} us", std::round((us + kLastBits) * 10.0) / 10.0);
}

/// ", 2 in register, 1 in reload".
std::string kept_text(const Schedule& schedule) {
  std::string out;
  for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
    const auto count = std::ranges::count(schedule.kept, residency, &KeptValue::residency);
    if (count > 0) out += fmt::format(", {} in {}", count, text_of(residency));
  }
  return out;
}

std::string kernel_line(const ProposedSchedule& chosen) {
  const Schedule& schedule = chosen.schedule;
  std::string out = fmt::format("  {} {} x {}, vector {}, unroll {}, {} per SM", schedule.family,
                                schedule.threads_per_row, schedule.rows_per_block,
                                schedule.vector_width, schedule.unroll, schedule.min_blocks_per_sm);
  if (schedule.persistent_blocks != 0)
    out += fmt::format(", {} persistent", schedule.persistent_blocks);
  if (schedule.row_access != RowAccess::kAligned)
    out += fmt::format(", {}", text_of(schedule.row_access));
  out += further_numbers(schedule) + kept_text(schedule);
  return fmt::format("{}: {}\n", out, microseconds(chosen.predicted.total_us));
}

std::string all_plans() {
  std::string out(kHeader);
  for (const char* fusion : kFusions) {
    for (const auto& [rows, columns] : kSizes) {
      out += "\n";
      for (const char* device : kDevices) {
        const Plan planned =
            plan_canned(fusion, {{"rows", rows}, {"cols", columns}}, device).value();
        EXPECT_THAT(plan_violations(planned), testing::IsEmpty())
            << fusion << " " << rows << " x " << columns << " on " << device;
        out += fmt::format("{} {} x {} on {}: {}\n", fusion, rows, columns, device,
                           microseconds(planned.predicted_us()));
        for (const KernelPlan& kernel : planned.kernels) out += kernel_line(kernel.chosen());
      }
    }
  }
  return out;
}

TEST(GoldenPlans, AreThoseReviewed) { expect_golden(kPath, all_plans()); }

}  // namespace sinter::golden_plans_test
