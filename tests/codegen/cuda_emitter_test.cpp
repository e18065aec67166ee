#include "codegen/cuda/cuda_emitter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/device/device_headers.h"
#include "codegen/passes/kernel_passes.h"
#include "scheduler/plan/tensor_slots.h"
#include "tests/codegen/cluster_kernel.h"
#include "tests/codegen/matrix_kernel.h"
#include "tests/codegen/parsed_kernel.h"
#include "tests/codegen/specialised_kernel.h"
#include "tests/codegen/warp_group_kernel.h"

namespace sinter::cuda_emitter_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CudaEmitterTest, PrintsAWholeKernel) {
  const kir::Kernel kernel = parsed(R"(
kernel @scale.0 threads 128 min_blocks 2 grid ceil(%p0 / 4) {
  param %p0 rows : i64
  buffer %b0 x : bf16 global read align 16 value %v3
  buffer %b1 class : f16 global write align 16 value %v9
  buffer %b2 scratch : f32 shared readwrite align 16 count 4 offset 0
  let %r0 row : i64 = add(mul(cast<i64>(block_index), 4:i64), cast<i64>(div(thread_index, 32)))
  if lt(%r0, %p0) {
    // Row of x
    var %r1 held : bf16[2][8]
    var %r2 out : f32[1][8]
    for %r3 g : i32 = 0 to 2 step 1 unroll {
      %r1[%r3, 0] = load %b0[add(mul(%r0, 512:i64), cast<i64>(mul(%r3, 8)))] width 8 evict_last
    }
    for %r4 l : i32 = 0 to 8 step 1 unroll {
      %r2[0, %r4] = mul(cast<f32>(%r1[1, %r4]), 0x1p-1)
    }
    store %b1[%r0] = %r2[0, 0] width 8
    var %r5 sum : f32
    %r5 = shuffle_xor %r2[0, 0] mask 16
    store %b2[0] = %r5[0, 0] width 1
  } else {
    barrier
  }
})");
  EXPECT_EQ(emit_cuda(kernel), R"(#include "vector.cuh"
#include "warp.cuh"

extern "C" __global__ void __launch_bounds__(128, 2)
scale_0(const bf16* __restrict__ x, f16* __restrict__ v_class, long long rows) {
  __shared__ __align__(16) unsigned char shared_memory[16];
  float* const scratch = reinterpret_cast<float*>(shared_memory + 0);  // 4
  long long row = to_i64((int)blockIdx.x) * 4LL + to_i64((int)threadIdx.x / 32);
  if (row < rows) {
    // Row of x
    Vec<bf16, 8> held[2];
    Vec<float, 8> out;
    #pragma unroll
    for (int g = 0; g < 2; ++g) {
      load_global_evict_last<8>(held[g], 0, x + row * 512LL + to_i64(g * 8));
    }
    #pragma unroll
    for (int l = 0; l < 8; ++l) {
      out.set(l, to_f32(held[1].get(l)) * 0.5f);
    }
    store_global<8>(v_class + row, out, 0);
    float sum;
    sum = shuffle_xor(out.get(0), 16);
    store_shared(scratch, sum);
  } else {
    __syncthreads();
  }
}
)");
}

TEST(CudaEmitterTest, ReadsBuffersThatItWritesThroughTheCoherentPath) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global readwrite align 16
  var %r0 v : f32
  %r0[0, 0] = load %b0[thread_index] width 1
  store %b0[thread_index] = %r0[0, 0] width 1
})"));
  EXPECT_THAT(text, HasSubstr("(float* __restrict__ x, long long n)"));
  EXPECT_THAT(text, HasSubstr("v = load_written(x + (int)threadIdx.x);"));
  EXPECT_THAT(text, HasSubstr("store_global(x + (int)threadIdx.x, v);"));
}

