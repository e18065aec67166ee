#include "scheduler/analysis/kept_value.h"

#include "fusion_ir/result.h"

namespace sinter {

std::string_view text_of(Residency residency) {
  switch (residency) {
    case Residency::kRegister:
      return "register";
    case Residency::kShared:
      return "shared";
    case Residency::kReload:
      return "reload";
  }
  unreachable();
}

}  // namespace sinter
