// Copies of boxes of tensors against plain loops, and each mistake that a kernel can make with
// them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/tf32_copy_kernel.h"

namespace sinter::tensor_copy_test {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Axis {
  int64_t size, stride, box, coordinate;
};

/// A box of a tensor, copied by one thread and stored to global memory as it lies in shared memory.
struct BoxCopy {
  DType type;
  int64_t offset, swizzle;
  std::vector<Axis> axes;

  [[nodiscard]] int64_t elements() const {
    int64_t count = 1;
    for (const Axis& axis : axes) count *= axis.box;
    return count;
  }

  /// Axis 1 has its size at launch.
  [[nodiscard]] std::string text() const {
    std::string map, coordinates;
    for (size_t i = 0; i < axes.size(); ++i) {
      map +=
          fmt::format(" axis {} stride {} box {}", i == 1 ? "%p1" : fmt::format("{}", axes[i].size),
                      axes[i].stride, axes[i].box);
      coordinates += fmt::format("{}{}", i == 0 ? "" : ", ", axes[i].coordinate);
    }
    return fmt::format(
        R"(kernel @box threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  param %p1 size : i32
  buffer %b0 x : {type} global read align 16
  buffer %b1 y : {type} global write align 16
  buffer %b2 s : {type} shared readwrite align 1024 count {count}
  mbarrier %m0 full count 1 arrivals 1
  tensor_map %t0 map of %b0 offset {offset} swizzle {swizzle}{map}
  init_mbarriers
  barrier
  if eq(thread_index, 0) {{
    expect_bytes %m0[0] {bytes}
    tensor_copy %b2[{at}] = %t0[{coordinates}] mbarrier %m0[0]
  }}
  mbarrier_wait %m0[0] parity 0
  var %r0 v : {type}
  for %r1 i : i32 = thread_index to {elements} step 32 {{
    %r0[0, 0] = load %b2[add(%r1, {at})] width 1
    store %b1[%r1] = %r0[0, 0] width 1
  }}
}}
)",
        fmt::arg("type", type), fmt::arg("count", at() + elements()), fmt::arg("offset", offset),
        fmt::arg("swizzle", swizzle), fmt::arg("map", map), fmt::arg("at", at()),
        fmt::arg("bytes", elements() * bytes_of(type)), fmt::arg("elements", elements()),
        fmt::arg("coordinates", coordinates));
  }
  /// Not the start of the buffer.
  [[nodiscard]] int64_t at() const { return 1024 / bytes_of(type); }
};

/// Bytes of a tensor of 2^16 elements; no two elements of a box are alike.
std::vector<std::byte> numbered(DType type) {
  std::vector<std::byte> bytes(size_t{1} << 16);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(bytes_of(type) > 1 && i % 2 != 0 ? i / 512 : i * 7 / 2);
  return bytes;
}

struct Outcome {
  kir::Kernel kernel;
  InterpreterReport report;
  std::vector<std::byte> y;
};

Outcome outcome_of(std::string_view text, DType type, int64_t launched, size_t result_bytes,
                   uint64_t seed = 0) {
  Outcome outcome{.kernel = {}, .report = {}, .y = std::vector<std::byte>(result_bytes)};
  const auto built = parse_kernel(text);
  EXPECT_TRUE(built) << (built ? "" : built.error().text());
  if (!built) return outcome;
  outcome.kernel = run_kernel_passes(*built, {.verify = true});
  std::vector<std::byte> x = numbered(type);
  const std::array memory = {LaunchMemory{.bytes = x}, LaunchMemory{.bytes = outcome.y}};
  const std::array<int64_t, 2> params = {1, launched};
  const auto report = interpret(outcome.kernel, memory, params, {.seed = seed});
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  if (report) outcome.report = *report;
  return outcome;
}

void expect_copied(const BoxCopy& copy) {
  SCOPED_TRACE(copy.text());
  const auto size = static_cast<size_t>(bytes_of(copy.type));
  const int64_t launched = copy.axes.size() > 1 ? copy.axes[1].size : 0;
  const Outcome outcome =
      outcome_of(copy.text(), copy.type, launched, static_cast<size_t>(copy.elements()) * size);
  ASSERT_TRUE(outcome.report.clean()) << outcome.report.text(outcome.kernel);
  const std::vector<std::byte> x = numbered(copy.type);
  for (int64_t i = 0; i < copy.elements(); ++i) {
    int64_t from = copy.offset;
    int64_t left = i;
    bool is_inside = true;
    for (const Axis& axis : copy.axes) {
      const int64_t index = axis.coordinate + left % axis.box;
      left /= axis.box;
      is_inside = is_inside && index >= 0 && index < axis.size;
      from += index * axis.stride;
    }
    // A line is 128 bytes; in a unit of so many bytes as the swizzle has, chunks change places.
    const int64_t byte = i * static_cast<int64_t>(size);
    const int64_t chunks = copy.swizzle / 16;
    const int64_t chunk = byte / 16;
    const int64_t place =
        copy.swizzle == 0 ? chunk
                          : chunk / chunks * chunks + ((chunk % chunks) ^ (byte / 128 % chunks));
    const auto to = static_cast<size_t>(place * 16 + byte % 16);
    const std::vector<std::byte> zeros(size);
    const std::byte* expected =
        is_inside ? x.data() + static_cast<size_t>(from) * size : zeros.data();
    ASSERT_EQ(std::memcmp(outcome.y.data() + to, expected, size), 0) << "element " << i;
  }
}

