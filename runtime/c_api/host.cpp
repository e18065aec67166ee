// Execution in the interpreter, on host memory.

#include <algorithm>
#include <cstring>

#include "codegen/lower.h"
#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/structs.h"
#include "runtime/host_execution.h"

namespace sinter::c_api {
namespace {

/// An output of the caller's and where its first element goes.
struct Destination {
  Tensor planned;
  std::byte* address = nullptr;
};

Tensor planned_tensor(const Plan& plan, TensorRole role) {
  const ValueId id = value_of(plan, role);
  const Value& value = plan.fusion.values[id];
  return {.address = 0,
          .type = value.type,
          .sizes = Binding{}.sizes_of(value.shape),
          .strides = role.is_output ? output_strides(plan.fusion, Binding{}, id)
                                    : input_strides(plan.fusion, Binding{}, id)};
}

void require_count(size_t given, size_t needed, std::string_view what) {
  if (given == needed) return;
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("{} {} were passed, the fusion has {}", given, what, needed),
               .remedy = "pass tensors in the order of the fusion's inputs and outputs",
               .measured = static_cast<int64_t>(given),
               .limit = static_cast<int64_t>(needed)});
}

/// Bytes of a tensor's elements, one by one: what lies between them is not the library's.
template <class Body>
void for_each_element(const Tensor& tensor, Body body) {
  const auto width = static_cast<int64_t>(bytes_of(tensor.type));
  const int64_t count = element_count(tensor.sizes);
  Sizes index(tensor.sizes.size(), 0);
  for (int64_t element = 0; element < count; ++element) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * tensor.strides[axis];
    body(element, offset * width);
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < tensor.sizes[axis]) break;
      index[axis] = 0;
    }
  }
}

HostTensor copy_of(const Tensor& planned, const std::byte* address) {
  HostTensor out = HostTensor::poisoned(planned.type, planned.sizes, {.strides = planned.strides});
  for_each_element(planned, [&](int64_t element, int64_t offset) {
    uint64_t bits = 0;
    std::memcpy(&bits, address + offset, static_cast<size_t>(bytes_of(planned.type)));
    out.set_bits(element, bits);
  });
  return out;
}

void store(const HostTensor& from, const Destination& to) {
  for_each_element(to.planned, [&](int64_t element, int64_t offset) {
    const uint64_t bits = from.bits(element);
    std::memcpy(to.address + offset, &bits, static_cast<size_t>(bytes_of(from.type())));
  });
}

/// Refuses findings: they are about kernels of the library's own.
void require_no_findings(const InterpreterReport& report) {
  if (report.findings.empty()) return;
  std::string log;
  for (const Finding& finding : report.findings) log += finding.message + "\n";
  throw_error({.kind = ErrorKind::kInternalError,
               .message = fmt::format(
                   "the interpreter found {} fault(s) in the plan's kernels",
                   static_cast<int64_t>(report.findings.size()) + report.findings_left_out),
               .remedy = "this is a defect in Sinter: please report the graph and the log",
               .log = std::move(log)});
}

}  // namespace

extern "C" {

sinter_status sinter_plan_execute_on_host(const sinter_plan* plan, const sinter_tensor* inputs,
                                          size_t input_count, const sinter_tensor* outputs,
                                          size_t output_count, const sinter_host_options* options,
                                          sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<PlanObject>(plan);
    const Plan& planned = object->plan;
    const sinter_host_options given = read_struct(options, "options");
    require(inputs, input_count, "inputs");
    require(outputs, output_count, "outputs");
    require_count(input_count, planned.fusion.inputs.size(), "inputs");
    require_count(output_count, planned.caller_outputs().size(), "outputs");
    if (given.threads < 0)
      bad_argument(fmt::format("{} threads cannot run blocks", given.threads), "pass 0 or more");
    std::vector<Destination> destinations;
    for (size_t i = 0; i < output_count; ++i) {
      const TensorRole role{.is_output = true, .index = i};
      Tensor tensor = planned_tensor(planned, role);
      std::byte* const address = host_address_of(outputs[i], tensor, planned, role);
      destinations.push_back({std::move(tensor), address});
    }
    std::vector<HostTensor> copies;
    for (size_t i = 0; i < input_count; ++i) {
      const TensorRole role{.is_output = false, .index = i};
      const Tensor tensor = planned_tensor(planned, role);
      copies.push_back(copy_of(tensor, host_address_of(inputs[i], tensor, planned, role)));
    }
    const HostRun run =
        taken(execute_on_host(planned, copies, builtin_families(),
                              {.seed = given.seed, .threads = std::max(1, given.threads)},
                              {.run = host_call(given.external, given.external_data)}));
    require_no_findings(run.report);
    for (size_t i = 0; i < output_count; ++i) store(run.outputs[i], destinations[i]);
    if (!run.outside.empty()) throw_error(outside_error(run.outside));
  });
}

}  // extern "C"

}  // namespace sinter::c_api
