#include "runtime/driver/driver_api.h"

#include <array>
#include <cstdlib>

#include "runtime/driver/shared_library.h"

namespace sinter {
namespace {

constexpr std::string_view kInstallRemedy =
    "install the NVIDIA driver, or set SINTER_LIBCUDA to the path of libcuda.so.1; planning, "
    "emitting, compiling and interpreting work without it";

// Pointers into libcuda, one per line of driver_calls.def.
struct DriverTable {
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  DriverStatus(*snake) parameters = nullptr;
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL

  // Needed before and beside the interface's own calls.
  DriverStatus (*init)(unsigned int flags) = nullptr;
  DriverStatus (*error_name)(DriverStatus status, const char** name) = nullptr;
  DriverStatus (*error_string)(DriverStatus status, const char** text) = nullptr;
};

class DriverApi final : public DeviceDriver {
 public:
  explicit DriverApi(const DriverTable& table) : table_(table) {}

#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  [[nodiscard]] DriverStatus snake parameters override { return table_.snake arguments; }
#define SINTER_OPTIONAL_DRIVER_CALL(camel, snake, symbol, parameters, arguments)       \
  [[nodiscard]] DriverStatus snake parameters override {                               \
    return table_.snake != nullptr ? table_.snake arguments : DriverStatus::kNotFound; \
  }
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL

  [[nodiscard]] bool has(DriverCall call) const override {
    switch (call) {
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  case DriverCall::k##camel:                                            \
    return table_.snake != nullptr;
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
    }
    unreachable();
  }

  [[nodiscard]] std::string describe(DriverStatus status) const override {
    const char* name = nullptr;
    const char* text = nullptr;
    if (table_.error_name(status, &name) != DriverStatus::kSuccess ||
        table_.error_string(status, &text) != DriverStatus::kSuccess) {
      return fmt::format("driver status {}", static_cast<int>(status));
    }
    return fmt::format("{}: {}", name, text);
  }

 private:
  DriverTable table_;
};

}  // namespace

Result<std::unique_ptr<DeviceDriver>> open_driver(const std::string& library) {
  const char* from_environment = std::getenv("SINTER_LIBCUDA");
  std::array<std::string, 1> candidates = {library};
  if (library.empty()) {
    const bool is_set = from_environment != nullptr && *from_environment != '\0';
    candidates[0] = is_set ? from_environment : "libcuda.so.1";
  }
  auto opened = SharedLibrary::open(candidates, "the CUDA driver", kInstallRemedy);
  if (!opened) return fail(std::move(opened.error()));

  DriverTable table;
  std::string missing;
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  opened->resolve(symbol, table.snake, missing);
#define SINTER_OPTIONAL_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  opened->resolve(symbol, table.snake);
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
  opened->resolve("cuInit", table.init, missing);
  opened->resolve("cuGetErrorName", table.error_name, missing);
  opened->resolve("cuGetErrorString", table.error_string, missing);
  if (!missing.empty()) {
    return fail({.kind = ErrorKind::kDeviceError,
                 .message = fmt::format("{} lacks {}", opened->path(), missing),
                 .remedy = "use a driver that supports CUDA 11.8 or later"});
  }

  auto driver = std::make_unique<DriverApi>(table);
  const DriverStatus status = table.init(0);
  if (status != DriverStatus::kSuccess) {
    return fail({.kind = ErrorKind::kDeviceError,
                 .message = fmt::format("cuInit failed: {}", driver->describe(status)),
                 .remedy =
                     "check that a GPU is visible (nvidia-smi, CUDA_VISIBLE_DEVICES) and that "
                     "the kernel module matches the driver library"});
  }
  return driver;
}

Result<DeviceDriver*> cuda_driver() {
  static const Result<std::unique_ptr<DeviceDriver>> kDriver = open_driver();
  if (!kDriver) return fail(kDriver.error());
  return kDriver->get();
}

}  // namespace sinter
