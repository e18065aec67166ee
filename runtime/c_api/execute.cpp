#include <optional>

#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/execute_args.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"

namespace sinter::c_api {
namespace {

/// Tensors of an execution, given back when it is over, also by an exception.
class BorrowedTensors {
 public:
  explicit BorrowedTensors(const ExecutableObject& owner)
      : owner_(owner), tensors_(owner.borrow_tensors()) {}
  BorrowedTensors(const BorrowedTensors&) = delete;
  BorrowedTensors& operator=(const BorrowedTensors&) = delete;
  ~BorrowedTensors() { owner_.give_back(std::move(tensors_)); }
  ExecutableObject::Tensors& operator*() { return *tensors_; }

 private:
  const ExecutableObject& owner_;
  std::unique_ptr<ExecutableObject::Tensors> tensors_;
};

void set_addresses(const sinter_tensor* given, size_t count, std::vector<Tensor>& tensors,
                   const ExecutableObject& object, bool is_output) {
  const std::string_view what = is_output ? "outputs" : "inputs";
  require_tensors(given, count, tensors.size(), what);
  for (size_t i = 0; i < count; ++i) {
    tensors[i].address =
        address_of(given[i], tensors[i], object.plan(), {is_output, i}, object.context().device());
  }
}

}  // namespace

std::optional<CurrentContext> enter(DeviceDriver& driver, const DeviceContext& context) {
  ContextHandle current = nullptr;
  taken(check(driver, DriverCall::kContextGetCurrent, driver.context_get_current(&current),
              "asking for the current context"));
  if (current == context.handle()) return std::nullopt;
  return taken(CurrentContext::enter(driver, context));
}

void require_tensors(const sinter_tensor* given, size_t count, size_t needed,
                     std::string_view what) {
  require(given, count, what);
  if (count == needed) return;
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("{} {} were passed, the fusion has {}", count, what, needed),
               .remedy = "pass tensors in the order of the fusion's inputs and outputs",
               .measured = static_cast<int64_t>(count),
               .limit = static_cast<int64_t>(needed)});
}

Error with_tensor(Error error, const Fusion& fusion) {
  if (error.kind != ErrorKind::kInvalidArgument || error.values.empty()) return error;
  for (const bool is_output : {false, true}) {
    const auto& values = is_output ? fusion.outputs : fusion.inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != error.values.front()) continue;
      error.message = fmt::format("{}: {}", name_of(fusion, {is_output, i}), error.message);
      return error;
    }
  }
  return error;
}

sinter_execute_args execute_args_from(const sinter_execute_args* args) {
  require(args, "args");
  sinter_execute_args given = read_struct(args, "args");
  if ((given.allocate == nullptr) != (given.release == nullptr)) {
    bad_argument("the workspace allocator lacks a function",
                 "set both `allocate` and `release`, or neither");
  }
  if (given.allocate != nullptr && (given.workspace != nullptr || given.workspace_bytes != 0)) {
    bad_argument("both a workspace and an allocator were passed", "pass one of them");
  }
  return given;
}

extern "C" {

sinter_status sinter_executable_execute(const sinter_executable* executable,
                                        const sinter_execute_args* args, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<ExecutableObject>(executable);
    const sinter_execute_args given = execute_args_from(args);
    BorrowedTensors borrowed(*object);
    auto& [inputs, outputs] = *borrowed;
    set_addresses(given.inputs, given.input_count, inputs, *object, false);
    set_addresses(given.outputs, given.output_count, outputs, *object, true);
    const auto current = enter(object->driver(), object->context());
    execute_as_given(object->executable(), inputs, outputs, given, object->plan().fusion);
  });
}

sinter_status sinter_executable_check_indices(const sinter_executable* executable,
                                              const void* workspace, int64_t workspace_bytes,
                                              sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<ExecutableObject>(executable);
    taken(object->executable().check_indices(std::bit_cast<DevicePointer>(workspace),
                                             workspace_bytes));
  });
}

}  // extern "C"

}  // namespace sinter::c_api
