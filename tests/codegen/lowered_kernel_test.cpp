// Integers in argument space are packed in their type, the lowest byte first.

#include "codegen/lower/lowered_kernel.h"

#include <gmock/gmock.h>

#include <limits>

#include "fusion_ir/error.h"

namespace sinter::lowered_kernel_test {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> bytes_of_values(DType type, const std::vector<int64_t>& values) {
  const kir::Buffer buffer{.name = "sizes",
                           .type = type,
                           .space = kir::Space::kArgument,
                           .value = {},
                           .count = static_cast<int64_t>(values.size())};
  std::vector<int> out;
  for (const std::byte byte : argument_bytes(buffer, values)) out.push_back(static_cast<int>(byte));
  return out;
}

TEST(LoweredKernelTest, IntegersArePackedInTheirType) {
  EXPECT_THAT(bytes_of_values(DType::kI32, {1, 0x01020304}), ElementsAre(1, 0, 0, 0, 4, 3, 2, 1));
  EXPECT_THAT(bytes_of_values(DType::kI64, {0x0102030405060708}),
              ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(bytes_of_values(DType::kI32, {-1}), ElementsAre(255, 255, 255, 255));
  EXPECT_THAT(bytes_of_values(DType::kI32, {std::numeric_limits<int32_t>::min()}),
              ElementsAre(0, 0, 0, 128));
  EXPECT_THAT(bytes_of_values(DType::kI64, {}), IsEmpty());
}

TEST(LoweredKernelTest, ABufferHasAsManyAsItCounts) {
  const kir::Buffer buffer{.name = "sizes",
                           .type = DType::kI32,
                           .space = kir::Space::kArgument,
                           .value = {},
                           .count = 2};
  EXPECT_THROW(argument_bytes(buffer, std::vector<int64_t>{1}), SinterException);
}

}  // namespace sinter::lowered_kernel_test
