#include "runtime/oracle/comparison.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "fusion_ir/error.h"

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

double ratio_at(const OracleOutput& expected, const HostTensor& actual, int64_t element) {
  const auto i = static_cast<size_t>(element);
  if (is_float(expected.type)) {
    return real_ratio(expected.real[i], actual.get(element), expected.bound[i]);
  }
  return integer_ratio(expected.integer[i], stored_integer(actual, element), expected.bound[i]);
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

Findings look_at(const OracleOutput& reference, const HostTensor& actual, int64_t begin,
                 int64_t end) {
  Findings out{.count = 0, .worst = 0.0, .at = begin};
  for (int64_t i = begin; i < end; ++i) {
    const double ratio = ratio_at(reference, actual, i);
    if (ratio > 1.0) ++out.count;
    if (ratio > out.worst) {
      out.worst = ratio;
      out.at = i;
    }
  }
  return out;
}

/// Large tensors are compared by all cores: beside a kernel, one core would take a thousand times
/// as long.
Findings look_at(const OracleOutput& reference, const HostTensor& actual) {
  constexpr int64_t kElementsPerThread = int64_t{1} << 20;
  const int64_t cores = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  const int64_t parts = std::clamp<int64_t>(actual.count() / kElementsPerThread, 1, cores);
  const auto begin_of = [&](int64_t part) { return actual.count() / parts * part; };
  std::vector<std::future<Findings>> others;
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t end = part + 1 == parts ? actual.count() : begin_of(part + 1);
    others.push_back(
        std::async(std::launch::async, [&reference, &actual, begin = begin_of(part), end] {
          return look_at(reference, actual, begin, end);
        }));
  }
  Findings out = look_at(reference, actual, 0, parts == 1 ? actual.count() : begin_of(1));
  for (std::future<Findings>& other : others) {
    const Findings found = other.get();
    out.count += found.count;
    if (found.worst > out.worst) {
      out.worst = found.worst;
      out.at = found.at;
    }
  }
  return out;
}

}  // namespace

std::string Mismatch::text() const {
  return fmt::format(
      "output {} ({}): {} of {} elements outside their bound; worst at [{}]: expected {}, got {}, "
      "bound {}",
      output, value, count, total, fmt::join(index, ", "), expected, actual, bound);
}

std::optional<Mismatch> compare(const OracleResult& expected, size_t output,
                                const HostTensor& actual) {
  const OracleOutput& reference = output_for(expected, output, actual);
  const auto [count, ratio, worst] = look_at(reference, actual);
  if (count == 0) return std::nullopt;
  const auto at = static_cast<size_t>(worst);
  const double got = is_float(actual.type()) ? actual.get(worst)
                                             : static_cast<double>(stored_integer(actual, worst));
  return Mismatch{.output = output,
                  .value = reference.value,
                  .index = actual.index_of(worst),
                  .expected = reference.expected(at),
                  .actual = got,
                  .bound = reference.bound[at],
                  .count = count,
                  .total = actual.count()};
}

double worst_ratio(const OracleResult& expected, size_t output, const HostTensor& actual) {
  return look_at(output_for(expected, output, actual), actual).worst;
}

}  // namespace sinter
