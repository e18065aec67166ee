#pragma once

#include <cstdint>

#include "fusion_ir/op.h"

namespace sinter {

/// 64-bit hash of an op's function and attributes: equal for equal kinds.
uint64_t hash_of(const OpKind& kind);

}  // namespace sinter
