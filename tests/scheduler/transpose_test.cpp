// Tiles of two dimensions: which segments take them, and what is refused.

#include "scheduler/families/transpose.h"

#include <gmock/gmock.h>

#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/tile_space.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/plan_matchers.h"

namespace sinter::transpose_test {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

DeviceLimits h200() { return *find_device("H200"); }

/// 64 x 64 elements, a vector of 4 for each thread and line.
Schedule tile_of_64() {
  return {.family = std::string(kTranspose),
          .threads_per_row = 16,
          .rows_per_block = 16,
          .vector_width = 4,
          .unroll = 4};
}

TEST(Transpose, IsPlannedWhereOrdersMeet) {
  for (const char* name : {"transpose_2d", "transpose_cast", "add_transposed"}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{8192, 8192}, {4096, 1024}, {8191, 4097}}) {
      EXPECT_THAT(plan_canned(name, matrix(rows, columns), "H200"), PlansAs("transpose", NoSpill()))
          << name << " " << rows << " x " << columns;
    }
  }
  EXPECT_THAT(plan_canned("copy", matrix(8192, 8192), "H200"),
              AllOf(PlansAs("pointwise"), RejectedBy("transpose", HasSubstr("fastest along one"))));
  EXPECT_THAT(plan_canned("rms_norm", matrix(64, 1024), "H200"),
              RejectedBy("transpose", HasSubstr("reduces")));
}

TEST(Transpose, WithoutElementsIsPointwise) {
  EXPECT_THAT(plan_canned("transpose_2d", matrix(0, 64), "H200"), PlansAs("pointwise"));
}

TEST(Transpose, TilesStayWithinShortDimensions) {
  const auto planned = plan_canned("transpose_2d", matrix(4, 100000), "H200",
                                   {.pin = {.family = std::string(kTranspose)}});
  ASSERT_TRUE(planned);
  const TileShape shape = tile_shape(planned->kernels.front().chosen().schedule);
  EXPECT_EQ(shape.along, 8);  // The fewest that there are.
}

TEST(Transpose, RefusesWithTheNumber) {
  const SegmentFacts facts = canned_facts("transpose_2d", 256, 256);
  const auto reasons = [&](const Schedule& schedule) {
    return reasons_against(schedule, facts, h200());
  };
  EXPECT_THAT(reasons(tile_of_64()), IsEmpty());
  const auto with = [](auto Schedule::*member, auto value) {
    Schedule schedule = tile_of_64();
    schedule.*member = value;
    return schedule;
  };
  EXPECT_THAT(reasons(with(&Schedule::threads_per_row, int64_t{24})), Contains(HasSubstr("24")));
  EXPECT_THAT(reasons(with(&Schedule::rows_per_block, int64_t{1})),
              Contains(HasSubstr("whole warps")));
  EXPECT_THAT(reasons(with(&Schedule::unroll, int64_t{3})), Contains(HasSubstr("value 3")));
  EXPECT_THAT(reasons(with(&Schedule::unroll, int64_t{32})), Contains(HasSubstr("value 32")));
  EXPECT_THAT(reasons(with(&Schedule::persistent_blocks, int64_t{8})),
              Contains(HasSubstr("do not stay")));
  EXPECT_THAT(reasons(with(&Schedule::row_access, RowAccess::kUnaligned)),
              Contains(HasSubstr("vector boundaries")));
  EXPECT_THAT(reasons(with(&Schedule::min_blocks_per_sm, int64_t{9})),
              Contains(HasSubstr("value 9, limit 8")));
}

}  // namespace sinter::transpose_test
