// Reductions of the rows of a product, of whole numbers against loops: by warps, by warp groups,
// and over the blocks of a cluster.

#include "codegen/lower/row_region.h"

#include <numeric>

#include "tests/codegen/product_kernel.h"
#include "tests/support/effort.h"

namespace sinter::row_region_test {

using Tensors = ScheduledKernel::Tensors;

constexpr std::array kExchanges = {ExchangeKind::kCluster, ExchangeKind::kMessages};

/// What follows a product %v2, and what it computes of each row.
struct Rows {
  std::string_view fir;
  /// One vector for each output: of all columns or of one element.
  Tensors (*evaluate)(const std::vector<float>& row);
};

float largest(const std::vector<float>& row) { return *std::ranges::max_element(row); }
float sum_of(const std::vector<float>& row) {
  return std::accumulate(row.begin(), row.end(), 0.0F);
}
std::vector<float> minus(std::vector<float> row, float x) {
  for (float& element : row) element -= x;
  return row;
}

constexpr Rows kMinusMaximum = {R"(
  %v3 : f32[{m}] = reduce.max %v2 over(1)
  %v4 : f32[{m}, {n}] = broadcast %v3 axes(0)
  %v5 y : f32[{m}, {n}] = sub %v2, %v4
  return %v5, %v3
)",
                                [](const std::vector<float>& row) -> Tensors {
                                  return {minus(row, largest(row)), {largest(row)}};
                                }};

constexpr Rows kRowsAlone = {R"(
  %v3 m : f32[{m}] = reduce.max %v2 over(1)
  %v4 s : f32[{m}] = reduce.sum %v2 over(1)
  return %v3, %v4
)",
                             [](const std::vector<float>& row) -> Tensors {
                               return {{largest(row)}, {sum_of(row)}};
                             }};

constexpr Rows kTwoReductions = {R"(
  %v3 : f32[{m}] = reduce.max %v2 over(1)
  %v4 : f32[{m}, {n}] = broadcast %v3 axes(0)
  %v5 : f32[{m}, {n}] = sub %v2, %v4
  %v6 s : f32[{m}] = reduce.sum %v5 over(1)
  %v7 : f32[{m}, {n}] = broadcast %v6 axes(0)
  %v8 y : f32[{m}, {n}] = sub %v5, %v7
  return %v8, %v6
)",
                                 [](const std::vector<float>& row) -> Tensors {
                                   const std::vector<float> below = minus(row, largest(row));
                                   return {minus(below, sum_of(below)), {sum_of(below)}};
                                 }};

constexpr Rows kPlaces = {R"(
  %v3 at : i64[{m}] = reduce.argmax %v2 over(1)
  return %v2, %v3
)",
                          [](const std::vector<float>& row) -> Tensors {
                            const auto at = std::ranges::max_element(row) - row.begin();
                            return {row, {static_cast<float>(at)}};
                          }};

constexpr std::array kAllRows = {kMinusMaximum, kRowsAlone, kTwoReductions, kPlaces};

ScheduledKernel kernel_of(const Rows& rows, const ProductExtents& extents,
                          const ProductSchedule& schedule) {
  const std::string body = fmt::format(
      "fusion @rows {{\n  %v0 x : bf16[{m}, {k}] = input\n  %v1 w : bf16[{n}, {k}] = input\n"
      "  %v2 : f32[{m}, {n}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)\n",
      fmt::arg("m", extents.m), fmt::arg("n", extents.n), fmt::arg("k", extents.k));
  const std::string rest =
      fmt::format(fmt::runtime(rows.fir), fmt::arg("m", extents.m), fmt::arg("n", extents.n));
  return {parsed_fusion(body + rest.substr(1) + "}"), schedule.schedule()};
}

void expect_rows(const Rows& rows, const ProductExtents& extents, const ProductSchedule& schedule,
                 uint64_t seeds = 1) {
  SCOPED_TRACE(fmt::format("{} rows of {} columns by {}{}", extents.m, extents.n,
                           print(schedule.schedule()), rows.fir));
  const ScheduledKernel kernel = kernel_of(rows, extents, schedule);
  ASSERT_EQ(kernel.planned().kernels.size(), 1U);
  EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
  kernel.expect_outputs(
      [&](const Tensors& in) {
        const std::vector<float> product = product_of(in, extents);
        Tensors out;
        for (size_t row = 0; row < extents.m; ++row) {
          const auto begin = product.begin() + static_cast<ptrdiff_t>(row * extents.n);
          const Tensors of_row = rows.evaluate({begin, begin + static_cast<ptrdiff_t>(extents.n)});
          out.resize(of_row.size());
          for (size_t i = 0; i < of_row.size(); ++i)
            out[i].insert(out[i].end(), of_row[i].begin(), of_row[i].end());
        }
        return out;
      },
      seeds);
}

