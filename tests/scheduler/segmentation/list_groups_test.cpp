// One kernel takes a list of tensors where that is predicted to be faster than a kernel for the
// members of each size, and leaves the rest of the graph.

#include "scheduler/segmentation/list_groups.h"

#include <gmock/gmock.h>

#include "fusion_ir/verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"
#include "tests/support/training_layers.h"

namespace sinter::list_groups_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Fusion adam_of(const std::vector<int64_t>& lengths) {
  std::vector<Sizes> shapes;
  for (const int64_t length : lengths) shapes.push_back({length});
  const Fusion fusion = adam_over(shapes);
  return simplify(specialize(fusion, bind_extents(fusion, {}).value()));
}

ListGroups lists_of(const Fusion& fusion) { return choose_lists(fusion, kLimits, {}); }

/// Every tensor has a size of its own, so that each would take a launch.
TEST(ListGroupsTest, ManySizesAreOneKernel) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 20; ++i) lengths.push_back(1000 + 8 * i);
  const Fusion fusion = adam_of(lengths);
  const ListGroups lists = lists_of(fusion);
  ASSERT_THAT(lists.groups, SizeIs(1));
  EXPECT_THAT(lists.rest, IsEmpty());
  const ListGroup& list = lists.groups.front();
  EXPECT_THAT(verify(list.subgraph.fusion), IsEmpty());
  EXPECT_EQ(list.subgraph.fusion.outputs.size(), fusion.outputs.size());
  ASSERT_THAT(list.segment.kernels, SizeIs(1));
  EXPECT_EQ(list.segment.kernels[KernelId{0}].chosen().schedule.family, "multi_tensor");
}

TEST(ListGroupsTest, OneTensorIsNoList) {
  const Fusion fusion = adam_of({4096});
  EXPECT_THAT(lists_of(fusion).groups, IsEmpty());
}

/// One kernel runs all tensors of a size without searching a table.
TEST(ListGroupsTest, TensorsOfOneSizeNeedNoTable) {
  EXPECT_THAT(lists_of(adam_of({1 << 20, 1 << 20})).groups, IsEmpty());
}

TEST(ListGroupsTest, TheRestIsWhatNoListMakes) {
  std::string text = "fusion @f {\n%v0 x : f32[64, 128] = input\n";
  text += "%v1 s : f32[64] = reduce.sum %v0 over(1)\n";
  std::string outputs = "%v1";
  for (int i = 0; i < 12; ++i) {
    text += fmt::format("%v{0} t{2} : f32[{3}] = input %v{1} u{2} : f32[{3}] = exp %v{0}\n",
                        2 + 2 * i, 3 + 2 * i, i, 1000 + 16 * i);
    outputs += fmt::format(", %v{}", 3 + 2 * i);
  }
  const Fusion fusion = parsed_fusion(fmt::format("{}return {}\n}}", text, outputs));
  const ListGroups lists = lists_of(fusion);
  ASSERT_THAT(lists.groups, SizeIs(1));
  EXPECT_EQ(lists.groups.front().subgraph.fusion.outputs.size(), 12U);
  EXPECT_THAT(lists.rest, ElementsAre(named_value(fusion, "s")));
}

}  // namespace sinter::list_groups_test
