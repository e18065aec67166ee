#include "fusion_ir/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

#include "fusion_ir/op_names.h"

namespace sinter::nearest_name_test {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("add", "add", 3), 0U);
  EXPECT_EQ(edit_distance("dad", "add", 3), 1U);  // A swap.
  EXPECT_EQ(edit_distance("plan", "pln", 3), 1U);
  EXPECT_EQ(edit_distance("H200", "h20", 3), 1U);  // Case does not count.
  EXPECT_EQ(edit_distance("", "abc", 3), 3U);
  EXPECT_EQ(edit_distance("abcdef", "uvwxyz", 3), 4U) << "no further than most + 1";
}

TEST(EditDistance, ComparesNoNamesOfHostileLength) {
  EXPECT_EQ(edit_distance(std::string(100'000, 'a'), std::string(100'000, 'a'), 2), 3U);
  EXPECT_EQ(edit_distance(std::string(kLongestComparedName, 'a'),
                          std::string(kLongestComparedName, 'a'), 2),
            0U);
}

TEST(NearestName, IsNearOrNothing) {
  constexpr std::array<std::string_view, 4> kNames{"rows", "cols", "x", "columns"};
  EXPECT_EQ(nearest_name("row", kNames), "rows");
  EXPECT_EQ(nearest_name("colunms", kNames), "columns");
  EXPECT_EQ(nearest_name("batch", kNames), "");
  EXPECT_EQ(nearest_name("y", kNames), "") << "any letter is one edit from any other";
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(suggestion("batch", kNames, "use rows"), "use rows");
  EXPECT_EQ(suggestion("row", kNames, "use one of these"),
            "did you mean 'rows'? Otherwise use one of these");
}

TEST(NearestName, FindsEveryOpThatLacksALetter) {
  for (const std::string_view name : op_names()) {
    if (name.size() < 5) continue;  // "le" and "lt" are as near to each other.
    EXPECT_NE(nearest_name(name.substr(0, name.size() - 1), op_names()), "") << name;
  }
}

}  // namespace sinter::nearest_name_test
