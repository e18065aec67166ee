#include "runtime/check/sample_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"

namespace sinter::sample_data_test {

HostTensor drawn(SampleData data, DType type = DType::kF32, uint64_t seed = 1) {
  HostTensor tensor = HostTensor::random(type, {6, 40}, {.seed = 9});
  draw_sample_data(tensor, data, seed);
  return tensor;
}

TEST(SampleData, NamesAreReadBack) {
  std::set<std::string> names;
  for (const SampleData data : sample_data()) {
    EXPECT_TRUE(names.insert(name_of(data)).second);
    EXPECT_EQ(sample_data_from_text(name_of(data)), data);
  }
  EXPECT_EQ(sample_data_from_text("infinity"), std::nullopt);
  EXPECT_EQ(sample_data().front(), SampleData{});
}

TEST(SampleData, EqualSeedsGiveEqualElements) {
  for (const SampleData data : sample_data()) {
    const HostTensor a = drawn(data);
    const HostTensor b = drawn(data);
    EXPECT_TRUE(std::ranges::equal(a.storage(), b.storage())) << name_of(data);
  }
  const SampleData mixed{DataKind::kMixed, DataPlacement::kRows};
  EXPECT_FALSE(std::ranges::equal(drawn(mixed).storage(), drawn(mixed, DType::kF32, 2).storage()));
}

TEST(SampleData, KindsAreWhatTheySay) {
  const auto count = [](const HostTensor& tensor, const std::function<bool(double)>& is) {
    int64_t out = 0;
    for (int64_t i = 0; i < tensor.count(); ++i) out += is(tensor.get(i)) ? 1 : 0;
    return out;
  };
  const auto is_infinite = [](double x) { return std::isinf(x); };
  const auto is_nan = [](double x) { return std::isnan(x); };
  for (const DType type : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(count(drawn({DataKind::kInfinity}, type), is_infinite), 240);
    EXPECT_EQ(count(drawn({DataKind::kNan}, type), is_nan), 240);
    EXPECT_EQ(count(drawn({DataKind::kHuge}, type), is_infinite), 0);
    EXPECT_GT(count(drawn({DataKind::kHuge}, type),
                    [&](double x) { return std::fabs(x) > largest_finite(type) / 4.0; }),
              60);
    EXPECT_EQ(count(drawn({DataKind::kZero}, type), [](double x) { return x == 0.0; }), 240);
    EXPECT_GT(count(drawn({DataKind::kZero}, type), [](double x) { return std::signbit(x); }), 60);
  }
  const HostTensor constant = drawn({DataKind::kConstant});
  for (int64_t i = 0; i < constant.count(); ++i)
    EXPECT_EQ(constant.get(i), constant.get(i / 40 * 40));
  EXPECT_NE(constant.get(0), constant.get(40));
}

TEST(SampleData, PlacementsLeaveOthersOrdinary) {
  const auto infinite = [](DataPlacement placement) {
    const HostTensor tensor = drawn({DataKind::kInfinity, placement});
    std::vector<int64_t> rows(6, 0);
    std::vector<int64_t> columns(40, 0);
    for (int64_t i = 0; i < 240; ++i) {
      if (!std::isinf(tensor.get(i))) continue;
      ++rows[static_cast<size_t>(i / 40)];
      ++columns[static_cast<size_t>(i % 40)];
    }
    return std::pair(rows, columns);
  };
  const auto [rows, unused] = infinite(DataPlacement::kRows);
  EXPECT_GE(std::ranges::count(rows, 40), 1);
  EXPECT_GE(std::ranges::count(rows, 0), 1);
  const auto [also_unused, columns] = infinite(DataPlacement::kColumns);
  EXPECT_GE(std::ranges::count(columns, 6), 1);
  EXPECT_GE(std::ranges::count(columns, 0), 20);
  const auto [in_rows, in_columns] = infinite(DataPlacement::kElements);
  EXPECT_LE(std::ranges::max(in_rows), 1);
  EXPECT_GE(std::ranges::max(in_rows), 1);
}

TEST(SampleData, IndicesAreMostlyInsideAndSomeOutside) {
  const auto fusion = parse_fusion(
      "fusion @f { %v0 x : f32[64, 5] = input %v1 i : i64[64] = input "
      "%v2 : f32[64] = take %v0, %v1 axis(1) return %v2 }");
  ASSERT_TRUE(fusion) << fusion.error().text();
  int64_t outside = 0;
  for (const SampleData data : sample_data()) {
    const auto inputs = sample_inputs(*fusion, Binding{}, 1, data);
    int64_t inside = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t index = inputs[1].get_integer(i);
      inside += index >= 0 && index < 5 ? 1 : 0;
    }
    outside += 64 - inside;
    EXPECT_GE(inside, 32) << name_of(data);
    if (data.kind == DataKind::kOrdinary) {
      EXPECT_EQ(inside, 64);
    }
  }
  EXPECT_GT(outside, 0);
}

TEST(SampleData, FewerSetsForLargeProblems) {
  EXPECT_EQ(sample_data_for(1).size(), sample_data().size());
  EXPECT_EQ(sample_data_for(int64_t{1} << 40).size(), 2U);
  EXPECT_EQ(sample_data_for(int64_t{1} << 40)[1].kind, DataKind::kMixed);
}

}  // namespace sinter::sample_data_test
