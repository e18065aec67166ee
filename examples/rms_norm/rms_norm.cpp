// Plans an RMS norm for an H200 and prints its kernel. README.md shows this program.
#include <fmt/format.h>

#include <sinter/sinter.h>

int main() {
  sinter::FusionBuilder b("rms_norm");
  const auto rows = b.symbol("rows"), cols = b.symbol("cols");
  const auto x = b.input(sinter::DType::kBF16, {rows, cols}, "x");
  const auto weight = b.input(sinter::DType::kBF16, {cols}, "weight");
  b.output(sinter::rms_norm(b, x, {.output = sinter::DType::kBF16, .weight = weight}).y, "y");

  const sinter::FamilySet families = sinter::builtin_families();
  const auto plan = sinter::plan(b.build(), {{"rows", 8192}, {"cols", 8192}},
                                 *sinter::find_device("H200"), {.families = families});
  if (!plan) {
    fmt::print(stderr, "{}\n", plan.error().text());
    return 1;
  }
  const sinter::KernelPlan& kernel = plan->kernels.front();
  fmt::print("{}", sinter::emit(kernel.facts, kernel.chosen().schedule, families).value().text);
}
