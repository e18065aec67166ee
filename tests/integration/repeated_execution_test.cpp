// Gradients, whose sums depend on the order they are formed in, give the same bits however often
// and from wherever they are run.

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "runtime/check/device_run.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/execute/executable.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/live_device.h"

namespace sinter::repeated_execution_test {

constexpr std::string_view kDoing = "running a gradient again";

template <class T>
T take(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}
void take(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().text());
}

using Bits = std::vector<std::vector<std::byte>>;

/// Tensors of one problem on the device: inputs that all share, outputs and workspace of their own.
class Tensors {
 public:
  Tensors(DeviceDriver& driver, const Executable& executable, const DeviceReference& reference)
      : driver_(driver), executable_(executable) {
    for (const HostTensor& input : reference.inputs) {
      DeviceBuffer buffer = take(DeviceBuffer::allocate(driver, input.storage().size()));
      take(buffer.upload(input.storage()));
      const auto origin = static_cast<DevicePointer>(input.data() - input.storage().data());
      inputs_.push_back({.address = buffer.pointer() + origin,
                         .type = input.type(),
                         .sizes = input.sizes(),
                         .strides = input.strides()});
      buffers_.push_back(std::move(buffer));
    }
    for (const ValueId output : reference.fusion.outputs) {
      const Value& value = reference.fusion.values[output];
      Sizes sizes = reference.binding.sizes_of(value.shape);
      written_.push_back(take(DeviceBuffer::allocate(
          driver, static_cast<size_t>(element_count(sizes) * bytes_of(value.type)))));
      outputs_.push_back(
          {.address = written_.back().pointer(), .type = value.type, .sizes = std::move(sizes)});
    }
    workspace_.emplace(
        take(DeviceBuffer::allocate(driver, static_cast<size_t>(executable.workspace_bytes()))));
    poison();
  }

  /// What was computed before must not pass for what is computed next.
  void poison() {
    for (DeviceBuffer& buffer : written_)
      take(buffer.upload(std::vector<std::byte>(buffer.bytes(), std::byte{0xff})));
    take(workspace_->upload(std::vector<std::byte>(workspace_->bytes(), std::byte{0xff})));
    // The last bytes may still be on their way, and streams of their own do not wait for them.
    synchronize();
  }

  Result<void> execute(StreamHandle stream) const {
    return executable_.execute(inputs_, outputs_, workspace_->pointer(),
                               static_cast<int64_t>(workspace_->bytes()), stream);
  }

  [[nodiscard]] Bits read() const {
    synchronize();
    Bits out;
    for (const DeviceBuffer& buffer : written_) {
      out.emplace_back(buffer.bytes());
      take(buffer.download(out.back()));
    }
    return out;
  }

 private:
  void synchronize() const {
    take(check(driver_, DriverCall::kContextSynchronize, driver_.context_synchronize(), kDoing));
  }

  DeviceDriver& driver_;
  const Executable& executable_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<DeviceBuffer> written_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::optional<DeviceBuffer> workspace_;
};

struct Problem {
  std::string fusion;
  int64_t rows = 0;
  int64_t columns = 0;
  std::string
      schedule{};         ///< The only one to run; empty: the chosen one and the best of each kind.
  bool in_parts = false;  ///< Planned as two kernels that overlap.
};

std::string text_of(const Problem& problem) {
  return fmt::format("{}_{}x{}", problem.fusion, problem.rows, problem.columns);
}
void PrintTo(const Problem& problem, std::ostream* out) { *out << text_of(problem); }