/// A kernel that starts before the previous one has ended may read what that one still writes.
TEST(CudaEmitterTest, ReadsPastTheReadOnlyPathWhatThePreviousKernelMayWrite) {
  const auto text = [](std::string_view before, std::string_view constant = "") {
    return emit_cuda(parsed(fmt::format(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16{1}
  buffer %b1 y : f32 global write align 16
  {0}
  var %r0 v : f32
  %r0[0, 0] = load %b0[thread_index] width 1 evict_first
  store %b1[thread_index] = %r0[0, 0] width 1
}})",
                                        before, constant)));
  };
  EXPECT_THAT(text(""), HasSubstr("v = load_global_evict_first(x"));
  const std::string early = text("wait_for_previous");
  EXPECT_THAT(early, HasSubstr("v = load_written(x"));
  EXPECT_THAT(early, Not(HasSubstr("load_global")));
  EXPECT_LT(early.find("wait_for_previous();"), early.find("load_written"));
  EXPECT_THAT(text("wait_for_previous", " constant"), HasSubstr("v = load_written_evict_first(x"));
}

TEST(CudaEmitterTest, WritesEveryKindOfBarrier) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  warp_barrier
  barrier
})"));
  const size_t warp = text.find("  __syncwarp();\n");
  ASSERT_NE(warp, std::string::npos) << text;
  EXPECT_LT(warp, text.find("  __syncthreads();\n"));
}

/// The compiler would unroll others again, and take registers that the schedule has not counted.
TEST(CudaEmitterTest, LoopsAreUnrolledWhereTheKernelSaysAndNowhereElse) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : i32 global write align 16
  for %r0 run_time : i32 = 0 to 4 step 1 {
    var %r1 v : i32
    for %r2 unrolled : i32 = 0 to 2 step 1 unroll {
      %r1 = %r2
    }
    store %b0[%r0] = %r1[0, 0] width 1
  }
})"));
  EXPECT_THAT(text, HasSubstr("#pragma unroll 1\n  for (int run_time = "));
  EXPECT_THAT(text, HasSubstr("#pragma unroll\n    for (int unrolled = "));
}

TEST(CudaEmitterTest, ReadsThemWithTheirHints) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global readwrite align 16
  var %r0 v : f32
  %r0[0, 0] = load %b0[thread_index] width 1 evict_last
  store %b0[thread_index] = %r0[0, 0] width 1
})"));
  EXPECT_THAT(text, HasSubstr("v = load_written_evict_last(x + (int)threadIdx.x);"));
}

TEST(CudaEmitterTest, UsesDynamicSharedMemoryBeyondTheStaticLimit) {
  const auto text = [](int64_t count) {
    return emit_cuda(parsed(fmt::format(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 s : bf16 shared readwrite align 16 count {} offset 0
}})",
                                        count)));
  };
  EXPECT_THAT(text(24 * 1024), HasSubstr("unsigned char shared_memory[49152];"));
  EXPECT_THAT(text(24 * 1024 + 8), HasSubstr("extern __shared__ __align__(16) unsigned char "
                                             "shared_memory[];  // 49168 bytes"));
}

TEST(CudaEmitterTest, WritesClusters) {
  const kir::Kernel kernel = run_kernel_passes(parsed(kClusterKernel), {.verify = true});
  const std::string text = emit_cuda(kernel);
  EXPECT_THAT(text, HasSubstr("#include \"cluster.cuh\""));
  EXPECT_THAT(text,
              HasSubstr("__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64, 1)"));
  EXPECT_THAT(text, HasSubstr("  cluster_barrier();"));
  EXPECT_THAT(text,
              HasSubstr("if ((int)threadIdx.x % 32 < 2) {\n      cluster_store(sum_warps + "));
  EXPECT_THAT(text, HasSubstr("mbarrier_wait_cluster(arrived + turn % 2, turn / 2 % 2);"));
  const KernelSource source = make_kernel_source(kernel, {21, 3});
  EXPECT_EQ(source.cluster_size, 2);
  // Tuples of 2 x 2 warps for two rounds, and two mbarriers.
  EXPECT_EQ(source.shared_bytes, 2 * 4 * 4 + 2 * 8);
}

