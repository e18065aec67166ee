// Tensors of more elements than 31 bits count: planned or refused, with indices that reach all of
// them, and right on a GPU that has the memory.

#include <gmock/gmock.h>

#include <bit>
#include <cstring>

#include "codegen/kernel/kernel_builder.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/driver/device_buffer.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/index_ranges.h"
#include "tests/integration/live_device.h"

namespace sinter::huge_tensors_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBit31 = int64_t{1} << 31;

// ---- Indices

TEST(IndexRangesOfKernels, SeeAnOverflowAndANarrowIndex) {
  FusionBuilder f("planted");
  const ValueId x = f.input(DType::kF32, {kBit31 + 8}, "x");
  f.output(f.neg(x), "y");
  const Fusion fusion = f.build();
  LoweredKernel lowered;
  kir::KernelBuilder b(&lowered.kernel);
  const kir::ParamId work = b.add_param("work");
  lowered.kernel.grid = {.work = work, .per_block = 128};
  lowered.param_values = {kBit31 + 8};
  const kir::BufferId buffer = b.add_buffer({.name = "x", .value = x});
  const kir::ExprId first = b.mul(b.special(kir::Special::kBlockIndex), b.integer(128));
  const kir::VarId loaded = b.declare_scalar("loaded", DType::kF32);
  b.append(
      kir::Load{loaded, b.integer(0), b.integer(0), 1, buffer, first, kir::CacheHint::kDefault});
  const IndexRanges found = index_ranges(lowered, fusion);
  EXPECT_EQ(found.overflows.size(), 1U);
  EXPECT_EQ(found.narrow.size(), 1U);
  lowered.param_values = {4096};
  EXPECT_THAT(index_ranges(lowered, fusion).overflows, IsEmpty());
}

struct HugeShape {
  const char* name;
  int64_t rows, columns;
  friend void PrintTo(const HugeShape& shape, std::ostream* out) { *out << shape.name; }
};

class HugeTensors : public ::testing::TestWithParam<HugeShape> {
 protected:
  [[nodiscard]] static ExtentValues extents(const CannedFusion& canned) {
    return extents_of_width(canned, GetParam().columns, GetParam().rows);
  }
};

TEST_P(HugeTensors, HaveIndicesThatReachAllOfThem) {
  int64_t computed = 0;
  for (const CannedFusion& canned : supported_fusions()) {
    SCOPED_TRACE(canned.name);
    if (canned.name == "iota_mask") continue;  // The graph itself counts in 32 bits.
    const Fusion fusion = canned.build();
    const auto bound = bind_extents(fusion, extents(canned));
    if (!bound) continue;  // A slice or a product of extents that does not fit.
    const auto planned =
        plan(fusion, extents(canned), *find_device("H200"), {.families = builtin_families()});
    if (!planned) {
      EXPECT_TRUE(planned.error().kind == ErrorKind::kUnsupported ||
                  planned.error().kind == ErrorKind::kResourceExhausted)
          << planned.error().text();
      EXPECT_FALSE(planned.error().remedy.empty());
      continue;
    }
    for (const KernelPlan& kernel : planned->kernels) {
      std::vector<Schedule> schedules = chosen_and_best_of_families(kernel);
      for (uint64_t seed = 0; seed < 4 && !kernel.finishes; ++seed) {
        const auto drawn = random_schedule(kernel.facts, planned->limits, builtin_families(), seed);
        if (drawn) schedules.push_back(drawn->schedule);
      }
      for (const Schedule& schedule : schedules) {
        const auto lowered = lower(kernel.facts, schedule);
        ASSERT_TRUE(lowered) << lowered.error().text();
        const IndexRanges found = index_ranges(*lowered, kernel.facts.fusion);
        computed += found.computed;
        EXPECT_THAT(found.overflows, IsEmpty()) << print(schedule);
        EXPECT_THAT(found.narrow, IsEmpty()) << print(schedule);
      }
    }
  }
  EXPECT_GT(computed, 1000);
}

INSTANTIATE_TEST_SUITE_P(Shapes, HugeTensors,
                         ::testing::Values(HugeShape{"ManyRows", 70000, 32768},
                                           HugeShape{"BelowTheBit", 1, kBit31 - 1},
                                           HugeShape{"TheBit", 1, kBit31},
                                           HugeShape{"AboveTheBit", 3, kBit31 + 9},
                                           HugeShape{"NarrowRows", kBit31 / 33, 96},
                                           HugeShape{"OneColumn", kBit31 + 5, 1}),
                         [](const auto& test) { return test.param.name; });