class RepeatedGpu : public LiveDeviceTest<Problem> {
 protected:
  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    context_.emplace(take(DeviceContext::retain(*driver_, 0)));
    current_.emplace(take(CurrentContext::enter(*driver_, *context_)));
    const ExtentValues extents{{"rows", GetParam().rows}, {"cols", GetParam().columns}};
    fusion_ = find_canned_fusion(GetParam().fusion)->build();
    const Plan planned = take(plan(fusion_, extents, limits_, {.families = builtin_families()}));
    if (GetParam().in_parts) {
      ASSERT_EQ(planned.kernels.size(), 2U);
      EXPECT_EQ(planned.kernels.front().chosen().schedule.dependent_launch,
                DependentLaunch::kTrigger);
      EXPECT_EQ(planned.kernels[{1}].chosen().schedule.dependent_launch, DependentLaunch::kWait);
    }
    const DeviceRunOptions whole{.oracle_elements = std::numeric_limits<int64_t>::max(),
                                 .total_elements = std::numeric_limits<int64_t>::max()};
    reference_.emplace(make_reference(fusion_, planned.binding, whole));
    ASSERT_EQ(reference_->evaluated, reference_->binding) << "every input is uploaded whole";
    KernelCache cache({});
    if (!GetParam().schedule.empty()) {
      const PlanOptions options{.families = builtin_families(),
                                .pin = {.schedule = take(parse_schedule(GetParam().schedule))}};
      executables_.push_back(take(Executable::prepare(
          take(compile_plan(take(plan(fusion_, extents, limits_, options)), *compiler_, cache)),
          *driver_)));
      return;
    }
    for (const Schedule& schedule : chosen_and_best_of_families(planned.kernels.front())) {
      const PlanOptions options{.families = builtin_families(), .pin = {.schedule = schedule}};
      auto pinned = plan(fusion_, extents, limits_, options);
      if (!pinned) continue;  // The part of a plan in two kernels.
      executables_.push_back(take(Executable::prepare(
          take(compile_plan(std::move(*pinned), *compiler_, cache)), *driver_)));
    }
    executables_.push_back(
        take(Executable::prepare(take(compile_plan(planned, *compiler_, cache)), *driver_)));
  }

  /// The bits of one execution, which the oracle agrees with.
  Bits checked(const Executable& executable, Tensors& tensors) {
    const DeviceRun run = take(run_on_device(*reference_, executable, *driver_, {.time = false}));
    EXPECT_TRUE(run.check.passed()) << run.check.text();
    take(tensors.execute(nullptr));
    return tensors.read();
  }

  std::optional<DeviceContext> context_;
  std::optional<CurrentContext> current_;
  Fusion fusion_;
  std::optional<DeviceReference> reference_;
  std::vector<Executable> executables_;
};

TEST_P(RepeatedGpu, AHundredRunsGiveTheSameBits) {
  for (const Executable& executable : executables_) {
    Tensors tensors(*driver_, executable, *reference_);
    const Bits first = checked(executable, tensors);
    for (int run = 1; run < 100; ++run) {
      tensors.poison();
      take(tensors.execute(nullptr));
      ASSERT_TRUE(tensors.read() == first) << "run " << run;
    }
  }
}

TEST_P(RepeatedGpu, AReplayedGraphGivesTheSameBits) {
  const OwnStream stream = take(OwnStream::create(*driver_, kDoing));
  for (const Executable& executable : executables_) {
    Tensors tensors(*driver_, executable, *reference_);
    const Bits first = checked(executable, tensors);
    const CapturedLaunch graph = take(CapturedLaunch::capture(
        *driver_, stream.handle(), [&](StreamHandle on) { return tensors.execute(on); }, kDoing));
    for (int run = 0; run < 10; ++run) {
      tensors.poison();
      take(graph.replay(stream.handle(), kDoing));
      ASSERT_TRUE(tensors.read() == first) << "replay " << run;
    }
  }
}

TEST_P(RepeatedGpu, TwoStreamsAtOnceGiveTheSameBits) {
  const OwnStream streams[] = {take(OwnStream::create(*driver_, kDoing)),
                               take(OwnStream::create(*driver_, kDoing))};
  for (const Executable& executable : executables_) {
    Tensors tensors[] = {{*driver_, executable, *reference_}, {*driver_, executable, *reference_}};
    const Bits first = checked(executable, tensors[0]);
    for (int run = 0; run < 10; ++run) {
      for (Tensors& of_stream : tensors) of_stream.poison();
      for (int again = 0; again < 10; ++again) {
        for (size_t i = 0; i < 2; ++i) take(tensors[i].execute(streams[i].handle()));
      }
      for (const Tensors& of_stream : tensors)
        ASSERT_TRUE(of_stream.read() == first) << "run " << run;
    }
  }
}

// Rows that fill the device several times over, rows that do not fill it, and a width that takes a
// kernel for the rows and one for the columns.
INSTANTIATE_TEST_SUITE_P(Gradients, RepeatedGpu,
                         ::testing::Values(Problem{"layer_norm_backward", 1000, 1600},
                                           Problem{"rms_norm_backward", 17, 4096},
                                           Problem{"layer_norm_backward", 24, 65536},
                                           Problem{"dyt_backward", 700, 2048},
                                           Problem{"bias_gradient", 2000, 1000},
                                           Problem{"marginal_sums", 1000, 1543}),
                         [](const auto& param) { return text_of(param.param); });

