// Mistakes in text: every .fir, .sched and .kir file of this folder is one, and says in comments at
// its top what error it must give:
//
//     ; error: InvalidFusion: 7:18: operands of add have different types
//     ; values: %v0, %v1       ids the error names; without this line it names none
//     ; ops: %op1
//     ; measured: 9            without this line it has no measured value
//     ; limit: 8
//     ; log: pointwise:        a part of the error's log, such as a rejection; may be repeated
//     ; remedy: did you mean   a part of the remedy
//     ; plan: rows=8 cols=9    the text is right, and planning it for an H200 with these extents
//                              is what fails

#include <gmock/gmock.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/kernel/kernel_parser.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/text_position.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "tests/errors/error_expectations.h"

namespace sinter::text_errors_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<fs::path> all_mistakes() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(SINTER_TEST_DATA_DIR "/errors")) {
    const fs::path extension = entry.path().extension();
    if (extension == ".fir" || extension == ".sched" || extension == ".kir") {
      out.push_back(entry.path());
    }
  }
  std::ranges::sort(out);
  return out;
}

std::string contents_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

int64_t number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_TRUE(error == std::errc{} && end == text.data() + text.size()) << text;
  return value;
}

ErrorKind kind_of(std::string_view name) {
  for (const ErrorKind kind : {ErrorKind::kInvalidFusion, ErrorKind::kInvalidArgument,
                               ErrorKind::kUnsupported, ErrorKind::kResourceExhausted}) {
    if (name_of(kind) == name) return kind;
  }
  ADD_FAILURE() << "no text gives an error of kind " << name;
  return ErrorKind::kInternalError;
}

template <class IdType>
std::vector<IdType> ids_of(std::string_view text, std::string_view prefix) {
  std::vector<IdType> out;
  while (!text.empty()) {
    const std::string_view id = text.substr(0, text.find(", "));
    EXPECT_TRUE(id.starts_with(prefix)) << id;
    out.push_back(IdType{static_cast<uint32_t>(number_of(id.substr(prefix.size())))});
    text.remove_prefix(std::min(text.size(), id.size() + 2));
  }
  return out;
}

/// What the comments at the top of a file ask for.
struct Directives {
  ExpectedError error{};
  bool has_error = false;
  std::vector<std::string> log{};
  std::string remedy{};
  std::optional<ExtentValues> plan{};
};

ExtentValues extents_of(const std::string& text) {
  ExtentValues out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    out[word.substr(0, equals)] = number_of(std::string_view(word).substr(equals + 1));
  }
  return out;
}

Directives directives_of(const std::string& text) {
  Directives out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with("; ");) {
    const size_t colon = line.find(':');
    const std::string key = line.substr(2, colon - 2);
    const std::string value = line.size() > colon + 2 ? line.substr(colon + 2) : "";
    if (key == "error") {
      const size_t end = value.find(": ");
      out.error.kind = kind_of(value.substr(0, end));
      out.error.text = value.substr(end + 2);
      out.has_error = true;
    } else if (key == "values") {
      out.error.values = ids_of<ValueId>(value, ValueTag::kPrefix);
    } else if (key == "ops") {
      out.error.ops = ids_of<OpId>(value, OpTag::kPrefix);
    } else if (key == "measured") {
      out.error.measured = number_of(value);
    } else if (key == "limit") {
      out.error.limit = number_of(value);
    } else if (key == "log") {
      out.log.push_back(value);
    } else if (key == "remedy") {
      out.remedy = value;
    } else if (key == "plan") {
      out.plan = extents_of(value);
    } else {
      ADD_FAILURE() << "no such directive: " << line;
    }
  }
  return out;
}

template <class T>
Error error_of(const Result<T>& result) {
  return result ? Error{.message = "(success)"} : result.error();
}

/// The error of reading a file of this kind and, where the directives ask for it, of planning it.
Error error_of(const fs::path& path, const std::string& text, const Directives& directives) {
  if (path.extension() == ".sched") return error_of(parse_schedule(text));
  if (path.extension() == ".kir") return error_of(parse_kernel(text));
  const Result<Fusion> fusion = parse_fusion(text);
  if (!directives.plan || !fusion) return error_of(fusion);
  return error_of(plan(*fusion, *directives.plan, *find_device("H200")));
}

class TextErrorTest : public ::testing::TestWithParam<fs::path> {};

TEST_P(TextErrorTest, IsReportedAsItsFileSays) {
  const std::string text = contents_of(GetParam());
  const Directives directives = directives_of(text);
  ASSERT_TRUE(directives.has_error) << "no '; error:' line in " << GetParam();
  const Error error = error_of(GetParam(), text, directives);
  expect_error(error, directives.error);
  for (const std::string& part : directives.log) EXPECT_THAT(error.log, HasSubstr(part));
  EXPECT_THAT(error.remedy, HasSubstr(directives.remedy));
  if (directives.plan) return;
  // Whatever is wrong with a text has a place, which tools read from the JSON form.
  const auto position = position_of(error);
  ASSERT_TRUE(position.has_value()) << error.message;
  EXPECT_THAT(error.json(), HasSubstr(fmt::format("\"line\":{},\"column\":{}", position->line,
                                                  position->column)));
  EXPECT_THAT(in_file(error, "dir/a b.fir").json(), HasSubstr("\"file\":\"dir/a b.fir\",\"line\""));
}

INSTANTIATE_TEST_SUITE_P(Files, TextErrorTest, ::testing::ValuesIn(all_mistakes()),
                         [](const auto& file) {
                           return fmt::format("{}_{}", file.param.stem().string(),
                                              file.param.extension().string().substr(1));
                         });

}  // namespace sinter::text_errors_test
