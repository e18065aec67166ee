#include "scheduler/schedule/schedule.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/shape.h"
#include "fusion_ir/text_position.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {
namespace {

constexpr std::array kResidencies = {Residency::kRegister, Residency::kShared, Residency::kReload};

constexpr std::array kRowAccesses = {RowAccess::kAligned, RowAccess::kUnaligned,
                                     RowAccess::kScalar};

constexpr std::array kDependentLaunches = {DependentLaunch::kNone, DependentLaunch::kTrigger,
                                           DependentLaunch::kWait, DependentLaunch::kPreload,
                                           DependentLaunch::kRelay};

constexpr std::array kFinishes = {Finish::kKernel, Finish::kLastBlock};

constexpr std::array kReadPriorities = {ReadPriority::kNormal, ReadPriority::kEvictFirst,
                                        ReadPriority::kEvictLast, ReadPriority::kLastUse};

constexpr std::array kExchanges = {ExchangeKind::kCluster, ExchangeKind::kMessages};

/// The words that stand for the values of a type. The argument only selects the type.
std::span<const Residency> words_of(Residency) { return kResidencies; }
std::span<const RowAccess> words_of(RowAccess) { return kRowAccesses; }
std::span<const ReadPriority> words_of(ReadPriority) { return kReadPriorities; }
std::span<const DependentLaunch> words_of(DependentLaunch) { return kDependentLaunches; }
std::span<const Finish> words_of(Finish) { return kFinishes; }
std::span<const ExchangeKind> words_of(ExchangeKind) { return kExchanges; }

using FieldValue = std::variant<int64_t, Residency, RowAccess, ReadPriority, DependentLaunch,
                                Finish, ExchangeKind>;

std::string text_of_value(const FieldValue& value) {
  return std::visit(overloaded{[](int64_t number) { return fmt::format("{}", number); },
                               [](auto word) { return std::string(text_of(word)); }},
                    value);
}

enum class Mention : uint8_t {
  kAlways,
  kIfSet,    ///< Left out of the text if it has its default value.
  kFurther,  ///< The same; further_numbers() names it too.
};

/// A field of the .sched text that has one value.
struct Field {
  std::string_view name;
  Mention mention;
  /// The default value where the family lacks the field.
  FieldValue (*read)(const Schedule&);
  /// False if the family lacks the field. The value has the type that `read` returns.
  bool (*assign)(Schedule&, const FieldValue&);
};

/// A field of the schedules of all families.
template <auto Member>
constexpr Field common_field(std::string_view name, Mention mention) {
  return {.name = name,
          .mention = mention,
          .read = [](const Schedule& schedule) -> FieldValue { return schedule.*Member; },
          .assign =
              [](Schedule& schedule, const FieldValue& value) {
                schedule.*Member = std::get<std::remove_cvref_t<decltype(schedule.*Member)>>(value);
                return true;
              }};
}

/// False if the schedule has other parameters than the member's.
template <class Parameters, class T>
bool assign_member(Schedule& schedule, T Parameters::*member, const FieldValue& value) {
  auto* const own = std::get_if<Parameters>(&schedule.parameters);
  if (own != nullptr) own->*member = std::get<T>(value);
  return own != nullptr;
}

/// A field of the families whose parameters have one of the members.
template <auto Reader, auto... Members>
constexpr Field family_field(std::string_view name) {
  return {.name = name,
          .mention = Mention::kFurther,
          .read = [](const Schedule& schedule) -> FieldValue { return (schedule.*Reader)(); },
          .assign =
              [](Schedule& schedule, const FieldValue& value) {
                return (assign_member(schedule, Members, value) || ...);
              }};
}

/// Every field but `keep` and `parameter`, in the order of the text, and the families that have it.
/// Printing, parsing, hashing and comparing follow it.
constexpr std::array kFields = {
    common_field<&Schedule::threads_per_row>("threads_per_row", Mention::kAlways),
    common_field<&Schedule::rows_per_block>("rows_per_block", Mention::kAlways),
    common_field<&Schedule::vector_width>("vector_width", Mention::kAlways),
    common_field<&Schedule::unroll>("unroll", Mention::kAlways),
    common_field<&Schedule::min_blocks_per_sm>("min_blocks_per_sm", Mention::kAlways),
    common_field<&Schedule::persistent_blocks>("persistent_blocks", Mention::kIfSet),
    family_field<&Schedule::cluster_size, &ColumnParameters::cluster_size,
                 &LoopedParameters::cluster_size, &MultiWaveParameters::cluster_size,
                 &WarpSpecialisedParameters::cluster_size, &MatmulParameters::cluster_size>(
        "cluster_size"),
    family_field<&Schedule::exchange, &MatmulParameters::exchange>("exchange"),
    family_field<&Schedule::tile_rows, &MatmulParameters::tile_rows>("tile_rows"),
    family_field<&Schedule::tile_columns, &MatmulParameters::tile_columns>("tile_columns"),
    family_field<&Schedule::tile_depth, &MatmulParameters::tile_depth>("tile_depth"),
    family_field<&Schedule::row_warps, &MatmulParameters::row_warps>("row_warps"),
    family_field<&Schedule::pipeline_stages, &WarpSpecialisedParameters::pipeline_stages,
                 &MatmulParameters::pipeline_stages>("pipeline_stages"),
    family_field<&Schedule::rows_per_iteration, &WarpSpecialisedParameters::rows_per_iteration>(
        "rows_per_iteration"),
    family_field<&Schedule::consumer_registers, &WarpSpecialisedParameters::consumer_registers,
                 &MatmulParameters::consumer_registers>("consumer_registers"),
    family_field<&Schedule::epilogue_warps, &MatmulParameters::epilogue_warps>("epilogue_warps"),
    family_field<&Schedule::slice_warps, &MatmulParameters::slice_warps>("slice_warps"),
    family_field<&Schedule::prefetch_rows, &LoopedParameters::prefetch_rows,
                 &MultiWaveParameters::prefetch_rows>("prefetch_rows"),
    family_field<&Schedule::rows_per_tile, &LoopedParameters::rows_per_tile>("rows_per_tile"),
    common_field<&Schedule::row_access>("row_access", Mention::kAlways),
    common_field<&Schedule::read_priority>("read_priority", Mention::kAlways),
    common_field<&Schedule::dependent_launch>("dependent_launch", Mention::kIfSet),
    family_field<&Schedule::accumulators, &MultiWaveParameters::accumulators,
                 &WarpSpecialisedParameters::accumulators>("accumulators"),
    common_field<&Schedule::finish>("finish", Mention::kFurther),
};

/// False for a field that has its default value, and is left out of the text then.
bool is_mentioned(const Field& field, const FieldValue& value) {
  static const Schedule kDefaults;
  return field.mention == Mention::kAlways || value != field.read(kDefaults);
}

bool has_field(Schedule schedule, const Field& field) {
  return field.assign(schedule, field.read(schedule));
}

/// The built-in families that have a field.
std::vector<std::string_view> families_with(const Field& field) {
  std::vector<std::string_view> names;
  for (const std::string_view family : builtin_family_names()) {
    if (has_field({.parameters = parameters_of_family(family)}, field)) names.push_back(family);
  }
  return names;
}

/// A name as it stands, or quoted where it is not an identifier.
std::string name_text(std::string_view name) {
  return is_identifier(name) ? std::string(name) : "\"" + escaped(name) + "\"";
}

struct Token {
  std::string_view text{};  ///< Empty at the end of the text.
  size_t line = 1;
  size_t column = 1;
};

/// Splits text into quoted names, braces and runs of other bytes.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks();
    const size_t start = at_;
    const size_t column = start - line_start_ + 1;
    if (start == text_.size()) return {{}, line_, column};
    const char first = text_[at_++];
    if (first == '"') {
      while (at_ < text_.size() && text_[at_] != '\n') {
        const char c = text_[at_++];
        if (c == '"') break;
        if (c == '\\' && at_ < text_.size() && text_[at_] != '\n') ++at_;
      }
    } else if (first != '{' && first != '}') {
      while (at_ < text_.size() && kSeparators.find(text_[at_]) == std::string_view::npos) ++at_;
    }
    return {text_.substr(start, at_ - start), line_, column};
  }

 private:
  static constexpr std::string_view kSeparators = " \t\r\n;{}\"";

  void skip_blanks() {
    bool comment = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        comment = false;
        ++line_;
        line_start_ = at_ + 1;
      } else if (c == ';') {
        comment = true;
      } else if (!comment && c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
};

