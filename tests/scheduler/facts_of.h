#pragma once

#include "fusion_ir/pipeline.h"
#include "scheduler/segment_facts.h"

namespace sinter {

/// Simplified, specialised and analysed, as plan() does it. Throws what the analysis rejects.
inline SegmentFacts facts_of(const Fusion& fusion, const ExtentValues& extents = {}) {
  const auto binding = bind_extents(fusion, extents);
  if (!binding) throw_error(binding.error());
  auto facts = analyse(simplify(specialize(fusion, *binding)));
  if (!facts) throw_error({.kind = ErrorKind::kUnsupported, .message = text_of(facts.error())});
  return std::move(*facts);
}

/// The value of this name; an invalid id if there is none.
inline ValueId named_value(const Fusion& fusion, std::string_view name) {
  for (const ValueId value : fusion.value_ids()) {
    if (fusion.values[value].name == name) return value;
  }
  return {};
}

}  // namespace sinter
