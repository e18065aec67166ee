#include "runtime/prepared_launch.h"

#include <bit>
#include <limits>

namespace sinter {
namespace {

static_assert(std::endian::native == std::endian::little);

// Grid limit in x and threads per block of every generation since 3.0 (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability").
constexpr int64_t kMaxGridX = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxThreadsPerBlock = 1024;

Error out_of_range(const KernelSource& source, std::string_view what, int64_t value, int64_t limit,
                   std::string_view remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("kernel {}: {} is out of range", source.entry, what),
          .remedy = std::string(remedy),
          .measured = value,
          .limit = limit};
}

}  // namespace

int64_t blocks_of(const KernelSource& source) {
  SINTER_CHECK_OP(source.work_param, <, source.param_values.size());
  SINTER_CHECK_OP(source.work_per_block, >, 0);
  const int64_t work = source.param_values[source.work_param];
  const int64_t clusters =
      work / source.work_per_block + (work % source.work_per_block != 0 ? 1 : 0);
  return clusters * source.cluster_blocks;
}

Result<PreparedLaunch> PreparedLaunch::prepare(DeviceDriver& driver, FunctionHandle function,
                                               const KernelSource& source) {
  SINTER_CHECK_OP(source.params.size(), ==, source.param_values.size());
  const size_t arguments = source.buffers.size() + source.params.size();
  if (arguments > kMaxKernelArguments) {
    return fail(out_of_range(source, "the number of arguments", static_cast<int64_t>(arguments),
                             static_cast<int64_t>(kMaxKernelArguments),
                             "cut the fusion into smaller ones"));
  }
  const int64_t blocks = blocks_of(source);
  if (blocks < 0 || blocks > kMaxGridX) {
    return fail(out_of_range(source, "the number of blocks", blocks, kMaxGridX,
                             "use smaller extents, or a schedule with more work per block"));
  }
  if (source.threads < 1 || source.threads > kMaxThreadsPerBlock) {
    return fail(out_of_range(source, "the number of threads per block", source.threads,
                             kMaxThreadsPerBlock, "use a schedule with fewer threads"));
  }

  PreparedLaunch out(driver, function);
  out.config_.grid_x = static_cast<uint32_t>(blocks);
  out.config_.block_x = static_cast<uint32_t>(source.threads);
  out.config_.dynamic_shared_bytes =
      source.dynamic_shared ? static_cast<uint32_t>(source.shared_bytes) : 0;
  out.overlaps_previous_ = source.overlaps_previous;
  out.buffer_count_ = source.buffers.size();
  out.scalar_count_ = source.params.size();
  for (size_t i = 0; i < source.params.size(); ++i) {
    const int64_t value = source.param_values[i];
    if (source.params[i] == DType::kI32 && value != static_cast<int32_t>(value)) {
      return fail(out_of_range(source, fmt::format("scalar argument {}", i), value,
                               std::numeric_limits<int32_t>::max(), "use smaller extents"));
    }
    out.scalars_[i] = value;
  }
  return out;
}

Result<void> PreparedLaunch::launch(StreamHandle stream,
                                    std::span<const DevicePointer> buffers) const {
  if (buffers.size() != buffer_count_) [[unlikely]] {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "a launch got the wrong number of buffers",
                 .remedy = "pass one address per buffer of the kernel source",
                 .measured = static_cast<int64_t>(buffers.size()),
                 .limit = static_cast<int64_t>(buffer_count_)});
  }
  if (config_.grid_x == 0) return {};  // No work; the driver rejects an empty grid.

  // The driver copies what these point at before it returns, and writes through none of them.
  std::array<void*, kMaxKernelArguments> arguments;
  size_t count = 0;
  for (const DevicePointer& buffer : buffers) {
    arguments[count++] = const_cast<DevicePointer*>(&buffer);
  }
  for (size_t i = 0; i < scalar_count_; ++i) {
    arguments[count++] = const_cast<int64_t*>(&scalars_[i]);
  }
  LaunchConfig config = config_;
  config.stream = stream;
  static constexpr LaunchAttribute kOverlap{.id = kProgrammaticStreamSerialization, .value = 1};
  if (overlaps_previous_) {
    config.attributes = &kOverlap;
    config.attribute_count = 1;
  }
  return check(*driver_, DriverCall::kLaunch,
               driver_->launch(&config, function_, arguments.data(), nullptr),
               "launching a kernel");
}

}  // namespace sinter