/// Undoes escaped() on the inside of a quoted name; nothing if an escape is malformed.
std::optional<std::string> unescaped(std::string_view body) {
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    const std::string_view escape = body.substr(i + 1).substr(0, 3);
    if (escape.starts_with('"') || escape.starts_with('\\')) {
      out += escape.front();
      ++i;
      continue;
    }
    uint8_t byte = 0;
    if (escape.size() != 3 || escape.front() != 'x') return std::nullopt;
    const auto [end, error] = std::from_chars(escape.data() + 1, escape.data() + 3, byte, 16);
    if (error != std::errc{} || end != escape.data() + 3) return std::nullopt;
    out += static_cast<char>(byte);
    i += 3;
  }
  return out;
}

/// Names and words of the first grammar, which is no longer accepted, and their present names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRenamed = {{
    {"persist", "keep"},
    {"cluster_blocks", "cluster_size"},
    {"stages", "pipeline_stages"},
    {"compute_registers", "consumer_registers"},
    {"rows_ahead", "prefetch_rows"},
    {"rows_per_turn", "rows_per_tile"},
    {"overlap", "dependent_launch"},
    {"next", "trigger"},
    {"previous", "wait"},
    {"shifted", "unaligned"},
    {"ticket", "last_block"},
}};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  Schedule run() {
    Schedule schedule;
    expect("schedule");
    schedule.family = name();
    schedule.parameters = parameters_of_family(schedule.family);
    expect("{");
    std::set<std::string_view> seen;
    while (token_.text != "}") field(schedule, seen);
    take();
    if (!token_.text.empty()) fail_here("expected nothing after the schedule");
    return schedule;
  }

 private:
  /// `names` are those that could stand there.
  [[noreturn]] void fail_here(std::string_view message,
                              std::span<const std::string_view> names = {}) const {
    constexpr size_t kShownBytes = 40;
    const std::string found =
        token_.text.empty() ? "end of text"
                            : fmt::format("'{}'", escaped(token_.text.substr(0, kShownBytes)));
    const auto renamed = std::ranges::find(kRenamed, token_.text,
                                           &std::pair<std::string_view, std::string_view>::first);
    if (renamed != kRenamed.end() && std::ranges::find(names, renamed->second) != names.end()) {
      throw_error(
          {.kind = ErrorKind::kInvalidArgument,
           .message = message_at(token_.line, token_.column,
                                 fmt::format("expected a word of grammar {} of .sched, found {}",
                                             kScheduleGrammar, found)),
           .remedy = fmt::format("write '{}' instead", renamed->second)});
    }
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = message_at(token_.line, token_.column,
                                       fmt::format("{}, found {}", message, found)),
                 .remedy = suggestion(token_.text, names,
                                      "compare with what `sinter plan --form sched` prints")});
  }

  Token take() { return std::exchange(token_, lexer_.next()); }

  void expect(std::string_view text) {
    if (token_.text != text) fail_here(fmt::format("expected '{}'", text), {&text, 1});
    take();
  }

  std::string name() {
    if (is_identifier(token_.text)) return std::string(take().text);
    const std::string_view text = token_.text;
    if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) {
      fail_here("expected a name");
    }
    auto out = unescaped(text.substr(1, text.size() - 2));
    if (!out) fail_here(R"(escapes are \", \\ and \xNN)");
    take();
    return std::move(*out);
  }

  int64_t integer() {
    int64_t value = 0;
    const char* const last = token_.text.data() + token_.text.size();
    const auto [end, error] = std::from_chars(token_.text.data(), last, value);
    if (error == std::errc::result_out_of_range) fail_here("the number is out of range");
    if (error != std::errc{} || end != last) fail_here("expected an integer");
    take();
    return value;
  }

  ValueId value_id() {
    const std::string_view text = token_.text;
    ValueId value;
    if (text != fmt::format("{}", value)) {
      if (!text.starts_with("%v")) fail_here("expected a value such as %v0");
      const char* const last = text.data() + text.size();
      const auto [end, error] = std::from_chars(text.data() + 2, last, value.index);
      if (error != std::errc{} || end != last || !value.valid()) {
        fail_here("expected a value such as %v0");
      }
    }
    take();
    return value;
  }

  template <class Enum>
  Enum one_of(std::span<const Enum> all) {
    std::vector<std::string_view> names;
    for (const Enum candidate : all) {
      if (token_.text == text_of(candidate)) {
        take();
        return candidate;
      }
      names.push_back(text_of(candidate));
    }
    fail_here(fmt::format("expected one of '{}'", fmt::join(names, "', '")), names);
  }

  void field(Schedule& schedule, std::set<std::string_view>& seen) {
    const Token keyword = token_;
    if (keyword.text == "keep") return keep(schedule);
    if (keyword.text == "parameter") return parameter(schedule);
    if (seen.contains(keyword.text)) fail_here("the field is given twice");
    const auto found = std::ranges::find(kFields, keyword.text, &Field::name);
    if (found == kFields.end()) {
      std::vector<std::string_view> names{"keep", "parameter"};
      for (const Field& field : kFields) names.push_back(field.name);
      fail_here("expected a field or '}'", names);
    }
    if (!has_field(schedule, *found)) {
      fail_of_family(keyword, schedule.family, found->name,
                     fmt::format("leave it out, or use a family that has it: {}",
                                 fmt::join(families_with(*found), ", ")));
    }
    take();
    found->assign(schedule, value_like(found->read(schedule)));
    seen.insert(keyword.text);
  }

  void keep(Schedule& schedule) {
    take();
    const ValueId value = value_id();
    expect("in");
    schedule.kept.push_back({value, one_of<Residency>(kResidencies)});
  }

  void parameter(Schedule& schedule) {
    const Token keyword = take();
    const Token at_name = token_;
    std::string parameter = name();
    auto* const external = std::get_if<ExternalParameters>(&schedule.parameters);
    if (external == nullptr) {
      fail_of_family(keyword, schedule.family, fmt::format("parameter {}", name_text(parameter)),
                     "leave it out; only families from outside the library have parameters");
    }
    if (external->values.contains(parameter)) {
      token_ = at_name;
      fail_here("the parameter is given twice");
    }
    external->values.emplace(std::move(parameter), integer());
  }

  /// A value of the same type as another.
  FieldValue value_like(const FieldValue& like) {
    return std::visit(overloaded{[&](int64_t) -> FieldValue { return integer(); },
                                 [&]<class Enum>(Enum word) -> FieldValue {
                                   return one_of<Enum>(words_of(word));
                                 }},
                      like);
  }

  [[noreturn]] static void fail_of_family(const Token& at, std::string_view family,
                                          std::string_view field, std::string remedy) {
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = message_at(
                     at.line, at.column,
                     fmt::format("the family '{}' has no field '{}'", escaped(family), field)),
                 .remedy = std::move(remedy)});
  }

  Lexer lexer_;
  Token token_;
};

}  // namespace

