#include "scheduler/families/cublaslt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "fusion_ir/integers.h"
#include "fusion_ir/match.h"
#include "fusion_ir/unary_function.h"
#include "scheduler/analysis/joined_loops.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {
namespace {

tl::unexpected<Rejection> refused(std::string rule, int64_t value, int64_t limit, std::string unit,
                                  ValueId at) {
  return tl::make_unexpected(
      Rejection{.subject = std::string(kCublasLt),
                .rule = std::move(rule),
                .value = static_cast<double>(value),
                .limit = static_cast<double>(limit),
                .unit = std::move(unit),
                .at = at,
                .remedy = "none needed: the family matmul runs what the library does not"});
}

/// Sizes and leading dimensions that cuBLASLt takes for every type (cuBLAS documentation).
constexpr int64_t kMostExtent = std::numeric_limits<int32_t>::max();
/// Most bytes that an address is taken to be a multiple of: what cuBLASLt assumes by default.
constexpr int64_t kMostAlignment = 256;

/// Where the columns of a matrix do not begin at multiples of so many bytes, an epilogue may be a
/// kernel of its own, which reads the product rounded to the type of the result: cuBLASLt 13.1.0
/// does that on an H200 for bf16 results of 33 and 65 rows with a bias, and of 264 rows where K is
/// 129.
constexpr int64_t kEpilogueLine = 16;

/// The axes of a product: the loops that walk them, among the dimensions of the segment and behind
/// them the contracted loops.
enum class ProductAxis : uint8_t { kBatch, kRows, kColumns, kContracted };

/// Writes a segment as a call of the library.
class CallBuilder {
 public:
  explicit CallBuilder(const SegmentFacts& facts)
      : facts_(facts),
        space_(facts.space),
        contraction_(*facts.space.contraction),
        sizes_(facts.space.loop_sizes()) {}

  tl::expected<LibraryMatmul, Rejection> run() {
    if (auto wrong = check_segment()) return tl::make_unexpected(std::move(*wrong));
    if (auto wrong = match_epilogue()) return tl::make_unexpected(std::move(*wrong));
    if (auto wrong = place_output()) return tl::make_unexpected(std::move(*wrong));
    if (auto wrong = place_operands()) return tl::make_unexpected(std::move(*wrong));
    if (auto wrong = place_addends()) return tl::make_unexpected(std::move(*wrong));
    return std::move(out_);
  }

 private:
  using Wrong = std::optional<Rejection>;

  [[nodiscard]] DType type_of(ValueId value) const { return facts_.fusion.values[value].type; }

  Wrong check_segment() {
    const auto& op = std::get<ContractOp>(facts_.fusion.ops[contraction_.op].kind);
    const DType type = type_of(contraction_.rows.value);
    if (op.fn != ContractFn::kSum)
      return refused("the library sums products", 0, 1, "", contraction_.value).value();
    const bool is_known =
        type == DType::kBF16 || type == DType::kF16 || type == DType::kF32 || type == DType::kF64;
    if (!is_known || type_of(contraction_.columns.value) != type)
      return refused("the operands are not both bf16, f16, f32 or f64", 0, 1, "",
                     contraction_.rows.value)
          .value();
    if (facts_.has_reduction() || facts_.has_outer() || facts_.list)
      return refused("the segment reduces", facts_.reduction_count, 0, "reductions",
                     contraction_.value)
          .value();
    if (facts_.fusion.outputs.size() != 1)
      return refused("the library has one result",
                     static_cast<int64_t>(facts_.fusion.outputs.size()), 1, "outputs", {})
          .value();
    for (const int64_t size : sizes_) {
      if (size == 0) return refused("an axis is empty", 0, 1, "elements", {}).value();
    }
    out_.precision = op.precision;
    out_.workspace_bytes = kCublasLtWorkspace;
    return std::nullopt;
  }

  // ---- What follows the product

  /// The value seen through a cast that loses nothing: the library reads what is in memory.
  [[nodiscard]] ValueId before_cast(ValueId value) const {
    if (facts_.is_read(value) || facts_.fusion.def_as<CastOp>(value) == nullptr) return value;
    const ValueId source = facts_.fusion.def_of(value).operands.front();
    return casts_exactly(type_of(source), type_of(value)) ? source : value;
  }