/// Blocks that each have a row or part of one load before they wait for each other.
TEST(CudaEmitterTest, BlocksOfAClusterLoadBeforeTheySynchronise) {
  std::string text(kClusterKernel);
  text.replace(text.find("cluster_barrier"), 15, "cluster_arrive barrier cluster_wait");
  const std::string cuda = emit_cuda(run_kernel_passes(parsed(text), {.verify = true}));
  EXPECT_THAT(cuda, HasSubstr("#include \"cluster.cuh\""));
  EXPECT_LT(cuda.find("  cluster_arrive();"), cuda.find("  cluster_wait();"));
  // The arrival is relaxed: what it orders is released before it.
  EXPECT_LT(cuda.find("mbarrier_fence_init();"), cuda.find("  cluster_arrive();"));
}

TEST(CudaEmitterTest, WritesMbarriersAndBulkCopies) {
  const std::string text =
      emit_cuda(run_kernel_passes(parsed(kSpecialisedKernel), {.verify = true}));
  EXPECT_THAT(text, HasSubstr("#include \"mbarrier.cuh\"\n#include \"vector.cuh\"\n"));
  EXPECT_THAT(text, HasSubstr(R"(
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(shared_memory + 6176);  // 3
  Mbarrier* const empty = reinterpret_cast<Mbarrier*>(shared_memory + 6200);  // 3
  if (threadIdx.x == 0) {
    mbarrier_init(full + 0, 1);
    mbarrier_init(full + 1, 1);
    mbarrier_init(full + 2, 1);
    mbarrier_init(empty + 0, 1);
    mbarrier_init(empty + 1, 1);
    mbarrier_init(empty + 2, 1);
    mbarrier_fence_init();
  }
  __syncthreads();
)"));
  EXPECT_THAT(text, HasSubstr("decrease_max_registers<24>();"));
  EXPECT_THAT(text, HasSubstr("increase_max_registers<200>();"));
  EXPECT_THAT(text, HasSubstr("mbarrier_wait(empty + slot, (filled / 3 + 1) % 2);"));
  EXPECT_THAT(text, HasSubstr("mbarrier_expect_bytes(full + slot, 2048);"));
  EXPECT_THAT(text, HasSubstr("bulk_copy_evict_last(stage + slot * 512, x + row * 512LL, 512, full "
                              "+ slot);"));
  EXPECT_THAT(text, HasSubstr("group_barrier(1, 128);"));
  EXPECT_THAT(text, HasSubstr("mbarrier_arrive(empty + slot_2);"));
}

TEST(CudaEmitterTest, WritesMatricesAndGroupsOfCopies) {
  const std::string text = emit_cuda(run_kernel_passes(parsed(product_kernel()), {.verify = true}));
  EXPECT_THAT(text, HasSubstr("#include \"async_copy.cuh\"\n#include \"mma.cuh\"\n"));
  EXPECT_THAT(text, HasSubstr("  Vec<float, 2> sum[2];\n"
                              "  Vec<bf16, 2> left[4];\n"
                              "  Vec<bf16, 2> right[2];\n"));
  EXPECT_THAT(text, HasSubstr("async_copy<16>(a_stages + ahead % 3 * 256 + copied, "
                              "a + from + ahead * 16, ahead < steps);\n"));
  EXPECT_THAT(text, HasSubstr(R"(
    async_wait_groups<1>();
    __syncthreads();
)"));
  EXPECT_THAT(text, HasSubstr(R"(
    async_commit();
    load_matrix<4>(left, a_stages + step % 3 * 256 + left_row);
    load_matrix<2>(right, b_stages + step % 3 * 256 + right_row);
    mma(sum, left, right);
  }
  async_wait();
)"));
}

TEST(CudaEmitterTest, WritesTensorMapsAndTheirCopies) {
  const kir::Kernel kernel = parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : bf16 global read align 16
  buffer %b1 s : bf16 shared readwrite align 1024 count 512 offset 0
  buffer %b2 many : f32 global read align 16 tensors 2 values %v5
  buffer %b3 y : bf16 global read align 16
  mbarrier %m0 full count 2 arrivals 1 offset 1024
  tensor_map %t0 x of %b0 swizzle 128 axis 64 stride 1 box 64 axis %p0 stride 64 box 8
  tensor_map %t1 tensor_copy of %b3 offset 8 axis 640 stride 1 box 64
  init_mbarriers
  proxy_fence
  tensor_copy %b1[0] = %t0[0, mul(thread_index, 8)] mbarrier %m0[1]
  tensor_copy %b1[64] = %t1[-3] mbarrier %m0[0]
  tensor_copy %b1[0] = %t1[0] mbarrier %m0[0] evict_first
})");
  const std::string text = emit_cuda(kernel);
  EXPECT_THAT(text, HasSubstr(R"(#include "mbarrier.cuh"
#include "tensor_map.cuh"
)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "k(const bf16* __restrict__ x, const bf16* __restrict__ y, "
          "long long n,\n"
          "  const __grid_constant__ KernelTable table, const __grid_constant__ TensorMap x_2,\n"
          "  const __grid_constant__ TensorMap v_tensor_copy) {\n"));
  EXPECT_THAT(text, HasSubstr("  proxy_fence();\n"
                              "  tensor_copy(s, x_2, full + 1, 0, (int)threadIdx.x * 8);\n"
                              "  tensor_copy(s + 64, v_tensor_copy, full, -3);\n"
                              "  tensor_copy_evict_first(s, v_tensor_copy, full, 0);\n"));
  // Places of arguments, in bytes.
  const TensorMapArgument rows{.name = "x",
                               .buffer = 0,
                               .type = DType::kBF16,
                               .axes = {{.size = 64, .stride_bytes = 2, .box = 64},
                                        {.launched = 0, .stride_bytes = 128, .box = 8}},
                               .swizzle = 128};
  const TensorMapArgument flat{.name = "tensor_copy",
                               .buffer = 1,
                               .type = DType::kBF16,
                               .offset_bytes = 16,
                               .axes = {{.size = 640, .stride_bytes = 2, .box = 64}}};
  EXPECT_THAT(make_kernel_source(kernel, {1}).tensor_maps, testing::ElementsAre(rows, flat));
}

