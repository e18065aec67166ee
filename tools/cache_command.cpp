#include <chrono>

#include "runtime/cache/kernel_cache.h"
#include "scheduler/report/text_table.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

Result<KernelCacheOptions> cache_options(const CacheArguments& arguments) {
  KernelCacheOptions out = KernelCacheOptions::from_environment();
  if (!arguments.directory.empty()) out.directory = arguments.directory;
  if (!out.directory.empty()) return out;
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = "there is no kernel cache on disk",
               .remedy = "name it with --directory or SINTER_CACHE_DIR, and unset "
                         "SINTER_CACHE_DISABLE"});
}

double hours_since(std::filesystem::file_time_type time) {
  return std::chrono::duration<double, std::ratio<3600>>(
             std::filesystem::file_time_type::clock::now() - time)
      .count();
}

Result<Report> list(const DiskCache& disk) {
  auto files = disk.list();
  if (!files) return fail(files.error());
  using enum TextTable::Align;
  TextTable table({"key", "bytes", "kernel", "architecture", "registers", "hours since use"},
                  {kLeft, kRight, kLeft, kLeft});
  Report report{.json = {{"directory", disk.directory().string()}, {"entries", Json::array()}}};
  for (const CacheFile& file : *files) {
    // load() would count as a use and remove what is damaged.
    const CacheLoad found = disk.inspect(file.key);
    if (found && !*found) continue;  // Removed since.
    const CompiledKernel* kernel = found ? &**found : nullptr;
    const double hours = hours_since(file.last_used);
    table.row({file.key.hex(), fmt::format("{}", file.bytes),
               kernel                  ? kernel->entry
               : found.error().damaged ? "damaged"
                                       : "not readable",
               kernel ? kernel->architecture : "",
               kernel ? fmt::format("{}", kernel->resources.registers) : "",
               fmt::format("{:.1f}", hours)});
    Json entry = {{"key", file.key.hex()},
                  {"bytes", file.bytes},
                  {"readable", kernel != nullptr},
                  {"hours_since_use", hours}};
    if (kernel) {
      entry["kernel"] = kernel->entry;
      entry["architecture"] = kernel->architecture;
      entry["resources"] = to_json(kernel->resources);
    }
    report.json["entries"].push_back(std::move(entry));
  }
  report.text = table.empty() ? "the cache is empty\n" : table.text(0);
  return report;
}

Result<Report> verify(const DiskCache& disk) {
  auto damaged = disk.verify();
  if (!damaged) return fail(damaged.error());
  Report report{.json = {{"directory", disk.directory().string()}, {"damaged", Json::array()}},
                .passed = damaged->empty()};
  for (const DamagedFile& file : *damaged) {
    report.text += fmt::format("{}: {}\n", file.file.key.hex(), file.reason);
    report.json["damaged"].push_back({{"key", file.file.key.hex()}, {"reason", file.reason}});
  }
  report.text += fmt::format("{} damaged\n", damaged->size());
  return report;
}

Result<Report> clear(const DiskCache& disk) {
  auto removed = disk.clear();
  if (!removed) return fail(removed.error());
  return Report{.text = fmt::format("removed {} from {}\n", *removed, disk.directory().string()),
                .json = {{"directory", disk.directory().string()}, {"removed", *removed}}};
}

Result<Report> stats(const DiskCache& disk, int64_t max_bytes) {
  auto files = disk.list();
  if (!files) return fail(files.error());
  int64_t bytes = 0;
  for (const CacheFile& file : *files) bytes += file.bytes;
  return Report{
      .text = fmt::format("{}: {} kernels, {} of {} {}\n", disk.directory().string(), files->size(),
                          bytes_text(static_cast<double>(bytes)),
                          bytes_text(static_cast<double>(max_bytes)),
                          bar(static_cast<double>(bytes), static_cast<double>(max_bytes))),
      .json = {{"directory", disk.directory().string()},
               {"entries", files->size()},
               {"bytes", bytes},
               {"max_bytes", max_bytes}}};
}

}  // namespace

Result<Report> cache_command(const CacheArguments& arguments) {
  auto cache = cache_options(arguments);
  if (!cache) return fail(cache.error());
  const DiskCache disk(cache->directory, cache->max_disk_bytes);
  if (arguments.action == "list") return list(disk);
  if (arguments.action == "verify") return verify(disk);
  if (arguments.action == "clear") return clear(disk);
  return stats(disk, cache->max_disk_bytes);
}

}  // namespace sinter::tool