  /// What is added, if it is a tensor in memory: seen through a cast and a broadcast of it.
  [[nodiscard]] const TensorAccess* addend(ValueId value) const {
    value = before_cast(value);
    if (!facts_.is_read(value) && facts_.fusion.def_as<BroadcastOp>(value) != nullptr)
      value = before_cast(facts_.fusion.def_of(value).operands.front());
    return space_.find_input(value);
  }

  /// Follows the result of the contraction to the output: at most one vector and one matrix are
  /// added, then an activation may follow, then the type may change.
  Wrong match_epilogue() {
    const auto users = users_of(facts_.fusion);
    ValueId value = contraction_.value;
    seen_.push_back(contraction_.op);
    see(contraction_.rows.value);
    see(contraction_.columns.value);
    while (value != facts_.fusion.outputs.front()) {
      const bool is_last = out_.activation != Activation::kNone;
      if (!is_last && take_gelu(value)) continue;
      if (users[value].size() != 1) return unknown(value);
      const OpId id = users[value].front();
      const Op& op = facts_.fusion.ops[id];
      const ValueId next = op.results.front();
      seen_.push_back(id);
      if (std::holds_alternative<CastOp>(op.kind)) {
        if (next != facts_.fusion.outputs.front()) return unknown(next);
      } else if (const auto added = operands_of(facts_.fusion, next, PointwiseFn::kAdd);
                 !added.empty() && !is_last) {
        if (!take_addend(added[0] == value ? added[1] : added[0])) return unknown(next);
      } else if (const auto of_max = operands_of(facts_.fusion, next, PointwiseFn::kMax);
                 !of_max.empty() && !is_last) {
        const ValueId other = of_max[0] == value ? of_max[1] : of_max[0];
        if (!is_splat_of(facts_.fusion, other, 0.0)) return unknown(next);
        see(other);
        out_.activation = Activation::kRelu;
      } else {
        return unknown(next);
      }
      value = next;
    }
    if (!users[value].empty()) return unknown(value);
    // Whatever else the segment computes, the library does not.
    for (const OpId id : facts_.fusion.op_ids()) {
      const Op& op = facts_.fusion.ops[id];
      const bool is_input = std::holds_alternative<InputOp>(op.kind);
      if (!is_input && std::ranges::find(seen_, id) == seen_.end())
        return unknown(op.results.front());
    }
    return std::nullopt;
  }

  /// Takes what is computed from `value` alone, if it is a GELU, and goes on behind it. The library
  /// computes it in f32; only results of 16 bits are known to be as exact as the formula.
  bool take_gelu(ValueId& value) {
    if (bytes_of(type_of(facts_.fusion.outputs.front())) != 2) return false;
    const auto function = unary_function(facts_.fusion, value);
    if (!function || !is_tanh_gelu(facts_.fusion, *function)) return false;
    seen_.insert(seen_.end(), function->ops.begin(), function->ops.end());
    out_.activation = Activation::kGelu;
    value = function->result;
    return true;
  }

  [[nodiscard]] bool take_addend(ValueId value) {
    const TensorAccess* access = addend(value);
    if (access == nullptr) return false;
    see(value);
    const auto varies = [&](ProductAxis axis) {
      const auto [begin, end] = range_of(axis);
      for (size_t i = begin; i < end; ++i) {
        if (sizes_[i] > 1 && access->strides[i] != 0) return true;
      }
      return false;
    };
    const bool by_rows = varies(ProductAxis::kRows);
    const bool by_columns = varies(ProductAxis::kColumns);
    std::vector<const TensorAccess*>& kind = by_rows && by_columns ? matrices_ : vectors_;
    if (!by_rows && !by_columns) return false;
    kind.push_back(access);
    return kind.size() == 1;
  }

  /// Everything that a value is computed from: views of an input, or a constant.
  void see(ValueId value) {
    while (true) {
      seen_.push_back(facts_.fusion.values[value].def);
      const Op& op = facts_.fusion.def_of(value);
      if (op.operands.empty()) return;
      value = op.operands.front();
    }
  }

