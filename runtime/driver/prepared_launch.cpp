#include "runtime/driver/prepared_launch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

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
  return clusters * source.cluster_size * source.team_size;
}

Result<PreparedLaunch> PreparedLaunch::prepare(DeviceDriver& driver, FunctionHandle function,
                                               const KernelSource& source) {
  SINTER_CHECK_OP(source.params.size(), ==, source.param_values.size());
  if (!source.tensor_maps.empty() && !driver.has(DriverCall::kTensorMapEncode)) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("kernel {} has tensor maps, and the driver lacks {}",
                                        source.entry, name_of(DriverCall::kTensorMapEncode)),
                 .remedy = "use a driver that supports CUDA 12.0 or later, or a schedule without "
                           "tensor copies"});
  }
  const size_t arguments = source.buffers.size() + source.params.size() +
                           (source.table.empty() ? 0 : 1) + source.tensor_maps.size();
  if (arguments > kMaxKernelArguments) {
    return fail(out_of_range(source, "the number of arguments", static_cast<int64_t>(arguments),
                             static_cast<int64_t>(kMaxKernelArguments),
                             "cut the fusion into smaller ones"));
  }
  constexpr size_t kArgumentBytes = 8;
  auto bytes = static_cast<int64_t>(
      (source.buffers.size() + source.params.size()) * kArgumentBytes + source.table.size());
  if (const auto maps = std::ssize(source.tensor_maps); maps > 0) {
    constexpr int64_t kAlignment = alignof(EncodedTensorMap);
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment + maps * kTensorMapBytes;
  }
  if (bytes > kMostArgumentBytes) {
    return fail(out_of_range(source, "the size of the arguments", bytes, kMostArgumentBytes,
                             "update lists of fewer tensors"));
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
  out.starts_early_ = source.starts_early;
  out.is_cooperative_ = source.team_size > 1;
  out.buffer_count_ = source.buffers.size();
  out.scalar_count_ = source.params.size();
  out.table_ = source.table;
  for (const TableEntry& entry : source.table_entries) {
    SINTER_CHECK_OP(entry.offset + static_cast<int64_t>(sizeof(DevicePointer)), <=,
                    static_cast<int64_t>(source.table.size()));
    out.table_offsets_.push_back(static_cast<uint32_t>(entry.offset));
  }
  for (size_t i = 0; i < source.params.size(); ++i) {
    const int64_t value = source.param_values[i];
    if (source.params[i] == DType::kI32 && value != static_cast<int32_t>(value)) {
      return fail(out_of_range(source, fmt::format("scalar argument {}", i), value,
                               std::numeric_limits<int32_t>::max(), "use smaller extents"));
    }
    out.scalars_[i] = value;
  }
  if (blocks == 0) return out;  // Tensors of kernels without work may have no elements either.
  for (const TensorMapArgument& map : source.tensor_maps) {
    auto prepared = PreparedTensorMap::prepare(source, map);
    if (!prepared) return fail(std::move(prepared.error()));
    out.maps_.push_back(std::move(*prepared));
  }
  return out;
}

Result<void> PreparedLaunch::launch(StreamHandle stream, std::span<const DevicePointer> buffers,
                                    bool may_start_early) const {
  if (buffers.size() != buffer_count()) [[unlikely]] {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "a launch got the wrong number of buffers",
                 .remedy = "pass one address per buffer of the kernel source",
                 .measured = static_cast<int64_t>(buffers.size()),
                 .limit = static_cast<int64_t>(buffer_count())});
  }
  if (config_.grid_x == 0) return {};  // No work; the driver rejects an empty grid.

  // The driver copies what these point at before it returns, and writes through none of them.
  std::array<void*, kMaxKernelArguments> arguments;
  size_t count = 0;
  for (const DevicePointer& buffer : buffers.first(buffer_count_)) {
    arguments[count++] = const_cast<DevicePointer*>(&buffer);
  }
  for (size_t i = 0; i < scalar_count_; ++i) {
    arguments[count++] = const_cast<int64_t*>(&scalars_[i]);
  }
  alignas(DevicePointer) std::array<std::byte, kMostArgumentBytes> table;  // Of this launch.
  if (!table_.empty()) {
    std::ranges::copy(table_, table.begin());
    for (size_t i = 0; i < table_offsets_.size(); ++i)
      std::memcpy(&table[table_offsets_[i]], &buffers[buffer_count_ + i], sizeof(DevicePointer));
    arguments[count++] = table.data();
  }
  std::array<EncodedTensorMap, kMaxKernelArguments> maps;  // Of this launch.
  for (size_t i = 0; i < maps_.size(); ++i) {
    if (auto encoded = maps_[i].encode(*driver_, buffers, maps[i]); !encoded) return encoded;
    arguments[count++] = &maps[i];
  }
  LaunchConfig config = config_;
  config.stream = stream;
  static constexpr LaunchAttribute kOverlap{.id = kProgrammaticStreamSerialization, .value = 1};
  static constexpr LaunchAttribute kTogether{.id = kCooperative, .value = 1};
  if (is_cooperative_) {
    config.attributes = &kTogether;
    config.attribute_count = 1;
  } else if (starts_early_ && may_start_early) {
    config.attributes = &kOverlap;
    config.attribute_count = 1;
  }
  return check(*driver_, DriverCall::kLaunch,
               driver_->launch(&config, function_, arguments.data(), nullptr),
               "launching a kernel");
}

}  // namespace sinter
