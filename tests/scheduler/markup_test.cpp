#include "scheduler/report/markup.h"

#include <gmock/gmock.h>

namespace sinter::markup_test {

constexpr std::string_view kNone = "\xEF\xBF\xBD";

TEST(Markup, EscapesWhatXmlReads) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
}

TEST(Markup, EscapesWhatGraphvizReads) { EXPECT_EQ(dot_escaped("a\"b\\n<c>"), "a\\\"b\\\\n<c>"); }

TEST(Markup, KeepsUtf8AndReplacesTheRest) {
  const std::string fine = "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x99\x82";
  EXPECT_EQ(xml_escaped(fine), fine);
  EXPECT_EQ(dot_escaped(fine), fine);
  const std::string none(kNone);
  EXPECT_EQ(xml_escaped("\xC3"), none);
  EXPECT_EQ(xml_escaped("\xFFx"), none + "x");
  EXPECT_EQ(xml_escaped("\xC0\xAF"), none + none) << "overlong";
  EXPECT_EQ(xml_escaped("\xED\xA0\x80"), none + none + none) << "a surrogate";
  EXPECT_EQ(xml_escaped("\xF4\x90\x80\x80"), none + none + none + none) << "beyond U+10FFFF";
  EXPECT_EQ(xml_escaped("\xEF\xBF\xBF"), none) << "no character of XML";
  EXPECT_EQ(xml_escaped(std::string_view("a\0b\nc\x7F", 6)), "a b c ");
}

TEST(Markup, ShortensByCharacters) {
  EXPECT_EQ(shortened("abcd", 4), "abcd");
  EXPECT_EQ(shortened("abcde", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xE2\x80\xA6");
  EXPECT_EQ(character_count("\xC3\xA4\xC3\xB6\xFF"), 3U);
  EXPECT_EQ(shortened("", 1), "");
}

}  // namespace sinter::markup_test