// Warps of one and two instructions, and the last tile of rows partial.
TEST(RowRegionTest, WarpsReduceTheirRows) {
  Slice slice(17);
  for (int64_t columns = 2; columns <= 256; columns += 2) {
    for (const Rows& rows : kAllRows) {
      for (const ProductSchedule& schedule :
           {ProductSchedule{64, 256, 4}, {32, 128, 2}, {128, 64, 4}, {16, 32, 1}}) {
        if (columns > schedule.columns || !slice.takes()) continue;
        expect_rows(rows, {.m = 75, .n = static_cast<size_t>(columns)}, schedule);
      }
    }
  }
}

TEST(RowRegionTest, WarpGroupsReduceTheirRows) {
  Slice slice(19);
  for (int64_t columns = 2; columns <= 256; columns += 2) {
    for (const Rows& rows : kAllRows) {
      for (const ProductSchedule& schedule :
           {ProductSchedule{.rows = 128, .columns = 256, .row_warps = 8, .persistent_blocks = 2},
            {.rows = 64, .columns = 128, .row_warps = 4, .stages = 3, .persistent_blocks = 1},
            {.rows = 256, .columns = 64, .row_warps = 8, .persistent_blocks = 1},
            {.rows = 128, .columns = 192, .row_warps = 8, .depth = 32, .persistent_blocks = 1},
            {.rows = 64, .columns = 256, .row_warps = 4, .persistent_blocks = 1, .at_once = 2}}) {
        if (columns > schedule.columns || !slice.takes()) continue;
        expect_rows(rows, {.m = 203, .n = static_cast<size_t>(columns)}, schedule);
      }
    }
  }
}

TEST(RowRegionTest, WarpsOfAnEpilogueReduceRows) {
  Slice slice(11);
  for (int64_t columns = 4; columns <= 256; columns += 4) {
    for (const Rows& rows : kAllRows) {
      for (const ProductSchedule& schedule : kEpilogueSchedules) {
        if (columns > schedule.columns || !has_rows_for_all(schedule, columns / 4) ||
            !slice.takes())
          continue;
        expect_rows(rows, {.m = 203, .n = static_cast<size_t>(columns)}, schedule);
      }
    }
  }
}

TEST(RowRegionTest, WarpsOfEpiloguesReduceRowsOfClusters) {
  struct Part {
    int64_t cluster, columns;
  };
  Slice slice(13);
  for (const Part& part : {Part{2, 100}, {4, 72}, {2, 128}, {2, 8}, {8, 36}, {16, 16}, {4, 256}}) {
    for (const Rows& rows : kAllRows) {
      for (ProductSchedule schedule : kEpilogueSchedules) {
        if (part.columns > schedule.columns || !has_rows_for_all(schedule, part.columns / 4))
          continue;
        schedule.cluster = part.cluster;
        schedule.persistent_blocks *= part.cluster;
        for (const ExchangeKind exchange : kExchanges) {
          if (!slice.takes()) continue;
          schedule.exchange = exchange;
          expect_rows(rows, {.m = 300, .n = static_cast<size_t>(part.cluster * part.columns)},
                      schedule, 2);
        }
      }
    }
  }
}

// A lane has a row alone, and still exchanges what it knows of it.
TEST(RowRegionTest, LanesOfAnEpilogueExchangeRowsOfOneChunk) {
  for (const int64_t cluster : {2, 4}) {
    ProductSchedule schedule = kEpilogueSchedules[2];
    schedule.cluster = cluster;
    schedule.persistent_blocks = cluster;
    for (const Rows& rows : kAllRows) {
      for (const ExchangeKind exchange : kExchanges) {
        schedule.exchange = exchange;
        expect_rows(rows, {.m = 70, .n = static_cast<size_t>(4 * cluster)}, schedule);
      }
    }
  }
}

// What is handed over is rounded, and stored beside what follows from it.
TEST(RowRegionTest, WarpsOfAnEpilogueStoreWhatIsHandedOver) {
  using enum ExchangeKind;
  for (const auto& [cluster, exchange] : {std::pair(1, kCluster), {2, kCluster}, {2, kMessages}}) {
    const ProductExtents extents{.m = 140, .n = static_cast<size_t>(64 * cluster)};
    const ProductSchedule schedule{.rows = 128,
                                   .columns = 64,
                                   .row_warps = 8,
                                   .persistent_blocks = cluster,
                                   .cluster = cluster,
                                   .epilogue_warps = 7,
                                   .exchange = exchange};
    const ScheduledKernel kernel(
        parsed_fusion(fmt::format(R"(fusion @rounded {{
  %v0 x : bf16[{m}, {k}] = input
  %v1 w : bf16[{n}, {k}] = input
  %v2 : f32[{m}, {n}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 p : bf16[{m}, {n}] = cast %v2
  %v4 : f32[{m}, {n}] = cast %v3
  %v5 : f32[{m}] = reduce.max %v4 over(1)
  %v6 : f32[{m}, {n}] = broadcast %v5 axes(0)
  %v7 y : f32[{m}, {n}] = sub %v4, %v6
  return %v3, %v7
}})",
                                  fmt::arg("m", extents.m), fmt::arg("n", extents.n),
                                  fmt::arg("k", extents.k))),
        schedule.schedule());
    ASSERT_EQ(kernel.planned().kernels.size(), 1U);
    kernel.expect_outputs(
        [&](const Tensors& in) {
          std::vector<float> product = product_of(in, extents);
          for (float& element : product)
            element = static_cast<float>(round_to(DType::kBF16, element));
          std::vector<float> below;
          for (size_t row = 0; row < extents.m; ++row) {
            const auto begin = product.begin() + static_cast<ptrdiff_t>(row * extents.n);
            const std::vector<float> of_row(begin, begin + static_cast<ptrdiff_t>(extents.n));
            const std::vector<float> rest = minus(of_row, largest(of_row));
            below.insert(below.end(), rest.begin(), rest.end());
          }
          return Tensors{product, below};
        },
        2);
  }
}

