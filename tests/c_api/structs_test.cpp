#include <gmock/gmock.h>

#include <array>

#include "tests/c_api/c_api_support.h"

namespace sinter::structs_test {

using ::testing::HasSubstr;

/// A struct as a newer caller would have it.
struct NewerOptions {
  sinter_plan_options known;
  int64_t unknown[2];
};

class StructsTest : public CApiTest {
 protected:
  sinter_status plan_with(const void* options, sinter_error** error) {
    const std::array extents{sinter_extent{"rows", 64}, sinter_extent{"cols", 256}};
    sinter_plan* plan = nullptr;
    const sinter_status status =
        sinter_plan_create(fusion_.get(), device_.get(), extents.data(), extents.size(),
                           static_cast<const sinter_plan_options*>(options), &plan, error);
    EXPECT_EQ(sinter_plan_release(plan, nullptr), SINTER_OK);
    return status;
  }

  OwnedFusion fusion_ = parse(kScale);
  OwnedDevice device_ = preset();
  void TearDown() override {
    fusion_.reset();
    device_.reset();
  }
};

TEST_F(StructsTest, ASmallerStructGetsDefaultsForTheRest) {
  auto options = sized<sinter_plan_options>();
  options.struct_size = offsetof(sinter_plan_options, cutting);
  options.cutting = 99;  // Beyond what the caller says it has.
  succeeds([&](sinter_error** error) { return plan_with(&options, error); });
  options.struct_size = sizeof(size_t);
  succeeds([&](sinter_error** error) { return plan_with(&options, error); });
}

TEST_F(StructsTest, ALargerStructIsTakenWhereItSaysNothingNew) {
  NewerOptions options{};
  options.known.struct_size = sizeof options;
  succeeds([&](sinter_error** error) { return plan_with(&options, error); });
  options.unknown[1] = 1;
  const auto refusal = refused([&](sinter_error** error) { return plan_with(&options, error); });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_THAT(refusal.message, HasSubstr(fmt::format("byte {} of options is not zero",
                                                     offsetof(NewerOptions, unknown) + 8)));
}

TEST_F(StructsTest, SizesThatNoVersionHasAreRefused) {
  auto options = sized<sinter_plan_options>();
  for (const size_t size : {size_t{0}, size_t{4}, size_t{9}, sizeof options - 1, size_t{4104},
                            ~size_t{0}, ~size_t{7}}) {
    options.struct_size = size;
    const auto refusal = refused([&](sinter_error** error) { return plan_with(&options, error); });
    EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
    EXPECT_THAT(refusal.message, HasSubstr("struct_size of options is")) << size;
    EXPECT_EQ(refusal.measured, static_cast<int64_t>(size));
  }
}

TEST_F(StructsTest, ResultsReachAsFarAsTheCallersStruct) {
  struct {
    sinter_fusion_info known;
    int64_t unknown;
  } info{};
  info.known.struct_size = sizeof info;
  info.unknown = -1;
  succeeds([&](sinter_error** error) {
    return sinter_fusion_describe(fusion_.get(), &info.known, error);
  });
  EXPECT_EQ(info.known.struct_size, sizeof info);
  EXPECT_EQ(info.known.input_count, 2U);
  EXPECT_EQ(info.unknown, 0);

  info.known = {};
  info.known.struct_size = offsetof(sinter_fusion_info, output_count);
  info.known.output_count = 77;
  succeeds([&](sinter_error** error) {
    return sinter_fusion_describe(fusion_.get(), &info.known, error);
  });
  EXPECT_EQ(info.known.input_count, 2U);
  EXPECT_EQ(info.known.output_count, 77U) << "nothing is written beyond the caller's struct";

  info.known.struct_size = 0;
  EXPECT_EQ(sinter_fusion_describe(fusion_.get(), &info.known, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_fusion_describe(fusion_.get(), nullptr, nullptr), SINTER_INVALID_ARGUMENT);
}

}  // namespace sinter::structs_test