TEST(TensorCopyTest, BringsBoxesInEverySwizzle) {
  for (const DType type : {DType::kBF16, DType::kF32, DType::kI8}) {
    const int64_t size = bytes_of(type);
    for (const int64_t swizzle : {0, 32, 64, 128}) {
      const int64_t inner = (swizzle == 0 ? 48 : swizzle) / size;
      const int64_t stride = 160 / size;
      // Wholly inside, and beyond each end of each axis.
      for (const int64_t c0 : {int64_t{3}, int64_t{-5}, 100 / size}) {
        for (const int64_t c1 : {0, -3, 38}) {
          expect_copied({.type = type,
                         .offset = 16 / size,
                         .swizzle = swizzle,
                         .axes = {{.size = 130 / size, .stride = 1, .box = inner, .coordinate = c0},
                                  {.size = 41, .stride = stride, .box = 12, .coordinate = c1}}});
        }
      }
    }
  }
}

TEST(TensorCopyTest, BringsBoxesOfOneAndThreeAxes) {
  expect_copied({.type = DType::kBF16,
                 .offset = 0,
                 .swizzle = 0,
                 .axes = {{.size = 30'000, .stride = 1, .box = 256, .coordinate = 29'900}}});
  for (const int64_t swizzle : {0, 32, 64, 128}) {
    const int64_t inner = swizzle == 0 ? 8 : swizzle / 2;
    for (const int64_t c2 : {-1, 0, 3}) {
      // Columns in boxes, as the right operand of a product has them: axis 2 walks along a row.
      expect_copied({.type = DType::kF16,
                     .offset = 8,
                     .swizzle = swizzle,
                     .axes = {{.size = inner, .stride = 1, .box = inner, .coordinate = 0},
                              {.size = 20, .stride = 5 * inner, .box = 16, .coordinate = 7},
                              {.size = 5, .stride = inner, .box = 4, .coordinate = c2}}});
    }
  }
}

TEST(TensorCopyTest, CountsWhatIsRead) {
  const BoxCopy copy{.type = DType::kBF16,
                     .offset = 0,
                     .swizzle = 128,
                     .axes = {{.size = 64, .stride = 1, .box = 64, .coordinate = 32},
                              {.size = 10, .stride = 64, .box = 8, .coordinate = 6}}};
  const Outcome outcome = outcome_of(copy.text(), copy.type, 10, 1024);
  ASSERT_TRUE(outcome.report.clean()) << outcome.report.text(outcome.kernel);
  const BufferTraffic& traffic = outcome.report.buffers[kir::BufferId{0}];
  EXPECT_EQ(traffic.bytes_read, 4 * 64);
  EXPECT_EQ(traffic.async_sectors, 4 * 2);
}

// ---- Mistakes

std::vector<FindingKind> kinds_of(const InterpreterReport& report) {
  std::vector<FindingKind> kinds;
  for (const Finding& finding : report.findings) kinds.push_back(finding.kind);
  return kinds;
}

/// 8 rows of 64 elements. `before` stands in front of the copy, which thread 0 starts.
Outcome run_small(std::string_view before, std::string_view copy, std::string_view after,
                  uint64_t seed, int64_t rows = 8) {
  const std::string text = fmt::format(
      R"(kernel @small threads 128 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  param %p1 rows : i32
  buffer %b0 x : bf16 global read align 16
  buffer %b1 y : bf16 global write align 16
  buffer %b2 s : bf16 shared readwrite align 1024 count 1024
  mbarrier %m0 full count 1 arrivals 1
  tensor_map %t0 map of %b0 swizzle 128 axis 64 stride 1 box 64 axis %p1 stride 64 box 8
  let %r0 v : bf16 = 1.0:bf16
  init_mbarriers
  barrier
  {}
  if eq(thread_index, 0) {{
    {}
  }}
  {}
}}
)",
      before, copy, after);
  return outcome_of(text, DType::kBF16, rows, 256, seed);
}

