#include "tests/errors/error_expectations.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace sinter {
namespace {

template <class IdType>
std::vector<std::string> texts_of(const std::vector<IdType>& ids) {
  std::vector<std::string> out;
  for (const IdType id : ids) out.push_back(fmt::format("{}", id));
  return out;
}

void expect_number(const nlohmann::json& json, const char* key, std::optional<int64_t> number) {
  ASSERT_EQ(json.contains(key), number.has_value()) << key;
  if (!number) return;
  EXPECT_EQ(json[key].get<int64_t>(), *number) << key;
}

void expect_json_of(const Error& error) {
  const auto json = nlohmann::json::parse(error.json(), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << error.json();
  EXPECT_EQ(json["kind"], name_of(error.kind));
  EXPECT_EQ(json["message"], error.message);
  EXPECT_EQ(json["remedy"], error.remedy);
  EXPECT_EQ(json["values"], texts_of(error.values));
  EXPECT_EQ(json["ops"], texts_of(error.ops));
  expect_number(json, "measured", error.measured);
  expect_number(json, "limit", error.limit);
  EXPECT_EQ(json.value("log", ""), error.log);
}

}  // namespace

void expect_error(const Error& error, const ExpectedError& expected, std::source_location where) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), error.text());
  EXPECT_EQ(name_of(error.kind), name_of(expected.kind));
  EXPECT_THAT(error.message, testing::HasSubstr(expected.text));
  EXPECT_EQ(error.values, expected.values);
  EXPECT_EQ(error.ops, expected.ops);
  EXPECT_EQ(error.measured, expected.measured);
  EXPECT_EQ(error.limit, expected.limit);
  EXPECT_NE(error.remedy, "");
  expect_json_of(error);
}

}  // namespace sinter