  [[nodiscard]] Wrong unknown(ValueId value) const {
    return refused("the library's epilogues have no such operation", 0, 1, "", value).value();
  }

  // ---- Matrices

  [[nodiscard]] std::pair<size_t, size_t> range_of(ProductAxis axis) const {
    switch (axis) {
      case ProductAxis::kBatch:
        return {0, contraction_.batch_dimensions};
      case ProductAxis::kRows:
        return {contraction_.batch_dimensions, space_.row_dimensions};
      case ProductAxis::kColumns:
        return {space_.row_dimensions, space_.dimensions.size()};
      case ProductAxis::kContracted:
        return {space_.dimensions.size(), sizes_.size()};
    }
    unreachable();
  }

  [[nodiscard]] std::optional<JoinedLoop> join(const TensorAccess& access, ProductAxis axis) const {
    const auto [begin, end] = range_of(axis);
    return join_loops(std::span(sizes_).subspan(begin, end - begin),
                      std::span(access.strides).subspan(begin, end - begin));
  }

  struct Placed {
    LibraryMatrix matrix;
    bool transposed = false;
  };

  /// The matrix of `rows` x `columns` of an access, with adjacent rows, or else transposed.
  tl::expected<Placed, Rejection> place(const TensorAccess& access, ProductAxis rows,
                                        ProductAxis columns) const {
    const auto batch = join(access, ProductAxis::kBatch);
    const auto own_rows = join(access, rows);
    const auto own_columns = join(access, columns);
    if (!batch || !own_rows || !own_columns)
      return refused("the axes of a tensor do not join to a matrix", 0, 0, "", access.value);
    Placed out{.matrix = {.value = access.tensor,
                          .offset_bytes = access.offset * access.element_bytes,
                          .type = type_of(access.value),
                          .batch_stride = batch->stride}};
    JoinedLoop inner = *own_rows;
    JoinedLoop outer = *own_columns;
    out.transposed = inner.size > 1 && inner.stride != 1;
    if (out.transposed) std::swap(inner, outer);
    if (inner.size > 1 && inner.stride != 1)
      return refused("no axis of a matrix has adjacent elements", inner.stride, 1, "elements apart",
                     access.value);
    out.matrix.rows = inner.size;
    out.matrix.columns = outer.size;
    out.matrix.leading_dimension = outer.size > 1 ? outer.stride : inner.size;
    if (out.matrix.leading_dimension < inner.size)
      return refused("columns of a matrix overlap", out.matrix.leading_dimension, inner.size,
                     "elements apart", access.value);
    if (batch->stride < 0)
      return refused("the matrices of a batch lie backwards", batch->stride, 0, "elements apart",
                     access.value);
    for (const int64_t extent : {inner.size, outer.size, out.matrix.leading_dimension}) {
      if (extent > kMostExtent)
        return refused("a matrix is too large for the library", extent, kMostExtent, "elements",
                       access.value);
    }
    // The largest power of two that divides the address of every matrix of the batch.
    const auto bits = static_cast<uint64_t>(access.alignment | out.matrix.offset_bytes |
                                            batch->stride * access.element_bytes | kMostAlignment);
    out.matrix.alignment = int64_t{1} << std::countr_zero(bits);
    return out;
  }

  /// The result's axis of adjacent elements is the library's m.
  Wrong place_output() {
    const TensorAccess& access = space_.outputs.front();
    auto placed = place(access, ProductAxis::kColumns, ProductAxis::kRows);
    if (!placed) return placed.error();
    if (placed->transposed) std::swap(m_, n_);
    out_.d = placed->matrix;
    out_.m = out_.d.rows;
    out_.n = out_.d.columns;
    out_.batch = join(access, ProductAxis::kBatch)->size;
    const DType sums = type_of(contraction_.value);
    const DType type = out_.d.type;
    const DType operands = type_of(contraction_.rows.value);
    if (type != sums && type != operands)
      return refused("the library stores sums in their type or in that of the operands", 0, 1, "",
                     access.value)
          .value();
    return std::nullopt;
  }

