// Traversals visit what the .kir text shows, in its order, and replace each of it once.

#include "codegen/kernel/kernel_traversal.h"

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_printer.h"
#include "tests/codegen/parsed_kernel.h"

namespace sinter::kir::kernel_traversal_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// A kernel with some registers, buffers and mbarriers, and then these statements.
Kernel kernel_with(std::string_view statements) {
  return parsed(fmt::format(R"(kernel @k threads 64 min_blocks 1 cluster 2 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 x : f32 global readwrite align 16 tensors 4
  buffer %b1 s : f32 shared readwrite align 16 count 64
  buffer %b2 y : f32 global read align 16
  mbarrier %m0 m count 8 arrivals 1
  tensor_map %t0 map of %b2 axis 64 stride 1 box 4 axis 4 stride 64 box 2
  register %r0 a : i32
  register %r1 t : f32[8][8]
  {}
}})",
                            statements));
}

const StmtKind& first_of(const Kernel& kernel) { return kernel.stmts[kernel.body.front()].kind; }

int64_t value_of(const Kernel& kernel, ExprId id) {
  return std::get<IntegerConstant>(kernel.exprs[id].kind).value;
}

/// Statements whose expressions are 1, 2, ... in the order of the text.
constexpr std::array kStatements = {
    "let %r2 b : i32 = 1",
    "%r0 = 1",
    "%r1[1, 2] = 3",
    "for %r2 i : i32 = 1 to 2 step 3 { }",
    "if 1 { }",
    "%r1[1, 2] = load %b0[3][4] width 1 when 5",
    "%r1[1, 2] = load %b1[3] width 1",
    "store %b0[1][2] = %r1[3, 4] width 1",
    "async_copy %b1[1] = %b2[2] width 4 when 3",
    "expect_bytes %m0[1] 2",
    "bulk_copy %b1[1] = %b2[2] elements 3 mbarrier %m0[4]",
    "tensor_copy %b1[1] = %t0[2, 3] mbarrier %m0[4]",
    "mbarrier_arrive %m0[1]",
    "mbarrier_wait %m0[1] parity 2",
    "cluster_store %b1[1] of 2 = %r0 mbarrier %m0[3]",
    "message_store %b2[1] of 2 = (%r0, %r0) number 3",
    "message_wait (%r0) = %b2[1] number 2",
    "group_barrier 1 threads 32",
    "%r0 = atomic_count %b2[1] last 2",
    "%r0 = shuffle_xor 1 mask 16",
    "%r0 = max_of_lanes %r1[1]",
    "load_matrix %r1[1] = %b1[2] matrices 4 transpose",
    "mma %r1[1] left %r1[2] right %r1[3]",
    "wgmma %r1[1] columns 8 left %b1[2] swizzle 128 groups 8 right %b1[3] swizzle 128 groups 8",
    "all_reduce r threads 32 phase 1 barrier 2 group 3 of 4 cluster %m0 parity 4 sum(%r0)",
    "all_reduce r threads 32 phase 1 group 2 of 4 team %b2 from 8 number 3 send sum(%r0)",
};

TEST(KernelTraversalTest, VisitsExpressionsInTheOrderOfTheText) {
  for (const char* text : kStatements) {
    const Kernel kernel = kernel_with(text);
    int64_t next = 1;
    for_each_expr(first_of(kernel),
                  [&](ExprId id) { EXPECT_EQ(value_of(kernel, id), next++) << text; });
    // Each constant is an expression of the statement itself, and there is no other.
    EXPECT_EQ(static_cast<size_t>(next - 1), kernel.exprs.size()) << text;
  }
}