std::string_view text_of(RowAccess access) {
  switch (access) {
    case RowAccess::kAligned:
      return "aligned";
    case RowAccess::kUnaligned:
      return "unaligned";
    case RowAccess::kScalar:
      return "scalar";
  }
  unreachable();
}

std::string_view text_of(ReadPriority priority) {
  switch (priority) {
    case ReadPriority::kNormal:
      return "normal";
    case ReadPriority::kEvictFirst:
      return "evict_first";
    case ReadPriority::kEvictLast:
      return "evict_last";
    case ReadPriority::kLastUse:
      return "last_use";
  }
  unreachable();
}

std::string_view text_of(DependentLaunch launch) {
  switch (launch) {
    case DependentLaunch::kNone:
      return "none";
    case DependentLaunch::kTrigger:
      return "trigger";
    case DependentLaunch::kWait:
      return "wait";
    case DependentLaunch::kPreload:
      return "preload";
    case DependentLaunch::kRelay:
      return "relay";
  }
  unreachable();
}

std::string_view text_of(Finish finish) {
  switch (finish) {
    case Finish::kKernel:
      return "kernel";
    case Finish::kLastBlock:
      return "last_block";
  }
  unreachable();
}

const std::map<std::string, int64_t, std::less<>>& Schedule::external_values() const {
  static const ExternalParameters kNone;
  const auto* const external = std::get_if<ExternalParameters>(&parameters);
  return external != nullptr ? external->values : kNone.values;
}

