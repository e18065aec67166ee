#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fusion_ir/result.h"
#include "runtime/oracle/host_tensor.h"

namespace sinter {

/// What the elements of a sample input are. The only list of such kinds: checks, tests and the tool
/// draw from it. Numbers go by the range of the element type. Integers that are no indices, and
/// bools, have kinds of their own where there is a meaning.
enum class DataKind : uint8_t {
  kOrdinary,   ///< Bell-shaped about 0 with deviation 1; integers up to 100.
  kConstant,   ///< Each row one number.
  kLargeMean,  ///< A mean of many times the deviation, which is a few units in the last place.
  kTies,       ///< One of three numbers.
  kZero,       ///< 0.0 or -0.0; integers 0; bools false.
  kSubnormal,  ///< Below the smallest normal number.
  kTiny,       ///< About the smallest normal number, or its square root, whose square underflows.
  kHuge,       ///< About the largest number, or its square root, whose square overflows; integers
               ///< about the ends of their range.
  kInfinity,   ///< Of either sign.
  kMasked,     ///< -infinity, as a mask adds it; bools all false or all true.
  kNan,
  kMixed,  ///< Each element of another kind.
};

/// Which elements of a tensor are of the kind; the others are ordinary. A row lies along the
/// innermost axis, a column across all others.
enum class DataPlacement : uint8_t { kElements, kRows, kColumns, kEverywhere };

struct SampleData {
  DataKind kind = DataKind::kOrdinary;
  DataPlacement placement = DataPlacement::kEverywhere;
  friend bool operator==(const SampleData&, const SampleData&) = default;
};

/// Every kind at every placement that makes a difference, ordinary data first. Few of them from the
/// beginning are the most different ones.
std::span<const SampleData> sample_data();

/// As many of the first of sample_data() as a check of so many elements can afford; at least the
/// ordinary ones, and one that mixes all kinds.
std::span<const SampleData> sample_data_for(int64_t elements);

/// "infinity in rows", "ordinary".
std::string name_of(SampleData data);
/// The other way. None for what is no such name.
std::optional<SampleData> sample_data_from_text(std::string_view text);
/// The same; InvalidArgument, with the nearest name, for what is none.
Result<SampleData> find_sample_data(std::string_view name);

/// What an integer tensor is for.
struct IntegerUse {
  /// Elements of the axis that they index; 0: they are numbers. Indices of hard data are mostly
  /// inside, some are outside, where a take gives 0.
  int64_t indexed = 0;
};

/// Replaces elements of a tensor of ordinary data. Equal arguments give equal elements.
void draw_sample_data(HostTensor& tensor, SampleData data, uint64_t seed, IntegerUse use = {});

}  // namespace sinter
