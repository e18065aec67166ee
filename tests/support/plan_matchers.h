#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

// Matchers that say in one line what a plan should be, without a GPU:
//
//     EXPECT_THAT(plan_canned("rms_norm", {{"rows", 8192}, {"cols", 8192}}, "H200"),
//                 PlansAs("multi_wave", Keeps("x"), ThreadsPerRow(128), NoSpill()));
//
// and of plans of several kernels, as gradients have:
//
//     EXPECT_THAT(plan_canned("layer_norm_backward", {{"rows", 8192}, {"cols", 2048}}, "H200"),
//                 KernelsAre(Kernel("warp_specialised", Writes("dx"), Finishing(Finish::kKernel)),
//                            Kernel("column", Writes("dweight"), Writes("dbias"))));
//
// tests/scheduler/plan_matchers_test.cpp runs both.

/// Plans a canned fusion for a device preset. InvalidArgument for names that do not exist.
Result<Plan> plan_canned(std::string_view name, const ExtentValues& extents,
                         std::string_view device, const PlanOptions& options = {});

using PlanMatcher = testing::Matcher<const Result<Plan>&>;
using SegmentMatcher = testing::Matcher<const KernelPlan&>;
using NumberMatcher = testing::Matcher<int64_t>;

/// The plan is one segment, and its chosen schedule belongs to `family` and meets `parts`.
PlanMatcher plans_as(const std::string& family, const std::vector<SegmentMatcher>& parts);
template <class... Parts>
PlanMatcher PlansAs(const std::string& family, Parts... parts) {
  return plans_as(family, {SegmentMatcher(std::move(parts))...});
}

/// The plan's kernels, in the order they run, meet `kernels`, one each.
PlanMatcher kernels_are(const std::vector<SegmentMatcher>& kernels);
template <class... Kernels>
PlanMatcher KernelsAre(Kernels... kernels) {
  return kernels_are({SegmentMatcher(std::move(kernels))...});
}
/// One of the plan's kernels, at least, meets `kernel`.
PlanMatcher HasKernel(const SegmentMatcher& kernel);
/// Kernel number `index`, in the order they run, meets `kernel`.
PlanMatcher HasKernel(size_t index, const SegmentMatcher& kernel);
/// The values of these names go from one kernel to another, in any order, and no others do.
PlanMatcher CutsAre(const std::vector<std::string>& value_names);
/// One kernel makes all values of these names.
PlanMatcher Joins(const std::vector<std::string>& value_names);

/// The chosen schedule belongs to `family` and meets `parts`.
SegmentMatcher kernel(const std::string& family, const std::vector<SegmentMatcher>& parts);
template <class... Parts>
SegmentMatcher Kernel(const std::string& family, Parts... parts) {
  return kernel(family, {SegmentMatcher(std::move(parts))...});
}
/// The kernel reads, or writes, the value of this name as a tensor.
SegmentMatcher Reads(std::string value_name);
SegmentMatcher Writes(std::string value_name);
/// What finishes the partial results that the chosen schedule leaves.
SegmentMatcher Finishing(Finish finish);

/// The chosen schedule keeps the value of this name, anywhere or at one place.
SegmentMatcher Keeps(std::string value_name);
SegmentMatcher Keeps(std::string value_name, Residency residency);
/// The chosen schedule keeps so many values in registers or shared memory.
SegmentMatcher KeepsCount(const testing::Matcher<size_t>& count);
SegmentMatcher ThreadsPerRow(const NumberMatcher& threads);
SegmentMatcher RowsPerBlock(const NumberMatcher& rows);
SegmentMatcher VectorWidth(const NumberMatcher& elements);
SegmentMatcher Unroll(const NumberMatcher& batches);
SegmentMatcher AccessesRows(RowAccess access);
/// The registers expected stay within what the launch bounds leave.
SegmentMatcher NoSpill();

/// A family was turned down, and the rejection's text matches. Of a plan, and of the error of a
/// fusion that no family takes or of a refused pin.
PlanMatcher RejectedBy(std::string family, testing::Matcher<const std::string&> text);
/// Planning failed with an error of this kind whose text matches.
PlanMatcher FailsWith(ErrorKind kind, const testing::Matcher<const std::string&>& text);

/// Prints the chosen schedules and the rejections, or the error.
void PrintTo(const Result<Plan>& plan, std::ostream* out);
void PrintTo(const KernelPlan& segment, std::ostream* out);

}  // namespace sinter
