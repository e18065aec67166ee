// A linear layer and the RMS norm behind it, planned for an H100 as one kernel. Prints what the
// plan decided and weighed, and the kernel's schedule with its budgets.
#include <fmt/format.h>

#include <sinter/sinter.h>

int main() {
  sinter::FusionBuilder b("linear_rms_norm");
  const auto tokens = b.symbol("tokens"), depth = b.symbol("depth"), width = b.symbol("width");
  const auto x = b.input(sinter::DType::kBF16, {tokens, depth}, "x");
  const auto w = b.input(sinter::DType::kBF16, {width, depth}, "w");
  const auto weight = b.input(sinter::DType::kBF16, {width}, "weight");
  const auto product = b.cast(b.linear(x, w), sinter::DType::kBF16);
  b.output(sinter::rms_norm(b, product, {.output = sinter::DType::kBF16, .weight = weight}).y, "y");

  const auto plan =
      sinter::plan(b.build(), {{"tokens", 131072}, {"depth", 512}, {"width", 512}},
                   *sinter::find_device("H100"), {.families = sinter::builtin_families()});
  if (!plan) {
    fmt::print(stderr, "{}\n", plan.error().text());
    return 1;
  }
  for (const sinter::Decision& decision : plan->decisions)
    fmt::print("{}: {}, because {}\n", decision.question, decision.chosen, decision.because);
  for (const sinter::KernelPlan& kernel : plan->kernels) {
    const sinter::ResourceEstimate& needs = kernel.chosen().estimate;
    fmt::print("{}{} registers of {}, {} shared bytes, {:.1f} us\n",
               sinter::print(kernel.chosen().schedule), needs.registers, needs.register_cap,
               needs.shared_bytes, kernel.chosen().predicted.total_us);
  }
  return plan->kernels.size() == 1 ? 0 : 1;
}
