#include "runtime/json/device_limits_json.h"

#include <gmock/gmock.h>

#include "runtime/json/plan_json.h"

namespace sinter::device_limits_json_test {

using ::testing::HasSubstr;

TEST(DeviceLimitsJson, EveryPresetReadsBackEqual) {
  for (const DeviceLimits& preset : device_presets()) {
    const auto read = device_limits_from_json(text_of(to_json(preset)));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, preset) << preset.name;
  }
}

TEST(DeviceLimitsJson, ABaseStandsForWhatIsLeftOut) {
  const auto read = device_limits_from_json(
      R"({"base": "H100", "name": "H100 PCIe", "sm_count": 114, "memory_bytes_per_us": 2e6})");
  ASSERT_TRUE(read) << read.error().text();
  DeviceLimits expected = *find_device("H100");
  expected.name = "H100 PCIe";
  expected.sm_count = 114;
  expected.memory_bytes_per_us = 2e6;
  EXPECT_EQ(*read, expected);
}

TEST(DeviceLimitsJson, ConstantsOfTheCostModelMayBeChanged) {
  const auto read = device_limits_from_json(
      R"({"base": "H100", "cost": {"launch_us": 3, "row": {"chunk_ns": 450.5}}})");
  ASSERT_TRUE(read) << read.error().text();
  DeviceLimits expected = *find_device("H100");
  expected.cost.launch_us = 3.0;
  expected.cost.row.chunk_ns = 450.5;
  EXPECT_EQ(*read, expected);
  // What differs from the constants of the device's name is written, and read back.
  const Json json = to_json(*read);
  EXPECT_EQ(json.at("cost").size(), 2U) << text_of(json);
  EXPECT_EQ(*device_limits_from_json(text_of(json)), expected);
  EXPECT_FALSE(to_json(*find_device("H100")).contains("cost"));
}

TEST(DeviceLimitsJson, AllConstantsAreWritten) {
  Json json = to_json(*find_device("H200"));
  json["cost"] = to_json(find_device("H200")->cost);
  EXPECT_EQ(*device_limits_from_json(text_of(json)), *find_device("H200"));
  EXPECT_EQ(json.at("cost").at("non_persistent").at("busy_warps"),
            find_device("H200")->cost.non_persistent.busy_warps);
}

struct Mistake {
  std::string text;
  std::string message;
  std::string remedy;
};

TEST(DeviceLimitsJson, MistakesAreTypedErrors) {
  const std::vector<Mistake> mistakes = {
      {"", "1:1: the device's limits are no JSON", "sinter devices"},
      {"{\n  \"base\": \"H100\",\n  oops\n}", "3:3: ", "sinter devices"},
      {"[]", "no JSON object", ""},
      {"{}", "has no compute_major", "base"},
      {R"({"base": "H10O"})", "no device 'H10O'", "did you mean 'H100'?"},
      {R"({"base": 3})", "no device '3'", ""},
      {R"({"base": "H100", "sm_cuont": 3})", "no field 'sm_cuont'", "did you mean 'sm_count'?"},
      {R"({"base": "H100", "sm_count": 0})", "sm_count is 0", "from 1 to"},
      {R"({"base": "H100", "sm_count": 1.5})", "sm_count is 1.5", "an integer"},
      {R"({"base": "H100", "sm_count": "1"})", "sm_count is", "an integer"},
      {R"({"base": "H100", "sm_count": 18446744073709551615})", "sm_count is", "an integer"},
      {R"({"base": "H100", "memory_bytes_per_us": -1})", "memory_bytes_per_us is -1", "a number"},
      {R"({"base": "H100", "memory_bytes_per_us": 1e999})", "", ""},
      {R"({"base": "H100", "cost": 3})", "cost is 3", "an object"},
      {R"({"base": "H100", "cost": {"row": 3}})", "no constant 'row'", "sinter devices"},
      {R"({"base": "H100", "cost": {"row": {"chunk": 3}}})", "no constant 'row.chunk'",
       "did you mean 'row.chunk_ns'?"},
      {R"({"base": "H100", "cost": {"rwo": {}}})", "no constant 'rwo'", "sinter devices"},
      {R"({"base": "H100", "cost": {"launch_us": {}}})", "launch_us is {}", "a number from 0 to"},
      {R"({"base": "H100", "cost": {"row.chunk_ns": 400}})", "no constant 'row.chunk_ns'", ""},
      {R"({"base": "H100", "cost": {"launch_us": "2"}})", "launch_us is", "a number from 0 to"},
      {R"({"base": "H100", "cost": {"issue_efficiency": 0}})", "issue_efficiency is 0",
       "from 0.01"},
      {R"({"base": "H100", "has_wgmma": 1})", "has_wgmma is 1", "true or false"},
      {R"({"base": "H100", "name": ""})", "name is", "a string"},
      {R"({"base": "H100", "architecture": "sm_80"})", "architecture is", "agree"},
      {R"({"base": "H100", "shared_bytes_per_sm": 1000})", "its SM 1000", "no more"},
      {std::string(1'000'000, '['), "1:65: the device's limits nest more than 64 levels deep", ""},
      // Whole, where reading it copies or shows the value.
      {R"({"base": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}",
       "1:73: the device's limits nest more than 64 levels deep", ""},
  };
  for (const Mistake& mistake : mistakes) {
    const auto read = device_limits_from_json(mistake.text);
    const std::string shown = mistake.text.substr(0, 80);
    ASSERT_FALSE(read) << shown;
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalidArgument) << shown;
    EXPECT_THAT(read.error().message, HasSubstr(mistake.message));
    EXPECT_THAT(read.error().remedy, HasSubstr(mistake.remedy));
  }
}

}  // namespace sinter::device_limits_json_test
