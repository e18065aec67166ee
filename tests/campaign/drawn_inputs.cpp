#include "tests/campaign/drawn_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/oracle/integer_range.h"
#include "tests/campaign/drawing.h"
#include "tests/campaign/plain_number.h"
#include "tests/support/random_fusion.h"

namespace sinter {
namespace {

constexpr std::array<std::string_view, kDataKinds> kNames = {
    "uniform", "small_integers", "constant", "zeros", "large_mean",
    "masked",  "special",        "huge",     "tiny"};

/// FNV-1a, so that names give the same seeds with every library.
uint64_t hash_of_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Elements of the axis that a take walks by this input, or by what casts and views make of it;
/// nothing if none does. Of several the shortest.
std::optional<int64_t> indexed_length(const Fusion& fusion, const Binding& binding, ValueId input) {
  std::optional<int64_t> length;
  std::vector<bool> derives(fusion.values.size(), false);
  derives[input.index] = true;
  for (const Op& op : fusion.ops) {
    const auto* take = std::get_if<TakeOp>(&op.kind);
    if (take != nullptr && derives[op.operands[1].index]) {
      const Extent& extent = fusion.values[op.operands[0]].shape[static_cast<size_t>(take->axis)];
      const int64_t size = binding.size_of(extent);
      length = length ? std::min(*length, size) : size;
    }
    const bool moves =
        !std::holds_alternative<PointwiseOp>(op.kind) && !is_reduction(op.kind) && take == nullptr;
    if (!moves || op.operands.empty() || !derives[op.operands[0].index]) continue;
    for (const ValueId result : op.results) derives[result.index] = true;
  }
  return length;
}

double draw_uniform(Chance& chance) { return (2.0 * chance.fraction() - 1.0) * kRandomInputBound; }

double draw_special(Chance& chance, DType type) {
  if (!chance.one_in(4)) return draw_uniform(chance);
  const double least = smallest_subnormal(type);
  return chance.one_of({kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), -0.0, 0.0,
                        least, -least, 3.0 * least, largest_finite(type), -largest_finite(type),
                        1.0, -1.0});
}

double draw_huge(Chance& chance, DType type) {
  const double greatest = largest_finite(type);
  const double sign = chance.one_in(2) ? 1.0 : -1.0;
  // Their squares overflow, or only sums of several do.
  return sign * (chance.one_in(2) ? greatest : std::sqrt(greatest)) * (0.5 + chance.fraction() / 2);
}

double draw_tiny(Chance& chance, DType type) {
  const double sign = chance.one_in(2) ? 1.0 : -1.0;
  // Up to some subnormals, or about as many of them as the least normal number.
  const double units = chance.one_in(2) ? 8.0 * chance.fraction() : 4.0 / unit_roundoff(type);
  return sign * smallest_subnormal(type) * std::ceil(units * chance.fraction());
}

void fill_floats(HostTensor& tensor, DrawnKind kind, Chance& chance) {
  const DType type = tensor.type();
  const double common = chance.one_of({0.1, 0.0, 1.0, -3.0, 1000.0, 1e-30, 1e30});
  // Rows are masked as a whole, in runs, or not at all.
  const int64_t row = tensor.sizes().empty() ? 1 : std::max<int64_t>(tensor.sizes().back(), 1);
  bool row_is_masked = false;
  bool is_masked = false;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (i % row == 0) row_is_masked = chance.one_in(4);
    if (chance.one_in(6)) is_masked = chance.one_in(2);
    double value = draw_uniform(chance);
    switch (kind) {
      case DrawnKind::kUniform:
        break;
      case DrawnKind::kSmallIntegers:
        value = static_cast<double>(chance.between(-3, 3));
        break;
      case DrawnKind::kConstant:
        value = common;
        break;
      case DrawnKind::kZeros:
        value = chance.one_in(2) ? 0.0 : -0.0;
        break;
      case DrawnKind::kLargeMean:
        value = 1000.0 + value;
        break;
      case DrawnKind::kMasked:
        if (is_masked || row_is_masked) value = -kInfinity;
        break;
      case DrawnKind::kSpecial:
        value = draw_special(chance, type);
        break;
      case DrawnKind::kHuge:
        value = draw_huge(chance, type);
        break;
      case DrawnKind::kTiny:
        value = draw_tiny(chance, type);
        break;
    }
    tensor.set(i, value);
  }
}

void fill_integers(HostTensor& tensor, std::optional<int64_t> length, Chance& chance) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
  const auto form = chance.below(4);
  const bool goes_outside = chance.one_in(3);
  // Within the type: an 8-bit tensor that saturates is one value, which hides elements that change
  // places.
  const int64_t low = std::max<int64_t>(-9, lowest_integer(tensor.type()));
  const int64_t high = std::min<int64_t>(form == 1 ? 1'000'000 : 9, highest_integer(tensor.type()));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.type() == DType::kBool) {
      // Either, mostly one, or one throughout.
      tensor.set_integer(i, form == 0 ? 0 : form == 1 ? 1 : chance.between(0, 1));
    } else if (length) {
      const bool outside = goes_outside && chance.one_in(4);
      const int64_t beyond = chance.one_of({int64_t{-1}, *length, -*length - 1, *length + 7, kLeast,
                                            kGreatest, int64_t{1} << 32, -(int64_t{1} << 32)});
      tensor.set_integer(i, outside || *length == 0 ? beyond : chance.between(0, *length - 1));
    } else {
      const int64_t extreme = chance.one_of(
          {kLeast, kGreatest, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{1} << 31, kLeast + 1});
      const bool is_extreme = form == 0 && chance.one_in(3);
      tensor.set_integer(i, is_extreme ? extreme : chance.between(low, high));
    }
  }
}

}  // namespace

std::string_view name_of(DrawnKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<DrawnKind> data_kind_from(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DrawnKind>(found - kNames.begin());
}

std::vector<HostTensor> draw_inputs(const Fusion& fusion, const Binding& binding, DrawnKind kind,
                                    uint64_t seed) {
  // Storage is aligned to 256 bytes; a promise of less is taken at its word.
  constexpr int64_t kFullAlignment = 16;
  std::vector<HostTensor> out;
  for (size_t i = 0; i < fusion.inputs.size(); ++i) {
    const ValueId input = fusion.inputs[i];
    const Value& value = fusion.values[input];
    const int64_t alignment = fusion.def_as<InputOp>(input)->alignment;
    const std::string name = value.name.empty() ? fmt::format("#{}", i) : value.name;
    Chance chance(seed ^ hash_of_name(name));
    HostTensor tensor =
        HostTensor::poisoned(value.type, binding.sizes_of(value.shape),
                             {.strides = input_strides(fusion, binding, input),
                              .byte_offset = alignment < kFullAlignment ? alignment : 0});
    if (is_float(value.type)) {
      fill_floats(tensor, kind, chance);
    } else {
      fill_integers(tensor, indexed_length(fusion, binding, input), chance);
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace sinter
