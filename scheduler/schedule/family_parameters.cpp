#include "scheduler/schedule/family_parameters.h"

#include <array>
#include <utility>

#include "fusion_ir/error.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {
namespace {

/// An alternative of FamilyParameters with its defaults.
template <class Parameters>
FamilyParameters new_parameters() {
  return Parameters{};
}

struct BuiltinFamily {
  std::string_view name;
  FamilyParameters (*parameters)();
};

constexpr std::array kBuiltinFamilies = {
    BuiltinFamily{kPointwise, new_parameters<NoParameters>},
    BuiltinFamily{kTranspose, new_parameters<NoParameters>},
    BuiltinFamily{kMultiTensor, new_parameters<NoParameters>},
    BuiltinFamily{kColumn, new_parameters<ColumnParameters>},
    BuiltinFamily{kLooped, new_parameters<LoopedParameters>},
    BuiltinFamily{kMultiWave, new_parameters<MultiWaveParameters>},
    BuiltinFamily{kWarpSpecialised, new_parameters<WarpSpecialisedParameters>},
    BuiltinFamily{kMatmul, new_parameters<MatmulParameters>},
    BuiltinFamily{kCublasLt, new_parameters<NoParameters>},
};

}  // namespace

std::string_view text_of(ExchangeKind exchange) {
  switch (exchange) {
    case ExchangeKind::kCluster:
      return "cluster";
    case ExchangeKind::kMessages:
      return "messages";
  }
  unreachable();
}

FamilyParameters parameters_of_family(std::string_view family) {
  for (const BuiltinFamily& builtin : kBuiltinFamilies) {
    if (builtin.name == family) return builtin.parameters();
  }
  return ExternalParameters{};
}

std::vector<std::string_view> builtin_family_names() {
  std::vector<std::string_view> names;
  for (const BuiltinFamily& builtin : kBuiltinFamilies) names.push_back(builtin.name);
  return names;
}

}  // namespace sinter
