#pragma once

#include <optional>

#include "scheduler/families/family.h"

namespace sinter::matmul {

/// Why no schedule of the family can run a segment on any device.
std::optional<Rejection> refuse(const SegmentFacts& facts);

/// Why none runs it on this one.
std::optional<Rejection> check_device(const SegmentFacts& facts, const DeviceLimits& limits);

/// The first rule that a schedule breaks before its registers and shared memory are counted.
std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const DeviceLimits& limits);

}  // namespace sinter::matmul
