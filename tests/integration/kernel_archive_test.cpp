// The text of kernels, as hashes: a change that is meant to leave kernels alone leaves the archive
// alone, and any other shows which kernels it changes. kernel_archive.txt is rewritten by
//
//     SINTER_UPDATE_GOLDEN=1 sinter_integration_tests --gtest_filter='KernelArchive.*'

#include <gtest/gtest.h>
#include <xxhash.h>

#include <array>

#include "codegen/cuda/emit.h"
#include "codegen/device/device_headers.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "tests/golden_file.h"
#include "tests/integration/suite_cases.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/training_layers.h"

namespace sinter::kernel_archive_test {

constexpr const char* kPath = SINTER_TEST_DATA_DIR "/integration/kernel_archive.txt";
constexpr std::string_view kHeader =
    "# XXH3-64 hashes of emitted CUDA text. Of a graph: its extents, the device, and a hash and a "
    "family\n"
    "# for each kernel of its plan, in order; \"drawn\": under random schedules. Of a header that "
    "kernels\n"
    "# include: its name. Rewritten by\n"
    "# SINTER_UPDATE_GOLDEN=1 sinter_integration_tests --gtest_filter='KernelArchive.*'\n";

std::string hash_of_text(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::string kernel_text(const SegmentFacts& facts, const Schedule& schedule) {
  const auto source = emit(facts, schedule);
  if (!source) return "refused " + schedule.family;
  return hash_of_text(source->text) + " " + schedule.family;
}

std::string text_of(const ExtentValues& extents) {
  std::string out;
  for (const auto& [name, value] : extents) out += fmt::format(" {}={}", name, value);
  return out;
}

/// A line for a graph's plan: kernels that repeat others are named once.
std::string planned_line(const std::string& name, const Fusion& fusion, const ExtentValues& extents,
                         const char* device) {
  std::string out = fmt::format("{}{} on {}:", name, text_of(extents), device);
  const auto planned = plan(fusion, extents, *find_device(device));
  if (!planned) return out + " refused\n";
  for (const KernelPlan& kernel : planned->kernels) {
    if (!kernel.same_as) out += " " + kernel_text(kernel.facts, kernel.chosen().schedule) + ",";
  }
  out.back() = '\n';
  return out;
}

std::string of_canned_graphs() {
  std::string out;
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = canned.build();
    out += planned_line(canned.name, fusion, canned.small, "H100");
    for (const char* device : {"H100", "A100"})
      out += planned_line(canned.name, fusion, canned.large, device);
  }
  return out;
}

std::string of_suite() {
  std::string out;
  for (const SuiteCase& item : suite_cases()) {
    const Fusion fusion = item.fusion();
    for (const std::vector<int64_t>& shape : item.shapes)
      out += planned_line(item.name + " " + item.type, fusion, item.values(shape), "H100");
  }
  return out;
}

std::string of_layers() {
  std::string out;
  const auto add = [&](const char* name, const Fusion& fusion) {
    out += planned_line(name, fusion, {}, "H100");
  };
  add("llama_layer_forward", llama_layer_forward(kLlama3With8B));
  add("llama_layer_backward", llama_layer_backward(kLlama3With8B));
  add("gpt2_layer_forward", gpt2_layer_forward(kGpt2));
  add("gpt2_layer_backward", gpt2_layer_backward(kGpt2));
  add("bert_layer_forward", bert_layer_forward(kBertBase));
  add("bert_layer_backward", bert_layer_backward(kBertBase));
  add("language_model_loss", language_model_loss(4096, 32000));
  const std::array<Sizes, 3> shapes = {{{4096, 4096}, {11008, 4096}, {33}}};
  add("adam", adam_over(shapes));
  add("adam in place", adam_over(shapes, {}, DType::kF32, Updates::kInPlace));
  return out;
}

/// Of a graph's first kernel under schedules that no planner would choose: several of each family.
std::string drawn_line(const CannedFusion& canned, const ExtentValues& extents) {
  constexpr std::array kFamilies = {"multi_wave", "looped",    "warp_specialised", "column",
                                    "pointwise",  "transpose", "multi_tensor",     "matmul"};
  constexpr uint64_t kSeeds = 3;
  const DeviceLimits limits = *find_device("H100");
  std::string out = fmt::format("{}{} drawn:", canned.name, text_of(extents));
  const auto planned = plan(canned.build(), extents, limits);
  if (!planned || planned->kernels.empty()) return out + " none\n";
  const SegmentFacts& facts = planned->kernels.front().facts;
  for (const char* family : kFamilies) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      if (const auto drawn = random_schedule(facts, limits, builtin_families(), seed, family))
        out += " " + kernel_text(facts, drawn->schedule) + ",";
    }
  }
  out.back() = '\n';
  return out;
}

std::string of_drawn_schedules() {
  std::string out;
  for (const CannedFusion& canned : canned_fusions())
    out += drawn_line(canned, canned.small) + drawn_line(canned, canned.large);
  return out;
}

std::string all_kernels() {
  std::string out(kHeader);
  for (const EmbeddedHeader& header : embedded_device_headers())
    out += fmt::format("header {}: {}\n", header.name, hash_of_text(header.text));
  return out + of_canned_graphs() + of_suite() + of_layers() + of_drawn_schedules();
}

TEST(KernelArchive, HasTheKernelsOfToday) { expect_golden(kPath, all_kernels()); }

}  // namespace sinter::kernel_archive_test
