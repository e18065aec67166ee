#include "runtime/c_api/dlpack.h"

#include <gmock/gmock.h>

#include "tests/c_api/execution_fixture.h"

namespace sinter::dlpack_test {

class DlpackTest : public ExecutionTest {};

TEST(DlpackTypes, AreThoseOfDlpack) {
  const auto expect = [](DType type, uint8_t code, uint8_t bits) {
    const sinter_dtype form = c_api::dlpack_type(type);
    EXPECT_EQ(form.code, code) << name_of(type);
    EXPECT_EQ(form.bits, bits) << name_of(type);
    EXPECT_EQ(form.lanes, 1) << name_of(type);
    EXPECT_EQ(c_api::type_of(form), type);
  };
  expect(DType::kF64, 2, 64);
  expect(DType::kF32, 2, 32);
  expect(DType::kF16, 2, 16);
  expect(DType::kBF16, 4, 16);
  expect(DType::kF8E4M3, 10, 8);
  expect(DType::kF8E5M2, 12, 8);
  expect(DType::kI64, 0, 64);
  expect(DType::kI32, 0, 32);
  expect(DType::kI8, 0, 8);
  expect(DType::kU8, 1, 8);
  expect(DType::kBool, 6, 8);
  EXPECT_EQ(c_api::type_of({0, 16, 1}), std::nullopt);
  EXPECT_EQ(c_api::type_of({2, 32, 4}), std::nullopt);
}

TEST_F(DlpackTest, TakesWhatIsRight) {
  succeeds([&](sinter_error** error) { return execute(error); });
  ASSERT_EQ(launches_, 1);
  EXPECT_EQ(std::bit_cast<void*>(seen_[0]), x_.tensor.dl_tensor.data);
  EXPECT_EQ(std::bit_cast<void*>(seen_[1]), weight_.tensor.dl_tensor.data);
  EXPECT_EQ(std::bit_cast<void*>(seen_[2]), y_.tensor.dl_tensor.data);
  x_.tensor.dl_tensor.strides = nullptr;
  weight_.tensor.version.minor = 7;
  weight_.tensor.flags = 3;  // A read-only copy.
  y_.tensor.dl_tensor.device = {13, 0};
  succeeds([&](sinter_error** error) { return execute(error); });
}

TEST_F(DlpackTest, StepsOverTheByteOffset) {
  const DevicePointer larger = allocate(kRows * kColumns * 2 + 32);
  x_.tensor.dl_tensor.data = std::bit_cast<void*>(larger);
  x_.tensor.dl_tensor.byte_offset = 32;
  succeeds([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(seen_[0], larger + 32);
}

TEST_F(DlpackTest, RefusesAnythingButOnePointer) {
  inputs_[0].versioned = &x_.tensor;
  expect_refused("input 0 'x' (%v0) has two tensors");
  inputs_[0] = {};
  EXPECT_EQ(expect_refused("input 0 'x' (%v0) has no tensor").status, SINTER_INVALID_ARGUMENT);
}

TEST_F(DlpackTest, RefusesAnotherMajorVersion) {
  y_.tensor.version = {2, 0};
  const auto refusal =
      expect_refused("output 0 'y' (%v5) has DLPack version 2.0, understood is 1.x");
  EXPECT_EQ(refusal.measured, 2);
  EXPECT_EQ(refusal.limit, 1);
}

TEST_F(DlpackTest, RefusesToWriteWhatIsReadOnly) {
  y_.tensor.flags = 1;
  expect_refused("output 0 'y' (%v5) is flagged as read-only, and is written");
}

/// An input that an output takes over is written, as that output.
TEST_F(DlpackTest, RefusesToOverwriteAnInputThatIsReadOnly) {
  const OwnedFusion fusion = parse(R"(fusion @scale_in_place extents(rows, cols) {
  %v0 x : bf16[rows, cols] = input
  %v1 weight : f32[cols] = input
  %v2 : f32[rows, cols] = cast %v0
  %v3 : f32[rows, cols] = broadcast %v1 axes(1)
  %v4 : f32[rows, cols] = mul %v2, %v3
  %v5 y : bf16[rows, cols] = cast %v4
  return %v5 alias(%v0)
}
)");
  const OwnedDevice limits = preset();
  plan_ = plan_on(fusion.get(), limits.get(), {{"rows", kRows}, {"cols", kColumns}});
  sinter_executable* executable = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), plan_.get(), nullptr, &executable, error);
  });
  executable_.reset(executable);
  inputs_[0] = {nullptr, &x_.tensor};
  x_.tensor.flags = 1;
  y_.tensor.dl_tensor.data = x_.tensor.dl_tensor.data;
  expect_refused("input 0 'x' (%v0) is flagged as read-only, and is written");
}