/// Columns are counted in 64 bits where 32 do not reach past the row, and rows always.
TEST(HugeTensorsText, CountsIn64Bits) {
  const auto text = [](int64_t rows, int64_t columns) {
    const auto planned =
        plan(find_canned_fusion("cross_entropy")->build(), {{"rows", rows}, {"cols", columns}},
             *find_device("H200"), {.families = builtin_families()});
    const KernelPlan& kernel = planned.value().kernels.front();
    return emit(kernel.facts, kernel.chosen().schedule).value().text;
  };
  const std::string wide = text(1, kBit31);
  EXPECT_THAT(wide, HasSubstr("long long first_column ="));
  EXPECT_THAT(wide, HasSubstr("labels_index < 2147483648LL"));
  const std::string tall = text(70000, 32768);
  EXPECT_THAT(tall, HasSubstr("int first_column ="));
  EXPECT_THAT(tall, HasSubstr("long long row ="));
  EXPECT_THAT(tall, HasSubstr("logits + row * 32768LL + labels_index"));
}

TEST(HugeTensorsText, NvrtcTakesRowsOf31Bits) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  for (const char* name : {"softmax", "row_argmax", "cross_entropy", "layer_norm"}) {
    SCOPED_TRACE(name);
    KernelCache cache({});
    auto planned = plan(find_canned_fusion(name)->build(), {{"rows", 1}, {"cols", kBit31 + 8}},
                        *find_device("H200"), {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto compiled = compile_plan(std::move(*planned), *compiler, cache);
    EXPECT_TRUE(compiled) << compiled.error().text();
  }
}

// ---- On a GPU

/// Tensors of gigabytes; skipped where the device has not got as many.
class HugeTensorsGpu : public LiveDeviceTest<int> {
 protected:
  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (driver_ == nullptr || IsSkipped() || HasFatalFailure()) return;
    context_.emplace(DeviceContext::retain(*driver_, 0).value());
    current_.emplace(CurrentContext::enter(*driver_, *context_).value());
  }

  /// Nothing, and the test skipped, where there is no room.
  std::optional<DeviceBuffer> allocate(int64_t bytes) {
    auto buffer =
        DeviceBuffer::allocate(*driver_, static_cast<size_t>(std::max<int64_t>(bytes, 256)));
    if (buffer) return std::move(*buffer);
    EXPECT_EQ(buffer.error().kind, ErrorKind::kResourceExhausted) << buffer.error().text();
    return std::nullopt;
  }
  Executable prepare(const Fusion& fusion, const ExtentValues& extents) {
    KernelCache cache({});
    auto planned = plan(fusion, extents, limits_, {.families = builtin_families()}).value();
    auto compiled = compile_plan(std::move(planned), *compiler_, cache, {.threads = 4});
    EXPECT_TRUE(compiled) << compiled.error().text();
    return Executable::prepare(std::move(compiled.value()), *driver_).value();
  }
  void fill(const DeviceBuffer& buffer, unsigned char byte) {
    ASSERT_EQ(driver_->fill_async(buffer.pointer(), byte, buffer.bytes(), nullptr),
              DriverStatus::kSuccess);
  }
  void run(const Executable& executable, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs, const DeviceBuffer& workspace) {
    const auto done = executable.execute(inputs, outputs, workspace.pointer(),
                                         executable.workspace_bytes(), nullptr);
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(driver_->context_synchronize(), DriverStatus::kSuccess);
  }
  /// One element of bf16, which is the upper half of a float.
  void set_bf16(const DeviceBuffer& buffer, int64_t element, float value) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U);
    ASSERT_EQ(driver_->copy_to_device(buffer.pointer() + static_cast<uint64_t>(element) * 2, &bits,
                                      sizeof bits),
              DriverStatus::kSuccess);
  }

  std::optional<DeviceContext> context_;
  std::optional<CurrentContext> current_;
};

TEST_F(HugeTensorsGpu, ASoftmaxOf70000RowsOf32768) {
  constexpr int64_t kRows = 70000;
  constexpr int64_t kColumns = 32768;
  constexpr int64_t kRowBytes = kColumns * 2;
  // Rows repeat with a period that does not divide 2^31 elements, so that a row that is read or
  // written 2^31 elements or 4 GiB off is another one.
  constexpr int64_t kPeriod = 1021;
  const auto x = allocate(kRows * kRowBytes);
  const auto y = allocate(kRows * kRowBytes);
  if (!x || !y) GTEST_SKIP() << "too little device memory";
  const Fusion fusion = find_canned_fusion("softmax")->build();
  const HostTensor rows = HostTensor::random(DType::kBF16, {kPeriod, kColumns});
  const auto rows_from = [&](int64_t first) { return std::min(kPeriod, kRows - first); };
  for (int64_t first = 0; first < kRows; first += kPeriod) {
    ASSERT_EQ(driver_->copy_to_device(x->pointer() + static_cast<uint64_t>(first * kRowBytes),
                                      rows.storage().data(),
                                      static_cast<size_t>(rows_from(first) * kRowBytes)),
              DriverStatus::kSuccess);
  }
  fill(*y, 0xff);
  const Executable executable = prepare(fusion, {{"rows", kRows}, {"cols", kColumns}});
  const auto workspace = allocate(executable.workspace_bytes());
  ASSERT_TRUE(workspace);
  const Tensor in{.address = x->pointer(), .type = DType::kBF16, .sizes = {kRows, kColumns}};
  const Tensor out{.address = y->pointer(), .type = DType::kBF16, .sizes = {kRows, kColumns}};
  run(executable, {in}, {out}, *workspace);

  // Some rows against the oracle, and all against the first that were computed from the same.
  std::vector<std::byte> first_rows(static_cast<size_t>(kPeriod * kRowBytes));
  ASSERT_TRUE(y->download(first_rows));
  for (const int64_t row : {0L, 1L, 500L, kPeriod - 1}) {
    HostTensor one = HostTensor::zeros(DType::kBF16, {1, kColumns});
    HostTensor result = HostTensor::zeros(DType::kBF16, {1, kColumns});
    std::memcpy(one.data(), rows.data() + row * kRowBytes, kRowBytes);
    std::memcpy(result.data(), first_rows.data() + row * kRowBytes, kRowBytes);
    const Binding binding = bind_extents(fusion, {{"rows", 1}, {"cols", kColumns}}).value();
    const auto mismatch = compare(evaluate(fusion, binding, {&one, 1}), 0, result);
    EXPECT_FALSE(mismatch) << "row " << row << ": " << mismatch->text();
  }
  std::vector<std::byte> chunk(first_rows.size());
  for (int64_t first = kPeriod; first < kRows; first += kPeriod) {
    const auto bytes = static_cast<size_t>(rows_from(first) * kRowBytes);
    ASSERT_TRUE(y->download(std::span(chunk).first(bytes), static_cast<size_t>(first * kRowBytes)));
    ASSERT_EQ(std::memcmp(chunk.data(), first_rows.data(), bytes), 0)
        << "rows from " << first << " on";
  }
}