  Wrong place_operands() {
    const bool rows_are_m = m_ == ProductAxis::kRows;
    const TensorAccess& first = rows_are_m ? contraction_.rows : contraction_.columns;
    const TensorAccess& second = rows_are_m ? contraction_.columns : contraction_.rows;
    auto a = place(first, m_, ProductAxis::kContracted);
    if (!a) return a.error();
    auto b = place(second, ProductAxis::kContracted, n_);
    if (!b) return b.error();
    out_.a = a->matrix;
    out_.b = b->matrix;
    out_.a_transposed = a->transposed;
    out_.b_transposed = b->transposed;
    out_.k = a->transposed ? a->matrix.rows : a->matrix.columns;
    return std::nullopt;
  }

  Wrong place_addends() {
    if (!matrices_.empty()) {
      const TensorAccess& access = *matrices_.front();
      auto c = place(access, m_, n_);
      if (!c) return c.error();
      if (c->transposed || c->matrix.type != out_.d.type)
        return refused("what is added has another layout or type than the result", 0, 1, "",
                       access.value)
            .value();
      out_.c = c->matrix;
    }
    if (!vectors_.empty() || out_.activation != Activation::kNone) {
      if (out_.d.type == DType::kF64 || out_.d.type != out_.a.type)
        return refused(
                   "the library's epilogues take no f64, and no sums in another type than the "
                   "operands",
                   0, 1, "", out_.d.value)
            .value();
      for (const LibraryMatrix* matrix : {&out_.a, &out_.b, &out_.d}) {
        const int64_t line = matrix->leading_dimension * bytes_of(matrix->type);
        if (line % kEpilogueLine != 0 || matrix->alignment % kEpilogueLine != 0)
          return refused("the library rounds twice where a matrix is not aligned",
                         line % kEpilogueLine, 0, "bytes over", matrix->value)
              .value();
      }
    }
    if (!vectors_.empty()) {
      const TensorAccess& access = *vectors_.front();
      const auto along_m = join(access, m_);
      const auto along_n = join(access, n_);
      const auto batch = join(access, ProductAxis::kBatch);
      const bool is_along_m = along_m && along_n && batch && along_n->stride == 0 &&
                              batch->stride == 0 && (along_m->size == 1 || along_m->stride == 1);
      if (!is_along_m || type_of(access.value) != out_.d.type)
        return refused("a vector lies along the other axis, or has another type than the result", 0,
                       1, "", access.value)
            .value();
      out_.bias = LibraryMatrix{.value = access.tensor,
                                .offset_bytes = access.offset * access.element_bytes,
                                .type = out_.d.type,
                                .rows = out_.m,
                                .leading_dimension = out_.m};
    }
    return std::nullopt;
  }