// Parts of a row that are shorter than the tile, several tiles for each cluster, warp groups of one
// and two instructions.
TEST(RowRegionTest, ClustersReduceTheirRows) {
  struct Part {
    int64_t cluster, columns;
  };
  Slice slice(5);
  for (const Part& part : {Part{2, 100}, {4, 72}, {2, 128}, {2, 6}, {8, 34}, {16, 16}}) {
    for (const Rows& rows : kAllRows) {
      for (ProductSchedule schedule :
           {ProductSchedule{.rows = 128, .columns = 128, .row_warps = 8, .persistent_blocks = 1},
            {.rows = 256, .columns = 128, .row_warps = 8, .persistent_blocks = 2},
            {.rows = 64, .columns = 192, .row_warps = 4, .persistent_blocks = 1},
            {.rows = 64, .columns = 128, .row_warps = 4, .persistent_blocks = 1, .at_once = 2}}) {
        if (!slice.takes()) continue;
        schedule.cluster = part.cluster;
        schedule.persistent_blocks *= part.cluster;
        expect_rows(rows, {.m = 300, .n = static_cast<size_t>(part.cluster * part.columns)},
                    schedule, 2);
      }
    }
  }
}

// Inputs that the rows read behind the reduction: one of all elements, which the output overwrites
// where tiles divide the rows, one of the columns, one of the rows; and batches, whose last tiles
// reach into the next one.
TEST(RowRegionTest, RowsReadOtherInputsAndOverwriteOne) {
  for (const auto& [m, n] :
       {std::pair<size_t, size_t>{75, 64}, {128, 64}, {256, 200}, {300, 200}}) {
    const ProductExtents extents{.m = m, .n = n, .k = 8, .batches = 3};
    for (const ProductSchedule& schedule :
         {ProductSchedule{.rows = 32, .columns = 256, .row_warps = 2},
          {.rows = 128, .columns = 256, .row_warps = 8, .persistent_blocks = 2},
          {.rows = 256, .columns = 128, .row_warps = 8, .persistent_blocks = 2, .cluster = 2},
          {.rows = 64, .columns = 256, .row_warps = 4, .persistent_blocks = 2, .at_once = 2},
          {.rows = 128,
          .columns = 256,
          .row_warps = 8,
          .persistent_blocks = 2,
          .epilogue_warps = 3},
          {.rows = 128,
          .columns = 128,
          .row_warps = 8,
          .persistent_blocks = 4,
          .cluster = 2,
          .epilogue_warps = 7}}) {
      if (static_cast<int64_t>(n) > schedule.columns * schedule.cluster) continue;
      const bool divides = static_cast<int64_t>(m) % schedule.rows == 0;
      SCOPED_TRACE(fmt::format("{} x {}, {}", m, n, print(schedule.schedule())));
      const std::string fir =
          fmt::format(R"(fusion @inputs {{
  %v0 x : bf16[3, {m}, {k}] = input
  %v1 w : bf16[3, {n}, {k}] = input
  %v2 r : f32[3, {m}, {n}] = input
  %v3 columns : f32[{n}] = input
  %v4 rows : f32[3, {m}] = input
  %v5 : f32[3, {m}, {n}] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v6 : f32[3, {m}] = reduce.max %v5 over(2)
  %v7 : f32[3, {m}] = add %v6, %v4
  %v8 : f32[3, {m}, {n}] = broadcast %v7 axes(0, 1)
  %v9 : f32[3, {m}, {n}] = sub %v5, %v8
  %v10 : f32[3, {m}, {n}] = broadcast %v3 axes(2)
  %v11 : f32[3, {m}, {n}] = mul %v9, %v10
  %v12 y : f32[3, {m}, {n}] = add %v11, %v2
  return %v12 {alias}
}})",
                      fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", extents.k),
                      fmt::arg("alias", divides ? "alias(%v2)" : ""));
      const ScheduledKernel kernel(parsed_fusion(fir), schedule.schedule());
      ASSERT_EQ(kernel.planned().kernels.size(), 1U);
      kernel.expect_outputs(
          [&](const Tensors& in) {
            std::vector<float> out = product_of(in, extents);
            for (size_t row = 0; row < extents.batches * m; ++row) {
              float* const elements = &out[row * n];
              const float below = *std::max_element(elements, elements + n) + in[4][row];
              for (size_t i = 0; i < n; ++i)
                elements[i] = (elements[i] - below) * in[3][i] + in[2][row * n + i];
            }
            return Tensors{out};
          },
          2);
    }
  }
}

}  // namespace sinter::row_region_test
