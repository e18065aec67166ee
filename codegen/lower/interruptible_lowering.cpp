#include "codegen/lower/interruptible_lowering.h"

#include <memory>

#include "codegen/lower/lowered_kernel.h"

namespace sinter {

FamilySet interruptible_lowering(FamilySet families, Interruption interruption) {
  const auto point = std::make_shared<InterruptionPoint>(std::move(interruption));
  for (Family& family : families) {
    if (!family.lower) continue;
    family.lower = [point, name = family.name, lower = std::move(family.lower)](
                       const SegmentFacts& facts, const Schedule& schedule) {
      point->check(Progress::Stage::kCompile, name, facts.fusion.name);
      return lower(facts, schedule);
    };
  }
  return families;
}

}  // namespace sinter
