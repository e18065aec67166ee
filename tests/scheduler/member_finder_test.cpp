// Members of a list compute element by element and share only scalars. Those of equal structure
// have equal codes, whatever their sizes.

#include "scheduler/analysis/member_finder.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::member_finder_test {

using testing::ElementsAre;
using testing::SizeIs;

struct Found {
  std::vector<EncodedMember> members;
  std::optional<Rejection> why;
};

Found found_in(std::string_view text) {
  const Fusion fusion = parsed_fusion(text);
  MemberFinder finder(fusion);
  Found found{.members = finder.run(), .why = finder.why()};
  return found;
}

constexpr std::string_view kPair = R"(fusion @pair {
  %v0 rate : f32 = input
  %v1 x : f32[4, 6] = input
  %v2 : f32[4, 6] = broadcast %v0 axes()
  %v3 : f32[4, 6] = mul %v1, %v2
  %v4 z : f32[5] = input
  %v5 : f32[5] = broadcast %v0 axes()
  %v6 : f32[5] = mul %v4, %v5
  return %v6, %v3
})";

TEST(MemberFinderTest, MembersFollowTheirFirstOutputs) {
  const std::vector<EncodedMember> members = found_in(kPair).members;
  ASSERT_THAT(members, SizeIs(2));
  EXPECT_THAT(members[0].outputs, ElementsAre(ValueId{6}));
  EXPECT_EQ(members[0].elements, 5);
  EXPECT_EQ(members[1].elements, 24);
  EXPECT_EQ(members[0].code, members[1].code) << "sizes and shapes are no structure";
  EXPECT_THAT(members[1].leaves, ElementsAre(ValueId{1}, ValueId{0})) << "in the order of use";
}

TEST(MemberFinderTest, CodesDifferInFunctionTypeAndConstant) {
  const auto code_of = [](std::string_view type, std::string_view op) {
    const std::vector<EncodedMember> members = found_in(fmt::format(R"(fusion @one {{
  %v0 x : {0}[5] = input
  %v1 c : {0} = constant 2
  %v2 : {0}[5] = broadcast %v1 axes()
  %v3 y : {0}[5] = {1}
  return %v3
}})",
                                                                    type, op))
                                                   .members;
    EXPECT_THAT(members, SizeIs(1));
    return members.empty() ? std::vector<int64_t>() : members[0].code;
  };
  const std::vector<int64_t> code = code_of("f32", "sub %v0, %v2");
  EXPECT_EQ(code_of("f32", "sub %v0, %v2"), code);
  EXPECT_NE(code_of("f32", "sub %v2, %v0"), code);
  EXPECT_NE(code_of("f32", "add %v0, %v2"), code);
  EXPECT_NE(code_of("f64", "sub %v0, %v2"), code);
}

TEST(MemberFinderTest, PartsThatReadOneTensorAreOneMember) {
  const std::vector<EncodedMember> members = found_in(R"(fusion @shared {
  %v0 x : f32[5] = input
  %v1 y : f32[5] = exp %v0
  %v2 z : f32[5] = neg %v0
  return %v1, %v2
})")
                                                 .members;
  ASSERT_THAT(members, SizeIs(1));
  EXPECT_THAT(members[0].outputs, ElementsAre(ValueId{1}, ValueId{2}));
}

TEST(MemberFinderTest, SaysWhyAnOutputBelongsToNone) {
  const auto why = [](std::string_view body) {
    const Found found =
        found_in(fmt::format("fusion @f {{\n%v0 x : f32[4, 8] = input\n{}\n}}", body));
    return found.why ? found.why->rule : "";
  };
  EXPECT_EQ(why("%v1 y : f32[4, 8] = exp %v0 return %v1"), "");
  EXPECT_EQ(why("%v1 s : f32[4] = reduce.sum %v0 over(1) return %v1"),
            "an output is a scalar, or not computed element by element");
  EXPECT_EQ(why("%v1 s : f32[4] = reduce.sum %v0 over(1) %v2 y : f32[4] = exp %v1 return %v2"),
            "a member reads what is neither an input nor computed element by element");
  EXPECT_EQ(why("%v1 y : f32[4, 8] = exp %v0 %v2 s : f32[4] = reduce.sum %v1 over(1)"
                " return %v1, %v2"),
            "something else reads what a member makes");
  EXPECT_EQ(why("%v1 y : f32[4, 8] = exp %v0 return %v1 strides(1, 4)"),
            "an output declares how it lies in memory");
  EXPECT_EQ(why("%v1 p : f32[4, 8] = input strides(16, 1) %v2 y : f32[4, 8] = exp %v1 return %v2"),
            "a tensor is not dense");
}

TEST(MemberFinderTest, ScalarsAndOtherNamesOfTensorsAreFound) {
  const Fusion fusion = parsed_fusion(R"(fusion @f {
  %v0 one : f32[1] = input
  %v1 x : f32[5] = input
  %v2 : f32[5] = broadcast %v0 axes(0)
  %v3 : f32[5, 1] = broadcast %v1 axes(0)
  %v4 : f32[5] = reshape %v3
  %v5 y : f32[5] = mul %v4, %v2
  return %v5 alias(%v1)
})");
  MemberFinder finder(fusion);
  ASSERT_THAT(finder.run(), SizeIs(1));
  EXPECT_TRUE(finder.is_scalar(ValueId{0})) << "one element that is repeated";
  EXPECT_FALSE(finder.is_scalar(ValueId{1}));
  EXPECT_TRUE(finder.is_renamed(ValueId{2}));
  EXPECT_TRUE(finder.is_renamed(ValueId{4}));
  EXPECT_FALSE(finder.is_renamed(ValueId{5}));
  EXPECT_EQ(finder.alias_of(ValueId{5}), ValueId{1});
  EXPECT_FALSE(finder.alias_of(ValueId{4}).valid());
}

TEST(MemberFinderTest, JoinedOpsHaveTheLowestNumber) {
  OpParts parts(5);
  parts.join(3, 4);
  parts.join(4, 1);
  EXPECT_EQ(parts.find(3), 1U);
  EXPECT_EQ(parts.find(4), 1U);
  EXPECT_EQ(parts.find(0), 0U);
  parts.join(1, 3);
  EXPECT_EQ(parts.find(1), 1U) << "joined already";
}

}  // namespace sinter::member_finder_test
