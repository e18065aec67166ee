#include "runtime/oracle/host_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "fusion_ir/error.h"

namespace sinter::host_tensor_test {

TEST(HostTensor, StorageEndsWithTheLastElement) {
  EXPECT_EQ(HostTensor::zeros(DType::kBF16, {3, 5}).storage().size(), 30U);
  EXPECT_EQ(HostTensor::zeros(DType::kF32, {3, 5}, {.byte_offset = 4}).storage().size(), 64U);
  // The last row starts at element 2 * 8 and its last element is the fifth.
  EXPECT_EQ(HostTensor::zeros(DType::kF32, {3, 5}, {.strides = {8, 1}}).storage().size(), 84U);
  EXPECT_EQ(HostTensor::zeros(DType::kI64, {}).storage().size(), 8U);
  EXPECT_EQ(HostTensor::zeros(DType::kF32, {4, 0, 2}).storage().size(), 0U);
}

TEST(HostTensor, BaseIsAlignedAndOffsetMisaligns) {
  const HostTensor tensor = HostTensor::zeros(DType::kF32, {7}, {.byte_offset = 4});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.storage().data()) % kStorageAlignment, 0U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 16, 4U);
}

TEST(HostTensor, ElementsAreRowMajorWhateverTheStrides) {
  HostTensor tensor = HostTensor::zeros(DType::kF32, {2, 3}, {.strides = {1, 2}});
  for (int64_t i = 0; i < 6; ++i) tensor.set(i, static_cast<double>(i));
  const auto* stored = reinterpret_cast<const float*>(tensor.data());
  EXPECT_EQ(stored[0], 0.0F);
  EXPECT_EQ(stored[1], 3.0F);  // [1, 0] lies at stride 1
  EXPECT_EQ(stored[2], 1.0F);  // [0, 1] at stride 2
  const Sizes index = {1, 2};
  EXPECT_EQ(tensor.get(tensor.element_at(index)), 5.0);
  EXPECT_EQ(tensor.index_of(5), index);
}

TEST(HostTensor, RoundTripsEveryType) {
  for (const DType type : kAllDTypes) {
    HostTensor tensor = HostTensor::zeros(type, {2});
    tensor.set(1, 1.0);
    EXPECT_EQ(tensor.get(0), 0.0) << name_of(type);
    EXPECT_EQ(tensor.get(1), 1.0) << name_of(type);
    EXPECT_EQ(tensor.get_integer(1), 1) << name_of(type);
  }
}

TEST(HostTensor, IntegersAreExact) {
  HostTensor tensor = HostTensor::zeros(DType::kI64, {2});
  constexpr int64_t kBeyondDouble = (int64_t{1} << 53) + 1;
  tensor.set_integer(0, kBeyondDouble);
  tensor.set_integer(1, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(tensor.get_integer(0), kBeyondDouble);
  EXPECT_EQ(tensor.get_integer(1), std::numeric_limits<int64_t>::min());
}

TEST(HostTensor, PoisonIsNanAndInvalid) {
  for (const DType type : kAllDTypes) {
    const HostTensor tensor = HostTensor::poisoned(type, {3});
    if (is_float(type)) {
      EXPECT_TRUE(std::isnan(tensor.get(2))) << name_of(type);
    }
    EXPECT_EQ(tensor.bits(2) & 0xffU, 0xffU) << name_of(type);
  }
}

TEST(HostTensor, PaddingShowsStrayWrites) {
  HostTensor tensor =
      HostTensor::zeros(DType::kBF16, {2, 3}, {.strides = {4, 1}, .byte_offset = 2});
  EXPECT_TRUE(tensor.padding_intact());
  tensor.set(5, 1.0);
  EXPECT_TRUE(tensor.padding_intact());
  tensor.data()[6] = std::byte{0};  // the gap after the first row
  EXPECT_FALSE(tensor.padding_intact());
}

TEST(HostTensor, CopiesOwnTheirBytes) {
  const HostTensor original = HostTensor::zeros(DType::kF32, {2});
  HostTensor copy = original;
  copy.set(0, 1.0);
  EXPECT_EQ(original.get(0), 0.0);
}

TEST(HostTensor, RandomFollowsItsSpec) {
  const HostTensor a = HostTensor::random(DType::kF32, {4096}, {.seed = 3, .mean = 2.0});
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t i = 0; i < a.count(); ++i) {
    sum += a.get(i);
    squares += (a.get(i) - 2.0) * (a.get(i) - 2.0);
    ASSERT_LE(std::fabs(a.get(i) - 2.0), 2.0 * std::sqrt(3.0));
  }
  // Mean and variance of 4096 draws lie within 6 standard errors: 1/64 and sqrt(2)/64.
  EXPECT_NEAR(sum / 4096.0, 2.0, 6.0 / 64.0);
  EXPECT_NEAR(squares / 4096.0, 1.0, 6.0 * std::sqrt(2.0) / 64.0);
  const HostTensor b = HostTensor::random(DType::kF32, {4096}, {.seed = 3, .mean = 2.0});
  const HostTensor c = HostTensor::random(DType::kF32, {4096}, {.seed = 4, .mean = 2.0});
  EXPECT_TRUE(std::ranges::equal(a.storage(), b.storage()));
  EXPECT_FALSE(std::ranges::equal(a.storage(), c.storage()));
}