// Partial results of rows are combined by a kernel that starts while they are written, and written
// again by the next execution.
INSTANTIATE_TEST_SUITE_P(RowParts, RepeatedGpu,
                         ::testing::Values(Problem{"row_sum", 8, 524288, {}, true},
                                           Problem{"mean_variance", 20, 120000, {}, true},
                                           Problem{"row_argmax", 40, 65536, {}, true}),
                         [](const auto& param) { return text_of(param.param); });

/// Threads arrive right after their loads from the pipeline, and two blocks share an SM: without a
/// fence before the arrival, copies of later rows overtook these loads in nearly every execution.
constexpr const char* kReleasesEarly = R"(schedule warp_specialised {
  threads_per_row 128  rows_per_block 1  vector_width 8  unroll 1  min_blocks_per_sm 2
  persistent_blocks 264  cluster_size 2  pipeline_stages 4  consumer_registers 232
  row_access aligned  read_priority evict_last  dependent_launch trigger
  keep %v0 in register
  keep %v1 in register
  keep %v2 in shared
})";
/// The same with two rows in each slot. Every block has a row left over.
constexpr const char* kReleasesTwoRowsEarly = R"(schedule warp_specialised {
  threads_per_row 128  rows_per_block 2  vector_width 8  unroll 1  min_blocks_per_sm 1
  persistent_blocks 132  pipeline_stages 12  rows_per_iteration 2
  row_access aligned  read_priority evict_last  dependent_launch trigger
  keep %v0 in register
  keep %v1 in register
  keep %v2 in shared
})";
/// Blocks of a cluster exchange the statistics of four rows at once, and of the two left over.
constexpr const char* kFourRowsOfPairs = R"(schedule warp_specialised {
  threads_per_row 128  rows_per_block 2  vector_width 8  unroll 1  min_blocks_per_sm 1
  persistent_blocks 132  cluster_size 2  pipeline_stages 16  rows_per_iteration 4
  row_access aligned  read_priority evict_last  dependent_launch trigger
  keep %v0 in reload
  keep %v1 in reload
  keep %v2 in shared
})";
/// A cluster of more blocks than every device runs, which loading the kernel has to allow.
constexpr const char* kWidestCluster = R"(schedule warp_specialised {
  threads_per_row 512  rows_per_block 1  vector_width 8  unroll 1  min_blocks_per_sm 1
  persistent_blocks 112  cluster_size 16  pipeline_stages 4
  row_access aligned  read_priority evict_last  dependent_launch trigger
  keep %v0 in reload
  keep %v1 in reload
  keep %v2 in shared
})";
INSTANTIATE_TEST_SUITE_P(WidestCluster, RepeatedGpu,
                         ::testing::Values(Problem{"layer_norm_backward", 40, 131072,
                                                   kWidestCluster}),
                         [](const auto& param) { return text_of(param.param); });
/// The last block finishes, whichever that is: of all blocks beside totals, of those of each run of
/// columns, and of those of equal rank in their clusters.
constexpr const char* kLastBlockOfAll = R"(schedule multi_wave {
  threads_per_row 128  rows_per_block 2  vector_width 4  unroll 1  min_blocks_per_sm 4
  persistent_blocks 500
  row_access aligned  read_priority normal  finish last_block
})";
constexpr const char* kLastBlockOfRuns = R"(schedule column {
  threads_per_row 16  rows_per_block 16  vector_width 8  unroll 4  min_blocks_per_sm 1
  persistent_blocks 60
  row_access aligned  read_priority normal  finish last_block
})";
constexpr const char* kLastBlockOfRanks = R"(schedule multi_wave {
  threads_per_row 64  rows_per_block 2  vector_width 8  unroll 1  min_blocks_per_sm 2
  persistent_blocks 240  cluster_size 4
  row_access aligned  read_priority normal  finish last_block
})";
INSTANTIATE_TEST_SUITE_P(Tickets, RepeatedGpu,
                         ::testing::Values(Problem{"dyt_backward", 4000, 512, kLastBlockOfAll},
                                           Problem{"bias_gradient", 30000, 512, kLastBlockOfRuns},
                                           Problem{"layer_norm_backward", 900, 2048,
                                                   kLastBlockOfRanks}),
                         [](const auto& param) { return text_of(param.param); });
