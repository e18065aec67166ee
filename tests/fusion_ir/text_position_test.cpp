#include "fusion_ir/text_position.h"

#include <gtest/gtest.h>

namespace sinter::text_position_test {

Error error_of(std::string message, ErrorKind kind = ErrorKind::kInvalidFusion) {
  return {.kind = kind, .message = std::move(message)};
}

TEST(TextPosition, IsReadAsItIsWritten) {
  const Error error = error_of(message_at(3, 12, "unknown op, found 'foo'"));
  EXPECT_EQ(position_of(error), (TextPosition{.line = 3, .column = 12}));
  const Error named = in_file(error, "dir/norm v2.fir");
  EXPECT_EQ(named.message, "dir/norm v2.fir:3:12: unknown op, found 'foo'");
  EXPECT_EQ(position_of(named), (TextPosition{.file = "dir/norm v2.fir", .line = 3, .column = 12}));
  EXPECT_EQ(in_file(named, "other.fir"), named) << "it has a file";
}

TEST(TextPosition, IsNotSeenInOtherMessages) {
  for (const char* message :
       {"", "rows is 3", "3:12", "3: 12: x", "0:1: x", "3:12:x", "'a:3:12: b' is no name",
        "the fusion 'f' breaks: 'x:1:2: y'", "99999999999999999999:1: x"}) {
    EXPECT_EQ(position_of(error_of(message)), std::nullopt) << message;
    EXPECT_EQ(in_file(error_of(message), "a.fir"), error_of(message));
  }
  EXPECT_EQ(position_of(error_of("3:12: x", ErrorKind::kDeviceError)), std::nullopt)
      << "a compiler's positions are in its own text";
}

}  // namespace sinter::text_position_test