bool has_parameters_of_family(const Schedule& schedule) {
  return schedule.parameters.index() == parameters_of_family(schedule.family).index();
}

uint64_t hash_of(const Schedule& schedule) {
  // The text names every field. No two schedules share one if their parameters are those of their
  // families.
  const std::string text = print(schedule);
  return XXH3_64bits(text.data(), text.size());
}

std::string further_numbers(const Schedule& schedule) {
  std::string out;
  for (const Field& field : kFields) {
    const FieldValue value = field.read(schedule);
    if (field.mention == Mention::kFurther && is_mentioned(field, value))
      out += fmt::format(", {} {}", field.name, text_of_value(value));
  }
  for (const auto& [name, value] : schedule.external_values())
    out += fmt::format(", {} {}", name, value);
  return out;
}

std::vector<FieldChange> changes_between(const Schedule& before, const Schedule& after) {
  std::vector<FieldChange> out;
  if (before.family != after.family) out.push_back({"family", before.family, after.family});
  for (const Field& field : kFields) {
    const FieldValue a = field.read(before);
    const FieldValue b = field.read(after);
    if (a != b) out.push_back({std::string(field.name), text_of_value(a), text_of_value(b)});
  }
  using Texts = std::map<std::string, std::pair<std::string, std::string>>;
  const auto add_listed = [&](const Texts& texts) {
    for (const auto& [field, both] : texts) {
      if (both.first == both.second) continue;
      out.push_back({field, both.first.empty() ? "none" : both.first,
                     both.second.empty() ? "none" : both.second});
    }
  };
  std::map<ValueId, std::pair<std::string, std::string>> kept;
  for (const KeptValue& value : before.kept) kept[value.value].first = text_of(value.residency);
  for (const KeptValue& value : after.kept) kept[value.value].second = text_of(value.residency);
  for (const auto& [value, both] : kept) add_listed({{fmt::format("keep {}", value), both}});
  Texts parameters;
  for (const auto& [name, value] : before.external_values())
    parameters["parameter " + name].first = fmt::format("{}", value);
  for (const auto& [name, value] : after.external_values())
    parameters["parameter " + name].second = fmt::format("{}", value);
  add_listed(parameters);
  return out;
}