INSTANTIATE_TEST_SUITE_P(
    EarlyRelease, RepeatedGpu,
    ::testing::Values(Problem{"layer_norm_backward", 16384, 8192, kReleasesEarly},
                      Problem{"layer_norm_backward", 16500, 2048, kReleasesTwoRowsEarly}),
    [](const auto& param) { return text_of(param.param); });
INSTANTIATE_TEST_SUITE_P(SideRows, RepeatedGpu,
                         ::testing::Values(Problem{"layer_norm_backward", 8316, 4096,
                                                   kFourRowsOfPairs}),
                         [](const auto& param) { return text_of(param.param); });

/// Warps of an epilogue take tiles over and exchange them over a cluster while the next tile is
/// multiplied.
constexpr const char* kRowsBesideProducts = R"(schedule matmul {
  threads_per_row 256  rows_per_block 1  vector_width 2  unroll 1  min_blocks_per_sm 1
  persistent_blocks 120  cluster_size 8  tile_rows 128  tile_columns 128  tile_depth 64  row_warps 8
  pipeline_stages 3  consumer_registers 160  epilogue_warps 7
  row_access aligned  read_priority normal
})";
/// The same by messages, ahead for all rows of a tile.
constexpr const char* kRowsByMessages = R"(schedule matmul {
  threads_per_row 256  rows_per_block 1  vector_width 2  unroll 1  min_blocks_per_sm 1
  persistent_blocks 128  cluster_size 8  exchange messages
  tile_rows 128  tile_columns 128  tile_depth 64  row_warps 8
  pipeline_stages 3  consumer_registers 160  epilogue_warps 7
  row_access aligned  read_priority normal
})";
/// Warps add parts of a sum in their order, whichever is the first to have its own.
constexpr const char* kSlices = R"(schedule matmul {
  threads_per_row 256  rows_per_block 1  vector_width 2  unroll 1  min_blocks_per_sm 2
  tile_rows 8  tile_columns 16  tile_depth 64  pipeline_stages 3  slice_warps 8
  row_access aligned  read_priority evict_first
})";
/// They evaluate elements, and leave partial results of columns, while the next tile is multiplied.
constexpr const char* kElementsBesideProducts = R"(schedule matmul {
  threads_per_row 256  rows_per_block 1  vector_width 2  unroll 1  min_blocks_per_sm 1
  persistent_blocks 132  tile_rows 128  tile_columns 128  tile_depth 64  row_warps 8
  pipeline_stages 3  consumer_registers 160  epilogue_warps 7
  row_access aligned  read_priority normal
})";
constexpr const char* kColumnsBesideProducts = R"(schedule matmul {
  threads_per_row 256  rows_per_block 1  vector_width 2  unroll 1  min_blocks_per_sm 1
  persistent_blocks 132  tile_rows 128  tile_columns 256  tile_depth 64  row_warps 8
  pipeline_stages 2  consumer_registers 184  epilogue_warps 3
  row_access aligned  read_priority normal  dependent_launch trigger
})";
/// Warp groups take turns on tiles of their own.
constexpr const char* kColumnsInTurns = R"(schedule matmul {
  threads_per_row 128  rows_per_block 2  vector_width 2  unroll 1  min_blocks_per_sm 1
  persistent_blocks 132  tile_rows 128  tile_columns 128  tile_depth 64  row_warps 4
  pipeline_stages 4  consumer_registers 232
  row_access aligned  read_priority normal  dependent_launch trigger
})";
INSTANTIATE_TEST_SUITE_P(
    Contractions, RepeatedGpu,
    ::testing::Values(Problem{"linear_rms_norm", 20011, 1024, kRowsBesideProducts},
                      Problem{"linear_rms_norm", 20013, 1024, kRowsByMessages},
                      Problem{"linear_bias_gelu", 20011, 1024, kElementsBesideProducts},
                      Problem{"linear_column_sums", 20011, 1024, kColumnsBesideProducts},
                      Problem{"linear_column_sums", 20011, 1000, kColumnsInTurns},
                      Problem{"linear_tf32", 4000, 1024}, Problem{"linear", 7, 8200, kSlices},
                      Problem{"linear_cross_entropy", 2048, 8192}),
    [](const auto& param) { return text_of(param.param); });

}  // namespace sinter::repeated_execution_test
