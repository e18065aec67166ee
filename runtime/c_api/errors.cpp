#include "runtime/c_api/errors.h"

#include <exception>
#include <new>

#include "fusion_ir/text_position.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/structs.h"

namespace sinter::c_api {
namespace {

constexpr std::string_view kInvalidHandle = "InvalidHandle";

/// This status is of no ErrorKind: it is told as an argument, under another name.
std::string with_kind(const std::string& form, std::string_view prefix, std::string_view kind) {
  const std::string_view told = sinter::name_of(ErrorKind::kInvalidArgument);
  return fmt::format("{}{}{}", prefix, kind, form.substr(prefix.size() + told.size()));
}

ErrorObject object_for(Error error) {
  std::string text = error.text();
  std::string json = error.json();
  return {.status = status_of(error.kind),
          .error = std::move(error),
          .text = std::move(text),
          .json = std::move(json)};
}

ErrorObject object_for(const InvalidHandle& invalid) {
  Error error{
      .kind = ErrorKind::kInvalidArgument,
      .message = fmt::format("{:#x} is no live {} handle", invalid.bits, name_of(invalid.expected)),
      .remedy = "pass what a call gave for this purpose, before it is released"};
  if (invalid.bits == 0)
    error.message = fmt::format("the {} handle is null", name_of(invalid.expected));
  ErrorObject out = object_for(std::move(error));
  out.status = SINTER_INVALID_HANDLE;
  out.text = with_kind(out.text, "", kInvalidHandle);
  out.json = with_kind(out.json, "{\"kind\":\"", kInvalidHandle);
  return out;
}

sinter_status give(sinter_error** error, ErrorObject object) {
  const sinter_status status = object.status;
  if (error != nullptr) *error = make_handle(std::move(object));
  return status;
}

sinter_status give_exception(sinter_error** error) {
  try {
    throw;
  } catch (const InvalidHandle& invalid) {
    return give(error, object_for(invalid));
  } catch (const SinterException& exception) {
    return give(error, object_for(exception.error()));
  } catch (const std::bad_alloc&) {
    return give(error, object_for(no_host_memory()));
  } catch (const std::exception& exception) {
    return give(error, object_for(Error{.kind = ErrorKind::kInternalError,
                                        .message = exception.what(),
                                        .remedy = "this is a defect in Sinter: please report it"}));
  } catch (...) {
    return give(error, object_for(Error{.kind = ErrorKind::kInternalError,
                                        .message = "an exception of an unknown type",
                                        .remedy = "this is a defect in Sinter: please report it"}));
  }
}

}  // namespace

sinter_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidFusion:
      return SINTER_INVALID_FUSION;
    case ErrorKind::kInvalidArgument:
      return SINTER_INVALID_ARGUMENT;
    case ErrorKind::kUnsupported:
      return SINTER_UNSUPPORTED;
    case ErrorKind::kResourceExhausted:
      return SINTER_RESOURCE_EXHAUSTED;
    case ErrorKind::kDeviceError:
      return SINTER_DEVICE_ERROR;
    case ErrorKind::kInternalError:
      return SINTER_INTERNAL_ERROR;
    case ErrorKind::kCancelled:
      return SINTER_CANCELLED;
  }
  unreachable();
}

ErrorKind kind_of(sinter_status status) {
  for (const ErrorKind kind :
       {ErrorKind::kInvalidFusion, ErrorKind::kInvalidArgument, ErrorKind::kUnsupported,
        ErrorKind::kResourceExhausted, ErrorKind::kDeviceError, ErrorKind::kCancelled}) {
    if (status_of(kind) == status) return kind;
  }
  return ErrorKind::kInternalError;
}

sinter_status report_exception(sinter_error** error) noexcept {
  try {
    return give_exception(error);
  } catch (...) {
    // Only memory can be missing for telling what happened.
    return SINTER_RESOURCE_EXHAUSTED;
  }
}

void bad_argument(std::string message, std::string remedy) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = std::move(message),
               .remedy = std::move(remedy)});
}

void require(const void* pointer, std::string_view name) {
  if (pointer == nullptr)
    bad_argument(fmt::format("{} is null", name), "sinter_c.h says what may be null");
}

void require(const void* pointer, size_t count, std::string_view name) {
  if (pointer == nullptr && count != 0) {
    bad_argument(fmt::format("{} is null, with a count of {}", name, count),
                 "pass as many elements as the count says");
  }
}

bool flag(int32_t field, std::string_view name) {
  if (field == 0 || field == 1) return field == 1;
  bad_argument(fmt::format("{} is {}", name, field), "give 0 or 1");
}

void require_zero(int32_t field, std::string_view name) {
  if (field != 0)
    bad_argument(fmt::format("{} is {}, which means nothing", name, field), "leave it at zero");
}

void require_index(size_t index, size_t count, std::string_view what) {
  if (index < count) return;
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("there is no {} {}", what, index),
               .remedy = fmt::format("there are {}, counted from 0", count),
               .measured = static_cast<int64_t>(index),
               .limit = static_cast<int64_t>(count) - 1});
}

extern "C" {

const char* sinter_status_name(sinter_status status) {
  if (status == SINTER_OK) return "OK";
  if (status == SINTER_INVALID_HANDLE) return kInvalidHandle.data();
  if (status < SINTER_OK || status > SINTER_CANCELLED) return "unknown";
  return sinter::name_of(kind_of(status)).data();
}

sinter_status sinter_error_describe(const sinter_error* error, sinter_error_info* info) {
  return guarded(nullptr, [&] {
    const auto object = object_of<ErrorObject>(error);
    const Error& detail = object->error;
    const auto position = position_of(detail).value_or(TextPosition{});
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_error_info),
                 .status = object->status,
                 .has_measured = detail.measured ? 1 : 0,
                 .has_limit = detail.limit ? 1 : 0,
                 .reserved = 0,
                 .measured = detail.measured.value_or(0),
                 .limit = detail.limit.value_or(0),
                 .kind = sinter_status_name(object->status),
                 .message = detail.message.c_str(),
                 .remedy = detail.remedy.c_str(),
                 .log = detail.log.c_str(),
                 .text = object->text.c_str(),
                 .json = object->json.c_str(),
                 .line = static_cast<int64_t>(position.line),
                 .column = static_cast<int64_t>(position.column)});
  });
}

sinter_status sinter_error_release(sinter_error* error) {
  return guarded(nullptr, [&] { release<ErrorObject>(error); });
}

}  // extern "C"

}  // namespace sinter::c_api
