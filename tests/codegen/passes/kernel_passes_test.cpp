#include "codegen/passes/kernel_passes.h"

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_verifier.h"
#include "tests/codegen/passes/small_kernel.h"

namespace sinter::kernel_passes_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(KernelPassesTest, EveryPassHasANameAndAReason) {
  std::vector<std::string_view> names;
  for (const KernelPass& pass : kernel_passes()) {
    names.push_back(pass.name);
    EXPECT_FALSE(pass.reason.empty()) << pass.name;
  }
  EXPECT_THAT(names, ElementsAre("remove_dead_statements", "lower_reductions",
                                 "split_vector_accesses", "place_shared_buffers", "pack_maxima",
                                 "take_fast_paths", "share_random_rounds", "predicate_loads",
                                 "choose_reciprocals", "canonicalize"));
}

constexpr std::string_view kReduction = R"(
  var %r0 t : f32[1][8]
  %r0[0, 0] = load %b0[mul(thread_index, 8)] width 8
  let %r1 sum : f32 = %r0[0, 0]
  all_reduce row threads 64 sum(%r1)
  store %b1[thread_index] = %r1[0, 0] width 1
)";

TEST(KernelPassesTest, LeavesALoweredCanonicalKernel) {
  const kir::Kernel kernel = run_kernel_passes(kernel_of(kReduction), {.verify = true});
  EXPECT_TRUE(verify_kernel(kernel, KernelStage::kLowered).empty());
  const auto parsed = parse_kernel(print(kernel));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
  EXPECT_EQ(*parsed, kernel);
  EXPECT_EQ(run_kernel_passes(kernel, {.verify = true}), kernel) << "nothing is left to do";
}

TEST(KernelPassesTest, DumpsPassesThatChangedSomethingAndStops) {
  std::vector<std::string> seen;
  const KernelPassOptions options{
      .verify = true,
      .dump = [&](std::string_view pass, const kir::Kernel&) { seen.emplace_back(pass); },
      .stop_after = 4};
  const kir::Kernel kernel = run_kernel_passes(kernel_of(kReduction), options);
  EXPECT_THAT(seen,
              ElementsAre("lower_reductions", "split_vector_accesses", "place_shared_buffers"));
  EXPECT_NE(kernel, run_kernel_passes(kernel_of(kReduction)));
}

TEST(KernelPassesTest, NamesThePassAndTheViolation) {
  const kir::Kernel kernel = kernel_of("if lt(thread_index, 3) { barrier }");
  try {
    run_kernel_passes(kernel, {.verify = true});
    FAIL();
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().kind, ErrorKind::kInternalError);
    EXPECT_THAT(exception.error().message, HasSubstr("before the first pass"));
    EXPECT_THAT(exception.error().log, HasSubstr("%s1: a barrier where control may differ"));
  }
}

}  // namespace sinter::kernel_passes_test
