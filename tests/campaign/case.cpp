#include "tests/campaign/case.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/rewriter.h"
#include "tests/campaign/drawing.h"

namespace sinter {
namespace {

/// Gives every input a name, so that it keeps its data where the graph changes.
void name_inputs(Fusion& fusion) {
  for (size_t i = 0; i < fusion.inputs.size(); ++i) {
    std::string& name = fusion.values[fusion.inputs[i]].name;
    if (name.empty()) name = fmt::format("in{}", i);
  }
}

DrawnKind draw_data(Chance& chance, GraphKind kind) {
  // Tame data lets bounds stay small, so that most elements are checked closely.
  constexpr std::array<int, kDataKinds> kWeights = {10, 4, 2, 1, 2, 3, 4, 1, 1};
  constexpr std::array<int, kDataKinds> kTameWeights = {20, 6, 2, 1, 2, 2, 2, 1, 1};
  return static_cast<DrawnKind>(
      chance.weighted(kind == GraphKind::kWild ? kWeights : kTameWeights));
}

}  // namespace

Case draw_case(uint64_t seed) {
  DrawnGraph graph = draw_graph(seed);
  name_inputs(graph.fusion);
  Chance chance(seed ^ 0x63617365ULL);
  Case out{.seed = seed,
           .kind = graph.kind,
           .fusion = std::move(graph.fusion),
           .extents = std::move(graph.extents)};
  constexpr std::array<std::string_view, 5> kOthers = {"H100", "A100", "B200", "RTX 4090", "L4"};
  constexpr std::array<std::string_view, 3> kWithoutClusters = {"A100", "RTX 4090", "L4"};
  if (chance.one_in(3)) out.device = kOthers[chance.below(kOthers.size())];
  // Clusters take long columns where there are any, and else parts.
  if (out.kind == GraphKind::kLong && chance.one_in(2))
    out.device = kWithoutClusters[chance.below(kWithoutClusters.size())];
  out.simplify = !chance.one_in(8);
  out.check_indices = chance.one_in(6);
  out.cut_if_needed_only = chance.one_in(6);
  out.pinned_cuts = chance.one_in(6) ? static_cast<int>(chance.between(1, 3)) : 0;
  out.pinned_joins = chance.one_in(12) ? 1 : 0;
  // Long rows are planned in parts where they take longer than a launch.
  if (out.kind == GraphKind::kLong || chance.one_in(4)) {
    out.slowness = chance.one_of<int64_t>({16, 128, 1024});
    out.sm_count = chance.one_of<int64_t>({0, 4, 16});
  }
  out.followed_plans = !out.extents.empty() && chance.one_in(4) ? 1 : 0;
  out.other_families = chance.one_in(2) ? 1 : 0;
  out.drawn_schedules = static_cast<int>(chance.between(1, 2));
  out.data = draw_data(chance, out.kind);
  out.data_seed = chance.bits();
  // Contractions of so few elements are faster as reductions.
  out.contract_always = !chance.one_in(3);
  return out;
}

std::string print_case(const Case& test_case) {
  std::string extents;
  for (const auto& [name, size] : test_case.extents) extents += fmt::format(" {}={}", name, size);
  return fmt::format(
      "; extents:{}\n; device: {}\n"
      "; case: seed={} kind={} sm_count={} slowness={} simplify={} check_indices={} "
      "cut_if_needed_only={} contract_always={} pinned_cuts={} pinned_joins={} followed_plans={} "
      "other_families={} "
      "drawn_schedules={} "
      "data={} data_seed={}\n{}",
      extents, test_case.device, test_case.seed, static_cast<int>(test_case.kind),
      test_case.sm_count, test_case.slowness, static_cast<int>(test_case.simplify),
      static_cast<int>(test_case.check_indices), static_cast<int>(test_case.cut_if_needed_only),
      static_cast<int>(test_case.contract_always), test_case.pinned_cuts, test_case.pinned_joins,
      test_case.followed_plans, test_case.other_families, test_case.drawn_schedules,
      name_of(test_case.data), test_case.data_seed, print(test_case.fusion));
}

namespace {

Error bad_case(std::string message) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = "give a file that the campaign wrote, or one of tests/regressions"};
}

/// "name=12 other=word" as pairs.
std::map<std::string, std::string, std::less<>> pairs_of(const std::string& text) {
  std::map<std::string, std::string, std::less<>> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

template <class T>
void read_number(const std::map<std::string, std::string, std::less<>>& pairs,
                 std::string_view name, T& to) {
  const auto found = pairs.find(name);
  if (found == pairs.end()) return;
  uint64_t number = 0;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), number);
  to = static_cast<T>(number);
}

}  // namespace

Result<Case> parse_case(const std::string& text) {
  auto fusion = parse_fusion(text);
  if (!fusion) return fail(fusion.error());
  Case out{.fusion = std::move(*fusion)};
  name_inputs(out.fusion);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto after = [&](std::string_view key) -> std::optional<std::string> {
      if (!line.starts_with(key)) return std::nullopt;
      return line.substr(key.size());
    };
    if (const auto sizes = after("; extents:")) {
      out.extents.clear();
      for (const auto& [name, size] : pairs_of(*sizes)) {
        int64_t number = -1;
        std::from_chars(size.data(), size.data() + size.size(), number);
        out.extents[name] = number;
      }
    }
    if (const auto device = after("; device: ")) out.device = *device;
    const auto options = after("; case:");
    if (!options) continue;
    const auto pairs = pairs_of(*options);
    read_number(pairs, "seed", out.seed);
    read_number(pairs, "kind", out.kind);
    read_number(pairs, "sm_count", out.sm_count);
    read_number(pairs, "slowness", out.slowness);
    read_number(pairs, "simplify", out.simplify);
    read_number(pairs, "check_indices", out.check_indices);
    read_number(pairs, "cut_if_needed_only", out.cut_if_needed_only);
    read_number(pairs, "contract_always", out.contract_always);
    read_number(pairs, "pinned_cuts", out.pinned_cuts);
    read_number(pairs, "pinned_joins", out.pinned_joins);
    read_number(pairs, "followed_plans", out.followed_plans);
    read_number(pairs, "other_families", out.other_families);
    read_number(pairs, "drawn_schedules", out.drawn_schedules);
    read_number(pairs, "data_seed", out.data_seed);
    if (const auto data = pairs.find("data"); data != pairs.end()) {
      const auto kind = data_kind_from(data->second);
      if (!kind) return fail(bad_case(fmt::format("there are no data '{}'", data->second)));
      out.data = *kind;
    }
  }
  if (static_cast<size_t>(out.kind) > static_cast<size_t>(GraphKind::kLong))
    return fail(bad_case("there is no such kind of graph"));
  if (out.slowness < 1 || out.sm_count < 0)
    return fail(bad_case("a device has SMs, and is slowed by 1 or more"));
  return out;
}

}  // namespace sinter