TEST(HostTensor, RandomIntegersCoverTheirRange) {
  const HostTensor labels = HostTensor::random(DType::kI32, {1000}, {.low = 3, .high = 7});
  std::set<int64_t> seen;
  for (int64_t i = 0; i < labels.count(); ++i) seen.insert(labels.get_integer(i));
  EXPECT_EQ(seen, (std::set<int64_t>{3, 4, 5, 6, 7}));
  const HostTensor bytes = HostTensor::random(DType::kU8, {1000}, {.low = -50, .high = 1});
  for (int64_t i = 0; i < bytes.count(); ++i) EXPECT_LE(bytes.get_integer(i), 1);
  const HostTensor all = HostTensor::random(
      DType::kI64, {8},
      {.low = std::numeric_limits<int64_t>::min(), .high = std::numeric_limits<int64_t>::max()});
  EXPECT_NE(all.get_integer(0), all.get_integer(1));
}

void expect_rejected(const std::function<void()>& make, std::string_view text) {
  try {
    make();
    ADD_FAILURE() << "accepted: " << text;
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(std::string(exception.what()).find(text), std::string::npos) << exception.what();
    EXPECT_FALSE(exception.error().remedy.empty());
  }
}

TEST(HostTensor, RejectsBadLayouts) {
  expect_rejected([] { HostTensor::zeros(DType::kF32, {2, -1}); }, "sizes [2, -1]");
  expect_rejected([] { HostTensor::zeros(DType::kF32, {2}, {.strides = {-1}}); }, "strides [-1]");
  expect_rejected([] { HostTensor::zeros(DType::kF32, {2}, {.byte_offset = -4}); }, "offset -4");
  expect_rejected(
      [] {
        HostTensor::zeros(DType::kF32, {2}, {.strides = {1, 1}});
      },
      "2 strides were given for 1 axes");
  expect_rejected([] { HostTensor::zeros(DType::kF64, {int64_t{1} << 61}); }, "2^63 bytes");
  expect_rejected([] { HostTensor::random(DType::kI8, {2}, {.low = 200, .high = 300}); },
                  "no i8 lies in [200, 300]");
  const std::array values = {1.0, 2.0};
  expect_rejected([&] { HostTensor::of(DType::kF32, {3}, values); }, "2 values");
}

constexpr int64_t kLarge = (int64_t{1} << 18) + 77;  // More than one round of draws.

TEST(HostTensor, RandomElementsDependOnTheirNumberOnly) {
  // The first elements of a tensor that several threads fill are those of a small one.
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    const HostTensor large = HostTensor::random(type, {kLarge}, {.seed = 5});
    const HostTensor small = HostTensor::random(type, {600}, {.seed = 5});
    // Any strides but dense ones are filled one by one.
    const HostTensor spread =
        HostTensor::random(type, {kLarge}, {.seed = 5}, HostLayout{.strides = {2}});
    for (int64_t i = 0; i < small.count(); ++i) EXPECT_EQ(large.bits(i), small.bits(i));
    int64_t different = 0;
    for (int64_t i = 0; i < kLarge; ++i) different += large.bits(i) != spread.bits(i) ? 1 : 0;
    EXPECT_EQ(different, 0) << name_of(type);
  }
}

TEST(HostTensor, ReadAndWriteAreGetAndSet) {
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0 / 3.0,
                                      -1e-40,
                                      3e38,
                                      1e300,
                                      std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN(),
                                      65519.0,
                                      449.0};
  const auto count = static_cast<int64_t>(values.size());
  for (const DType type : kAllDTypes) {
    for (const HostLayout& layout :
         {HostLayout{}, HostLayout{.byte_offset = 3}, HostLayout{.strides = {3}}}) {
      HostTensor one_by_one = HostTensor::poisoned(type, {count + 2}, layout);
      HostTensor at_once = one_by_one;
      for (int64_t i = 0; i < count; ++i) one_by_one.set(i + 1, values[static_cast<size_t>(i)]);
      at_once.write(1, values);
      EXPECT_TRUE(std::ranges::equal(at_once.storage(), one_by_one.storage())) << name_of(type);
      std::vector<double> read(values.size());
      at_once.read(1, read);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(std::bit_cast<uint64_t>(read[static_cast<size_t>(i)]),
                  std::bit_cast<uint64_t>(one_by_one.get(i + 1)))
            << name_of(type) << " " << i;
      }
    }
  }
}

}  // namespace sinter::host_tensor_test
