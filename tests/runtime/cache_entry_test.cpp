#include "runtime/cache/cache_entry.h"

#include <gmock/gmock.h>

#include "tests/runtime/sample_kernel.h"

namespace sinter::cache_entry_test {

using ::testing::HasSubstr;

TEST(CacheEntry, ReadsBackWhatItWrites) {
  const std::string bytes = encode_entry(sample_key(), sample_kernel());
  EXPECT_EQ(decode_entry(sample_key(), bytes).value(), sample_kernel());
  const CompiledKernel empty;
  EXPECT_EQ(decode_entry(sample_key(), encode_entry(sample_key(), empty)).value(), empty);
}

TEST(CacheEntry, NoticesEveryFlippedBit) {
  const std::string bytes = encode_entry(sample_key(), sample_kernel(0, 40));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto kernel = decode_entry(sample_key(), damaged);
    ASSERT_FALSE(kernel) << "bit " << bit;
    EXPECT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(CacheEntry, NoticesEveryTruncationAndExtension) {
  const std::string bytes = encode_entry(sample_key(), sample_kernel());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(decode_entry(sample_key(), bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_entry(sample_key(), bytes + '\0'));
  EXPECT_FALSE(decode_entry(sample_key(), bytes + bytes));
}

TEST(CacheEntry, SaysHowItIsDamaged) {
  const std::string bytes = encode_entry(sample_key(), sample_kernel());
  const auto reason = [](const KernelKey& key, const std::string& text) {
    return decode_entry(key, text).error().message;
  };
  EXPECT_THAT(reason(sample_key(), bytes.substr(0, 10)), HasSubstr("shorter than its header"));
  EXPECT_THAT(reason(sample_key(), "X" + bytes.substr(1)), HasSubstr("magic"));
  EXPECT_THAT(reason(sample_key(), bytes.substr(0, bytes.size() - 1)), HasSubstr("announces"));
  EXPECT_THAT(reason(sample_key(1), bytes), HasSubstr("belongs to key " + sample_key().hex()));
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 1);
  EXPECT_THAT(reason(sample_key(), flipped), HasSubstr("checksum"));
}

}  // namespace sinter::cache_entry_test
