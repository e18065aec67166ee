#include "runtime/driver/device_buffer.h"

#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "runtime/driver/device_context.h"
#include "tests/support/fake_driver.h"

namespace sinter::device_buffer_test {

class DeviceBufferTest : public ::testing::Test {
 protected:
  FakeDriver driver_{*find_device("H200"), 1, 1 << 20};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
};

TEST_F(DeviceBufferTest, BringsBackWhatWasUploaded) {
  auto buffer = DeviceBuffer::allocate(driver_, 16).value();
  const std::vector<int> sent = {1, 2, 3, 4};
  std::vector<int> received(4);
  ASSERT_TRUE(buffer.upload(std::as_bytes(std::span(sent))));
  ASSERT_TRUE(buffer.download(std::as_writable_bytes(std::span(received))));
  EXPECT_EQ(received, sent);
}

TEST_F(DeviceBufferTest, FreesOnceWhoeverOwnsItLast) {
  {
    auto first = DeviceBuffer::allocate(driver_, 100).value();
    auto second = DeviceBuffer::allocate(driver_, 200).value();
    second = std::move(first);
    const DeviceBuffer third = std::move(second);
    EXPECT_EQ(third.bytes(), 100U);
    EXPECT_EQ(driver_.allocated_bytes(), 300);
  }
  EXPECT_EQ(driver_.allocated_bytes(), 0);
  EXPECT_EQ(driver_.calls(DriverCall::kMemoryFree), 2);
}

TEST_F(DeviceBufferTest, ZeroBytesNeedNoDriver) {
  auto buffer = DeviceBuffer::allocate(driver_, 0).value();
  EXPECT_EQ(buffer.pointer(), 0U);
  EXPECT_TRUE(buffer.upload({}));
  EXPECT_EQ(driver_.calls(DriverCall::kMemoryAllocate), 0);
}

TEST_F(DeviceBufferTest, OutOfMemoryIsResourceExhausted) {
  const auto buffer = DeviceBuffer::allocate(driver_, (1 << 20) + 1);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(buffer.error().measured, (1 << 20) + 1);
  EXPECT_THAT(buffer.error().remedy, ::testing::HasSubstr("free device memory"));
}

TEST_F(DeviceBufferTest, DownloadsFromAnOffset) {
  auto buffer = DeviceBuffer::allocate(driver_, 4 * sizeof(int)).value();
  const std::array<int, 4> sent = {1, 2, 3, 4};
  ASSERT_TRUE(buffer.upload(std::as_bytes(std::span(sent))));
  std::array<int, 2> received{};
  ASSERT_TRUE(buffer.download(std::as_writable_bytes(std::span(received)), sizeof(int)));
  EXPECT_THAT(received, ::testing::ElementsAre(2, 3));
}

TEST_F(DeviceBufferTest, CopiesThatDoNotFitAreRejected) {
  auto buffer = DeviceBuffer::allocate(driver_, 15).value();
  std::vector<int> four(4);
  for (const auto& copied :
       {buffer.upload(std::as_bytes(std::span(four))),
        buffer.download(std::as_writable_bytes(std::span(four))),
        buffer.download(std::as_writable_bytes(std::span(four)).first(8), 8)}) {
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(copied.error().measured, 16);
    EXPECT_EQ(copied.error().limit, 15);
  }
}

}  // namespace sinter::device_buffer_test
