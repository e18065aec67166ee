#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

struct LoweredKernel;  // Defined one layer up, in codegen/lower/lowered_kernel.h; scheduling never
                       // looks inside.
struct LibraryMatmul;  // scheduler/families/library_matmul.h

/// A legal schedule of a segment, with its estimated resources and its predicted time.
struct ProposedSchedule {
  Schedule schedule;
  ResourceEstimate estimate;
  Prediction predicted;
  friend bool operator==(const ProposedSchedule&, const ProposedSchedule&) = default;
};

/// The result of Family::propose: candidates, or reasons why there are none. If both are present,
/// the reasons tell why parts of the family's search space were left out.
struct Proposal {
  std::vector<ProposedSchedule> candidates;
  std::vector<Rejection> rejections;
};

/// How the schedules of a family place the elements of a segment.
enum class ElementLayout : uint8_t {
  kRows,       ///< Row slots take whole rows, in batches of vectors.
  kColumns,    ///< Row slots take `unroll` rows at a time, of a strip of columns.
  kTiles,      ///< Tiles, of which a thread stores elements that another has read.
  kFragments,  ///< Tiles, of which the same thread reads and stores an element.
};

/// A kind of schedule as a plug-in: a few functions under a name. A FamilySet is an ordinary value
/// that callers extend or reduce.
struct Family {
  std::string name;
  /// Offers schedules for a segment. Pure; does not throw for a segment that the family rejects.
  std::function<Proposal(const SegmentFacts&, const DeviceLimits&)> propose;
  /// Estimates the resources of a schedule of this family, also of one that was parsed or pinned.
  /// The rejection says why it is illegal.
  std::function<tl::expected<ResourceEstimate, Rejection>(const SegmentFacts&, const Schedule&,
                                                          const DeviceLimits&)>
      estimate;
  /// Predicts the time of a schedule that uses these resources: the estimated ones, or those that
  /// the compiler reported.
  std::function<Prediction(const SegmentFacts&, const Schedule&, const ResourceEstimate&,
                           const DeviceLimits&)>
      predict;
  /// Lowers a legal schedule to kernel IR. Empty where only scheduling is wanted.
  std::function<LoweredKernel(const SegmentFacts&, const Schedule&)> lower;
  /// The model resolves the latencies of each row and was fitted to timed schedules that differ in
  /// nothing else. If the best candidate is of such a family, the tie-break among near-equal
  /// candidates is skipped.
  bool models_latency = false;
  /// All its schedules of outer reductions leave partial results. The family therefore cannot
  /// finish partial results itself.
  bool writes_partials = false;
  /// What checks of batches and of outputs in place assume of its schedules.
  ElementLayout layout = ElementLayout::kRows;
  /// Lowers schedules with `finish last_block`.
  bool can_finish_by_last_block = false;
  /// Runs segments with a contraction, and no others. Families of either kind are not asked about
  /// segments of the other.
  bool contracts = false;
  /// Why no schedule of the family can run a segment, on any device. The segmenter asks this for
  /// every group it considers; it must not try schedules. Empty: nothing is known beforehand.
  std::function<std::optional<Rejection>(const SegmentFacts&)> refuses{};
  /// Set if a library computes the segments of the family: what it is called with, for a legal
  /// schedule. `lower` is then empty.
  std::function<LibraryMatmul(const SegmentFacts&, const Schedule&)> call{};
};

using FamilySet = std::vector<Family>;

/// True if the family is for segments of this kind: with a contraction, or without.
inline bool is_for(const Family& family, const SegmentFacts& facts) {
  return family.contracts == facts.space.contraction.has_value();
}

/// Why a family runs no segment of this kind: it is for the other kind, or Family::refuses says so.
/// No value: nothing is known beforehand.
std::optional<Rejection> refusal_of(const Family& family, const SegmentFacts& facts);

const Family* find_family(const FamilySet& families, std::string_view name);

/// True if a library computes the segments of the family of this name. False for names that the set
/// does not have.
bool is_library_call(const FamilySet& families, std::string_view name);

/// The built-in families without lowering, which is enough to plan. builtin_families() in
/// codegen/cuda/emit.h has them with lowering.
FamilySet scheduling_families();

}  // namespace sinter
