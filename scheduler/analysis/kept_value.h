#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "fusion_ir/id.h"

namespace sinter {

/// Where a kernel keeps a value from one stage to a later one.
enum class Residency : uint8_t {
  kRegister,  ///< In registers, packed in its storage type: elements per thread times element size
              ///< over 4 registers. The fastest.
  kShared,    ///< In shared memory, written and read by the same thread, so no barrier is needed.
  kReload,  ///< Not kept: loaded again, or recomputed from values that are loaded again. The second
            ///< read hits L2 if the rows in flight fit there.
};

std::string_view text_of(Residency residency);

struct KeptValue {
  ValueId value;
  Residency residency = Residency::kRegister;
  friend auto operator<=>(const KeptValue&, const KeptValue&) = default;
};

inline bool is_kept(const KeptValue& kept) { return kept.residency != Residency::kReload; }

}  // namespace sinter
