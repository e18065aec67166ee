// The forms of an Error: one line of text, and JSON that keeps every field whatever bytes it holds.

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "fusion_ir/fusion_builder.h"
#include "tests/errors/error_expectations.h"

namespace sinter::error_form_test {

TEST(ErrorForm, JsonKeepsEveryField) {
  const Error error = {.kind = ErrorKind::kResourceExhausted,
                       .message = "a \"quoted\"\ttab, a \\ and a \x01 byte",
                       .remedy = "l\xc3\xb6sen \xe2\x82\xac \xf0\x9f\x98\x80",
                       .values = {ValueId{3}, ValueId{}},
                       .ops = {OpId{7}},
                       .measured = std::numeric_limits<int64_t>::min(),
                       .limit = std::numeric_limits<int64_t>::max(),
                       .log = "line 1\r\nline 2\n"};
  expect_error(error, {.kind = error.kind,
                       .text = error.message,
                       .values = error.values,
                       .ops = error.ops,
                       .measured = error.measured,
                       .limit = error.limit});
}

TEST(ErrorForm, JsonReplacesBytesThatAreNoUtf8) {
  struct Case {
    std::string bytes;
    size_t replaced;
  };
  const std::string replacement = "\xef\xbf\xbd";
  // Alone, cut short, in a long form, a surrogate, beyond the last character.
  for (const Case& test :
       {Case{"\xff", 1}, Case{"\x80", 1}, Case{"\xc3", 1}, Case{"\xe2\x82", 2}, Case{"\xc0\xaf", 2},
        Case{"\xe0\x80\xaf", 3}, Case{"\xf0\x80\x80\xaf", 4}, Case{"\xed\xa0\x80", 3},
        Case{"\xf4\x90\x80\x80", 4}}) {
    const Error error = {.message = "a" + test.bytes + "b"};
    const auto json = nlohmann::json::parse(error.json(), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << error.json();
    std::string expected = "a";
    for (size_t i = 0; i < test.replaced; ++i) expected += replacement;
    EXPECT_EQ(json["message"], expected + "b");
  }
}

TEST(ErrorForm, ANameOfAnyBytesGivesJson) {
  FusionBuilder b("\xff\xfe");
  const Error error = thrown_by([&] { (void)b.build(); });
  EXPECT_EQ(error.kind, ErrorKind::kInvalidFusion);
  EXPECT_TRUE(nlohmann::json::accept(error.json())) << error.json();
}

TEST(ErrorForm, TextIsOneLineAndThenTheLog) {
  const Error error = {.kind = ErrorKind::kInvalidArgument,
                       .message = "too many rows",
                       .remedy = "pass fewer",
                       .values = {ValueId{3}},
                       .ops = {OpId{1}},
                       .measured = 9,
                       .limit = 8,
                       .log = "more"};
  EXPECT_EQ(
      error.text(),
      "InvalidArgument: too many rows [%v3, %op1] (got 9, limit 8). Remedy: pass fewer\nmore");
}

TEST(ErrorForm, AnExceptionSaysWhatItsErrorSays) {
  const Error error = {.kind = ErrorKind::kUnsupported, .message = "no", .remedy = "yes"};
  EXPECT_STREQ(SinterException(error).what(), "Unsupported: no. Remedy: yes");
}

TEST(ErrorForm, ADefectOfSinterAsksForAReport) {
  const Error error = thrown_by([] { SINTER_CHECK(1 > 2, "row {}", 5); });
  expect_error(error, {.kind = ErrorKind::kInternalError, .text = "1 > 2 does not hold at"});
  EXPECT_THAT(error.message, ::testing::HasSubstr("row 5"));
}

}  // namespace sinter::error_form_test
