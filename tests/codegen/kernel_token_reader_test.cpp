// Tokens of .kir text are read with their values, and a token that is not as expected is named with
// its position and the word that was perhaps meant.

#include "codegen/kernel/kernel_token_reader.h"

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_ir.h"

namespace sinter::kernel_token_reader_test {

using testing::HasSubstr;

/// Makes the reader's parts public.
class Reader : public KernelTokenReader {
 public:
  explicit Reader(std::string_view text) : KernelTokenReader(text) {}
  using KernelTokenReader::accept;
  using KernelTokenReader::accept_word;
  using KernelTokenReader::expect;
  using KernelTokenReader::expect_word;
  using KernelTokenReader::fail_here;
  using KernelTokenReader::integer;
  using KernelTokenReader::name;
  using KernelTokenReader::new_id;
  using KernelTokenReader::token;
  using KernelTokenReader::type;
};

Error error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const SinterException& thrown) {
    return thrown.error();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(KernelTokenReaderTest, WhatIsNotAcceptedStays) {
  Reader reader("threads 64");
  EXPECT_FALSE(reader.accept_word("thread"));
  EXPECT_FALSE(reader.accept("threads")) << "a word is no punctuation";
  EXPECT_TRUE(reader.accept_word("threads"));
  EXPECT_EQ(reader.integer(), 64);
  EXPECT_EQ(reader.token().kind, KernelTokenKind::kEnd);
}

TEST(KernelTokenReaderTest, IntegersAreInRange) {
  EXPECT_EQ(Reader("9223372036854775807").integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Reader("-9223372036854775808").integer(), std::numeric_limits<int64_t>::min());
  for (const char* text : {"9223372036854775808", "1.0", "0x10", "x", "", "\"1\""}) {
    EXPECT_THAT(error_of([&] { Reader(text).integer(); }).message,
                HasSubstr("1:1: expected an integer in range"))
        << text;
  }
  EXPECT_THAT(error_of([] { Reader("2147483648").integer<int32_t>(); }).message,
              HasSubstr("expected an integer in range"));
}

/// The largest number stands for an id that is not valid.
TEST(KernelTokenReaderTest, IdsHaveTheirPrefix) {
  EXPECT_EQ(Reader("%r12").new_id<kir::VarTag>(), kir::VarId{12});
  EXPECT_EQ(Reader("%r4294967294").new_id<kir::VarTag>(), kir::VarId{4294967294});
  for (const char* text : {"%r4294967295", "%b1", "%r", "%r1x", "r1"}) {
    EXPECT_THAT(error_of([&] { Reader(text).new_id<kir::VarTag>(); }).message,
                HasSubstr("expected an id like %r0"))
        << text;
  }
}

TEST(KernelTokenReaderTest, NamesAreWordsOrQuoted) {
  EXPECT_EQ(Reader("a.b_1").name(), "a.b_1");
  EXPECT_EQ(Reader("\"a \\\"b\\\"\\x0a\"").name(), "a \"b\"\n");
  EXPECT_EQ(Reader("\"\"").name(), "");
  EXPECT_THAT(error_of([] { Reader("{").name(); }).message, HasSubstr("expected a name"));
  EXPECT_EQ(Reader("bf16").type(), DType::kBF16);
}

TEST(KernelTokenReaderTest, MessagesHavePlaceAndToken) {
  EXPECT_EQ(error_of([] { Reader("\n  ]").expect("["); }).message, "2:3: expected '[', found ']'");
  EXPECT_EQ(error_of([] { Reader("").expect_word("grid"); }).message,
            "1:1: expected 'grid', found end of text");
  const Error odd = error_of([] { Reader("\xff").expect("["); });
  EXPECT_EQ(odd.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(odd.message, HasSubstr("found '\\xff'"));
  // 40 bytes of a token are shown.
  const std::string forty(40, 'a');
  EXPECT_THAT(error_of([&] { Reader(forty + "bcd").expect("["); }).message,
              HasSubstr(fmt::format("found '{}'", forty)));
}

/// All words that were tried since the last token count, and those before it do not.
TEST(KernelTokenReaderTest, RemediesNameTheNearestWordThatWasTried) {
  EXPECT_THAT(error_of([] {
                Reader reader("bariers");
                reader.accept_word("grid");
                reader.accept_word("barrier");
                reader.fail_here("expected a statement");
              }).remedy,
              HasSubstr("barrier"));
  EXPECT_THAT(error_of([] {
                Reader reader("grid bariers");
                reader.accept_word("barrier");
                reader.accept_word("grid");
                reader.fail_here("expected a statement");
              }).remedy,
              testing::Not(HasSubstr("barrier")));
}

}  // namespace sinter::kernel_token_reader_test
