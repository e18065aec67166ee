#pragma once

#include "codegen/protocol/async_protocol.h"

namespace sinter {

/// Runs a well-formed protocol over the items that `rows` rows fill, and checks that no
/// interleaving breaks it; see `prove`. The fault's steps and states are filled in only if
/// `explain` is set.
std::optional<ProtocolFault> run_protocol(const AsyncProtocol& protocol, int64_t rows,
                                          bool explain);

}  // namespace sinter
