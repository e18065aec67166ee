#include "codegen/passes/canonicalize.h"

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"

namespace sinter::canonicalize_test {

TEST(CanonicalizeTest, KernelsSurviveTheirText) {
  kir::Kernel kernel;
  kir::KernelBuilder b(&kernel);
  kernel.grid.work = b.add_param("n");
  // Expressions and statements whose order of making is not that of the text.
  const kir::ExprId late = b.add(b.special(kir::Special::kThreadIndex), b.integer(7));
  const kir::VarId x = b.declare("x", b.integer(1));
  b.loop("i", b.integer(0), late, b.integer(2), false,
         [&](kir::ExprId i) { b.assign(x, b.mul(b.ref(x), b.add(i, late))); });
  b.comment("end");
  EXPECT_NE(parse_kernel(print(kernel)).value(), kernel);
  const kir::Kernel canonical = canonicalize(kernel);
  EXPECT_EQ(print(canonical), print(kernel));
  EXPECT_EQ(parse_kernel(print(canonical)).value(), canonical);
}

TEST(CanonicalizeTest, KernelsHoldNothingUnused) {
  kir::Kernel kernel;
  kir::KernelBuilder b(&kernel);
  kernel.grid.work = b.add_param("n");
  b.real(3.0);
  b.comment("only this");
  const kir::Kernel canonical = canonicalize(kernel);
  EXPECT_EQ(canonical.exprs.size(), 0U);
  EXPECT_EQ(canonical.stmts.size(), 1U);
}

TEST(CanonicalizeTest, EqualExpressionsShareOneId) {
  const kir::Kernel kernel = parse_kernel(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  let %r0 a : i32 = add(mul(thread_index, 3), mul(thread_index, 3))
  let %r1 b : i32 = mul(thread_index, 3)
}
)")
                                 .value();
  const kir::Kernel canonical = canonicalize(kernel);
  EXPECT_EQ(canonical.exprs.size(), 4U) << "thread_index, 3, their product, and its double";
  EXPECT_EQ(canonical, kernel) << "what was parsed is canonical";
}

}  // namespace sinter::canonicalize_test
