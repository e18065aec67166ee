#include "fusion_ir/pipeline.h"

#include <array>

#include "fusion_ir/passes/fold_constants.h"
#include "fusion_ir/passes/hoist_divisions.h"
#include "fusion_ir/passes/place_broadcasts.h"
#include "fusion_ir/passes/place_casts.h"
#include "fusion_ir/passes/place_contractions.h"
#include "fusion_ir/passes/place_parts.h"
#include "fusion_ir/passes/recognize_logsumexp.h"
#include "fusion_ir/passes/recognize_welford.h"
#include "fusion_ir/passes/remove_dead_values.h"
#include "fusion_ir/passes/share_common_values.h"
#include "fusion_ir/passes/simplify_algebra.h"

namespace sinter {
namespace {

/// A round enables another only through a chain of passes that feed an earlier one, and each such
/// step shortens the graph or moves an op towards smaller tensors. Graphs of models settle in two
/// or three rounds; the bound only keeps a defect from looping.
constexpr size_t kMaxRounds = 32;

// The order:
// - dead values first, so that no pass spends time on them. The rewriter drops what dies later.
// - constants next: algebra and Welford look for known numbers.
// - casts before algebra: a cast that moved beside another cast may cancel against it.
// - broadcasts before algebra for the same reason, and before sharing: equal small tensors become
//   visible only when no broadcast stands between them.
// - contractions behind both: they read through casts and broadcasts that stand before them.
// - parts after algebra, which drops slices and concatenates that do nothing, and before sharing:
//   parts of one tensor that several slices ask for are computed once.
// - sharing before recognition, which compares values by id: the x under a max and the x under the
//   exp have to be one value.
// - recognition before divisions: a softmax denominator is known to be safe to invert only when it
//   is the sum of a logsumexp pair.
constexpr std::array kPipeline = {
    Pass{"remove_dead_values", remove_dead_values},
    Pass{"fold_constants", fold_constants},
    Pass{"place_casts", place_casts},
    Pass{"place_broadcasts", place_broadcasts},
    Pass{"place_contractions", place_contractions},
    Pass{"simplify_algebra", simplify_algebra},
    Pass{"place_parts", place_parts},
    Pass{"share_common_values", share_common_values},
    Pass{"recognize_logsumexp", recognize_logsumexp},
    Pass{"recognize_welford", recognize_welford},
    Pass{"hoist_divisions", hoist_divisions},
};

}  // namespace

std::span<const Pass> simplification_pipeline() { return kPipeline; }

PassRun simplify_recorded(const Fusion& fusion, const PassOptions& options) {
  return run_passes(fusion, kPipeline, options, kMaxRounds);
}

Fusion simplify(const Fusion& fusion, const PassOptions& options) {
  return simplify_recorded(fusion, options).fusion;
}

}  // namespace sinter
