#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "fusion_ir/result.h"
#include "runtime/c_api/sinter_c.h"

namespace sinter::c_api {

sinter_status status_of(ErrorKind kind);
/// The kind of a status that a callback gave; InternalError for one that names no kind.
ErrorKind kind_of(sinter_status status);

/// To be called while an exception is handled: its status, and its handle in `*error` if that is
/// not null.
sinter_status report_exception(sinter_error** error) noexcept;

/// Runs what a call does. Nothing that it throws gets out.
template <class Body>
sinter_status guarded(sinter_error** error, Body body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return SINTER_OK;
  } catch (...) {
    return report_exception(error);
  }
}

[[noreturn]] void bad_argument(std::string message, std::string remedy);

/// Refuses a null pointer.
void require(const void* pointer, std::string_view name);
/// Refuses a null pointer to elements, unless there are none.
void require(const void* pointer, size_t count, std::string_view name);
/// A field that is 0 or 1. Refuses others.
bool flag(int32_t field, std::string_view name);
/// Refuses a reserved field that is not zero.
void require_zero(int32_t field, std::string_view name);
/// Refuses an index that is not below `count`.
void require_index(size_t index, size_t count, std::string_view what);

}  // namespace sinter::c_api
