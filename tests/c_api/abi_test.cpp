// What callers were compiled against: sizes, offsets and numbers that must stay. A new field goes
// to the end of its struct and makes it larger; SINTER_ABI_VERSION changes only where something
// here does that an older caller relies on.

#include <gtest/gtest.h>

#include "runtime/c_api/sinter_c.h"

namespace sinter::abi_test {

static_assert(SINTER_ABI_VERSION == 2);
static_assert(SINTER_MAX_RANK == 8);

static_assert(SINTER_OK == 0 && SINTER_INVALID_FUSION == 1 && SINTER_INVALID_ARGUMENT == 2 &&
              SINTER_UNSUPPORTED == 3 && SINTER_RESOURCE_EXHAUSTED == 4 &&
              SINTER_DEVICE_ERROR == 5 && SINTER_INTERNAL_ERROR == 6 &&
              SINTER_INVALID_HANDLE == 7 && SINTER_CANCELLED == 8);
static_assert(SINTER_STAGE_PLAN == 0 && SINTER_STAGE_COMPILE == 1);
static_assert(SINTER_DRAWING_SVG == 0 && SINTER_DRAWING_DOT == 1);
static_assert(SINTER_CUT_FASTER == 0 && SINTER_CUT_NEEDED == 1);
static_assert(sizeof(sinter_status) == 4 && sizeof(sinter_value) == 8);

static_assert(sizeof(sinter_error_info) == 104 && offsetof(sinter_error_info, status) == 8 &&
              offsetof(sinter_error_info, measured) == 24 &&
              offsetof(sinter_error_info, kind) == 40 && offsetof(sinter_error_info, json) == 80 &&
              offsetof(sinter_error_info, column) == 96);
static_assert(sizeof(sinter_fusion_info) == 56 && offsetof(sinter_fusion_info, name) == 48);
static_assert(sizeof(sinter_symbol_info) == 32 && offsetof(sinter_symbol_info, divisible_by) == 24);
static_assert(sizeof(sinter_runtime_options) == 64 &&
              offsetof(sinter_runtime_options, cache_directory) == 24 &&
              offsetof(sinter_runtime_options, max_memory_bytes) == 40 &&
              offsetof(sinter_runtime_options, log_data) == 56);
static_assert(sizeof(sinter_progress) == 40 && offsetof(sinter_progress, segment) == 32);
static_assert(sizeof(sinter_cache_info) == 56 && offsetof(sinter_cache_info, write_failures) == 48);
static_assert(sizeof(sinter_compile_options) == 40 &&
              offsetof(sinter_compile_options, budget_seconds) == 32);
static_assert(sizeof(sinter_compiled_info) == 32 &&
              offsetof(sinter_compiled_info, predicted_us) == 24);
static_assert(sizeof(sinter_compiled_kernel_info) == 96 &&
              offsetof(sinter_compiled_kernel_info, predicted_us) == 88);
static_assert(sizeof(sinter_extent) == 16 && offsetof(sinter_extent, size) == 8);
static_assert(sizeof(sinter_value_group) == 16 && offsetof(sinter_value_group, count) == 8);
static_assert(sizeof(sinter_plan_options) == 160 && offsetof(sinter_plan_options, unroll) == 48 &&
              offsetof(sinter_plan_options, cutting) == 64 &&
              offsetof(sinter_plan_options, join_count) == 96 &&
              offsetof(sinter_plan_options, tuned) == 104 &&
              offsetof(sinter_plan_options, check_indices) == 112 &&
              offsetof(sinter_plan_options, budget_seconds) == 136 &&
              offsetof(sinter_plan_options, like) == 144 &&
              offsetof(sinter_plan_options, defer_scales) == 152 &&
              offsetof(sinter_plan_options, no_teams) == 156);
static_assert(sizeof(sinter_plan_info) == 56 && offsetof(sinter_plan_info, predicted_us) == 48);
static_assert(sizeof(sinter_dtype) == 4);
static_assert(sizeof(sinter_tensor_info) == 176 && offsetof(sinter_tensor_info, dtype) == 24 &&
              offsetof(sinter_tensor_info, alignment) == 40 &&
              offsetof(sinter_tensor_info, shape) == 48 &&
              offsetof(sinter_tensor_info, strides) == 112);
static_assert(sizeof(sinter_kernel_info) == 64 &&
              offsetof(sinter_kernel_info, bytes_written) == 56);
static_assert(sizeof(sinter_dl_tensor) == 48 && offsetof(sinter_dl_tensor, byte_offset) == 40);
static_assert(sizeof(sinter_dl_managed_tensor) == 80 &&
              offsetof(sinter_dl_managed_tensor, dl_tensor) == 32);
static_assert(sizeof(sinter_tensor) == 16 && offsetof(sinter_tensor, versioned) == 8);
static_assert(sizeof(sinter_external_request) == 72 &&
              offsetof(sinter_external_request, stream) == 48 &&
              offsetof(sinter_external_request, message_size) == 64);
static_assert(sizeof(sinter_prepare_options) == 64 &&
              offsetof(sinter_prepare_options, external_data) == 32 &&
              offsetof(sinter_prepare_options, progress) == 40 &&
              offsetof(sinter_prepare_options, budget_seconds) == 56);
static_assert(SINTER_RANGE_ONE_PLAN == 0 && SINTER_RANGE_PLAN_EACH == 1);
static_assert(SINTER_OUTSIDE_REFUSE == 0 && SINTER_OUTSIDE_PLAN == 1);
static_assert(sizeof(sinter_extent_range) == 24 && offsetof(sinter_extent_range, most) == 16);
static_assert(sizeof(sinter_ranged_options) == 64 && offsetof(sinter_ranged_options, plans) == 40 &&
              offsetof(sinter_ranged_options, kept) == 56);
static_assert(sizeof(sinter_ranged_info) == 56 && offsetof(sinter_ranged_info, kept) == 48);
static_assert(sizeof(sinter_check_options) == 40 &&
              offsetof(sinter_check_options, data_count) == 32);
static_assert(sizeof(sinter_check_info) == 56 &&
              offsetof(sinter_check_info, worst_error_over_bound) == 48);
static_assert(sizeof(sinter_executable_info) == 64 &&
              offsetof(sinter_executable_info, predicted_us) == 48);
static_assert(sizeof(sinter_execute_args) == 88 && offsetof(sinter_execute_args, stream) == 40 &&
              offsetof(sinter_execute_args, allocator_data) == 80);
static_assert(sizeof(sinter_tune_progress) == 72 &&
              offsetof(sinter_tune_progress, budget_seconds) == 64);
static_assert(sizeof(sinter_tune_options) == 72 && offsetof(sinter_tune_options, top) == 16 &&
              offsetof(sinter_tune_options, stream) == 40 &&
              offsetof(sinter_tune_options, database) == 64);
static_assert(sizeof(sinter_tune_info) == 320 && offsetof(sinter_tune_info, ended) == 32 &&
              offsetof(sinter_tune_info, seconds) == 56 &&
              offsetof(sinter_tune_info, unmeasured) == 64);
static_assert(sizeof(sinter_host_options) == 40 && offsetof(sinter_host_options, seed) == 8 &&
              offsetof(sinter_host_options, external) == 24);

TEST(CAbi, SaysItsVersion) {
  EXPECT_EQ(sinter_abi_version(), static_cast<uint32_t>(SINTER_ABI_VERSION));
  EXPECT_STREQ(sinter_version(), SINTER_TEST_VERSION);
}

TEST(CAbi, NamesEveryStatus) {
  EXPECT_STREQ(sinter_status_name(SINTER_OK), "OK");
  EXPECT_STREQ(sinter_status_name(SINTER_INVALID_FUSION), "InvalidFusion");
  EXPECT_STREQ(sinter_status_name(SINTER_INVALID_ARGUMENT), "InvalidArgument");
  EXPECT_STREQ(sinter_status_name(SINTER_UNSUPPORTED), "Unsupported");
  EXPECT_STREQ(sinter_status_name(SINTER_RESOURCE_EXHAUSTED), "ResourceExhausted");
  EXPECT_STREQ(sinter_status_name(SINTER_DEVICE_ERROR), "DeviceError");
  EXPECT_STREQ(sinter_status_name(SINTER_INTERNAL_ERROR), "InternalError");
  EXPECT_STREQ(sinter_status_name(SINTER_INVALID_HANDLE), "InvalidHandle");
  EXPECT_STREQ(sinter_status_name(SINTER_CANCELLED), "Cancelled");
  EXPECT_STREQ(sinter_status_name(-1), "unknown");
  EXPECT_STREQ(sinter_status_name(9), "unknown");
}

}  // namespace sinter::abi_test