TEST(KernelTraversalTest, ReplacesEveryExpressionOnce) {
  for (const char* text : kStatements) {
    Kernel kernel = kernel_with(text);
    // Those of the text from right to left get the same new numbers as from left to right.
    StmtKind stmt = first_of(kernel);
    std::vector<ExprId> seen;
    replace_exprs(stmt, [&](ExprId id) {
      seen.push_back(id);
      return ExprId{id.index + 100};
    });
    std::vector<ExprId> after;
    for_each_expr(stmt, [&](ExprId id) { after.push_back(ExprId{id.index - 100}); });
    EXPECT_EQ(after, seen) << text;
    EXPECT_EQ(seen.size(), kernel.exprs.size()) << text;
  }
}

TEST(KernelTraversalTest, SkipsWhatIsLeftOut) {
  for (const char* text : {"var %r2 b : i32", "barrier", "proxy_fence", "wgmma_wait pending 0",
                           "// text", "all_reduce r threads 32 sum(%r0)"}) {
    const Kernel kernel = kernel_with(text);
    for_each_expr(first_of(kernel), [&](ExprId) { ADD_FAILURE() << text; });
  }
}

TEST(KernelTraversalTest, VisitsOperandsFromLeftToRight) {
  const auto operands_of = [](std::string_view expression) {
    const Kernel kernel = kernel_with(fmt::format("let %r2 b : i32 = {}", expression));
    std::vector<int64_t> values;
    for_each_operand(kernel.exprs[std::get<Declare>(first_of(kernel)).init],
                     [&](ExprId id) { values.push_back(value_of(kernel, id)); });
    return values;
  };
  EXPECT_THAT(operands_of("clamp(3, 1, 2)"), ElementsAre(3, 1, 2));
  EXPECT_THAT(operands_of("add(5, 5)"), ElementsAre(5, 5)) << "one id, which stands there twice";
  EXPECT_THAT(operands_of("%r1[4, 2]"), ElementsAre(4, 2));
  EXPECT_THAT(operands_of("cast<i64>(9)"), ElementsAre(9));
  EXPECT_THAT(operands_of("grid_size"), ElementsAre());
}

constexpr std::string_view kNested = R"(
  if true {
    for %r2 i : i32 = 0 to 4 step 1 {
      barrier
    }
  } else {
    warp_barrier
  }
  device_fence
)";

TEST(KernelTraversalTest, VisitsOuterStatementsBeforeTheirBlocks) {
  const Kernel kernel = kernel_with(kNested);
  std::vector<uint32_t> visited;
  for_each_stmt(kernel, kernel.body, [&](StmtId id) { visited.push_back(id.index); });
  EXPECT_THAT(visited, ElementsAre(0, 1, 2, 3, 4)) << "the parser numbers them in this order";
  std::vector<size_t> sizes;
  for_each_block(first_of(kernel), [&](const Block& block) { sizes.push_back(block.size()); });
  EXPECT_THAT(sizes, ElementsAre(1, 1));
}

TEST(KernelTraversalTest, ReplacesStatementsAtEveryDepth) {
  Kernel kernel = kernel_with(kNested);
  KernelBuilder builder(&kernel);
  replace_statements(builder, [&](StmtId, const StmtKind& stmt) {
    if (std::holds_alternative<WarpBarrier>(stmt)) return true;  // by nothing
    if (!std::holds_alternative<Barrier>(stmt)) return false;
    builder.comment("one");
    builder.comment("two");
    return true;
  });
  EXPECT_THAT(print(kernel), HasSubstr(R"(
  if true {
    for %r2 i : i32 = 0 to 4 step 1 {
      // one
      // two
    }
  }
  device_fence
)"));
}

/// A statement that is replaced takes its blocks along: nothing asks about them.
TEST(KernelTraversalTest, DoesNotEnterWhatItReplaces) {
  Kernel kernel = kernel_with(kNested);
  KernelBuilder builder(&kernel);
  int asked = 0;
  replace_statements(builder, [&](StmtId, const StmtKind& stmt) {
    ++asked;
    return std::holds_alternative<If>(stmt);
  });
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(kernel.body.size(), 1U);
}

}  // namespace sinter::kir::kernel_traversal_test
