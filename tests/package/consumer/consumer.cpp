// Takes a graph from text to a checked result, through each library of the package: reads,
// simplifies and prints it, plans and explains it, emits its kernel, runs that in the interpreter,
// and loads what it can of what a machine with a GPU has.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include <sinter/sinter.h>

namespace {

constexpr char kText[] = R"(fusion @row_sum extents(rows, cols) {
  %v0 x : f32[rows, cols] = input
  %v1 y : f32[rows] = reduce.sum %v0 over(1)
  return %v1
}
)";

int fail(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  return 1;
}

int check(const sinter::Fusion& fusion, const sinter::Plan& plan,
          const sinter::FamilySet& families) {
  const auto inputs = sinter::sample_inputs(fusion, plan.binding, 1);
  const auto check = sinter::check_on_host(fusion, plan.binding, plan, inputs, families);
  if (!check) return fail(check.error().text());
  return check->passed() ? 0 : fail(check->text());
}

}  // namespace

int main() {
  const auto fusion = sinter::parse_fusion(kText);
  if (!fusion) return fail(fusion.error().text());
  if (sinter::print(*fusion) != kText) return fail(sinter::print(*fusion));

  const sinter::FamilySet families = sinter::builtin_families();
  const auto plan = sinter::plan(*fusion, {{"rows", 6}, {"cols", 64}}, *sinter::find_device("H200"),
                                 {.families = families});
  if (!plan) return fail(plan.error().text());
  if (sinter::explain(*plan).empty() || sinter::to_svg(*plan).empty()) return fail("says nothing");
  if (!sinter::diff(*plan, *plan).equal()) return fail("a plan differs from itself");

  const sinter::KernelPlan& segment = plan->kernels.front();
  const auto kernel = sinter::emit(segment.facts, segment.chosen().schedule, families);
  if (!kernel) return fail(kernel.error().text());
  if (sinter::embedded_device_headers().empty()) return fail("there are no device headers");
  if (const int failed = check(*fusion, *plan, families)) return failed;

  // What this machine has of a GPU's software may be missing; then an error says so.
  sinter::KernelCache cache({});
  if (const auto compiler = sinter::NvrtcCompiler::open()) {
    const auto compiled = sinter::compile_plan(*plan, *compiler, cache);
    if (!compiled) return fail(compiled.error().text());
  }
  const auto driver = sinter::open_driver();
  if (!driver && driver.error().text().empty()) return fail("no driver, and no reason");
  const auto database =
      sinter::TuningDatabase::open("/nonexistent/tuned.db", sinter::TuningDatabase::Mode::kRead);
  if (database || database.error().text().empty()) return fail("no database, and no reason");
  fmt::print("{} bytes of CUDA\n", kernel->text.size());
  return 0;
}
