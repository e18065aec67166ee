#include "runtime/cublaslt/cublaslt.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "fusion_ir/error.h"
#include "runtime/driver/shared_library.h"

namespace sinter {
namespace {

// What Sinter uses of cublasLt.h, under its numbers. The names are those of the header.

enum class Status : int { kSuccess = 0, kAllocationFailed = 3, kNotSupported = 15 };
enum class ComputeType : int { k32F = 68, k32FFastTf32 = 77, k64F = 70 };
enum class DataType : int { kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14 };
enum class Operation : int32_t { kNone = 0, kTranspose = 1 };
enum class DescriptorAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8
};
enum class LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum class PreferenceAttribute : int {
  kMostWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kAlignmentOfA = 5,
  kAlignmentOfB = 6,
  kAlignmentOfC = 7,
  kAlignmentOfD = 8
};
constexpr uint32_t kEpilogueDefault = 1;
constexpr uint32_t kEpilogueRelu = 2;
constexpr uint32_t kEpilogueBias = 4;
constexpr uint32_t kEpilogueGelu = 32;
/// Parts of sums are added in the type of the sums, from the workspace: neither in the type of the
/// result, which has fewer bits, nor in the result's memory.
constexpr uint32_t kReductionsInComputeType = 2;

struct LibraryHandleTag;
using LibraryHandle = LibraryHandleTag*;

/// A descriptor of the library, which initialises it in the caller's memory and refuses too little
/// of it. Those of CUDA 12 and 13 take 256 bytes at most.
struct alignas(16) Opaque {
  std::array<std::byte, 512> bytes{};
};

/// cublasLtMatmulHeuristicResult_t, field for field.
struct HeuristicResult {
  std::array<uint64_t, 8> algorithm{};
  size_t workspace_bytes = 0;
  Status state = Status::kNotSupported;
  float waves = 0.0F;
  std::array<int, 4> reserved{};
};

// Every function that is used: member, symbol, result, parameters.
#define SINTER_CUBLASLT_FUNCTIONS(X)                                                       \
  X(version, "cublasLtGetVersion", size_t, ())                                             \
  X(create, "cublasLtCreate", Status, (LibraryHandle * handle))                            \
  X(destroy, "cublasLtDestroy", Status, (LibraryHandle handle))                            \
  X(init_descriptor, "cublasLtMatmulDescInit_internal", Status,                            \
    (Opaque * descriptor, size_t bytes, ComputeType compute, DataType scale))              \
  X(set_descriptor, "cublasLtMatmulDescSetAttribute", Status,                              \
    (Opaque * descriptor, DescriptorAttribute attribute, const void* value, size_t bytes)) \
  X(init_layout, "cublasLtMatrixLayoutInit_internal", Status,                              \
    (Opaque * layout, size_t bytes, DataType type, uint64_t rows, uint64_t columns,        \
     int64_t leading_dimension))                                                           \
  X(set_layout, "cublasLtMatrixLayoutSetAttribute", Status,                                \
    (Opaque * layout, LayoutAttribute attribute, const void* value, size_t bytes))         \
  X(init_preference, "cublasLtMatmulPreferenceInit_internal", Status,                      \
    (Opaque * preference, size_t bytes))                                                   \
  X(set_preference, "cublasLtMatmulPreferenceSetAttribute", Status,                        \
    (Opaque * preference, PreferenceAttribute attribute, const void* value, size_t bytes)) \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic", Status,                                   \
    (LibraryHandle handle, const Opaque* descriptor, const Opaque* a, const Opaque* b,     \
     const Opaque* c, const Opaque* d, const Opaque* preference, int wanted,               \
     HeuristicResult* results, int* count))                                                \
  X(matmul, "cublasLtMatmul", Status,                                                      \
    (LibraryHandle handle, const Opaque* descriptor, const void* alpha, const void* a,     \
     const Opaque* a_layout, const void* b, const Opaque* b_layout, const void* beta,      \
     const void* c, const Opaque* c_layout, void* d, const Opaque* d_layout,               \
     const uint64_t* algorithm, void* workspace, size_t workspace_bytes, StreamHandle stream))

struct Functions {
#define SINTER_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  SINTER_CUBLASLT_FUNCTIONS(SINTER_MEMBER)
#undef SINTER_MEMBER
};

constexpr std::string_view kInstallRemedy =
    "install the CUDA Toolkit 12 or 13, or the package nvidia-cublas of PyPI, or set "
    "SINTER_CUBLASLT to the path of libcublasLt.so; plans without the family cublaslt need no "
    "library";

std::vector<std::string> default_candidates() {
  constexpr std::string_view kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  std::vector<std::string> out(std::begin(kNames), std::end(kNames));
  std::vector<std::string> toolkits;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0')
    toolkits.emplace_back(home);
  toolkits.emplace_back("/usr/local/cuda");
  for (const std::string& toolkit : toolkits) {
    for (const auto name : kNames) out.push_back(fmt::format("{}/lib64/{}", toolkit, name));
  }
  return out;
}

Result<void> checked(Status status, const LibraryMatmul& matmul, std::string_view doing) {
  if (status == Status::kSuccess) return {};
  const bool has_none = status == Status::kNotSupported;
  return fail({.kind = has_none ? ErrorKind::kUnsupported : ErrorKind::kDeviceError,
               .message = fmt::format("cuBLASLt {} {}: {} (status {})",
                                      has_none ? "has no kernel for" : "fails for", text_of(matmul),
                                      doing, static_cast<int>(status)),
               .remedy = "plan without the family cublaslt",
               .values = {matmul.d.value}});
}

DataType data_type(DType type) {
  switch (type) {
    case DType::kF32:
      return DataType::kF32;
    case DType::kF64:
      return DataType::kF64;
    case DType::kF16:
      return DataType::kF16;
    case DType::kBF16:
      return DataType::kBF16;
    default:
      SINTER_CHECK(false, "the family refuses products of {}", type);
  }
}

ComputeType compute_type(const LibraryMatmul& matmul) {
  if (matmul.a.type == DType::kF64) return ComputeType::k64F;
  const bool rounds = matmul.a.type == DType::kF32 && matmul.precision == ContractPrecision::kTf32;
  return rounds ? ComputeType::k32FFastTf32 : ComputeType::k32F;
}

/// A factor in the type of the sums.
struct Scalar {
  float f32;
  double f64;
  explicit Scalar(double value) : f32(static_cast<float>(value)), f64(value) {}
  [[nodiscard]] const void* of(DType type) const {
    return type == DType::kF64 ? static_cast<const void*>(&f64) : &f32;
  }
};

class CublasLtMatmul final : public PreparedMatmul {
 public:
  CublasLtMatmul(const Functions& functions, LibraryMatmul matmul)
      : lt_(functions), matmul_(std::move(matmul)) {}
  ~CublasLtMatmul() override {
    if (handle_ != nullptr) lt_.destroy(handle_);
  }

