#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "codegen/protocol/async_protocol.h"

namespace sinter {

/// The fewest steps to each kind of fault that some interleaving shows. All interleavings, breadth
/// first, one state after the other and with no reduction: what `prove` must agree with. Steps and
/// faults are those of the words of async_protocol.h, not of happened-before.
std::map<ProtocolFaultKind, size_t> faults_of_all_interleavings(const AsyncProtocol& protocol,
                                                                int64_t rows);

}  // namespace sinter