TEST_F(HugeTensorsGpu, OneRowOfMoreThan31Bits) {
  constexpr int64_t kColumns = kBit31 + 12345;
  const auto x = allocate(kColumns * 2);
  if (!x) GTEST_SKIP() << "too little device memory";
  fill(*x, 0);
  // A power of two each, so that the sum, which is exact, says which of them were read.
  const std::vector<int64_t> places{0,      1,          kBit31 / 2, kBit31 - 1,
                                    kBit31, kBit31 + 1, kBit31 + 9, kColumns - 1};
  float expected = 0.0F;
  float number = 1.0F;
  for (const int64_t place : places) {
    set_bf16(*x, place, number);
    expected += number;
    number *= 2.0F;
  }
  const auto y = allocate(4);
  const Tensor in{.address = x->pointer(), .type = DType::kBF16, .sizes = {1, kColumns}};
  const ExtentValues extents{{"rows", 1}, {"cols", kColumns}};
  {
    const Fusion fusion = find_canned_fusion("row_sum")->build();
    const Executable executable = prepare(fusion, extents);
    const auto workspace = allocate(executable.workspace_bytes());
    const ValueId output = executable.compiled().plan.fusion.outputs.front();
    const DType type = executable.compiled().plan.fusion.values[output].type;
    run(executable, {in}, {{.address = y->pointer(), .type = type, .sizes = {1}}}, *workspace);
    HostTensor sum = HostTensor::zeros(type, {1});
    ASSERT_TRUE(y->download(sum.storage()));
    EXPECT_EQ(sum.get(0), expected);
  }
  {
    // The maximum's place, and a pick behind the 31st bit.
    FusionBuilder b("places");
    const ValueId input = b.input(DType::kBF16, {1, kColumns}, "x");
    const ValueId labels = b.input(DType::kI64, {1}, "labels");
    b.output(b.reduce(ReduceFn::kArgMax, input, {1}), "at");
    b.output(b.add(b.take(input, labels, 1), b.reduce(ReduceFn::kSum, input, {1})), "picked");
    const Executable executable = prepare(b.build(), {});
    const auto workspace = allocate(executable.workspace_bytes());
    const auto label = allocate(8);
    const auto at = allocate(8);
    const auto picked = allocate(4);
    for (const auto& [index, value] : {std::pair{kBit31 + 9, 64.0F},
                                       {kBit31 + 8, 0.0F},
                                       {kColumns - 1, 128.0F},
                                       {kColumns, 0.0F},
                                       {int64_t{0}, 1.0F}}) {
      ASSERT_EQ(driver_->copy_to_device(label->pointer(), &index, sizeof index),
                DriverStatus::kSuccess);
      run(executable, {in, {.address = label->pointer(), .type = DType::kI64, .sizes = {1}}},
          {{.address = at->pointer(), .type = DType::kI64, .sizes = {1}},
           {.address = picked->pointer(), .type = DType::kF32, .sizes = {1}}},
          *workspace);
      HostTensor place = HostTensor::zeros(DType::kI64, {1});
      HostTensor sum = HostTensor::zeros(DType::kF32, {1});
      ASSERT_TRUE(at->download(place.storage()));
      ASSERT_TRUE(picked->download(sum.storage()));
      EXPECT_EQ(place.get_integer(0), kColumns - 1);
      EXPECT_EQ(sum.get(0), expected + value) << index;
    }
  }
}

}  // namespace sinter::huge_tensors_test
