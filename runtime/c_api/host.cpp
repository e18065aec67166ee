// Execution in the interpreter, on host memory.

#include <algorithm>
#include <cstring>

#include "codegen/cuda/emit.h"
#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/execute_args.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"
#include "runtime/check/host_execution.h"
#include "scheduler/families/cublaslt.h"

namespace sinter::c_api {
namespace {

/// An output of the caller's and where its first element goes.
struct Destination {
  Tensor planned;
  std::byte* address = nullptr;
};

Tensor planned_tensor(const Plan& plan, TensorRole role) {
  const ValueId id = value_of(plan.fusion, role);
  const Value& value = plan.fusion.values[id];
  return {.address = 0,
          .type = value.type,
          .sizes = Binding{}.sizes_of(value.shape),
          .strides = role.is_output ? output_strides(plan.fusion, Binding{}, id)
                                    : input_strides(plan.fusion, Binding{}, id)};
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

std::vector<HostTensor> copies_of(const sinter_tensor* inputs, size_t count, const Plan& planned) {
  std::vector<HostTensor> out;
  for (size_t i = 0; i < count; ++i) {
    const TensorRole role{.is_output = false, .index = i};
    const Tensor tensor = planned_tensor(planned, role);
    out.push_back(copy_of(tensor, host_address_of(inputs[i], tensor, planned, role)));
  }
  return out;
}

int threads_from(int32_t threads) {
  if (threads < 0)
    bad_argument(fmt::format("{} threads cannot run blocks", threads), "pass 0 or more");
  return std::max(1, threads);
}

/// Kinds of data by their names; none: as many as are affordable.
std::vector<SampleData> sample_data_from(const sinter_check_options& options, const Fusion& fusion,
                                         const Binding& binding) {
  require(options.data, options.data_count, "options.data");
  std::vector<SampleData> out;
  for (size_t i = 0; i < options.data_count; ++i) {
    require(options.data[i], fmt::format("options.data[{}]", i));
    out.push_back(taken(find_sample_data(options.data[i])));
  }
  if (!out.empty()) return out;
  const auto affordable = sample_data_for(tensor_elements(fusion, binding));
  return {affordable.begin(), affordable.end()};
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
    require_zero(given.reserved, "options.reserved");
    require_tensors(inputs, input_count, planned.fusion.inputs.size(), "inputs");
    require_tensors(outputs, output_count, planned.caller_outputs().size(), "outputs");
    const int threads = threads_from(given.threads);
    std::vector<Destination> destinations;
    for (size_t i = 0; i < output_count; ++i) {
      const TensorRole role{.is_output = true, .index = i};
      Tensor tensor = planned_tensor(planned, role);
      std::byte* const address = host_address_of(outputs[i], tensor, planned, role);
      destinations.push_back({std::move(tensor), address});
    }
    const std::vector<HostTensor> copies = copies_of(inputs, input_count, planned);
    const HostRun run =
        taken(execute_on_host(planned, copies, with_cublaslt(builtin_families()),
                              {.seed = given.seed, .threads = threads},
                              {.run = host_call(given.external, given.external_data)}));
    require_no_findings(run.report);
    for (size_t i = 0; i < output_count; ++i) store(run.outputs[i], destinations[i]);
    if (!run.outside.empty()) throw_error(outside_error(run.outside));
  });
}

sinter_status sinter_plan_check(const sinter_plan* plan, const sinter_tensor* inputs,
                                size_t input_count, const sinter_check_options* options,
                                sinter_check_info* info, sinter_text** report,
                                sinter_error** error) {
  return guarded(error, [&] {
    if (report != nullptr) *report = nullptr;
    const auto object = object_of<PlanObject>(plan);
    const Plan& planned = object->plan;
    const sinter_check_options given = read_struct(options, "options");
    require_zero(given.reserved, "options.reserved");
    // Refused before anything is run; null is none.
    if (info != nullptr) fill_struct(info, "info", {});
    const InterpreterOptions how{.seed = given.seed, .threads = threads_from(given.threads)};
    if (inputs != nullptr || input_count != 0) {
      require_tensors(inputs, input_count, planned.fusion.inputs.size(), "inputs");
      if (given.data_count != 0)
        bad_argument("both inputs and kinds of sample data were passed", "pass one of them");
    }
    const Fusion& fusion = object->graph->fusion;
    const auto data = sample_data_from(given, fusion, planned.binding);
    taken(check_is_possible(fusion, planned));
    const FamilySet families = with_cublaslt(builtin_families());
    const HostCheck check = taken(
        input_count != 0
            ? check_on_host(fusion, planned.binding, planned,
                            copies_of(inputs, input_count, planned), families, how)
            : check_on_host(fusion, planned.binding, planned, given.seed, families, how, {}, data));
    if (info != nullptr) {
      fill_struct(info, "info",
                  {.struct_size = sizeof(sinter_check_info),
                   .passed = check.passed() ? 1 : 0,
                   .reserved = 0,
                   .data_sets = check.data_sets,
                   .finding_count = check.report.findings.size() +
                                    static_cast<size_t>(check.report.findings_left_out),
                   .mismatch_count = check.mismatches.size(),
                   .outside_count = check.outside.size(),
                   .worst_error_over_bound = check.worst_ratio});
    }
    if (report != nullptr) *report = text_handle(check.text());
  });
}

}  // extern "C"

}  // namespace sinter::c_api