std::string print(const Schedule& schedule) {
  std::string out = fmt::format("schedule {} {{\n", name_text(schedule.family));
  bool has_words = false;
  for (const Field& field : kFields) {
    const FieldValue value = field.read(schedule);
    if (!is_mentioned(field, value)) continue;
    // Words follow the numbers on a line of their own.
    const bool is_word = !std::holds_alternative<int64_t>(value);
    if (is_word && !has_words) out += "\n";
    has_words |= is_word;
    out += fmt::format("  {} {}", field.name, text_of_value(value));
  }
  out += "\n";
  for (const KeptValue& kept : schedule.kept) {
    out += fmt::format("  keep {} in {}\n", kept.value, text_of(kept.residency));
  }
  for (const auto& [name, value] : schedule.external_values()) {
    out += fmt::format("  parameter {} {}\n", name_text(name), value);
  }
  return out + "}\n";
}

Result<Schedule> parse_schedule(std::string_view text) {
  return as_result([&]() -> Result<Schedule> { return Parser(text).run(); });
}

bool is_kept(const Schedule& schedule, ValueId value) {
  return std::ranges::any_of(
      schedule.kept, [&](const KeptValue& kept) { return kept.value == value && is_kept(kept); });
}

bool is_kept(const Schedule& schedule, ValueId value, Residency residency) {
  return std::ranges::any_of(schedule.kept, [&](const KeptValue& kept) {
    return kept.value == value && kept.residency == residency;
  });
}

}  // namespace sinter
