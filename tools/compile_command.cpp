#include <filesystem>
#include <fstream>

#include "runtime/json/plan_json.h"
#include "scheduler/report/text_table.h"
#include "tools/command.h"
#include "tools/device_session.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

std::string_view text_of(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::kMemory:
      return "memory";
    case KernelOrigin::kDisk:
      return "disk cache";
    case KernelOrigin::kCompiled:
      return "compiled";
    case KernelOrigin::kLibrary:
      return "library";
  }
  unreachable();
}

/// Writes a kernel's cubin into the folder; gives the file's name.
Result<std::string> write_cubin(const std::string& folder, KernelId id,
                                const CompiledKernel& kernel) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::filesystem::path path =
      std::filesystem::path(folder) / fmt::format("{}_{}.cubin", id.index, kernel.entry);
  std::ofstream file(path, std::ios::binary);
  file << kernel.cubin;
  file.close();
  if (file) return path.string();
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("cannot write '{}'", path.string()),
               .remedy = "check that its folder is writable"});
}

}  // namespace

Result<Report> compile_command(const CompileArguments& arguments) {
  auto planned = load_planned(arguments.problem);
  if (!planned) return fail(planned.error());
  if (arguments.threads < 1)
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("{} threads cannot compile", arguments.threads),
                 .remedy = "give at least 1"});
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  KernelCache cache(cache_options());
  auto compiled = compile_plan(std::move(planned->plan), *compiler, cache,
                               {.families = planned->families, .threads = arguments.threads});
  if (!compiled) return fail(compiled.error());

  using enum TextTable::Align;
  TextTable table({"kernel", "registers", "spilled", "shared", "cubin", "from", "predicted us"},
                  {kLeft});
  Report report{.json = to_json(*compiled)};
  std::string written;
  for (const KernelId id : compiled->kernels.ids()) {
    const KernelBuild& kernel = compiled->kernels[id];
    const CompiledResources& resources = kernel.kernel->resources;
    table.row({kernel.source.entry, fmt::format("{}", resources.registers),
               fmt::format("{} B", resources.spill_store_bytes + resources.spill_load_bytes),
               bytes_text(static_cast<double>(resources.shared_bytes)),
               bytes_text(static_cast<double>(kernel.kernel->cubin.size())),
               std::string(text_of(kernel.origin)),
               fmt::format("{:.1f}", kernel.chosen.predicted.total_us)});
    if (arguments.output.empty()) continue;
    auto path = write_cubin(arguments.output, id, *kernel.kernel);
    if (!path) return fail(path.error());
    report.json["compiled"][id.index]["cubin"] = *path;
    written += fmt::format("written {}\n", *path);
  }
  report.text = fmt::format("{} for {} ({}){}\n{}{}", compiled->plan.fusion.name,
                            compiled->plan.limits.name, architecture_of(compiled->plan.limits),
                            compiled->kernels.empty() ? ": the plan has no kernels" : "",
                            compiled->kernels.empty() ? "" : table.text(), written);
  return report;
}

}  // namespace sinter::tool
