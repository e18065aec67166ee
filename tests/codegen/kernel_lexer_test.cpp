// The lexer splits any bytes into tokens with their lines and columns, and skips nothing but blanks
// and what follows ';'.

#include "codegen/kernel/kernel_lexer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fusion_ir/printer.h"

namespace sinter::kernel_lexer_test {

using testing::ElementsAre;

std::vector<KernelToken> tokens_of(std::string_view text) {
  KernelLexer lexer(text);
  std::vector<KernelToken> tokens;
  do {
    tokens.push_back(lexer.next());
  } while (tokens.back().kind != KernelTokenKind::kEnd);
  return tokens;
}

/// Their texts, without the end.
std::vector<std::string_view> texts_of(std::string_view text) {
  std::vector<std::string_view> texts;
  for (const KernelToken& token : tokens_of(text)) texts.push_back(token.text);
  texts.pop_back();
  return texts;
}

/// "line:column" of each, and of the end.
std::vector<std::string> places_of(std::string_view text) {
  std::vector<std::string> places;
  for (const KernelToken& token : tokens_of(text))
    places.push_back(fmt::format("{}:{}", token.line, token.column));
  return places;
}

KernelTokenKind first_kind(std::string_view text) { return tokens_of(text).front().kind; }

TEST(KernelLexerTest, TextWithoutTokensHasAnEnd) {
  EXPECT_THAT(places_of(""), ElementsAre("1:1"));
  EXPECT_THAT(places_of("\n\n"), ElementsAre("3:1"));
  EXPECT_THAT(places_of(" ; all of it is skipped"), ElementsAre("1:24"));
}

TEST(KernelLexerTest, PlacesCountBytesFromOne) {
  EXPECT_THAT(places_of("a  %r1\r\n\t[b"), ElementsAre("1:1", "1:4", "2:2", "2:3", "2:4"));
}

TEST(KernelLexerTest, AFirstByteDecidesTheKind) {
  EXPECT_EQ(first_kind("x.1_"), KernelTokenKind::kWord);
  EXPECT_EQ(first_kind("-inf"), KernelTokenKind::kWord);
  EXPECT_EQ(first_kind("%r12"), KernelTokenKind::kId);
  EXPECT_EQ(first_kind("// text"), KernelTokenKind::kComment);
  EXPECT_EQ(first_kind("\"a b\""), KernelTokenKind::kString);
  for (const char* text : {"/", "-", "{", "\"open", "\xc3", "=", "- 1"})
    EXPECT_EQ(first_kind(text), KernelTokenKind::kPunctuation) << text;
}

/// A sign ends a word, but for the exponent of a number. In a hexadecimal number "e" is a digit.
TEST(KernelLexerTest, SignsBelongToExponents) {
  EXPECT_THAT(texts_of("1e-5 -1.5E+3"), ElementsAre("1e-5", "-1.5E+3"));
  EXPECT_THAT(texts_of("0x1.8p-1 -0x1P+4"), ElementsAre("0x1.8p-1", "-0x1P+4"));
  EXPECT_THAT(texts_of("1-5"), ElementsAre("1", "-5"));
  EXPECT_THAT(texts_of("0x1e-5"), ElementsAre("0x1e", "-5"));
  EXPECT_THAT(texts_of("axe-5"), ElementsAre("axe", "-5")) << "no number";
}

TEST(KernelLexerTest, CommentsAndSkippedTextEndWithTheLine) {
  EXPECT_THAT(texts_of("a ; // \"b\nc"), ElementsAre("a", "c"));
  EXPECT_THAT(texts_of("a // b ; \"c\nd"), ElementsAre("a", "// b ; \"c", "d"));
  EXPECT_THAT(texts_of("a // last"), ElementsAre("a", "// last"));
}

TEST(KernelLexerTest, StringsEndAtTheNextQuoteThatIsNotEscaped) {
  EXPECT_THAT(texts_of(R"("a\"b" c)"), ElementsAre(R"("a\"b")", "c"));
  EXPECT_THAT(texts_of(R"("a\\" c)"), ElementsAre(R"("a\\")", "c"));
  EXPECT_THAT(texts_of(R"("")"), ElementsAre(R"("")"));
  // One without an end ends with its line, even behind a backslash.
  EXPECT_THAT(texts_of("\"a\\\nb"), ElementsAre("\"a\\", "b"));
  EXPECT_EQ(first_kind("\"a\\"), KernelTokenKind::kPunctuation);
}

TEST(KernelLexerTest, UnescapesWhatWasEscaped) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  EXPECT_EQ(unescaped(escaped(bytes)), bytes);
}

TEST(KernelLexerTest, LeavesOtherEscapesAsTheyAre) {
  for (const char* text : {"\\q", "\\x4", "\\x4g", "\\", "a\\n"}) EXPECT_EQ(unescaped(text), text);
  EXPECT_EQ(unescaped("\\x41\\x42"), "AB");
}

}  // namespace sinter::kernel_lexer_test
