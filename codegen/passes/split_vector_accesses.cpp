#include "codegen/passes/split_vector_accesses.h"

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

constexpr int64_t kWidestAccess = 16;  // bytes

/// Appends the pieces of a load or store; false if it is narrow enough.
template <class Access>
bool split(kir::KernelBuilder& b, const Access& access) {
  const int64_t element_bytes = bytes_of(b.kernel().buffers[access.buffer].type);
  const int64_t piece = kWidestAccess / element_bytes;
  if (access.width <= piece) return false;
  for (int64_t first = 0; first < access.width; first += piece) {
    Access part = access;
    part.width = piece;
    part.lane = b.add(access.lane, b.integer(first, b.type_of(access.lane)));
    part.index = b.add(access.index, b.integer(first, b.type_of(access.index)));
    b.append(part);
  }
  return true;
}

}  // namespace

kir::Kernel split_vector_accesses(kir::Kernel kernel) {
  kir::KernelBuilder builder(&kernel);
  kir::replace_statements(builder, [&](kir::StmtId, const kir::StmtKind& kind) {
    if (const auto* load = std::get_if<kir::Load>(&kind)) return split(builder, *load);
    if (const auto* store = std::get_if<kir::Store>(&kind)) return split(builder, *store);
    return false;
  });
  return kernel;
}

}  // namespace sinter
