#include "scheduler/report/text_table.h"

#include <gmock/gmock.h>

#include "fusion_ir/error.h"

namespace sinter::text_table_test {

TEST(TextTable, AlignsColumnsAndEndsLinesCleanly) {
  TextTable table({"name", "us"}, {TextTable::Align::kLeft, TextTable::Align::kRight});
  EXPECT_TRUE(table.empty());
  table.row({"a", "1.5"});
  table.row({"longer", "12.0"});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.text(1), " name      us\n a        1.5\n longer  12.0\n");
}

TEST(TextTable, ARowOfTheWrongLengthIsADefect) {
  TextTable table({"a", "b"});
  EXPECT_THROW(table.row({"only one"}), SinterException);
}

TEST(TextTable, BarsShowShares) {
  EXPECT_EQ(bar(0.0, 100.0, 4), "[....]");
  EXPECT_EQ(bar(50.0, 100.0, 4), "[##..]");
  EXPECT_EQ(bar(100.0, 100.0, 4), "[####]");
  EXPECT_EQ(bar(0.001, 100.0, 4), "[#...]") << "something taken must show";
  EXPECT_EQ(bar(101.0, 100.0, 4), "[####]!");
  EXPECT_EQ(bar(1.0, 0.0, 4), "[####]!");
  EXPECT_EQ(bar(0.0, 0.0, 4), "[....]");
}

TEST(TextTable, BytesCarryUnits) {
  EXPECT_EQ(bytes_text(0.0), "0 B");
  EXPECT_EQ(bytes_text(1023.0), "1023 B");
  EXPECT_EQ(bytes_text(1024.0), "1.00 KiB");
  EXPECT_EQ(bytes_text(98304.0), "96.0 KiB");
  EXPECT_EQ(bytes_text(1342177280.0), "1.25 GiB");
}

}  // namespace sinter::text_table_test
