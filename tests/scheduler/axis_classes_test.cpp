#include "scheduler/analysis/axis_classes.h"

#include <gtest/gtest.h>

namespace sinter::axis_classes_test {

TEST(AxisClasses, JoinsAxesOfOneSize) {
  AxisClasses classes;
  const AxisList a{classes.fresh(6)};
  const AxisList b{classes.fresh(6)};
  EXPECT_NE(classes.resolve(a), classes.resolve(b));
  ASSERT_TRUE(classes.unify(a, b));
  EXPECT_EQ(classes.resolve(a), classes.resolve(b));
}

TEST(AxisClasses, JoiningIsTransitive) {
  AxisClasses classes;
  const AxisList a{classes.fresh(6)};
  const AxisList b{classes.fresh(6)};
  const AxisList c{classes.fresh(6)};
  ASSERT_TRUE(classes.unify(a, b));
  ASSERT_TRUE(classes.unify(c, b));
  EXPECT_EQ(classes.resolve(a), classes.resolve(c));
}

TEST(AxisClasses, SplitsAnAxisThatAReshapeRegroups) {
  AxisClasses classes;
  const AxisList whole{classes.fresh(24)};
  const AxisList parts{classes.fresh(4), classes.fresh(6)};
  ASSERT_TRUE(classes.unify(whole, parts));
  EXPECT_EQ(classes.resolve(whole), classes.resolve(parts));
  ASSERT_EQ(classes.resolve(whole).size(), 2U);
  EXPECT_EQ(classes.size(classes.resolve(whole)[0]), 4);
  EXPECT_EQ(classes.size(classes.resolve(whole)[1]), 6);
}

TEST(AxisClasses, SplitsAlsoWhatWasJoinedBefore) {
  AxisClasses classes;
  const AxisList whole{classes.fresh(24)};
  const AxisList other{classes.fresh(24)};
  const AxisList parts{classes.fresh(4), classes.fresh(6)};
  ASSERT_TRUE(classes.unify(whole, other));
  ASSERT_TRUE(classes.unify(other, parts));
  EXPECT_EQ(classes.resolve(whole), classes.resolve(parts));
}

TEST(AxisClasses, RefinesTwoGroupingsOfOneAxis) {
  AxisClasses classes;
  const AxisList a{classes.fresh(4), classes.fresh(6)};
  const AxisList b{classes.fresh(2), classes.fresh(12)};
  ASSERT_TRUE(classes.unify(a, b));
  const AxisList refined = classes.resolve(a);
  EXPECT_EQ(refined, classes.resolve(b));
  ASSERT_EQ(refined.size(), 3U);
  EXPECT_EQ(classes.size(refined[0]), 2);
  EXPECT_EQ(classes.size(refined[1]), 2);
  EXPECT_EQ(classes.size(refined[2]), 6);
}

TEST(AxisClasses, RefusesSizesThatDoNotDivide) {
  AxisClasses classes;
  EXPECT_FALSE(classes.unify({classes.fresh(4), classes.fresh(6)}, {classes.fresh(18)}));
  EXPECT_FALSE(classes.unify({classes.fresh(4)}, {classes.fresh(6)}));
  EXPECT_FALSE(classes.unify({classes.fresh(0)}, {classes.fresh(6)}));
}

TEST(AxisClasses, LeavesOutClassesOfOneElement) {
  AxisClasses classes;
  const AxisList one{classes.fresh(1)};
  EXPECT_TRUE(classes.resolve(one).empty());
  EXPECT_TRUE(classes.unify({classes.fresh(1), classes.fresh(5)}, {classes.fresh(5)}));
}

}  // namespace sinter::axis_classes_test