  const SegmentFacts& facts_;
  const IterationSpace& space_;
  const ContractedSpace& contraction_;
  std::vector<int64_t> sizes_;  ///< Of the dimensions, then of the contracted loops.
  std::vector<OpId> seen_;      ///< Ops that the call computes.
  std::vector<const TensorAccess*> vectors_, matrices_;  ///< What is added.
  ProductAxis m_ = ProductAxis::kColumns;
  ProductAxis n_ = ProductAxis::kRows;
  LibraryMatmul out_;
};

// ---- Prediction

// Source of the constants: the least mean error of 117 products of torch.mm, which calls cuBLAS, on
// an H200 (benchmarks/results/h200_2026-11-28_cublas.json; docs/cost_model.md has the formula).

/// Share that the library's kernels reach of the rates below: of half of that of 16-bit elements,
/// of that of lanes, and of f64's.
constexpr double kShareOfTf32 = 0.91;
constexpr double kShareOfF32 = 0.82;
constexpr double kShareOfF64 = 0.97;
/// Clocks of a tile in which nothing is multiplied: its first loads, its last stores.
constexpr double kTileClocks = 1500.0;
/// Microseconds of adding up the parts of sums, beside their traffic.
constexpr double kSplitUs = 2.5;
/// Bytes per clock that an SM takes in from L2.
constexpr double kCopiedBytes = 61.0;
/// Products and traffic overlap in part: their p-norm.
constexpr double kOverlapExponent = 2.4;

struct LibraryTile {
  int64_t rows, columns;
};
// Those that its names of kernels tell of for the products above and those of transformer layers.
constexpr std::array kMatrixTiles = {
    LibraryTile{256, 128}, LibraryTile{128, 256}, LibraryTile{192, 192}, LibraryTile{192, 128},
    LibraryTile{128, 192}, LibraryTile{160, 128}, LibraryTile{128, 160}, LibraryTile{128, 128},
    LibraryTile{128, 64},  LibraryTile{64, 128},  LibraryTile{64, 64}};
/// Accumulators of f32 and f64 by lanes take more registers.
constexpr std::span<const LibraryTile> kLaneTiles = std::span(kMatrixTiles).subspan(7);
/// Parts of the contracted axis, each of which has this many elements at least.
constexpr std::array<int64_t, 6> kSplits = {1, 2, 4, 8, 16, 32};
constexpr int64_t kLeastDepth = 256;

/// Multiply-adds of 16-bit elements per clock and SM that kernels reach with the fastest matrix
/// instructions.
double dense_rate(const DeviceLimits& limits) {
  if (limits.has_wgmma) return limits.group_products_per_clock;
  // tcgen05, which Sinter has no kernels with: twice the rate of wgmma (2.25 PFLOPS, HGX B200 data
  // sheet). Not measured.
  constexpr double kTensorMemoryRate = 3640.0;
  return limits.compute_major == 10 ? kTensorMemoryRate : limits.matrix_products_per_clock;
}

/// The same of f64: matrix instructions of 8.0 and 9.0 have twice the rate of lanes (NVIDIA A100
/// and H100 whitepapers); no other device has faster ones.
double f64_rate(const DeviceLimits& limits) {
  const bool has_matrices =
      (limits.compute_major == 8 && limits.compute_minor == 0) || limits.compute_major == 9;
  return limits.fma64_per_clock * (has_matrices ? 2.0 : 1.0);
}

struct LibraryRate {
  double products;  ///< Multiply-adds per clock and SM.
  std::span<const LibraryTile> tiles;
};

LibraryRate rate_of(const LibraryMatmul& matmul, const DeviceLimits& limits) {
  switch (matmul.a.type) {
    case DType::kF64:
      return {kShareOfF64 * f64_rate(limits), kLaneTiles};
    case DType::kF32:
      if (matmul.precision == ContractPrecision::kTf32)
        return {kShareOfTf32 * dense_rate(limits) / 2.0, kMatrixTiles};
      return {kShareOfF32 * limits.fma_per_clock, kLaneTiles};
    default:
      return {dense_rate(limits), kMatrixTiles};
  }
}

/// The time of the best tile, split or not, as the library chooses it.
Prediction predict_call(const LibraryMatmul& matmul, const SegmentFacts& facts,
                        const DeviceLimits& limits) {
  const LibraryRate rate = rate_of(matmul, limits);
  const auto bytes = static_cast<double>(bytes_of(matmul.a.type));
  const auto read = static_cast<double>(facts.bytes_read);
  const auto written = static_cast<double>(facts.bytes_written);
  const double streamed_us = memory_time(limits, read, written, ReadPriority::kNormal);
  Prediction best;
  best.total_us = std::numeric_limits<double>::infinity();
  for (const LibraryTile& tile : rate.tiles) {
    for (const int64_t split : kSplits) {
      const int64_t depth = divided_up(matmul.k, split);
      if (split > 1 && depth < kLeastDepth) break;
      const auto tiles =
          static_cast<double>(divided_up(matmul.m, tile.rows) * divided_up(matmul.n, tile.columns) *
                              matmul.batch * split);
      const auto sms = static_cast<double>(limits.sm_count);
      const auto deep = static_cast<double>(depth);
      const auto area = static_cast<double>(tile.rows * tile.columns);
      const auto edges = static_cast<double>(tile.rows + tile.columns);
      const double waves = std::ceil(tiles / sms);
      const double to_us = waves / limits.clock_mhz;
      const double busy = std::min(tiles, sms);
      Prediction predicted;
      predicted.launch_us = limits.cost.launch_us + limits.cost.ramp_us;
      predicted.matrix_us = area * deep / rate.products * to_us;
      predicted.l2_us = edges * deep * bytes / kCopiedBytes * to_us;
      predicted.memory_us =
          std::max(streamed_us, read / (limits.l2_bytes_per_clock * limits.clock_mhz * busy));
      const double products_us =
          std::max(predicted.matrix_us, predicted.l2_us) + kTileClocks * to_us;
      const double joined_us = std::pow(
          std::pow(products_us, kOverlapExponent) + std::pow(predicted.memory_us, kOverlapExponent),
          1.0 / kOverlapExponent);
      if (split > 1) {
        const auto partials =
            static_cast<double>(matmul.m * matmul.n * matmul.batch * split * bytes_of(DType::kF32));
        predicted.second_stage_us =
            kSplitUs + 2.0 * partials / (limits.memory_bytes_per_us * limits.copy_efficiency);
      }
      predicted.exposed_us =
          joined_us - std::max({predicted.matrix_us, predicted.l2_us, predicted.memory_us});
      predicted.total_us = predicted.launch_us + joined_us + predicted.second_stage_us;
      if (predicted.total_us < best.total_us) best = predicted;
    }
  }
  return best;
}

// ---- The family

/// The call has no block of ours: it counts as one, with no registers of ours.
ResourceEstimate resources_of_call() {
  ResourceEstimate out;
  out.blocks = 1;
  out.blocks_per_sm = 1;
  return out;
}

Schedule schedule_of_call() {
  return {.family = std::string(kCublasLt), .parameters = parameters_of_family(kCublasLt)};
}

tl::expected<ResourceEstimate, Rejection> estimate_call(const SegmentFacts& facts,
                                                        const Schedule& schedule,
                                                        const DeviceLimits&) {
  if (auto call = library_matmul(facts); !call) return tl::make_unexpected(call.error());
  if (schedule != schedule_of_call())
    return refused("the library has no parameters that a schedule sets", 0, 0, "", {});
  return resources_of_call();
}

Proposal propose_call(const SegmentFacts& facts, const DeviceLimits& limits) {
  const auto call = library_matmul(facts);
  if (!call) return {.candidates = {}, .rejections = {call.error()}};
  return {.candidates = {{.schedule = schedule_of_call(),
                          .estimate = resources_of_call(),
                          .predicted = predict_call(*call, facts, limits)}},
          .rejections = {}};
}

}  // namespace

