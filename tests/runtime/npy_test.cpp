#include "runtime/check/npy.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "runtime/check/sample_data.h"

namespace sinter::npy_test {

using ::testing::HasSubstr;

class Npy : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name = "x.npy") const { return (directory_ / name).string(); }
  /// A file with a header of format `major` and data behind it.
  std::string file(const std::string& header, const std::string& data, char major = 1) const {
    std::string text = "\x93NUMPY";
    text += {major, '\0', static_cast<char>(header.size()), static_cast<char>(header.size() >> 8U)};
    if (major > 1) text += std::string(2, '\0');
    return bytes(text + header + data);
  }
  std::string bytes(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    return path();
  }
  void expect_refused(const std::string& from, const std::string& why, DType type = DType::kF32,
                      const Sizes& sizes = {2, 3}) const {
    const auto read = read_npy(from, type, sizes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(why));
    EXPECT_THAT(read.error().message, HasSubstr(from));
    EXPECT_FALSE(read.error().remedy.empty());
  }

  std::filesystem::path directory_ =
      std::filesystem::path(::testing::TempDir()) /
      fmt::format("sinter_npy_{}_{}", getpid(),
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::string header_of(const std::string& descr, const std::string& shape,
                      const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

TEST_F(Npy, ReadsWhatItWrites) {
  for (const DType type : kAllDTypes) {
    HostTensor written = HostTensor::random(type, {3, 5});
    draw_sample_data(written, {DataKind::kMixed, DataPlacement::kRows}, 3);
    ASSERT_TRUE(write_npy(path(), written));
    const auto read = read_npy(path(), type, {3, 5});
    ASSERT_TRUE(read) << read.error().text();
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(read->bits(i), written.bits(i));
  }
}

TEST_F(Npy, ReadsBothOrdersOfAxesAndBytesAndAllFormats) {
  const std::string data = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
  const auto numbers = [](const Result<HostTensor>& read) {
    std::vector<uint64_t> out;
    EXPECT_TRUE(read) << read.error().text();
    for (int64_t i = 0; read && i < read->count(); ++i) out.push_back(read->bits(i));
    return out;
  };
  const DType bf16 = DType::kBF16;
  EXPECT_EQ(numbers(read_npy(file(header_of("<u2", "(2, 3)"), data), bf16, {2, 3})),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(numbers(read_npy(file(header_of("|V2", "(2, 3)", "True"), data, 2), bf16, {2, 3})),
            (std::vector<uint64_t>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(numbers(read_npy(file(header_of(">u2", "(6,)"), data, 3), bf16, {6})),
            (std::vector<uint64_t>{256, 512, 768, 1024, 1280, 1536}));
  EXPECT_EQ(numbers(read_npy(file(header_of("<u2", "()"), data.substr(0, 2)), bf16, {})),
            (std::vector<uint64_t>{1}));
  EXPECT_EQ(numbers(read_npy(file(header_of("<u2", "(1,)"), data.substr(0, 2)), bf16, {})),
            (std::vector<uint64_t>{1}));
  EXPECT_EQ(numbers(read_npy(file(header_of("<u2", "(0, 3)"), ""), bf16, {0, 3})),
            std::vector<uint64_t>{});
}

TEST_F(Npy, RefusesOtherTypesAndSizes) {
  const std::string from = file(header_of("<f8", "(2, 3)"), std::string(48, '\0'));
  expect_refused(from, "holds '<f8'[2, 3], wanted is f32[2, 3], which is 'f4' there");
  expect_refused(from, "wanted is f64[3, 2]", DType::kF64, {3, 2});
  expect_refused(from, "'u2' or 'V2'", DType::kBF16);
  expect_refused(file(header_of("|b1", "(1,)"), "\x02"), "a bool of 2", DType::kBool, {1});
}

TEST_F(Npy, RefusesHostileFilesInBoundedMemory) {
  const std::string data(24, '\0');
  expect_refused(bytes(""), "is no .npy file");
  expect_refused(bytes("PK\x03\x04 something else"), "is no .npy file");
  expect_refused(bytes(std::string("\x93NUMPY\x07\x00\x10\x00", 10)), "has .npy format 7");
  expect_refused(bytes(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)),
                 "has a header of 4294967295 bytes");
  expect_refused(bytes(std::string("\x93NUMPY\x01\x00\x10", 9)), "ends within its header");
  expect_refused(bytes(std::string("\x93NUMPY\x01\x00\x60\x00{'descr'", 18)),
                 "ends within its header");
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "nonsense", "{'descr': '<f4', 'descr': '<f4'}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } x"}) {
    SCOPED_TRACE(header);
    expect_refused(file(header, data), "has a header that is no dictionary");
  }
  expect_refused(file(header_of("<f4", "(9223372036854775807, 9223372036854775807)"), data),
                 "wanted is f32[2, 3]");
  expect_refused(file(header_of("<f4", "(2, 3)"), data.substr(0, 21)),
                 "ends after 5 of 6 elements");
  expect_refused(file(header_of("<f4", "(2, 3)"), data + "x"), "goes on behind its 6 elements");
}

TEST_F(Npy, RefusesWhatIsNoRegularFile) {
  expect_refused(path("missing.npy"), "cannot be opened");
  expect_refused(directory_.string(), "is no regular file");
  const std::string fifo = path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  expect_refused(fifo, "is no regular file");
  EXPECT_FALSE(write_npy(directory_.string(), HostTensor::zeros(DType::kF32, {1})));
}

}  // namespace sinter::npy_test
