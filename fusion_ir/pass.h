#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A step from graph to graph. Pure: equal graphs in, equal graphs out. A pass that finds nothing
/// to change returns nothing, so that no graph is copied and compared for it.
struct Pass {
  std::string_view name;
  std::optional<Fusion> (*function)(const Fusion&) = nullptr;
};

#ifdef NDEBUG
inline constexpr bool kVerifyPassesByDefault = false;
#else
inline constexpr bool kVerifyPassesByDefault = true;
#endif

struct PassOptions {
  /// Run the verifier after every pass that changed the graph.
  bool verify = kVerifyPassesByDefault;
  /// Passes after which `dump` is called when they changed the graph; "all" means each of them.
  std::vector<std::string> dump_after{};
  std::function<void(std::string_view pass, const Fusion& fusion)> dump{};
  /// Run only that many passes: bisects a wrong result to the pass that made it.
  size_t stop_after = std::numeric_limits<size_t>::max();
};

/// What one run of one pass did.
struct PassRecord {
  std::string_view name;
  bool changed = false;
  double microseconds = 0.0;
};

struct PassRun {
  Fusion fusion;
  std::vector<PassRecord> records;  ///< In the order they ran.
};

/// Runs the passes in order, `rounds` times at most: until a whole round has changed nothing.
/// Throws InternalError, naming the pass, when a graph no longer verifies, and InvalidArgument when
/// `dump_after` names no pass of the list.
PassRun run_passes(const Fusion& fusion, std::span<const Pass> passes,
                   const PassOptions& options = {}, size_t rounds = 1);

}  // namespace sinter
