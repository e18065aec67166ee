#include "codegen/kernel/kernel_ir.h"

#include <algorithm>
#include <bit>

#include "fusion_ir/error.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter::kir {

std::string_view text_of(Special special) {
  switch (special) {
    case Special::kThreadIndex:
      return "thread_index";
    case Special::kBlockIndex:
      return "block_index";
    case Special::kGridSize:
      return "grid_size";
  }
  unreachable();
}

std::string_view text_of(CacheHint hint) {
  switch (hint) {
    case CacheHint::kDefault:
      return "default";
    case CacheHint::kEvictFirst:
      return "evict_first";
    case CacheHint::kEvictLast:
      return "evict_last";
  }
  unreachable();
}

std::string_view text_of(CallForm form) {
  switch (form) {
    case CallForm::kGeneral:
      return "general";
    case CallForm::kFastPath:
      return "fast_path";
    case CallForm::kCareful:
      return "careful";
    case CallForm::kOneOrMore:
      return "one_or_more";
    case CallForm::kSharedRounds:
      return "shared_rounds";
  }
  unreachable();
}

std::optional<DType> mma_accumulator(DType left, DType right) {
  const auto is_f8 = [](DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; };
  const auto is_i8 = [](DType type) { return type == DType::kI8 || type == DType::kU8; };
  if (is_i8(left) && is_i8(right)) return DType::kI32;
  if (is_f8(left) && is_f8(right)) return DType::kF32;
  const bool is_float = left == DType::kBF16 || left == DType::kF16 || left == DType::kF32;
  return is_float && left == right ? std::optional(DType::kF32) : std::nullopt;
}

int64_t SharedMatrix::offset_of(int64_t own, int64_t k, int64_t element_bytes) const {
  const int64_t line = swizzle / element_bytes;
  if (!transposed) return own / 8 * group_stride + own % 8 * line + k;
  return own / line * block_stride + own % line + k / 8 * group_stride + k % 8 * line;
}

int64_t SharedMatrix::elements_spanned(int64_t own, int64_t element_bytes) const {
  const int64_t group = period() / element_bytes;
  if (!transposed) return (own / 8 - 1) * group_stride + group;
  const int64_t blocks = own / (swizzle / element_bytes);
  const int64_t groups = Wgmma::kDepthBytes / element_bytes / 8;
  return (blocks - 1) * block_stride + (groups - 1) * group_stride + group;
}

bool operator==(const FloatConstant& a, const FloatConstant& b) {
  return std::bit_cast<uint64_t>(a.value) == std::bit_cast<uint64_t>(b.value);
}

int64_t message_places(const AllReduce& reduce, int64_t team) {
  const int64_t phases = reduce.phase.valid() ? 2 : 1;
  const int64_t of_warp = kWarp / std::min(reduce.threads, kWarp);
  int64_t places = 0;
  for (const ReducePart& part : reduce.parts)
    places += phases * reduce.groups * of_warp * team * places_of_tuple(part.vars.size());
  return places;
}

int64_t blocks_together(const Kernel& kernel) { return std::max(kernel.cluster, kernel.team); }

DType left_type(const Kernel& kernel, const Wgmma& product) {
  const auto* in_registers = std::get_if<RegisterMatrix>(&product.left);
  return in_registers != nullptr ? kernel.vars[in_registers->tile].type
                                 : kernel.buffers[std::get<SharedMatrix>(product.left).buffer].type;
}

bool waits_for_previous(const Kernel& kernel) {
  return std::ranges::any_of(kernel.stmts, [](const Stmt& stmt) {
    return std::holds_alternative<WaitForPrevious>(stmt.kind);
  });
}

ArgumentLayout argument_layout(const Kernel& kernel) {
  constexpr int64_t kAddressBytes = 8;
  ArgumentLayout layout{.offsets = IdMap<BufferId, int64_t>(kernel.buffers.size(), -1)};
  const auto place = [&](const auto& is_next, const auto& bytes_of_buffer) {
    for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
      const Buffer& buffer = kernel.buffers[BufferId{i}];
      if (!is_next(buffer)) continue;
      layout.offsets[BufferId{i}] = layout.bytes;
      layout.bytes += bytes_of_buffer(buffer);
    }
  };
  place([](const Buffer& buffer) { return buffer.is_table(); },
        [](const Buffer& buffer) { return buffer.tensors * kAddressBytes; });
  for (const DType type : {DType::kI64, DType::kI32}) {
    place(
        [&](const Buffer& buffer) {
          return buffer.space == Space::kArgument && buffer.type == type;
        },
        [&](const Buffer& buffer) { return buffer.count * bytes_of(type); });
  }
  // The size of the struct is a multiple of its alignment.
  layout.bytes = (layout.bytes + kAddressBytes - 1) / kAddressBytes * kAddressBytes;
  return layout;
}

int64_t box_elements(const TensorMap& map) {
  int64_t elements = 1;
  for (const MapAxis& axis : map.axes) elements *= axis.box;
  return elements;
}

int64_t shared_bytes(const Kernel& kernel) {
  int64_t end = 0;
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.space != Space::kShared) continue;
    SINTER_CHECK(buffer.offset >= 0, "shared buffer {} is not placed", buffer.name);
    end = std::max(end, buffer.offset + buffer.count * bytes_of(buffer.type));
  }
  for (const Mbarrier& mbarrier : kernel.mbarriers) {
    SINTER_CHECK(mbarrier.offset >= 0, "mbarriers {} are not placed", mbarrier.name);
    end = std::max(end, mbarrier.offset + mbarrier.count * kMbarrierBytes);
  }
  return (end + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
}

}  // namespace sinter::kir
