#include "runtime/driver/prepared_tensor_map.h"

#include <gmock/gmock.h>

#include <bit>
#include <functional>
#include <limits>

#include "tests/support/fake_driver.h"

namespace sinter::prepared_tensor_map_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Rows of 72 elements, of which the first 8 are left out, in a swizzled box of 64 x 16.
TensorMapArgument sample_map() {
  return {.name = "rows",
          .buffer = 1,
          .type = DType::kBF16,
          .offset_bytes = 16,
          .axes = {{.size = 64, .stride_bytes = 2, .box = 64},
                   {.launched = 1, .stride_bytes = 144, .box = 16}},
          .swizzle = 128};
}

KernelSource sample_source() {
  KernelSource source;
  source.entry = "sample";
  source.buffers.resize(2);
  source.params = {DType::kI64, DType::kI32};
  source.param_values = {3, 1000};
  return source;
}

class PreparedTensorMapTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<FakeTensorMap> encode(const TensorMapArgument& map,
                                             std::span<const DevicePointer> buffers) {
    EncodedTensorMap encoded;
    return PreparedTensorMap::prepare(sample_source(), map)
        .and_then([&](const PreparedTensorMap& prepared) {
          return prepared.encode(driver_, buffers, encoded);
        })
        .map([&] { return std::bit_cast<FakeTensorMap>(encoded); });
  }

  FakeDriver driver_;
};

TEST_F(PreparedTensorMapTest, HandsTheDriverItsArguments) {
  const auto map = encode(sample_map(), std::array<DevicePointer, 2>{8, 0x1000});
  ASSERT_TRUE(map) << map.error().text();
  EXPECT_EQ(map->address, 0x1010U);
  EXPECT_EQ(map->type, TensorMapType::kBF16);
  EXPECT_EQ(map->rank, 2);
  EXPECT_THAT(map->sizes, ElementsAre(64, 1000, 0, 0, 0));
  EXPECT_THAT(map->strides, ElementsAre(144, 0, 0, 0));
  EXPECT_THAT(map->boxes, ElementsAre(64, 16, 0, 0, 0));
  EXPECT_THAT(map->element_strides, ElementsAre(1, 1, 0, 0, 0));
  EXPECT_EQ(map->interleave, TensorMapInterleave::kNone);
  EXPECT_EQ(map->swizzle, TensorMapSwizzle::k128);
  EXPECT_EQ(map->promotion, TensorMapPromotion::k128);
  EXPECT_EQ(map->fill, TensorMapFill::kZeros);
}

/// The numbers of cuda.h.
TEST_F(PreparedTensorMapTest, NamesTypesAndSwizzlesAsTheDriverDoes) {
  using enum DType;
  const std::vector<std::pair<DType, int>> types = {
      {kU8, 0},  {kI8, 0},  {kBool, 0}, {kF8E4M3, 0}, {kF8E5M2, 0}, {kI32, 3},
      {kI64, 5}, {kF16, 6}, {kF32, 7},  {kF64, 8},    {kBF16, 9}};
  EXPECT_EQ(types.size(), kAllDTypes.size());
  const std::array<DevicePointer, 2> buffers = {0, 0x1000};
  for (const auto& [type, number] : types) {
    const int64_t bytes = bytes_of(type);
    const auto map =
        encode({.name = "m", .type = type, .axes = {{.size = 5, .stride_bytes = bytes, .box = 16}}},
               buffers);
    ASSERT_TRUE(map) << map.error().text();
    EXPECT_EQ(static_cast<int>(map->type), number) << name_of(type);
  }
  const std::vector<std::pair<int64_t, int>> swizzles = {{0, 0}, {32, 1}, {64, 2}, {128, 3}};
  for (const auto& [bytes, number] : swizzles) {
    TensorMapArgument argument = sample_map();
    argument.swizzle = bytes;
    argument.axes[0].box = bytes == 0 ? 64 : bytes / 2;
    const auto map = encode(argument, buffers);
    ASSERT_TRUE(map) << map.error().text();
    EXPECT_EQ(static_cast<int>(map->swizzle), number);
  }
}

TEST_F(PreparedTensorMapTest, TakesTheLimits) {
  TensorMapArgument argument = sample_map();
  argument.axes = {{.size = kMostMapSize, .stride_bytes = 2, .box = 8}};
  for (int i = 1; i < 5; ++i) {
    argument.axes.push_back(
        {.size = 1, .stride_bytes = (int64_t{1} << 40) - kMapUnit, .box = kMostMapBox});
  }
  argument.axes[4].stride_bytes = kMapUnit;
  const auto map = encode(argument, std::array<DevicePointer, 2>{0, 0x1000});
  ASSERT_TRUE(map) << map.error().text();
  EXPECT_EQ(map->rank, 5);
  EXPECT_EQ(map->sizes[0], uint64_t{1} << 32);
  EXPECT_EQ(map->strides[0], (uint64_t{1} << 40) - 16);
  EXPECT_EQ(map->boxes[4], 256U);
}

