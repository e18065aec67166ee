#include "runtime/check/sample_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fusion_ir/nearest_name.h"
#include "runtime/oracle/integer_range.h"

namespace sinter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr std::array kKindNames = {"ordinary", "constant",  "large_mean", "ties",
                                   "zero",     "subnormal", "tiny",       "huge",
                                   "infinity", "masked",    "nan",        "mixed"};
constexpr std::array kPlacementNames = {"in elements", "in rows", "in columns", "everywhere"};

/// Kinds by how often a kernel that is right for ordinary data was wrong for them.
constexpr std::array kHardKinds = {DataKind::kMixed,     DataKind::kConstant, DataKind::kMasked,
                                   DataKind::kInfinity,  DataKind::kNan,      DataKind::kHuge,
                                   DataKind::kLargeMean, DataKind::kZero,     DataKind::kTiny,
                                   DataKind::kSubnormal, DataKind::kTies};

bool makes_a_difference(DataKind kind, DataPlacement placement) {
  switch (kind) {
    case DataKind::kConstant:
      return placement == DataPlacement::kRows || placement == DataPlacement::kEverywhere;
    case DataKind::kTies:
    case DataKind::kLargeMean:
      return placement == DataPlacement::kRows || placement == DataPlacement::kEverywhere;
    default:
      return true;
  }
}

std::vector<SampleData> make_sample_data() {
  std::vector<SampleData> out = {{}};
  for (const DataPlacement placement : {DataPlacement::kRows, DataPlacement::kEverywhere,
                                        DataPlacement::kColumns, DataPlacement::kElements}) {
    for (const DataKind kind : kHardKinds) {
      if (makes_a_difference(kind, placement)) out.push_back({kind, placement});
    }
  }
  return out;
}

/// Draws the elements of one tensor.
class Draw {
 public:
  Draw(HostTensor& tensor, SampleData data, uint64_t seed, IntegerUse use)
      : tensor_(tensor), data_(data), use_(use), generator_(seed ^ 0x9e3779b97f4a7c15U) {}

  void run() {
    columns_ = tensor_.sizes().empty() ? 1 : tensor_.sizes().back();
    if (tensor_.count() == 0) return;
    rows_ = tensor_.count() / columns_;
    const int64_t column = below(columns_);
    const int64_t row = below(rows_);
    for (int64_t r = 0; r < rows_; ++r) {
      row_kind_ = any_kind();
      // A large one shows what of it is left where it should cancel.
      constant_ = of_kind(r % 2 == 0 ? DataKind::kLargeMean : DataKind::kOrdinary);
      // One row at least, and not all where there are several.
      const bool whole = r == row || (r != (row + 1) % rows_ && below(4) == 0);
      const int64_t single = below(columns_);
      const bool has_single = rows_ == 1 || r == row || below(2) == 0;
      for (int64_t c = 0; c < columns_; ++c) {
        if (data_.placement == DataPlacement::kRows && !whole) continue;
        if (data_.placement == DataPlacement::kColumns && c != column && c % 11 != column % 11)
          continue;
        if (data_.placement == DataPlacement::kElements && (c != single || !has_single)) continue;
        put(r * columns_ + c);
      }
    }
  }

