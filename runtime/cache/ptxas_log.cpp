#include "runtime/cache/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sinter {
namespace {

// The number that stands right before `unit`: 32 for " registers" in "Used 32 registers, used ...".
std::optional<int64_t> number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, value);
  if (error != std::errc{} || stop != line.data() + end) return std::nullopt;
  return value;
}

// Sum over all constant banks of "380 bytes cmem[0], 64 bytes cmem[2]".
int64_t constant_bytes_in(std::string_view line) {
  constexpr std::string_view kUnit = " bytes cmem[";
  int64_t sum = 0;
  for (size_t at = line.find(kUnit); at != std::string_view::npos; at = line.find(kUnit)) {
    sum += number_before(line, kUnit).value_or(0);
    line.remove_prefix(at + kUnit.size());
  }
  return sum;
}

// The name between quotes, or after `prefix` to the end of the line.
std::optional<std::string_view> name_after(std::string_view line, std::string_view prefix) {
  const size_t at = line.find(prefix);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view name = line.substr(at + prefix.size());
  if (name.starts_with('\'')) {
    name.remove_prefix(1);
    name = name.substr(0, name.find('\''));
  }
  return name;
}

bool mentions(std::string_view line, std::string_view what) {
  return line.find(what) != std::string_view::npos;
}

// Reads the report line by line. Its order for each kernel is: "Compiling entry function 'k'",
// "Function properties for k", frame and spills, "Used ...", then the functions it calls.
class ReportReader {
 public:
  explicit ReportReader(std::string_view entry) : entry_(entry) {}

  void read(std::string_view line) {
    if (const auto name = name_after(line, "Compiling entry function ")) {
      kernel_ = *name;
    } else if (const auto properties_of = name_after(line, "Function properties for ")) {
      function_ = *properties_of;
    } else if (mentions(line, "bytes stack frame")) {
      read_frame(line);
    } else if (mentions(line, ": Used ") && kernel_ == entry_) {
      read_usage(line);
    } else if (mentions(line, " bytes gmem")) {
      resources_.constant_bytes += constant_bytes_in(line);
    } else if (mentions(line, "wgmma") && mentions(line, "serialized")) {
      resources_.wgmma_serialized = true;
    } else if (mentions(line, "minnctapersm will be ignored")) {
      resources_.launch_bounds_ignored |= mentions(line, entry_);
    }
  }

  [[nodiscard]] std::optional<CompiledResources> resources() const {
    return found_ ? std::optional(resources_) : std::nullopt;
  }

 private:
  // Functions that were not inlined are reported after all that call them, so they belong to every
  // kernel of the text; Sinter emits one kernel per text.
  void read_frame(std::string_view line) {
    const bool is_other_kernel = function_ == kernel_ && function_ != entry_;
    if (is_other_kernel) return;
    resources_.spill_store_bytes += number_before(line, " bytes spill stores").value_or(0);
    resources_.spill_load_bytes += number_before(line, " bytes spill loads").value_or(0);
    if (function_ == entry_) {
      resources_.stack_bytes =
          std::max(resources_.stack_bytes, number_before(line, " bytes stack frame").value_or(0));
    }
  }

  void read_usage(std::string_view line) {
    const auto registers = number_before(line, " registers");
    if (!registers) return;
    found_ = true;
    resources_.registers = *registers;
    resources_.barriers = number_before(line, " barriers").value_or(0);
    resources_.shared_bytes = number_before(line, " bytes smem").value_or(0);
    resources_.stack_bytes = std::max(
        resources_.stack_bytes, number_before(line, " bytes cumulative stack size").value_or(0));
    resources_.constant_bytes += constant_bytes_in(line);
  }

  std::string_view entry_;
  std::string_view kernel_;    // whose section this is
  std::string_view function_;  // whose properties were announced last
  bool found_ = false;
  CompiledResources resources_;
};

}  // namespace

Result<CompiledResources> parse_ptxas_log(std::string_view log, std::string_view entry) {
  ReportReader reader(entry);
  for (std::string_view rest = log; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    reader.read(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (const auto resources = reader.resources()) return *resources;
  return fail({.kind = ErrorKind::kDeviceError,
               .message = fmt::format("the compile log has no resource report for '{}'", entry),
               .remedy = "use an NVRTC that honours --ptxas-options=-v (12.0 or later)",
               .log = std::string(log)});
}

}  // namespace sinter
