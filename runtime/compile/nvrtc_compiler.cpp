#include "runtime/compile/nvrtc_compiler.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "runtime/driver/shared_library.h"

namespace sinter {
namespace {

// nvrtcResult, as far as Sinter tells codes apart.
enum class NvrtcStatus : int { kSuccess = 0, kInvalidOption = 5, kCompilation = 6 };
struct NvrtcProgram;
using ProgramHandle = NvrtcProgram*;

// Every NVRTC function that is used: member, symbol, parameters.
#define SINTER_NVRTC_FUNCTIONS(X)                                                   \
  X(version, "nvrtcVersion", (int* major, int* minor))                              \
  X(create, "nvrtcCreateProgram",                                                   \
    (ProgramHandle * program, const char* text, const char* name, int header_count, \
     const char* const* headers, const char* const* header_names))                  \
  X(destroy, "nvrtcDestroyProgram", (ProgramHandle * program))                      \
  X(compile, "nvrtcCompileProgram",                                                 \
    (ProgramHandle program, int option_count, const char* const* options))          \
  X(log_size, "nvrtcGetProgramLogSize", (ProgramHandle program, size_t * bytes))    \
  X(log, "nvrtcGetProgramLog", (ProgramHandle program, char* log))                  \
  X(cubin_size, "nvrtcGetCUBINSize", (ProgramHandle program, size_t * bytes))       \
  X(cubin, "nvrtcGetCUBIN", (ProgramHandle program, char* cubin))

constexpr std::string_view kInstallRemedy =
    "install the CUDA Toolkit 12 or 13, or set SINTER_NVRTC to the path of libnvrtc.so; planning, "
    "emitting and interpreting work without it";

// Where NVRTC is looked for, in order.
std::vector<std::string> default_candidates() {
  constexpr std::string_view kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
  std::vector<std::string> out;
  for (const auto name : kNames) out.emplace_back(name);
  std::vector<std::string> toolkits;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
    toolkits.emplace_back(home);
  }
  toolkits.emplace_back("/usr/local/cuda");
  for (const std::string& toolkit : toolkits) {
    for (const auto name : kNames) {
      out.push_back(fmt::format("{}/lib64/{}", toolkit, name));
      out.push_back(fmt::format("{}/lib/{}", toolkit, name));
    }
  }
  return out;
}

}  // namespace

struct NvrtcCompiler::Library {
#define SINTER_MEMBER(member, symbol, parameters) NvrtcStatus(*member) parameters = nullptr;
  SINTER_NVRTC_FUNCTIONS(SINTER_MEMBER)
#undef SINTER_MEMBER
  const char* (*error_string)(NvrtcStatus status) = nullptr;

  int major = 0;
  int minor = 0;
  std::string identity;
  std::string path;
};

std::vector<std::string> nvrtc_options(const Architecture& architecture,
                                       const CompileOptions& options) {
  std::vector<std::string> out = {
      fmt::format("--gpu-architecture={}", architecture.name()),
      fmt::format("--std=c++{}", options.cpp_standard),
      "--device-as-default-execution-space",
      "--ptxas-options=-v",
  };
  if (options.fast_math) out.emplace_back("--use_fast_math");
  if (options.line_info) out.emplace_back("--generate-line-info");
  return out;
}

Result<NvrtcCompiler> NvrtcCompiler::open(const std::string& library) {
  const char* from_environment = std::getenv("SINTER_NVRTC");
  std::vector<std::string> candidates;
  if (!library.empty()) {
    candidates = {library};
  } else if (from_environment != nullptr && *from_environment != '\0') {
    candidates = {from_environment};
  } else {
    candidates = default_candidates();
  }
  auto opened = SharedLibrary::open(candidates, "NVRTC", kInstallRemedy);
  if (!opened) return fail(std::move(opened.error()));

  auto out = std::make_shared<Library>();
  std::string missing;
#define SINTER_BIND(member, symbol, parameters) opened->resolve(symbol, out->member, missing);
  SINTER_NVRTC_FUNCTIONS(SINTER_BIND)
#undef SINTER_BIND
  opened->resolve("nvrtcGetErrorString", out->error_string, missing);
  if (!missing.empty()) {
    return fail({.kind = ErrorKind::kDeviceError,
                 .message = fmt::format("{} lacks {}", opened->path(), missing),
                 .remedy = std::string(kInstallRemedy)});
  }
  if (out->version(&out->major, &out->minor) != NvrtcStatus::kSuccess || out->major < 12) {
    return fail(
        {.kind = ErrorKind::kDeviceError,
         .message = fmt::format("{} is NVRTC {}.{}", opened->path(), out->major, out->minor),
         .remedy = std::string(kInstallRemedy),
         .measured = out->major,
         .limit = 12});
  }
  out->path = opened->path();
  out->identity = fmt::format("{}.{} {}", out->major, out->minor, opened->identity());
  return NvrtcCompiler(std::move(out));
}

