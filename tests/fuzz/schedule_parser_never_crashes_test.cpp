// Mutates valid .sched texts. Whatever the bytes are, the parser returns: a typed error with a
// position, or a schedule that survives its own text and that the verifier and plan() judge without
// harm, whatever numbers it holds.

#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "fusion_ir/printer.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan_verifier.h"
#include "tests/fuzz/mutation.h"
#include "tests/support/plan_matchers.h"

namespace sinter::schedule_parser_never_crashes_test {

constexpr std::string_view kSeeds[] = {
    R"(schedule warp_specialised {
  threads_per_row 128  rows_per_block 1  vector_width 8  unroll 1  min_blocks_per_sm 1
  persistent_blocks 8  pipeline_stages 2  row_access aligned
  keep %v0 in register
}
)",
    R"(schedule multi_wave {
  threads_per_row 256  rows_per_block 1  vector_width 8  unroll 1  min_blocks_per_sm 1
  row_access aligned
  keep %v0 in register
}
)",
    R"(schedule looped {  ; comment
  threads_per_row 32  rows_per_block 4  vector_width 4  unroll 2  min_blocks_per_sm 2
  row_access unaligned
}
)",
    R"(schedule "of, one's \"own\"\x0a" {
  row_access scalar
  keep %v0 in shared
  keep %v1 in reload
  parameter name 7
  parameter "a b" -9223372036854775808
}
)"};

constexpr std::string_view kPieces[] = {"%v0",
                                        "%v4294967295",
                                        "%v?",
                                        "0",
                                        "-1",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "99999999999999999999",
                                        "4611686018427387904",
                                        "{",
                                        "}",
                                        "\"",
                                        "\\",
                                        "\\x4",
                                        ";",
                                        "\n",
                                        "multi_wave",
                                        "looped",
                                        "pointwise",
                                        "transpose",
                                        "keep %v1 in shared ",
                                        "keep %v0 in register ",
                                        "row_access unaligned ",
                                        "row_access scalar vector_width 1 ",
                                        "unroll 16 ",
                                        "unroll 1048576 ",
                                        "threads_per_row 1024 ",
                                        "rows_per_block 32 ",
                                        "warp_specialised",
                                        "column",
                                        "multi_tensor",
                                        "min_blocks_per_sm 4096 ",
                                        "persistent_blocks 132 ",
                                        "persistent_blocks 9223372036854775807 ",
                                        "cluster_size 2 ",
                                        "cluster_size 4611686018427387904 ",
                                        "pipeline_stages 4 ",
                                        "pipeline_stages 9223372036854775807 ",
                                        "rows_per_iteration 2 ",
                                        "consumer_registers 232 ",
                                        "prefetch_rows 1 ",
                                        "rows_per_tile 4 ",
                                        "rows_per_tile 9223372036854775807 ",
                                        "accumulators shared ",
                                        "finish last_block ",
                                        "dependent_launch trigger ",
                                        "read_priority last_use "};

class ScheduleParserNeverCrashes : public ::testing::Test {
 protected:
  void check_one(const std::string& text) const {
    const Result<Schedule> schedule = parse_schedule(text);
    if (!schedule) {
      ASSERT_EQ(schedule.error().kind, ErrorKind::kInvalidArgument) << escaped(text);
      // What stands there, or which family lacks the field.
      const std::string& message = schedule.error().message;
      ASSERT_TRUE(message.find(", found ") != std::string::npos ||
                  message.find(" has no field '") != std::string::npos)
          << escaped(text) << message;
      ASSERT_FALSE(schedule.error().remedy.empty());
      return;
    }
    const Result<Schedule> again = parse_schedule(print(*schedule));
    ASSERT_TRUE(again.has_value()) << escaped(text) << again.error().text();
    ASSERT_EQ(*again, *schedule) << escaped(text);
    // Pinning is what comes next; it must answer too, and refuse what the verifier refuses.
    const auto planned = plan_canned("softmax", {{"rows", 8}, {"cols", 4096}}, "H200",
                                     {.pin = {.schedule = *schedule}});
    const SegmentFacts& facts = plan_.kernels.front().facts;
    const auto rejections = verify_schedule(facts, *schedule, plan_.limits, scheduling_families());
    ASSERT_EQ(planned.has_value(), rejections.empty()) << escaped(text);
    if (planned) {
      ASSERT_THAT(plan_violations(*planned), testing::IsEmpty()) << escaped(text);
      const auto lowered = lower(planned->kernels.front().facts, *schedule);
      ASSERT_TRUE(lowered.has_value()) << escaped(text) << lowered.error().text();
      return;
    }
    ASSERT_FALSE(ends_the_work(planned.error())) << planned.error().text();
    ASSERT_FALSE(planned.error().remedy.empty()) << planned.error().text();
  }

  Plan plan_ = plan_canned("softmax", {{"rows", 8}, {"cols", 4096}}, "H200").value();
};

TEST_F(ScheduleParserNeverCrashes, OnSeedsAndTheirPrefixes) {
  for (const std::string_view seed : kSeeds) {
    ASSERT_TRUE(parse_schedule(seed).has_value()) << parse_schedule(seed).error().text();
    for (size_t size = 0; size <= seed.size(); ++size) check_one(std::string(seed.substr(0, size)));
  }
}

TEST_F(ScheduleParserNeverCrashes, OnMutatedTexts) {
  fuzz(kSeeds, kPieces, 2, [this](const std::string& text) { check_one(text); });
}

}  // namespace sinter::schedule_parser_never_crashes_test
