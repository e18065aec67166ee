// Reads a fusion from a .fir file, plans it and prints its kernel.
//
//   read_fir softmax.fir rows=8192 cols=4096

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <sinter/sinter.h>

namespace {

using sinter::Result;

Result<std::string> kernel_of(const std::string& fir, const sinter::ExtentValues& extents) {
  const sinter::FamilySet families = sinter::builtin_families();
  auto fusion = sinter::parse_fusion(fir);
  if (!fusion) return sinter::fail(fusion.error());
  auto plan = sinter::plan(*fusion, extents, *sinter::find_device("H200"), {.families = families});
  if (!plan) return sinter::fail(plan.error());
  const sinter::KernelPlan& kernel = plan->kernels.front();
  return sinter::emit(kernel.facts, kernel.chosen().schedule, families)
      .map([](const sinter::KernelSource& source) { return source.text; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: read_fir FILE [name=size ...]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const std::string fir{std::istreambuf_iterator<char>(file), {}};
  sinter::ExtentValues extents;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      fmt::print(stderr, "{} is not name=size\n", text);
      return 2;
    }
    extents[text.substr(0, equals)] = std::strtoll(text.c_str() + equals + 1, nullptr, 10);
  }
  const auto kernel = kernel_of(fir, extents);
  if (!kernel) {
    fmt::print(stderr, "{}\n", kernel.error().text());
    return 1;
  }
  fmt::print("{}", *kernel);
  return 0;
}
