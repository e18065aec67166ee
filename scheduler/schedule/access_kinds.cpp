#include "scheduler/schedule/access_kinds.h"

namespace sinter {

AccessKinds::AccessKinds(const SegmentFacts& facts, const Schedule& schedule) {
  inputs_.reserve(facts.space.inputs.size());
  for (const TensorAccess& access : facts.space.inputs)
    inputs_.push_back(access_kind(facts, access, schedule));
  outputs_.reserve(facts.space.outputs.size());
  for (const TensorAccess& access : facts.space.outputs)
    outputs_.push_back(access_kind(facts, access, schedule));
}

}  // namespace sinter
