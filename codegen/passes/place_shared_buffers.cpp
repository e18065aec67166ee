#include "codegen/passes/place_shared_buffers.h"

#include <algorithm>

namespace sinter {

kir::Kernel place_shared_buffers(kir::Kernel kernel) {
  int64_t end = 0;
  for (kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kir::Space::kShared) continue;
    const int64_t alignment = std::max(kir::kSharedUnit, buffer.alignment);
    buffer.offset = (end + alignment - 1) / alignment * alignment;
    end = buffer.offset + buffer.count * bytes_of(buffer.type);
  }
  end = (end + kir::kSharedUnit - 1) / kir::kSharedUnit * kir::kSharedUnit;
  for (kir::Mbarrier& mbarrier : kernel.mbarriers) {
    mbarrier.offset = end;
    end += mbarrier.count * kir::kMbarrierBytes;
  }
  return kernel;
}

}  // namespace sinter