TEST_F(PreparedTensorMapTest, RefusesWhatTheDriverWouldRefuse) {
  struct Mistake {
    const char* message;
    int64_t measured, limit;
    std::function<void(TensorMapArgument&)> make;
  };
  using Map = TensorMapArgument;
  const std::vector<Mistake> mistakes = {
      {"tensor map rows has 0 axes", 0, 5, [](Map& m) { m.axes.clear(); }},
      {"tensor map rows has 6 axes", 6, 5, [](Map& m) { m.axes.resize(6, m.axes[1]); }},
      {"begins at byte 8", 8, 16, [](Map& m) { m.offset_bytes = 8; }},
      {"begins at byte -16", -16, 16, [](Map& m) { m.offset_bytes = -16; }},
      {"axis 0 of tensor map rows has 0 elements", 0, 1, [](Map& m) { m.axes[0].size = 0; }},
      {"axis 0 of tensor map rows has 4294967297 elements", kMostMapSize + 1, kMostMapSize,
       [](Map& m) { m.axes[0].size = kMostMapSize + 1; }},
      {"has 0 elements along axis 1", 0, 1, [](Map& m) { m.axes[1].box = 0; }},
      {"has 257 elements along axis 1", 257, 256, [](Map& m) { m.axes[1].box = 257; }},
      {"axis 0 of tensor map rows has a stride of 4 bytes", 4, 2,
       [](Map& m) { m.axes[0].stride_bytes = 4; }},
      {"axis 1 of tensor map rows has a stride of 100 bytes", 100, 16,
       [](Map& m) { m.axes[1].stride_bytes = 100; }},
      {"axis 1 of tensor map rows has a stride of 0 bytes", 0, 16,
       [](Map& m) { m.axes[1].stride_bytes = 0; }},
      {"axis 1 of tensor map rows has a stride of 1099511627776 bytes", int64_t{1} << 40,
       (int64_t{1} << 40) - 1, [](Map& m) { m.axes[1].stride_bytes = int64_t{1} << 40; }},
      {"has 24 bytes along axis 0, not a multiple", 24, 16, [](Map& m) { m.axes[0].box = 12; }},
      {"swizzled by 48 bytes", 48, 128, [](Map& m) { m.swizzle = 48; }},
      {"has 128 bytes along axis 0, its swizzle 64", 128, 64, [](Map& m) { m.swizzle = 64; }},
  };
  for (const Mistake& mistake : mistakes) {
    TensorMapArgument map = sample_map();
    mistake.make(map);
    const auto prepared = PreparedTensorMap::prepare(sample_source(), map);
    ASSERT_FALSE(prepared) << mistake.message;
    EXPECT_EQ(prepared.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(prepared.error().message,
                AllOf(HasSubstr("kernel sample: "), HasSubstr(mistake.message)));
    EXPECT_THAT(prepared.error().remedy, HasSubstr("a schedule without tensor copies"));
    EXPECT_EQ(prepared.error().measured, mistake.measured) << mistake.message;
    EXPECT_EQ(prepared.error().limit, mistake.limit) << mistake.message;
  }
  EXPECT_EQ(driver_.calls(DriverCall::kTensorMapEncode), 0);
}

TEST_F(PreparedTensorMapTest, ChecksSizesThatParametersGive) {
  KernelSource source = sample_source();
  for (const int64_t size : {int64_t{0}, int64_t{-7}, std::numeric_limits<int64_t>::max()}) {
    source.param_values[1] = size;
    const auto prepared = PreparedTensorMap::prepare(source, sample_map());
    ASSERT_FALSE(prepared) << size;
    EXPECT_THAT(prepared.error().message, HasSubstr("axis 1 of tensor map rows"));
    EXPECT_EQ(prepared.error().measured, size);
    EXPECT_EQ(prepared.error().limit, size < 1 ? 1 : kMostMapSize);
  }
}

TEST_F(PreparedTensorMapTest, RefusesAnUnalignedTensorBeforeTheDriverDoes) {
  const auto map = encode(sample_map(), std::array<DevicePointer, 2>{0, 0x1004});
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(map.error().message,
              AllOf(HasSubstr("tensor map rows of kernel sample"), HasSubstr("0x1004")));
  EXPECT_THAT(map.error().remedy, HasSubstr("align the tensor to 16 bytes"));
  EXPECT_EQ(map.error().measured, 4);
  EXPECT_EQ(map.error().limit, 16);
  EXPECT_EQ(driver_.calls(DriverCall::kTensorMapEncode), 0);
}

TEST_F(PreparedTensorMapTest, AFailureOfTheDriverIsATypedError) {
  driver_.fail_next(DriverCall::kTensorMapEncode, DriverStatus::kInvalidValue);
  const auto map = encode(sample_map(), std::array<DevicePointer, 2>{0, 0x1000});
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(map.error().message, HasSubstr("cuTensorMapEncodeTiled failed while encoding tensor "
                                             "map rows of kernel sample"));
}

}  // namespace sinter::prepared_tensor_map_test
