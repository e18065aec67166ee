#include "scheduler/schedule/schedule.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "scheduler/analysis/kept_value.h"

namespace sinter::schedule_test {

using testing::HasSubstr;

int64_t any_number() { return *rc::gen::arbitrary<int64_t>(); }

Residency any_residency() {
  return *rc::gen::element(Residency::kRegister, Residency::kShared, Residency::kReload);
}

/// Any values of the parameters that belong to a family.
FamilyParameters any_parameters(std::string_view family) {
  FamilyParameters out = parameters_of_family(family);
  std::visit(
      [](auto& own) {
        if constexpr (requires { own.cluster_size; }) own.cluster_size = any_number();
        if constexpr (requires { own.pipeline_stages; }) own.pipeline_stages = any_number();
        if constexpr (requires { own.rows_per_iteration; }) own.rows_per_iteration = any_number();
        if constexpr (requires { own.consumer_registers; }) own.consumer_registers = any_number();
        if constexpr (requires { own.epilogue_warps; }) own.epilogue_warps = any_number();
        if constexpr (requires { own.prefetch_rows; }) own.prefetch_rows = any_number();
        if constexpr (requires { own.rows_per_tile; }) own.rows_per_tile = any_number();
        if constexpr (requires { own.accumulators; }) own.accumulators = any_residency();
        if constexpr (requires { own.values; }) {
          for (const auto& [name, value] : *rc::gen::arbitrary<std::map<std::string, int64_t>>())
            own.values.emplace(name, value);
        }
      },
      out);
  return out;
}

rc::Gen<Schedule> any_schedule() {
  return rc::gen::exec([] {
    Schedule s;
    std::vector<std::string> families = {*rc::gen::arbitrary<std::string>()};
    for (const std::string_view name : builtin_family_names()) families.emplace_back(name);
    s.family = *rc::gen::elementOf(families);
    s.parameters = any_parameters(s.family);
    s.threads_per_row = *rc::gen::arbitrary<int64_t>();
    s.rows_per_block = *rc::gen::arbitrary<int64_t>();
    s.vector_width = *rc::gen::arbitrary<int64_t>();
    s.unroll = *rc::gen::arbitrary<int64_t>();
    s.min_blocks_per_sm = *rc::gen::arbitrary<int64_t>();
    s.persistent_blocks = any_number();
    s.read_priority = *rc::gen::element(ReadPriority::kNormal, ReadPriority::kEvictFirst,
                                        ReadPriority::kEvictLast, ReadPriority::kLastUse);
    s.finish = *rc::gen::element(Finish::kKernel, Finish::kLastBlock);
    s.dependent_launch = *rc::gen::element(DependentLaunch::kNone, DependentLaunch::kTrigger,
                                           DependentLaunch::kWait);
    s.row_access =
        *rc::gen::element(RowAccess::kAligned, RowAccess::kUnaligned, RowAccess::kScalar);
    for (const uint32_t index : *rc::gen::arbitrary<std::vector<uint32_t>>()) {
      s.kept.push_back({ValueId{index}, any_residency()});
    }
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
                          .parameters = MultiWaveParameters{.cluster_size = 2,
                                                            .prefetch_rows = 1,
                                                            .accumulators = Residency::kShared},
                          .threads_per_row = 256,
                          .rows_per_block = 1,
                          .vector_width = 8,
                          .unroll = 2,
                          .min_blocks_per_sm = 4,
                          .row_access = RowAccess::kAligned,
                          .read_priority = ReadPriority::kEvictLast,
                          .dependent_launch = DependentLaunch::kTrigger,
                          .kept = {{ValueId{0}, Residency::kRegister}}};
  EXPECT_EQ(print(schedule),
            "schedule multi_wave {\n"
            "  threads_per_row 256  rows_per_block 1  vector_width 8  unroll 2  min_blocks_per_sm 4"
            "  cluster_size 2  prefetch_rows 1\n"
            "  row_access aligned  read_priority evict_last  dependent_launch trigger"
            "  accumulators shared\n"
            "  keep %v0 in register\n"
            "}\n");
}

TEST(ScheduleTextTest, PrintsParametersOfFamiliesFromOutside) {
  const Schedule schedule{.family = "spiral",
                          .parameters = ExternalParameters{{{"turns", 7}, {"a b", -1}}}};
  EXPECT_EQ(
      print(schedule),
      "schedule spiral {\n"
      "  threads_per_row 128  rows_per_block 1  vector_width 1  unroll 1  min_blocks_per_sm 1\n"
      "  row_access aligned  read_priority normal\n"
      "  parameter \"a b\" -1\n"
      "  parameter turns 7\n"
      "}\n");
}

/// The table of fields, the structs of parameters and the functions of Schedule agree.
TEST(ScheduleTextTest, FieldsAreReadAndRefusedByFamily) {
  struct Reader {
    std::string_view field;
    int64_t (Schedule::*read)() const;
    std::set<std::string_view> families;
  };
  const std::vector<Reader> readers = {
      {"cluster_size",
       &Schedule::cluster_size,
       {"column", "looped", "multi_wave", "warp_specialised", "matmul"}},
      {"tile_rows", &Schedule::tile_rows, {"matmul"}},
      {"tile_columns", &Schedule::tile_columns, {"matmul"}},
      {"tile_depth", &Schedule::tile_depth, {"matmul"}},
      {"row_warps", &Schedule::row_warps, {"matmul"}},
      {"pipeline_stages", &Schedule::pipeline_stages, {"warp_specialised", "matmul"}},
      {"rows_per_iteration", &Schedule::rows_per_iteration, {"warp_specialised"}},
      {"consumer_registers", &Schedule::consumer_registers, {"warp_specialised", "matmul"}},
      {"epilogue_warps", &Schedule::epilogue_warps, {"matmul"}},
      {"slice_warps", &Schedule::slice_warps, {"matmul"}},
      {"prefetch_rows", &Schedule::prefetch_rows, {"looped", "multi_wave"}},
      {"rows_per_tile", &Schedule::rows_per_tile, {"looped"}},
  };
  std::vector<std::string_view> families = builtin_family_names();
  families.push_back("spiral");
  for (const auto& [field, read, having] : readers) {
    for (const std::string_view family : families) {
      const auto parsed = parse_schedule(fmt::format("schedule {} {{ {} 8 }}", family, field));
      ASSERT_EQ(parsed.has_value(), having.contains(family)) << family << " " << field;
      if (parsed) {
        EXPECT_EQ(((*parsed).*read)(), 8) << family << " " << field;
        EXPECT_EQ(parse_schedule(print(*parsed)).value(), *parsed);
        EXPECT_EQ(further_numbers(*parsed), fmt::format(", {} 8", field));
        continue;
      }
      EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_THAT(parsed.error().message,
                  HasSubstr(fmt::format("the family '{}' has no field '{}'", family, field)));
      for (const std::string_view name : having)
        EXPECT_THAT(parsed.error().remedy, HasSubstr(std::string(name)));
    }
  }
}

TEST(ScheduleTextTest, FieldsOfOtherFamiliesAreRefusedWhateverTheirValue) {
  EXPECT_EQ(message_of("schedule pointwise {\n  unroll 2  cluster_size 1\n}"),
            "2:13: the family 'pointwise' has no field 'cluster_size'");
  EXPECT_EQ(message_of("schedule column { accumulators register }"),
            "1:19: the family 'column' has no field 'accumulators'");
  EXPECT_EQ(message_of("schedule looped { parameter stages 4 }"),
            "1:19: the family 'looped' has no field 'parameter stages'");
  EXPECT_EQ(message_of("schedule spiral { cluster_size 2 }"),
            "1:19: the family 'spiral' has no field 'cluster_size'");
}

TEST(ScheduleTextTest, HashIsStableAcrossProcesses) {
  EXPECT_EQ(hash_of(Schedule{.family = "looped", .parameters = LoopedParameters{}}),
            hash_of(Schedule{.family = "looped", .parameters = LoopedParameters{}}));
  EXPECT_EQ(hash_of(Schedule{.family = "looped", .parameters = LoopedParameters{}}),
            12674796617291637694U);
}

TEST(ScheduleTextTest, FieldsMayStandInAnyOrderAndBeLeftOut) {
  const auto schedule =
      parse_schedule("schedule looped { unroll 4 ; four loads\n vector_width 2 }");
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(
      *schedule,
      (Schedule{
          .family = "looped", .parameters = LoopedParameters{}, .vector_width = 2, .unroll = 4}));
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

}  // namespace sinter::schedule_test