TEST(CudaEmitterTest, WritesProductsOfWarpGroups) {
  const kir::Kernel built = parsed(warp_group_kernel({.groups = 2, .columns = 128, .stages = 3}));
  const std::string text = emit_cuda(run_kernel_passes(built, {.verify = true}));
  EXPECT_THAT(text, HasSubstr(R"(#include "mbarrier.cuh"
#include "tensor_map.cuh"
#include "vector.cuh"
#include "wgmma.cuh"
)"));
  EXPECT_THAT(text,
              HasSubstr("  extern __shared__ __align__(1024) unsigned char shared_memory[];"));
  EXPECT_THAT(text, HasSubstr(R"(
      hold_sums<32>(sum);
      wgmma_fence();
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        wgmma<128>(sum, matrix_descriptor<false, 128>(a_stages + filled * 8192 + (int)threadIdx.x / 128 * 4096 + k * 16, 1024, 0),
          matrix_descriptor<true, 128>(b_stages + filled * 8192 + k * 1024, 1024, 8192));
      }
      wgmma_commit();
      wgmma_wait<1>();
      hold_sums<32>(sum);
)"));
}

/// A tile of one group is a Vec, and one of several an array of them.
TEST(CudaEmitterTest, NamesTheRegistersOfAMatrix) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 s : bf16 shared readwrite align 16 count 64 offset 0
  var %r0 one : bf16[1][2]
  var %r1 some : bf16[8][2]
  var %r2 sum : f32[4][2]
  load_matrix %r0[0] = %b0[mul(thread_index, 8)] matrices 1 transpose
  for %r3 i : i32 = 0 to 4 step 2 unroll {
    load_matrix %r1[add(%r3, 4)] = %b0[0] matrices 2
    mma %r2[%r3] left %r1[%r3] right %r1[6]
  }
})"));
  EXPECT_THAT(text, HasSubstr("load_matrix_transposed<1>(&one, s + (int)threadIdx.x * 8);"));
  EXPECT_THAT(text, HasSubstr("load_matrix<2>(some + i + 4, s);"));
  EXPECT_THAT(text, HasSubstr("mma(sum + i, some + i, some + 6);"));
}

