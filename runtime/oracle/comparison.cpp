#include "runtime/oracle/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"

namespace sinter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Distance in units of the bound: at most 1 where the element is right, never NaN.
double ratio_of(double distance, double bound) {
  if (distance == 0.0 || std::isinf(bound)) return 0.0;
  const bool unknown = std::isnan(distance) || std::isnan(bound);
  return bound == 0.0 || unknown ? kInfinity : distance / bound;
}

double real_ratio(double expected, double actual, double bound) {
  const bool same = expected == actual || (std::isnan(expected) && std::isnan(actual));
  if (same) return 0.0;
  const bool finite = std::isfinite(expected) && std::isfinite(actual);
  return ratio_of(finite ? std::fabs(actual - expected) : kInfinity, bound);
}

double integer_ratio(int64_t expected, int64_t actual, double bound) {
  const auto low = static_cast<uint64_t>(std::min(expected, actual));
  const auto high = static_cast<uint64_t>(std::max(expected, actual));
  return ratio_of(static_cast<double>(high - low), bound);
}

/// A stored bool as its byte, so that a byte that no kernel may write shows.
int64_t stored_integer(const HostTensor& tensor, int64_t element) {
  return tensor.type() == DType::kBool ? static_cast<int64_t>(tensor.bits(element))
                                       : tensor.get_integer(element);
}

const OracleOutput& output_for(const OracleResult& expected, size_t output,
                               const HostTensor& actual) {
  if (output >= expected.outputs.size()) {
    throw_error(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("there is no output {} among {}", output, expected.outputs.size()),
         .remedy = "number outputs from 0 in the order of the fusion's list"});
  }
  const OracleOutput& reference = expected.outputs[output];
  if (reference.type != actual.type() || reference.sizes != actual.sizes()) {
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("output {} is {}[{}], but {}[{}] was compared with it",
                                        output, reference.type, fmt::join(reference.sizes, ", "),
                                        actual.type(), fmt::join(actual.sizes(), ", ")),
                 .remedy = "compare a tensor of the output's type and sizes",
                 .values = {reference.value}});
  }
  return reference;
}

/// What looking at a run of elements found: how many are outside their bound, the worst ratio and
/// the first element that has it.
struct Findings {
  int64_t count = 0;
  double worst = 0.0;
  int64_t at = 0;
};

/// Adds an element's ratio. Elements come in ascending order.
void note(Findings& out, int64_t element, double ratio) {
  if (ratio > 1.0) ++out.count;
  if (ratio > out.worst) {
    out.worst = ratio;
    out.at = element;
  }
}

Findings look_at(const OracleOutput& reference, const HostTensor& actual, int64_t begin,
                 int64_t end) {
  Findings out{.count = 0, .worst = 0.0, .at = begin};
  if (!is_float(reference.type)) {
    for (int64_t i = begin; i < end; ++i) {
      const auto element = static_cast<size_t>(i);
      note(out, i,
           integer_ratio(reference.integer[element], stored_integer(actual, i),
                         reference.bound[element]));
    }
    return out;
  }
  std::array<double, 512> decoded;
  for (int64_t at = begin; at < end;) {
    const auto count = std::min(decoded.size(), static_cast<size_t>(end - at));
    actual.read(at, std::span(decoded).first(count));
    for (size_t i = 0; i < count; ++i, ++at) {
      const auto element = static_cast<size_t>(at);
      note(out, at, real_ratio(reference.real[element], decoded[i], reference.bound[element]));
    }
  }
  return out;
}

/// Large tensors are compared by all idle cores: beside a kernel, one core would take a thousand
/// times as long.
Findings look_at(const OracleOutput& reference, const HostTensor& actual) {
  constexpr int64_t kElementsPerRange = int64_t{1} << 16;
  Findings out;
  std::mutex mutex;
  for_each_range(actual.count(), kElementsPerRange, 0, [&](int64_t begin, int64_t end) {
    const Findings found = look_at(reference, actual, begin, end);
    const std::lock_guard lock(mutex);
    out.count += found.count;
    if (found.worst > out.worst || (found.worst == out.worst && found.at < out.at)) {
      out.worst = found.worst;
      out.at = found.at;
    }
  });
  return out;
}

}  // namespace

std::string Mismatch::text() const {
  return fmt::format(
      "output {} ({}): {} of {} elements outside their bound; worst at [{}]: expected {}, got {}, "
      "bound {}",
      output, value, count, total, fmt::join(index, ", "), expected, actual, bound);
}

Comparison judge(const OracleResult& expected, size_t output, const HostTensor& actual) {
  const OracleOutput& reference = output_for(expected, output, actual);
  const auto [count, ratio, worst] = look_at(reference, actual);
  if (count == 0) return {.worst_ratio = ratio, .mismatch = std::nullopt};
  const auto at = static_cast<size_t>(worst);
  const double got = is_float(actual.type()) ? actual.get(worst)
                                             : static_cast<double>(stored_integer(actual, worst));
  return {.worst_ratio = ratio,
          .mismatch = Mismatch{.output = output,
                               .value = reference.value,
                               .index = actual.index_of(worst),
                               .expected = reference.expected(at),
                               .actual = got,
                               .bound = reference.bound[at],
                               .count = count,
                               .total = actual.count()}};
}

std::optional<Mismatch> compare(const OracleResult& expected, size_t output,
                                const HostTensor& actual) {
  return judge(expected, output, actual).mismatch;
}

double worst_ratio(const OracleResult& expected, size_t output, const HostTensor& actual) {
  return judge(expected, output, actual).worst_ratio;
}

}  // namespace sinter