TEST(TensorCopyTest, RoundsToTf32) {
  std::array<float, 64> x = numbers_around_tf32();
  std::array<float, 64> y{};
  const kir::Kernel kernel = run_kernel_passes(parse_kernel(kTf32CopyKernel).value());
  const auto report =
      interpret(kernel,
                std::array{LaunchMemory{.bytes = std::as_writable_bytes(std::span(x))},
                           LaunchMemory{.bytes = std::as_writable_bytes(std::span(y))}},
                std::array<int64_t, 1>{1}, {});
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_THAT(report->findings, IsEmpty());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(nearest_tf32(x[i])))
        << fmt::format("{:a} became {:a}", x[i], y[i]);
  }
}

constexpr std::string_view kCopy = R"(expect_bytes %m0[0] 1024
    tensor_copy %b2[0] = %t0[0, 0] mbarrier %m0[0])";
constexpr std::string_view kWait = "mbarrier_wait %m0[0] parity 0";
constexpr std::string_view kStores = "store %b2[thread_index] = %r0[0, 0] width 1\n";

TEST(TensorCopyTest, ComesAfterStoresThatAreFenced) {
  const std::string stores(kStores);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_THAT(kinds_of(run_small("", kCopy, kWait, seed).report), IsEmpty());
    EXPECT_THAT(kinds_of(run_small(stores + "proxy_fence barrier", kCopy, kWait, seed).report),
                IsEmpty());
    for (const char* too_little : {"", "barrier", "proxy_fence", "barrier proxy_fence",
                                   "if lt(thread_index, 64) { proxy_fence } barrier"}) {
      const Outcome outcome = run_small(stores + too_little, kCopy, kWait, seed);
      EXPECT_THAT(kinds_of(outcome.report),
                  AllOf(Not(IsEmpty()),
                        Each(testing::AnyOf(FindingKind::kSharedRace, FindingKind::kAsyncPending))))
          << too_little;
    }
    // A fence before the stores is none.
    EXPECT_THAT(kinds_of(run_small("proxy_fence " + stores + "barrier", kCopy, kWait, seed).report),
                testing::ElementsAre(FindingKind::kSharedRace));
  }
}

TEST(TensorCopyTest, FindsMistakes) {
  struct Mistake {
    std::string_view copy, after;
    FindingKind kind;
    std::string_view message;
    int64_t rows = 8;
  };
  const std::string early =
      "%r0[0, 0] = load %b2[thread_index] width 1\nstore %b1[thread_index] = %r0[0, 0] width 1";
  for (const Mistake& mistake : {
           Mistake{kCopy, "", FindingKind::kAsyncNeverAwaited, "no thread has waited for phase 0"},
           Mistake{"expect_bytes %m0[0] 1040\ntensor_copy %b2[0] = %t0[0, 0] mbarrier %m0[0]",
                   kWait, FindingKind::kDeadlock, "lacks 0 arrivals and 16 bytes"},
           Mistake{"expect_bytes %m0[0] 1008\ntensor_copy %b2[0] = %t0[0, 0] mbarrier %m0[0]",
                   kWait, FindingKind::kMbarrierBytes, "16 bytes more than it expects"},
           // The bytes beyond the tensor count too.
           Mistake{"expect_bytes %m0[0] 512\ntensor_copy %b2[0] = %t0[0, 4] mbarrier %m0[0]", kWait,
                   FindingKind::kMbarrierBytes, "512 bytes more than it expects"},
           Mistake{"expect_bytes %m0[0] 1024\n"
                   "tensor_copy %b2[mul(sub(%p1, 7), 64)] = %t0[0, 0] mbarrier %m0[0]",
                   "", FindingKind::kMisaligned,
                   "copies a box of map to s[64], which is not at a multiple of 1024 bytes"},
           Mistake{"expect_bytes %m0[0] 1024\n"
                   "tensor_copy %b2[mul(sub(%p1, 6), 512)] = %t0[0, 0] mbarrier %m0[0]",
                   "", FindingKind::kSharedOutOfBounds, "1024 bytes"},
           Mistake{kCopy, kWait, FindingKind::kGlobalOutOfBounds, "x[", 1 << 20},
       }) {
    const std::string_view copy = mistake.rows == 8
                                      ? mistake.copy
                                      : "expect_bytes %m0[0] 1024\n"
                                        "tensor_copy %b2[0] = %t0[0, 600] mbarrier %m0[0]";
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Outcome outcome = run_small("", copy, mistake.after, seed, mistake.rows);
      EXPECT_THAT(outcome.report.findings,
                  Contains(AllOf(testing::Field(&Finding::kind, mistake.kind),
                                 testing::Field(&Finding::message, HasSubstr(mistake.message)))))
          << copy << outcome.report.text(outcome.kernel);
    }
  }
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Outcome outcome = run_small("", kCopy, early + "\n" + std::string(kWait), seed);
    EXPECT_THAT(kinds_of(outcome.report),
                AllOf(Not(IsEmpty()),
                      Each(testing::AnyOf(FindingKind::kAsyncPending, FindingKind::kUnwrittenShared,
                                          FindingKind::kSharedRace))));
  }
}

}  // namespace sinter::tensor_copy_test
