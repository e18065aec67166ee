// The small passes and the runner: kernel_passes.h, passes/*.h but lower_reductions.h.

#include "codegen/passes/kernel_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "codegen/passes/place_shared_buffers.h"
#include "codegen/passes/remove_dead_statements.h"
#include "codegen/passes/split_vector_accesses.h"

namespace sinter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kHead = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : bf16 global write align 16
)";

kir::Kernel kernel_of(std::string_view body) {
  auto kernel = parse_kernel(fmt::format("{}{}}}", kHead, body));
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().text());
  return kernel ? *kernel : kir::Kernel{};
}

std::string body_of(const kir::Kernel& kernel) {
  const std::string text = print(kernel);
  return text.substr(text.find("align 16\n", text.find("%b1")) + 9);
}

TEST(SplitVectorAccessesTest, CutsWhatIsWiderThanSixteenBytes) {
  const kir::Kernel kernel = kernel_of(R"(
  var %r0 t : f32[1][8]
  if lt(%p0, 5:i64) {
    %r0[0, 0] = load %b0[add(thread_index, 2)] width 8 evict_last
  }
  store %b1[%p0] = %r0[0, 0] width 8
)");
  EXPECT_EQ(body_of(split_vector_accesses(kernel)), R"(  var %r0 t : f32[1][8]
  if lt(%p0, 5:i64) {
    %r0[0, 0] = load %b0[add(thread_index, 2)] width 4 evict_last
    %r0[0, 4] = load %b0[add(thread_index, 6)] width 4 evict_last
  }
  store %b1[%p0] = %r0[0, 0] width 8
}
)");
}

TEST(PlaceSharedBuffersTest, AlignsAndPacksInOrder) {
  kir::Kernel kernel = kernel_of(R"(
  buffer %b2 a : i8 shared readwrite align 16 count 3
  buffer %b3 b : f32 shared readwrite align 128 count 4 offset 0
  buffer %b4 c : f64 shared readwrite align 8 count 2
)");
  kernel = place_shared_buffers(kernel);
  EXPECT_EQ(kernel.buffers[kir::BufferId{2}].offset, 0);
  EXPECT_EQ(kernel.buffers[kir::BufferId{3}].offset, 128);
  EXPECT_EQ(kernel.buffers[kir::BufferId{4}].offset, 144);
  EXPECT_EQ(kir::shared_bytes(kernel), 160);
}

/// Other threads find what it leaves, whether or not its own asks what was there.
TEST(RemoveDeadStatementsTest, KeepsAtomicCountsThatNobodyReads) {
  const auto kernel = parse_kernel(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 counters : i32 global readwrite align 4
  var %r0 drawn : i32
  let %r1 unread : i32 = 7
  %r0 = atomic_count %b0[0] last 3
}
)");
  ASSERT_TRUE(kernel) << kernel.error().text();
  const std::string kept = print(remove_dead_statements(*kernel));
  EXPECT_THAT(kept, HasSubstr("= atomic_count %b0[0] last 3"));
  EXPECT_THAT(kept, testing::Not(HasSubstr("let %r1")));
}

TEST(RemoveDeadStatementsTest, KeepsOnlyWhatReachesMemory) {
  const kir::Kernel kernel = kernel_of(R"(
  let %r0 kept : f32 = 0x1p+0
  let %r1 chain : f32 = add(%r0, 0x1p+0)
  let %r2 chain_end : f32 = add(%r1, 0x1p+0)
  // stays
  let %r3 loop_carried : f32 = 0x0p+0
  for %r4 i : i32 = 0 to 4 step 1 {
    %r3 = add(%r3, %r2)
    // goes with its loop
  }
  let %r5 bound : i32 = 3
  let %r6 sum : f32 = 0x0p+0
  let %r7 unread : f32 = 0x0p+0
  all_reduce stats threads 64 sum(%r6) max(%r7)
  if lt(thread_index, %r5) {
    store %b1[0] = %r6[0, 0] width 1
  } else {
    %r1 = %r0
  }
  if lt(thread_index, 4) {
    %r0 = 0x1p+1
  }
  barrier
)");
  EXPECT_EQ(body_of(remove_dead_statements(kernel)), R"(  register %r0 kept : f32
  register %r1 chain : f32
  register %r2 chain_end : f32
  register %r3 loop_carried : f32
  register %r4 i : i32
  register %r7 unread : f32
  // stays
  let %r5 bound : i32 = 3
  let %r6 sum : f32 = 0x0p+0
  all_reduce stats threads 64 sum(%r6)
  if lt(thread_index, %r5) {
    store %b1[0] = %r6[0, 0] width 1
  }
  barrier
}
)");
}

TEST(RemoveDeadStatementsTest, KeepsWhatALiveLoopCarries) {
  const std::string body = R"(  let %r0 a : f32 = 0x1p+0
  let %r1 b : f32 = 0x1p+0
  for %r2 i : i32 = 0 to 4 step 1 {
    store %b1[%r2] = %r1[0, 0] width 1
    %r1 = %r0
    %r0 = add(%r0, 0x1p+0)
  }
}
)";
  const std::string_view without_brace(body.data(), body.size() - 2);
  EXPECT_EQ(body_of(remove_dead_statements(kernel_of(without_brace))), body);
}

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

}  // namespace
}  // namespace sinter
