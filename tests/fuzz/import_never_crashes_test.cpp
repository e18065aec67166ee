// Mutates what Sinter reads from files beside graphs, schedules and kernels: limits of devices,
// exported tuning databases, entries of the kernel cache and .npy headers. Whatever the bytes are,
// reading ends with a value or with a typed error, in bounded memory.

#include <gtest/gtest.h>

#include <fstream>

#include "fusion_ir/printer.h"
#include "runtime/cache/cache_entry.h"
#include "runtime/check/npy.h"
#include "runtime/json/device_limits_json.h"
#include "runtime/json/plan_json.h"
#include "runtime/tuning/tuning_json.h"
#include "scheduler/budgets/device_limits.h"
#include "tests/fuzz/memory_limit.h"
#include "tests/fuzz/mutation.h"

namespace sinter::import_never_crashes_test {

constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "[[[[[[[[[[[[[[[[",
                                        ":",
                                        ",",
                                        "\"",
                                        "\\u",
                                        "\\ud800",
                                        "\xff",
                                        "null",
                                        "true",
                                        "-1",
                                        "0",
                                        "1e999",
                                        "-0.0",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "99999999999999999999",
                                        "\"base\": ",
                                        "\"H200\"",
                                        "\"records\": "};

template <class T>
void expect_typed(const Result<T>& result, const std::string& text) {
  if (result) return;
  ASSERT_EQ(result.error().kind, ErrorKind::kInvalidArgument) << escaped(text);
  ASSERT_FALSE(result.error().remedy.empty()) << escaped(text);
  ASSERT_LT(result.error().message.size(), 4096U) << "an error is no dump of its input";
}

/// Every prefix, and nesting deep enough to exhaust a stack that recurses.
void check_hostile(const std::string& seed, const std::function<void(const std::string&)>& check) {
  const MemoryLimit limit(kMostFuzzBytes);
  for (size_t size = 0; size <= seed.size(); ++size) check(seed.substr(0, size));
  constexpr size_t kDepth = size_t{1} << 20;
  const std::string open(kDepth, '[');
  const std::string close(kDepth, ']');
  check(open);
  check(open + close);
  for (const char* before : {"{\"base\": ", "{\"name\": ", "{\"sm_count\": ",
                             "{\"format\": \"sinter tuning\", \"version\": 1, \"records\": "}) {
    check(before + open + close + "}");
  }
}

std::string device_seed() { return to_json(*find_device("H200")).dump(1); }

void check_device(const std::string& text) { expect_typed(device_limits_from_json(text), text); }

TEST(ImportNeverCrashes, OfDeviceLimits) {
  ASSERT_TRUE(device_limits_from_json(device_seed()));
  check_hostile(device_seed(), check_device);
  const std::string seed = device_seed();
  const std::string_view seeds[] = {seed, R"({"base": "H100", "sm_count": 114, "name": "part"})"};
  fuzz(seeds, kPieces, 1, check_device);
}

std::string records_seed() {
  TuningRecord record{
      .key = {.graph = "g", .extents = "e", .device = "d", .toolkit = "t", .grammar = 1},
      .tuned = {.segment = 0x1234,
                .schedule = print(Schedule{.family = "looped", .parameters = LoopedParameters{}}),
                .tuned_us = 1.5,
                .untuned_us = 2.5,
                .samples = 7},
      .fusion = "f",
      .measured_at = "2026-11-23T20:15:00Z"};
  return to_json(std::vector{record, record}).dump(1);
}

void check_records(const std::string& text) { expect_typed(records_from_json(text), text); }

TEST(ImportNeverCrashes, OfTuningRecords) {
  ASSERT_TRUE(records_from_json(records_seed()));
  check_hostile(records_seed(), check_records);
  const std::string seed = records_seed();
  const std::string_view seeds[] = {seed};
  fuzz(seeds, kPieces, 1, check_records);
}

TEST(ImportNeverCrashes, OfCacheEntries) {
  const KernelKey key{.high = 1, .low = 2};
  CompiledKernel kernel;
  kernel.entry = "k";
  kernel.architecture = "sm_90";
  kernel.cubin = "cubin";
  const std::string seed = encode_entry(key, kernel);
  ASSERT_TRUE(decode_entry(key, seed));
  const std::string_view seeds[] = {seed};
  const std::string_view pieces[] = {"\xff\xff\xff\xff\xff\xff\xff\x7f", "\0\0\0\0", "\x01"};
  fuzz(seeds, pieces, 1, [&](const std::string& bytes) {
    const auto decoded = decode_entry(key, bytes);
    ASSERT_EQ(decoded.has_value(), bytes == seed) << escaped(bytes);
    expect_typed(decoded, bytes);
  });
}

TEST(ImportNeverCrashes, OfArrays) {
  const std::string path = testing::TempDir() + "sinter_fuzz.npy";
  const Sizes sizes = {3, 4};
  ASSERT_TRUE(write_npy(path, HostTensor::zeros(DType::kF32, sizes)));
  std::ostringstream written;
  written << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string seed = written.str();
  const std::string_view seeds[] = {seed};
  const std::string_view pieces[] = {"(",         ")",
                                     ",",         "'",
                                     "'shape': ", "(9223372036854775807, 2)",
                                     "(-3, -4)",  "(3, 4)",
                                     "(12,)",     "True",
                                     "'<f8'",     "'>f4'",
                                     "\xff\xff",  "99999999999999999999",
                                     "{",         "}",
                                     ":"};
  fuzz(seeds, pieces, 1, [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const auto read = read_npy(path, DType::kF32, sizes);
    if (read) {
      ASSERT_EQ(read->sizes(), sizes) << escaped(bytes);
    }
    expect_typed(read, bytes);
  });
  std::remove(path.c_str());
}

}  // namespace sinter::import_never_crashes_test