int NvrtcCompiler::version_major() const { return library_->major; }
int NvrtcCompiler::version_minor() const { return library_->minor; }
const std::string& NvrtcCompiler::identity() const { return library_->identity; }
const std::string& NvrtcCompiler::library_path() const { return library_->path; }

Result<CompiledKernel> NvrtcCompiler::compile(const KernelSource& source,
                                              const Architecture& architecture,
                                              const CompileOptions& options,
                                              std::span<const EmbeddedHeader> headers) const {
  const Library& nvrtc = *library_;
  const auto start = std::chrono::steady_clock::now();
  const auto failed = [&](std::string_view step, NvrtcStatus status, std::string log) {
    return fail({.kind = ErrorKind::kDeviceError,
                 .message = fmt::format("{} of kernel {} for {} failed: {}", step, source.entry,
                                        architecture.name(), nvrtc.error_string(status)),
                 .remedy = "report the kernel text and the log below; the text is in the plan",
                 .log = std::move(log)});
  };

  // Names and texts must end in a zero; string_views need not.
  std::vector<std::string> header_strings;
  header_strings.reserve(2 * headers.size());
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const EmbeddedHeader& header : headers) {
    names.push_back(header_strings.emplace_back(header.name).c_str());
    texts.push_back(header_strings.emplace_back(header.text).c_str());
  }
  ProgramHandle program = nullptr;
  NvrtcStatus status =
      nvrtc.create(&program, source.text.c_str(), fmt::format("{}.cu", source.entry).c_str(),
                   static_cast<int>(headers.size()), texts.data(), names.data());
  if (status != NvrtcStatus::kSuccess) return failed("nvrtcCreateProgram", status, {});
  const auto destroy = [&nvrtc](ProgramHandle handle) { (void)nvrtc.destroy(&handle); };
  const std::unique_ptr<NvrtcProgram, decltype(destroy)> owner(program, destroy);

  const std::vector<std::string> option_strings = nvrtc_options(architecture, options);
  std::vector<const char*> arguments;
  for (const std::string& option : option_strings) arguments.push_back(option.c_str());
  // Since CUDA 13 NVRTC may answer from a cache of its own, which has no resource report.
  if (nvrtc.major >= 13) arguments.push_back("--no-cache");
  status = nvrtc.compile(program, static_cast<int>(arguments.size()), arguments.data());

  CompiledKernel out = {.entry = source.entry,
                        .architecture = architecture.name(),
                        .cubin = {},
                        .log = {},
                        .resources = {},
                        .compile_ms = 0.0};
  size_t log_bytes = 0;
  if (nvrtc.log_size(program, &log_bytes) == NvrtcStatus::kSuccess && log_bytes > 1) {
    out.log.resize(log_bytes);
    if (nvrtc.log(program, out.log.data()) != NvrtcStatus::kSuccess) out.log.clear();
    while (out.log.ends_with('\0')) out.log.pop_back();
  }
  if (status == NvrtcStatus::kInvalidOption) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("NVRTC {}.{} does not accept {} for kernel {}", nvrtc.major,
                                        nvrtc.minor, fmt::join(option_strings, " "), source.entry),
                 .remedy = "use a newer CUDA Toolkit, or another architecture",
                 .log = std::move(out.log)});
  }
  if (status != NvrtcStatus::kSuccess) return failed("compiling", status, std::move(out.log));

  size_t cubin_bytes = 0;
  status = nvrtc.cubin_size(program, &cubin_bytes);
  if (status == NvrtcStatus::kSuccess) {
    out.cubin.resize(cubin_bytes);
    status = nvrtc.cubin(program, out.cubin.data());
  }
  if (status != NvrtcStatus::kSuccess) return failed("reading the cubin", status, out.log);

  auto resources = parse_ptxas_log(out.log, source.entry);
  if (!resources) return fail(std::move(resources.error()));
  out.resources = *resources;
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  out.compile_ms = elapsed.count();
  return out;
}

}  // namespace sinter