std::string text_of(const LibraryMatmul& matmul) {
  std::string out =
      fmt::format("{} {} x {} x {} (m x n x k)", matmul.a.type, matmul.m, matmul.n, matmul.k);
  if (matmul.batch > 1) out += fmt::format(", batch of {}", matmul.batch);
  if (matmul.a.type == DType::kF32) out += fmt::format(", {}", text_of(matmul.precision));
  if (matmul.a_transposed) out += ", op(a) = a^T";
  if (matmul.b_transposed) out += ", op(b) = b^T";
  if (matmul.c) out += ", + c";
  if (matmul.bias) out += ", + bias";
  if (matmul.activation == Activation::kRelu) out += ", relu";
  if (matmul.activation == Activation::kGelu) out += ", gelu";
  if (matmul.d.type != matmul.a.type) out += fmt::format(", stored as {}", matmul.d.type);
  return out;
}

tl::expected<LibraryMatmul, Rejection> library_matmul(const SegmentFacts& facts) {
  if (!facts.space.contraction)
    return refused("the segment contracts nothing", 0, 1, "contractions", {});
  return CallBuilder(facts).run();
}

Family cublaslt_family() {
  return {.name = std::string(kCublasLt),
          .propose = propose_call,
          .estimate = estimate_call,
          .predict =
              [](const SegmentFacts& facts, const Schedule&, const ResourceEstimate&,
                 const DeviceLimits& limits) {
                return predict_call(library_matmul(facts).value(), facts, limits);
              },
          .lower = {},
          .layout = ElementLayout::kFragments,
          .contracts = true,
          .refuses = [](const SegmentFacts& facts) -> std::optional<Rejection> {
            auto call = library_matmul(facts);
            return call ? std::nullopt : std::optional(std::move(call.error()));
          },
          .call = [](const SegmentFacts& facts,
                     const Schedule&) { return library_matmul(facts).value(); }};
}

FamilySet with_cublaslt(FamilySet families) {
  families.push_back(cublaslt_family());
  return families;
}

}  // namespace sinter