  Result<void> prepare() {
    const auto set = [&](Status status) { return checked(status, matmul_, "describing it"); };
    if (auto done = checked(lt_.create(&handle_), matmul_, "opening the device"); !done)
      return done;
    if (auto done = set(describe(descriptor_, nullptr)); !done) return done;
    for (auto [layout, matrix] : {std::pair{&a_, &matmul_.a},
                                  {&b_, &matmul_.b},
                                  {&c_, matmul_.c ? &*matmul_.c : &matmul_.d},
                                  {&d_, &matmul_.d}}) {
      if (auto done = set(lay_out(*layout, *matrix)); !done) return done;
    }
    Opaque preference;
    if (auto done = set(prefer(preference)); !done) return done;
    int count = 0;
    const Status found =
        lt_.heuristic(handle_, &descriptor_, &a_, &b_, &c_, &d_, &preference, 1, &chosen_, &count);
    if (auto done = checked(found, matmul_, "choosing a kernel"); !done) return done;
    return checked(count > 0 ? chosen_.state : Status::kNotSupported, matmul_, "choosing a kernel");
  }

  [[nodiscard]] Result<void> launch(StreamHandle stream,
                                    std::span<const DevicePointer> addresses) const override {
    size_t next = 0;
    const auto take = [&](const LibraryMatrix& matrix) {
      return reinterpret_cast<void*>(addresses[next++] +
                                     static_cast<uint64_t>(matrix.offset_bytes));
    };
    const void* const a = take(matmul_.a);
    const void* const b = take(matmul_.b);
    const void* const c = matmul_.c ? take(*matmul_.c) : nullptr;
    const void* const bias = matmul_.bias ? take(*matmul_.bias) : nullptr;
    void* const d = take(matmul_.d);
    auto* const workspace = reinterpret_cast<void*>(addresses[next]);
    // The address of a bias is part of the descriptor.
    Opaque with_bias;
    if (bias != nullptr) {
      if (auto done = checked(describe(with_bias, bias), matmul_, "describing it"); !done)
        return done;
    }
    static const Scalar kOne(1.0);
    static const Scalar kZero(0.0);
    return checked(
        lt_.matmul(handle_, bias != nullptr ? &with_bias : &descriptor_, kOne.of(matmul_.sums()), a,
                   &a_, b, &b_, (c != nullptr ? kOne : kZero).of(matmul_.sums()),
                   c != nullptr ? c : d, &c_, d, &d_, chosen_.algorithm.data(), workspace,
                   static_cast<size_t>(matmul_.workspace_bytes), stream),
        matmul_, "launching it");
  }