TEST(CudaEmitterTest, EmbedsEveryHeaderThatAKernelCanInclude) {
  const std::string text = emit_cuda(parsed(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 s : f32 shared readwrite align 16 count 128 offset 0
  async_copy %b1[mul(thread_index, 4)] = %b0[mul(thread_index, 4)] width 4
  async_wait
  var %r0 v : f32
  %r0[0, 0] = load %b1[thread_index] width 1
  %r0 = shuffle_xor max(%r0, inf) mask 1
})"));
  EXPECT_THAT(text,
              HasSubstr("async_copy<16>(s + (int)threadIdx.x * 4, x + (int)threadIdx.x * 4);"));
  size_t included = 0;
  for (const EmbeddedHeader& header : embedded_device_headers()) {
    if (text.find(fmt::format("#include \"{}\"", header.name)) != std::string::npos) ++included;
  }
  EXPECT_EQ(included, 4U) << text;
  EXPECT_THAT(emit_cuda(parsed(
                  "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { param %p0 n : i64 }")),
              Not(HasSubstr("#include")));
}

TEST(CudaEmitterTest, NoCommentEatsTheNextLine) {
  const std::string text =
      emit_cuda(parsed("kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { param %p0 n : i64\n"
                       "// two\\x0alines \\\\\nbarrier }"));
  EXPECT_THAT(text, HasSubstr("  // two\n  // lines \\.\n  __syncthreads();\n"));
}

TEST(CudaEmitterTest, RefusesAReductionThatIsNotLowered) {
  const kir::Kernel kernel = parsed(
      "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { param %p0 n : i64\n"
      "let %r0 x : f32 = 0x1p+0 all_reduce r threads 32 sum(%r0) }");
  EXPECT_THROW(emit_cuda(kernel), SinterException);
}

TEST(CudaEmitterTest, DescribesTheLaunch) {
  const kir::Kernel kernel = parsed(R"(
kernel @k threads 64 min_blocks 3 grid ceil(%p1 / 8) {
  param %p0 columns : i32
  param %p1 rows : i64
  buffer %b0 x : bf16 global read align 8 value %v3
  buffer %b1 s : f32 shared readwrite align 16 count 20000 offset 0
  buffer %b2 y : f32 global write align 16 value %v7
})");
  const KernelSource source = make_kernel_source(kernel, {1024, 77});
  const KernelSource expected{.entry = "k",
                              .text = emit_cuda(kernel),
                              .buffers = {{ValueId{3}, DType::kBF16, BufferUse::kRead, 8},
                                          {ValueId{7}, DType::kF32, BufferUse::kWrite, 16}},
                              .params = {DType::kI32, DType::kI64},
                              .param_values = {1024, 77},
                              .work_param = 1,
                              .work_per_block = 8,
                              .threads = 64,
                              .min_blocks_per_sm = 3,
                              .shared_bytes = 80000,
                              .dynamic_shared = true};
  EXPECT_EQ(source, expected);
}

}  // namespace sinter::cuda_emitter_test
