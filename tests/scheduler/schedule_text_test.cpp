#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {
namespace {

using testing::HasSubstr;

rc::Gen<Schedule> any_schedule() {
  return rc::gen::exec([] {
    Schedule s;
    s.family = *rc::gen::arbitrary<std::string>();
    s.threads_per_row = *rc::gen::arbitrary<int64_t>();
    s.rows_per_block = *rc::gen::arbitrary<int64_t>();
    s.vector_width = *rc::gen::arbitrary<int64_t>();
    s.unroll = *rc::gen::arbitrary<int64_t>();
    s.min_blocks_per_sm = *rc::gen::arbitrary<int64_t>();
    s.prefetch_rows = *rc::gen::arbitrary<int64_t>();
    s.rows_per_tile = *rc::gen::arbitrary<int64_t>();
    s.read_priority = *rc::gen::element(ReadPriority::kNormal, ReadPriority::kEvictFirst,
                                        ReadPriority::kEvictLast, ReadPriority::kLastUse);
    s.accumulators =
        *rc::gen::element(Residency::kRegister, Residency::kShared, Residency::kReload);
    s.dependent_launch = *rc::gen::element(DependentLaunch::kNone, DependentLaunch::kTrigger,
                                           DependentLaunch::kWait);
    s.row_access =
        *rc::gen::element(RowAccess::kAligned, RowAccess::kUnaligned, RowAccess::kScalar);
    for (const uint32_t index : *rc::gen::arbitrary<std::vector<uint32_t>>()) {
      s.kept.push_back({ValueId{index}, *rc::gen::element(Residency::kRegister, Residency::kShared,
                                                          Residency::kReload)});
    }
    for (const auto& [name, value] : *rc::gen::arbitrary<std::map<std::string, int64_t>>())
      s.parameters.emplace(name, value);
    return s;
  });
}

std::string message_of(std::string_view text) {
  const auto schedule = parse_schedule(text);
  if (schedule) return "it parses";
  EXPECT_EQ(schedule.error().kind, ErrorKind::kInvalidArgument);
  return schedule.error().message;
}

RC_GTEST_PROP(ScheduleTextTest, ParsingWhatIsPrintedGivesTheSchedule, ()) {
  const Schedule schedule = *any_schedule();
  const auto parsed = parse_schedule(print(schedule));
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(*parsed == schedule);
  RC_ASSERT(hash_of(*parsed) == hash_of(schedule));
}

RC_GTEST_PROP(ScheduleTextTest, DifferentSchedulesHaveDifferentTextAndHash, ()) {
  const Schedule a = *any_schedule();
  const Schedule b = *any_schedule();
  RC_PRE(a != b);
  RC_ASSERT(print(a) != print(b));
  RC_ASSERT(hash_of(a) != hash_of(b));
}

RC_GTEST_PROP(ScheduleTextTest, AnyBytesSurvive, (const std::string& bytes)) {
  for (const std::string& text :
       {bytes, "schedule x {" + bytes, "schedule x { persist " + bytes, "schedule \"" + bytes}) {
    if (const auto parsed = parse_schedule(text)) {
      RC_ASSERT(parse_schedule(print(*parsed)) == *parsed);
    } else {
      RC_ASSERT(parsed.error().kind == ErrorKind::kInvalidArgument);
      RC_ASSERT(parsed.error().message.find(':') != std::string::npos);
    }
  }
}

RC_GTEST_PROP(ScheduleTextTest, DamagedTextSurvives, ()) {
  std::string text = print(*any_schedule());
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      text.erase(at);
      break;
    case 1:
      text[at] = *rc::gen::arbitrary<char>();
      break;
    default:
      text.insert(at, *rc::gen::arbitrary<std::string>());
      break;
  }
  if (const auto parsed = parse_schedule(text))
    RC_ASSERT(parse_schedule(print(*parsed)) == *parsed);
}

TEST(ScheduleTextTest, PrintsTheGrammarsExample) {
  const Schedule schedule{.family = "multi_wave",
                          .threads_per_row = 256,
                          .rows_per_block = 1,
                          .vector_width = 8,
                          .unroll = 2,
                          .min_blocks_per_sm = 4,
                          .row_access = RowAccess::kAligned,
                          .read_priority = ReadPriority::kEvictLast,
                          .kept = {{ValueId{0}, Residency::kRegister}},
                          .parameters = {{"name", 7}}};
  EXPECT_EQ(
      print(schedule),
      "schedule multi_wave {\n"
      "  threads_per_row 256  rows_per_block 1  vector_width 8  unroll 2  min_blocks_per_sm 4\n"
      "  row_access aligned  read_priority evict_last\n"
      "  keep %v0 in register\n"
      "  parameter name 7\n"
      "}\n");
}

TEST(ScheduleTextTest, HashIsStableAcrossProcesses) {
  EXPECT_EQ(hash_of(Schedule{.family = "looped"}), hash_of(Schedule{.family = "looped"}));
  EXPECT_EQ(hash_of(Schedule{.family = "looped"}), 12674796617291637694U);
}

TEST(ScheduleTextTest, FieldsMayStandInAnyOrderAndBeLeftOut) {
  const auto schedule =
      parse_schedule("schedule looped { unroll 4 ; four loads\n vector_width 2 }");
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(*schedule, (Schedule{.family = "looped", .vector_width = 2, .unroll = 4}));
}

TEST(ScheduleTextTest, ErrorsNamePositionAndToken) {
  EXPECT_EQ(message_of(""), "1:1: expected 'schedule', found end of text");
  EXPECT_EQ(message_of("fusion"), "1:1: expected 'schedule', found 'fusion'");
  EXPECT_EQ(message_of("schedule {"), "1:10: expected a name, found '{'");
  EXPECT_EQ(message_of("schedule a {\n  threads 3\n}"),
            "2:3: expected a field or '}', found 'threads'");
  EXPECT_EQ(message_of("schedule a { unroll x }"), "1:21: expected an integer, found 'x'");
  EXPECT_EQ(message_of("schedule a { unroll 99999999999999999999 }"),
            "1:21: the number is out of range, found '99999999999999999999'");
  EXPECT_EQ(message_of("schedule a { unroll 1 unroll 2 }"),
            "1:23: the field is given twice, found 'unroll'");
  EXPECT_EQ(message_of("schedule a { parameter p 1 parameter p 2 }"),
            "1:38: the parameter is given twice, found 'p'");
  EXPECT_EQ(message_of("schedule a { keep 3 in register }"),
            "1:19: expected a value such as %v0, found '3'");
  EXPECT_EQ(message_of("schedule a { keep %v3 in disk }"),
            "1:26: expected one of 'register', 'shared', 'reload', found 'disk'");
  EXPECT_EQ(message_of("schedule a { row_access diagonal }"),
            "1:25: expected one of 'aligned', 'unaligned', 'scalar', found 'diagonal'");
  EXPECT_EQ(message_of("schedule \"\\q\" { }"),
            "1:10: escapes are \\\", \\\\ and \\xNN, found '\\\"\\\\q\\\"'");
  EXPECT_EQ(message_of("schedule a { } }"), "1:16: expected nothing after the schedule, found '}'");
  EXPECT_EQ(message_of("schedule a {\n"), "2:1: expected a field or '}', found end of text");
  EXPECT_THAT(message_of("schedule \x01 {"), HasSubstr("\\x01"));
}

}  // namespace
}  // namespace sinter
