#include "scheduler/schedule/schedule.h"

#include <xxhash.h>

#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/shape.h"
#include "fusion_ir/text_position.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {
namespace {

struct NumberField {
  std::string_view name;
  int64_t Schedule::*member;
  bool is_optional = false;  ///< Left out of the text if it has its default value.
};

constexpr std::array kNumberFields = {
    NumberField{"threads_per_row", &Schedule::threads_per_row},
    NumberField{"rows_per_block", &Schedule::rows_per_block},
    NumberField{"vector_width", &Schedule::vector_width},
    NumberField{"unroll", &Schedule::unroll},
    NumberField{"min_blocks_per_sm", &Schedule::min_blocks_per_sm},
    NumberField{"persistent_blocks", &Schedule::persistent_blocks, true},
    NumberField{"cluster_size", &Schedule::cluster_size, true},
    NumberField{"pipeline_stages", &Schedule::pipeline_stages, true},
    NumberField{"rows_per_iteration", &Schedule::rows_per_iteration, true},
    NumberField{"consumer_registers", &Schedule::consumer_registers, true},
    NumberField{"prefetch_rows", &Schedule::prefetch_rows, true},
    NumberField{"rows_per_tile", &Schedule::rows_per_tile, true},
};

constexpr std::array kResidencies = {Residency::kRegister, Residency::kShared, Residency::kReload};

constexpr std::array kRowAccesses = {RowAccess::kAligned, RowAccess::kUnaligned,
                                     RowAccess::kScalar};

constexpr std::array kDependentLaunches = {DependentLaunch::kNone, DependentLaunch::kTrigger,
                                           DependentLaunch::kWait};

constexpr std::array kFinishes = {Finish::kKernel, Finish::kLastBlock};

constexpr std::array kReadPriorities = {ReadPriority::kNormal, ReadPriority::kEvictFirst,
                                        ReadPriority::kEvictLast, ReadPriority::kLastUse};

/// True if the text names the field.
bool is_named(const NumberField& field, const Schedule& schedule) {
  return !field.is_optional || schedule.*field.member != Schedule{}.*field.member;
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
    const std::string_view keyword = token_.text;
    if (keyword == "keep") {
      take();
      const ValueId value = value_id();
      expect("in");
      schedule.kept.push_back({value, one_of<Residency>(kResidencies)});
      return;
    }
    if (keyword == "parameter") {
      take();
      const Token at_name = token_;
      std::string parameter = name();
      if (schedule.parameters.contains(parameter)) {
        token_ = at_name;
        fail_here("the parameter is given twice");
      }
      schedule.parameters.emplace(std::move(parameter), integer());
      return;
    }
    if (seen.contains(keyword)) fail_here("the field is given twice");
    if (keyword == "row_access") {
      take();
      schedule.row_access = one_of<RowAccess>(kRowAccesses);
      seen.insert(keyword);
      return;
    }
    if (keyword == "read_priority") {
      take();
      schedule.read_priority = one_of<ReadPriority>(kReadPriorities);
      seen.insert(keyword);
      return;
    }
    if (keyword == "dependent_launch") {
      take();
      schedule.dependent_launch = one_of<DependentLaunch>(kDependentLaunches);
      seen.insert(keyword);
      return;
    }
    if (keyword == "accumulators") {
      take();
      schedule.accumulators = one_of<Residency>(kResidencies);
      seen.insert(keyword);
      return;
    }
    if (keyword == "finish") {
      take();
      schedule.finish = one_of<Finish>(kFinishes);
      seen.insert(keyword);
      return;
    }
    for (const NumberField& number : kNumberFields) {
      if (keyword != number.name) continue;
      take();
      schedule.*number.member = integer();
      seen.insert(keyword);
      return;
    }
    std::vector<std::string_view> names{"keep",          "parameter",        "row_access",
                                        "read_priority", "dependent_launch", "accumulators",
                                        "finish"};
    for (const NumberField& number : kNumberFields) names.push_back(number.name);
    fail_here("expected a field or '}'", names);
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

uint64_t hash_of(const Schedule& schedule) {
  // The text names every field, and no two schedules share one.
  const std::string text = print(schedule);
  return XXH3_64bits(text.data(), text.size());
}

std::string further_numbers(const Schedule& schedule) {
  std::string out;
  for (const NumberField& field : kNumberFields) {
    if (field.is_optional && field.member != &Schedule::persistent_blocks &&
        is_named(field, schedule))
      out += fmt::format(", {} {}", field.name, schedule.*field.member);
  }
  if (schedule.accumulators != Residency::kRegister)
    out += fmt::format(", accumulators {}", text_of(schedule.accumulators));
  if (schedule.finish != Finish::kKernel)
    out += fmt::format(", finish {}", text_of(schedule.finish));
  for (const auto& [name, value] : schedule.parameters) out += fmt::format(", {} {}", name, value);
  return out;
}

std::vector<FieldChange> changes_between(const Schedule& before, const Schedule& after) {
  std::vector<FieldChange> out;
  const auto add = [&](std::string field, const auto& a, const auto& b) {
    if (a != b) out.push_back({std::move(field), fmt::format("{}", a), fmt::format("{}", b)});
  };
  add("family", before.family, after.family);
  for (const NumberField& field : kNumberFields)
    add(std::string(field.name), before.*field.member, after.*field.member);
  add("row_access", text_of(before.row_access), text_of(after.row_access));
  add("read_priority", text_of(before.read_priority), text_of(after.read_priority));
  add("dependent_launch", text_of(before.dependent_launch), text_of(after.dependent_launch));
  add("accumulators", text_of(before.accumulators), text_of(after.accumulators));
  add("finish", text_of(before.finish), text_of(after.finish));
  using Texts = std::map<std::string, std::pair<std::string, std::string>>;
  const auto add_listed = [&](const Texts& texts) {
    for (const auto& [field, both] : texts)
      add(field, both.first.empty() ? "none" : both.first,
          both.second.empty() ? "none" : both.second);
  };
  std::map<ValueId, std::pair<std::string, std::string>> kept;
  for (const KeptValue& value : before.kept) kept[value.value].first = text_of(value.residency);
  for (const KeptValue& value : after.kept) kept[value.value].second = text_of(value.residency);
  for (const auto& [value, both] : kept) add_listed({{fmt::format("keep {}", value), both}});
  Texts parameters;
  for (const auto& [name, value] : before.parameters)
    parameters["parameter " + name].first = fmt::format("{}", value);
  for (const auto& [name, value] : after.parameters)
    parameters["parameter " + name].second = fmt::format("{}", value);
  add_listed(parameters);
  return out;
}

std::string print(const Schedule& schedule) {
  std::string out = fmt::format("schedule {} {{\n", name_text(schedule.family));
  for (const NumberField& field : kNumberFields) {
    if (!is_named(field, schedule)) continue;
    out += fmt::format("  {} {}", field.name, schedule.*field.member);
  }
  out += fmt::format("\n  row_access {}  read_priority {}", text_of(schedule.row_access),
                     text_of(schedule.read_priority));
  if (schedule.dependent_launch != DependentLaunch::kNone)
    out += fmt::format("  dependent_launch {}", text_of(schedule.dependent_launch));
  if (schedule.accumulators != Residency::kRegister)
    out += fmt::format("  accumulators {}", text_of(schedule.accumulators));
  if (schedule.finish != Finish::kKernel)
    out += fmt::format("  finish {}", text_of(schedule.finish));
  out += "\n";
  for (const KeptValue& kept : schedule.kept) {
    out += fmt::format("  keep {} in {}\n", kept.value, text_of(kept.residency));
  }
  for (const auto& [name, value] : schedule.parameters) {
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
