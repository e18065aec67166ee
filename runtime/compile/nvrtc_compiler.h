#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_source.h"
#include "codegen/device/device_headers.h"
#include "runtime/cache/compiled_kernel.h"
#include "runtime/compile/architecture.h"

namespace sinter {

/// How kernels are compiled. Every field changes the code, so every field is part of a cache key.
struct CompileOptions {
  int cpp_standard = 17;   ///< 17 or 20.
  bool fast_math = false;  ///< --use_fast_math: flushes denormals, approximates division and roots.
  bool line_info = false;  ///< -lineinfo, for profilers.
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

/// The command line for an architecture.
std::vector<std::string> nvrtc_options(const Architecture& architecture,
                                       const CompileOptions& options);

/// NVRTC, opened at run time. Compiles to cubin without a GPU or a driver. A kernel sees its own
/// text and the embedded device headers, and no file on disk: what those two hold decides the
/// result. Copies share the opened library; calls may come from any thread and run at once.
class NvrtcCompiler {
 public:
  /// Opens `library` (path or name); empty means the value of SINTER_NVRTC, else libnvrtc.so.13,
  /// libnvrtc.so.12, then the same in the folders of a CUDA Toolkit (CUDA_HOME, /usr/local/cuda).
  /// Fails with kDeviceError when none opens or NVRTC is older than 12.0.
  static Result<NvrtcCompiler> open(const std::string& library = {});

  /// Compiles to a cubin for exactly this architecture and reads its resources. Fails with
  /// kDeviceError and the compile log, and with kUnsupported for an architecture that this NVRTC
  /// does not know.
  [[nodiscard]] Result<CompiledKernel> compile(
      const KernelSource& source, const Architecture& architecture,
      const CompileOptions& options = {},
      std::span<const EmbeddedHeader> headers = embedded_device_headers()) const;

  [[nodiscard]] int version_major() const;
  [[nodiscard]] int version_minor() const;
  /// Differs between any two builds of NVRTC, patch releases included.
  [[nodiscard]] const std::string& identity() const;
  /// The file that was opened.
  [[nodiscard]] const std::string& library_path() const;

 private:
  struct Library;
  explicit NvrtcCompiler(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
};

}  // namespace sinter