TEST_F(DlpackTest, RefusesOtherDevices) {
  x_.tensor.dl_tensor.device = {1, 0};
  expect_refused("input 0 'x' (%v0) has DLPack device type 1, expected is 2 (CUDA)");
  x_.tensor.dl_tensor.device = {2, 1};
  const auto refusal = expect_refused("input 0 'x' (%v0) lies on device 1, prepared was device 0");
  EXPECT_EQ(refusal.measured, 1);
  EXPECT_EQ(refusal.limit, 0);
}

TEST_F(DlpackTest, RefusesOtherTypes) {
  constexpr std::string_view kPlanned = ", planned was bf16 (code 4, 16 bits, 1 lanes)";
  sinter_dtype& type = x_.tensor.dl_tensor.dtype;
  type.code = 2;
  expect_refused(
      fmt::format("input 0 'x' (%v0) has type f16 (code 2, 16 bits, 1 lanes){}", kPlanned));
  type = {4, 32, 1};
  expect_refused(
      fmt::format("input 0 'x' (%v0) has type unknown (code 4, 32 bits, 1 lanes){}", kPlanned));
  type = {4, 16, 2};
  expect_refused(
      fmt::format("input 0 'x' (%v0) has type unknown (code 4, 16 bits, 2 lanes){}", kPlanned));
}

TEST_F(DlpackTest, RefusesOtherRanksAndShapes) {
  sinter_dl_tensor& x = x_.tensor.dl_tensor;
  for (const int32_t rank : {-1, 0, 1, 3}) {
    x.ndim = rank;
    const auto refusal =
        expect_refused(fmt::format("input 0 'x' (%v0) has {} axes, planned were 2", rank));
    EXPECT_EQ(refusal.measured, rank);
    EXPECT_EQ(refusal.limit, 2);
  }
  x.ndim = 2;
  x_.shape[0] = kRows + 1;
  EXPECT_EQ(expect_refused("input 0 'x' (%v0) has size 7 along axis 0, planned was 6").measured,
            kRows + 1);
  x.shape = nullptr;
  expect_refused("input 0 'x' (%v0) has no shape");
}

TEST_F(DlpackTest, RefusesOtherStrides) {
  x_.strides[0] = kColumns + 8;
  const auto refusal =
      expect_refused("input 0 'x' (%v0) has stride 72 along axis 0, planned was 64");
  EXPECT_EQ(refusal.measured, kColumns + 8);
  EXPECT_EQ(refusal.limit, kColumns);
}

TEST_F(DlpackTest, RefusesAddressesThatDoNotSuit) {
  sinter_dl_tensor& x = x_.tensor.dl_tensor;
  x.byte_offset = 2;
  const auto refusal = expect_refused(fmt::format(
      "input 0 'x' (%v0): the tensor for %v0 lies at {:#x}, which is not a multiple of the "
      "promised 16 bytes",
      std::bit_cast<uint64_t>(x.data) + 2));
  EXPECT_EQ(refusal.measured, 2);
  EXPECT_EQ(refusal.limit, 16);
  x.byte_offset = ~uint64_t{0};
  expect_refused(
      fmt::format("input 0 'x' (%v0) begins 18446744073709551615 bytes behind {:#x}, where no "
                  "address is",
                  std::bit_cast<uint64_t>(x.data)));
  x.byte_offset = 16;
  x.data = nullptr;
  expect_refused("input 0 'x' (%v0): the tensor for %v0 has a null address");
}

TEST_F(DlpackTest, RefusesOverlaps) {
  y_.tensor.dl_tensor.data = x_.tensor.dl_tensor.data;
  expect_refused("output 0 'y' (%v5): the output %v5 overlaps the memory of %v0");
}

TEST_F(DlpackTest, RefusesAnotherNumberOfTensors) {
  args_.input_count = 1;
  EXPECT_EQ(expect_refused("1 inputs were passed, the fusion has 2").limit, 2);
  args_.input_count = 2;
  args_.outputs = nullptr;
  expect_refused("outputs is null, with a count of 1");
  args_.output_count = 0;
  expect_refused("0 outputs were passed, the fusion has 1");
}

}  // namespace sinter::dlpack_test