 private:
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(generator_() % static_cast<uint64_t>(limit));
  }
  double uniform() { return static_cast<double>(generator_() >> 11U) * 0x1p-53; }
  double sign() { return (generator_() & 1U) != 0 ? 1.0 : -1.0; }

  DataKind any_kind() {
    return kHardKinds[1 + static_cast<size_t>(below(static_cast<int64_t>(kHardKinds.size()) - 1))];
  }

  void put(int64_t element) {
    DataKind kind = data_.kind;
    // Half of the mixed rows are of one kind, the others of several.
    if (kind == DataKind::kMixed)
      kind = columns_ > 1 && row_kind_ != DataKind::kTies ? row_kind_ : any_kind();
    if (is_float(tensor_.type())) {
      tensor_.set(element, kind == DataKind::kConstant ? constant_ : of_kind(kind));
    } else if (tensor_.type() == DType::kBool) {
      put_bool(element, kind);
    } else {
      put_integer(element, kind);
    }
  }

  double of_kind(DataKind kind) {
    const DType type = tensor_.type();
    if (!is_float(type)) return 0.0;
    const double largest = largest_finite(type);
    const double normal = smallest_subnormal(type) / (2.0 * unit_roundoff(type));
    switch (kind) {
      case DataKind::kOrdinary:
      case DataKind::kConstant:
      case DataKind::kMixed:
        return 4.0 * (uniform() - 0.5);
      case DataKind::kLargeMean:
        return (1.0 + 32.0 * unit_roundoff(type) * uniform()) * std::min(1000.1, largest / 4.0);
      case DataKind::kTies:
        return static_cast<double>(below(3)) - 1.0;
      case DataKind::kZero:
        return sign() * 0.0;
      case DataKind::kSubnormal:
        return sign() * normal * uniform();
      case DataKind::kTiny:
        return sign() * (below(2) == 0 ? normal : std::sqrt(normal)) * (0.5 + uniform());
      case DataKind::kHuge:
        return sign() * (below(2) == 0 ? largest * (0.25 + 0.75 * uniform())
                                       : std::sqrt(largest) * (0.5 + uniform()));
      case DataKind::kInfinity:
        return sign() * kInfinity;
      case DataKind::kMasked:
        return -kInfinity;
      case DataKind::kNan:
        return kNan;
    }
    unreachable();
  }

  void put_bool(int64_t element, DataKind kind) {
    if (kind == DataKind::kZero) tensor_.set_bits(element, 0);
    if (kind == DataKind::kMasked) tensor_.set_bits(element, element / columns_ % 2 == 0 ? 0 : 1);
  }

  void put_integer(int64_t element, DataKind kind) {
    if (use_.indexed > 0) {
      const std::array<int64_t, 6> outside = {-1,
                                              use_.indexed,
                                              use_.indexed + 1,
                                              -use_.indexed,
                                              lowest_integer(tensor_.type()),
                                              highest_integer(tensor_.type())};
      if (kind == DataKind::kTies || kind == DataKind::kConstant || kind == DataKind::kZero)
        tensor_.set_integer(element, kind == DataKind::kZero ? 0 : use_.indexed - 1);
      if (kind == DataKind::kHuge && below(4) == 0) {
        tensor_.set_integer(
            element, outside[static_cast<size_t>(below(static_cast<int64_t>(outside.size())))]);
      }
      return;
    }
    switch (kind) {
      case DataKind::kZero:
        return tensor_.set_integer(element, 0);
      case DataKind::kConstant:
        return tensor_.set_integer(element, element / columns_ % 5);
      case DataKind::kTies:
        return tensor_.set_integer(element, below(3));
      case DataKind::kHuge:
        return tensor_.set_integer(element, below(2) == 0
                                                ? highest_integer(tensor_.type()) - below(3)
                                                : lowest_integer(tensor_.type()) + below(3));
      default:
        return;
    }
  }

  HostTensor& tensor_;
  SampleData data_;
  IntegerUse use_;
  std::mt19937_64 generator_;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  DataKind row_kind_ = DataKind::kOrdinary;  ///< Of the current row, where kinds are mixed.
  double constant_ = 0.0;                    ///< Of the current row.
};

}  // namespace

std::span<const SampleData> sample_data() {
  static const std::vector<SampleData> kAll = make_sample_data();
  return kAll;
}

std::span<const SampleData> sample_data_for(int64_t elements) {
  // What the interpreter and the oracle do in some seconds.
  constexpr int64_t kMostElements = int64_t{1} << 21;
  constexpr int64_t kFewestSets = 2;
  const auto all = sample_data();
  const int64_t sets = kMostElements / std::max<int64_t>(elements, 1);
  return all.first(static_cast<size_t>(
      std::clamp<int64_t>(sets, kFewestSets, static_cast<int64_t>(all.size()))));
}

std::string name_of(SampleData data) {
  const std::string_view kind = kKindNames[static_cast<size_t>(data.kind)];
  if (data.kind == DataKind::kOrdinary) return std::string(kind);
  return fmt::format("{} {}", kind, kPlacementNames[static_cast<size_t>(data.placement)]);
}

std::optional<SampleData> sample_data_from_text(std::string_view text) {
  for (const SampleData data : sample_data()) {
    if (name_of(data) == text) return data;
  }
  return std::nullopt;
}

Result<SampleData> find_sample_data(std::string_view name) {
  if (const auto data = sample_data_from_text(name)) return *data;
  std::vector<std::string> names;
  for (const SampleData known : sample_data()) names.push_back(name_of(known));
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fail(
      {.kind = ErrorKind::kInvalidArgument,
       .message = fmt::format("there is no sample data '{}'", name),
       .remedy = suggestion(name, known, fmt::format("choose of {}", fmt::join(names, ", ")))});
}

void draw_sample_data(HostTensor& tensor, SampleData data, uint64_t seed, IntegerUse use) {
  if (data.kind == DataKind::kOrdinary) return;
  Draw(tensor, data, seed, use).run();
}

}  // namespace sinter
