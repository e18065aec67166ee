#include "runtime/tuning/tune_report.h"

#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "runtime/tuning/tuning_json.h"
#include "tests/runtime/tuning/fake_measurer.h"
#include "tests/support/canned_fusions.h"

namespace sinter::tune_report_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Of a norm: the second candidate does not compile, the third is wrong, the fourth wins.
TuneResult eventful() {
  FakeMeasurer measurer;
  measurer.prepared = [](PreparedCandidate& candidate) {
    if (candidate.id == 1)
      candidate.failure = Error{.kind = ErrorKind::kDeviceError, .message = "ptxas: no"};
    if (candidate.id == 2) candidate.wrong = "output 0: 3 of 4096 elements outside their bound";
  };
  measurer.us = [&](const Schedule& schedule, int64_t) {
    return measurer.asked.size() > 3 && schedule == measurer.asked[3] ? 60.5 : 80.25;
  };
  return tune(find_canned_fusion("rms_norm")->build(), {{"rows", 4096}, {"cols", 4096}},
              *find_device("H200"), {.families = builtin_families()}, measurer, {.top = 5})
      .value();
}

TEST(TuneReportTest, SaysWhatWasMeasuredAndWhatIsWrong) {
  const std::string text = report_text(eventful());
  EXPECT_THAT(text, AllOf(HasSubstr("rms_norm on H200: finished in"),
                          HasSubstr("60.50 us, the untuned choice 80.25 us"),
                          HasSubstr("60.50 us tuned, 80.25 us untuned, over 1 kernel(s)"),
                          HasSubstr("ptxas: no"), HasSubstr("WRONG RESULTS of 1 candidate(s)"),
                          HasSubstr("3 of 4096 elements outside their bound")));
  // One line is marked.
  EXPECT_THAT(text, HasSubstr("\n*     60.50 us"));
  EXPECT_EQ(text.find("\n*"), text.rfind("\n*"));
  EXPECT_THAT(text, Not(HasSubstr("stopped by")));
}

TEST(TuneReportTest, SaysTheSameAsJson) {
  const TuneResult result = eventful();
  const Json json = to_json(result);
  EXPECT_EQ(json.at("ended"), "finished");
  EXPECT_EQ(json.at("wrong_results"), 1);
  EXPECT_EQ(json.at("tuned_us"), 60.5);
  EXPECT_EQ(json.at("untuned_us"), 80.25);
  EXPECT_TRUE(json.at("unmeasured").empty());
  EXPECT_TRUE(json.at("trouble").is_null());
  const Json& segment = json.at("kernels").at(0);
  EXPECT_EQ(segment.at("winner"), 3);
  const Json& measurements = segment.at("measurements");
  ASSERT_EQ(measurements.size(), 6U);
  EXPECT_EQ(measurements.at(0).at("verdict"), "untuned choice");
  EXPECT_EQ(measurements.at(1).at("verdict"), "does not compile");
  EXPECT_TRUE(measurements.at(1).at("timed").is_null());
  EXPECT_EQ(measurements.at(2).at("verdict"), "WRONG RESULTS");
  EXPECT_EQ(measurements.at(3).at("timed").at("median_us"), 60.5);
  EXPECT_EQ(parse_schedule(measurements.at(3).at("schedule").get<std::string>()).value(),
            result.kernels.front().measurements[3].schedule);
  EXPECT_EQ(measurements.at(4).at("verdict"), "slower");
}

TEST(TuneReportTest, NamesWhatIsNotMeasuredInPlaceOfASum) {
  FakeMeasurer measurer;
  measurer.begun = [](const Fusion& fusion) -> Result<void> {
    if (fusion.name.ends_with("_finish")) return {};
    return fail({.kind = ErrorKind::kUnsupported, .message = "too much for the oracle"});
  };
  // A few long rows, whose parts have a kernel of their own.
  const TuneResult result =
      tune(find_canned_fusion("row_sum")->build(), {{"rows", 8}, {"cols", 1 << 21}},
           *find_device("H200"), {.families = builtin_families()}, measurer, {.top = 1})
          .value();
  ASSERT_EQ(result.kernels.size(), 2U);
  EXPECT_FALSE(result.tuned_us());
  ASSERT_EQ(result.unmeasured().size(), 1U);
  const std::string text = report_text(result);
  EXPECT_THAT(text, HasSubstr("no time for the graph:\n  segment 0 (row_sum_parts): not measured: "
                              "too much for the oracle\n"));
  EXPECT_THAT(text, Not(HasSubstr("us tuned,")));
  const Json json = to_json(result);
  EXPECT_TRUE(json.at("tuned_us").is_null());
  EXPECT_TRUE(json.at("untuned_us").is_null());
  EXPECT_EQ(json.at("unmeasured").at(0).at("kernel"), "row_sum_parts");
  EXPECT_EQ(json.at("unmeasured").at(0).at("because"), "not measured: too much for the oracle");
  EXPECT_EQ(json.at("kernels").at(1).at("kernel"), "row_sum_finish");
}

TEST(TuneReportTest, SaysWhatEndedItEarly) {
  TuneResult result = eventful();
  result.stop = TuneStop::kDevice;
  result.trouble = Error{.kind = ErrorKind::kDeviceError, .message = "did not end"};
  EXPECT_THAT(report_text(result),
              AllOf(HasSubstr("the device failed"), HasSubstr("stopped by: DeviceError: did not")));
  EXPECT_EQ(to_json(result).at("trouble").at("message"), "did not end");
}

}  // namespace sinter::tune_report_test