 private:
  Status describe(Opaque& descriptor, const void* bias) const {
    const DataType scale = data_type(matmul_.sums());
    Status status =
        lt_.init_descriptor(&descriptor, sizeof(descriptor), compute_type(matmul_), scale);
    const auto set = [&](DescriptorAttribute attribute, auto value) {
      if (status == Status::kSuccess)
        status = lt_.set_descriptor(&descriptor, attribute, &value, sizeof(value));
    };
    const auto operation = [](bool transposed) {
      return transposed ? Operation::kTranspose : Operation::kNone;
    };
    set(DescriptorAttribute::kTransposeA, operation(matmul_.a_transposed));
    set(DescriptorAttribute::kTransposeB, operation(matmul_.b_transposed));
    uint32_t epilogue = 0;
    if (matmul_.activation == Activation::kRelu) epilogue |= kEpilogueRelu;
    if (matmul_.activation == Activation::kGelu) epilogue |= kEpilogueGelu;
    if (matmul_.bias) epilogue |= kEpilogueBias;
    set(DescriptorAttribute::kEpilogue, epilogue != 0 ? epilogue : kEpilogueDefault);
    if (bias != nullptr) set(DescriptorAttribute::kBiasPointer, bias);
    return status;
  }

  Status lay_out(Opaque& layout, const LibraryMatrix& matrix) const {
    Status status = lt_.init_layout(
        &layout, sizeof(layout), data_type(matrix.type), static_cast<uint64_t>(matrix.rows),
        static_cast<uint64_t>(matrix.columns), matrix.leading_dimension);
    const auto set = [&](LayoutAttribute attribute, auto value) {
      if (status == Status::kSuccess)
        status = lt_.set_layout(&layout, attribute, &value, sizeof(value));
    };
    if (matmul_.batch > 1) {
      set(LayoutAttribute::kBatchCount, static_cast<int32_t>(matmul_.batch));
      set(LayoutAttribute::kBatchStride, matrix.batch_stride);
    }
    return status;
  }

  Status prefer(Opaque& preference) const {
    Status status = lt_.init_preference(&preference, sizeof(preference));
    const auto set = [&](PreferenceAttribute attribute, auto value) {
      if (status == Status::kSuccess)
        status = lt_.set_preference(&preference, attribute, &value, sizeof(value));
    };
    const auto alignment = [](const LibraryMatrix& matrix) {
      return static_cast<uint32_t>(matrix.alignment);
    };
    set(PreferenceAttribute::kMostWorkspaceBytes, static_cast<uint64_t>(matmul_.workspace_bytes));
    set(PreferenceAttribute::kReductionSchemes, kReductionsInComputeType);
    set(PreferenceAttribute::kAlignmentOfA, alignment(matmul_.a));
    set(PreferenceAttribute::kAlignmentOfB, alignment(matmul_.b));
    set(PreferenceAttribute::kAlignmentOfC, alignment(matmul_.c ? *matmul_.c : matmul_.d));
    set(PreferenceAttribute::kAlignmentOfD, alignment(matmul_.d));
    return status;
  }

  const Functions& lt_;
  LibraryMatmul matmul_;
  LibraryHandle handle_ = nullptr;
  Opaque descriptor_, a_, b_, c_, d_;
  HeuristicResult chosen_;
};

class CublasLt final : public MatmulLibrary {
 public:
  explicit CublasLt(const Functions& functions) : lt_(functions) {}

  [[nodiscard]] std::string name() const override {
    const size_t version = lt_.version();  // 130100: 13.1.0.
    return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  Result<std::unique_ptr<PreparedMatmul>> prepare(const LibraryMatmul& matmul) override {
    auto out = std::make_unique<CublasLtMatmul>(lt_, matmul);
    if (auto prepared = out->prepare(); !prepared) return fail(std::move(prepared.error()));
    return out;
  }

 private:
  Functions lt_;
};

}  // namespace

Result<std::unique_ptr<MatmulLibrary>> open_cublaslt(const std::string& library) {
  const char* from_environment = std::getenv("SINTER_CUBLASLT");
  std::vector<std::string> candidates = {library};
  if (library.empty()) {
    const bool is_set = from_environment != nullptr && *from_environment != '\0';
    candidates = is_set ? std::vector<std::string>{from_environment} : default_candidates();
  }
  auto opened = SharedLibrary::open(candidates, "cuBLASLt", kInstallRemedy);
  if (!opened) {
    opened.error().kind = ErrorKind::kUnsupported;  // No device has anything to do with it.
    return fail(std::move(opened.error()));
  }
  Functions functions;
  std::string missing;
#define SINTER_RESOLVE(member, symbol, result, parameters) \
  opened->resolve(symbol, functions.member, missing);
  SINTER_CUBLASLT_FUNCTIONS(SINTER_RESOLVE)
#undef SINTER_RESOLVE
  if (!missing.empty())
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("{} lacks {}", opened->path(), missing),
                 .remedy = std::string(kInstallRemedy)});
  constexpr size_t kLeastVersion = 120000;
  const size_t version = functions.version();
  if (version < kLeastVersion)
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("{} is too old", opened->path()),
                 .remedy = std::string(kInstallRemedy),
                 .measured = static_cast<int64_t>(version),
                 .limit = static_cast<int64_t>(kLeastVersion)});
  return std::make_unique<CublasLt>(functions);
}

Result<MatmulLibrary*> cublaslt() {
  static const Result<std::unique_ptr<MatmulLibrary>> kLibrary = open_cublaslt();
  if (!kLibrary) return fail(kLibrary.error());
  return kLibrary->get();
}

}  // namespace sinter
