#pragma once

#include <sqlite3.h>

#include "fusion_ir/result.h"

namespace sinter {

/// The calls of SQLite that the tuning database makes, opened at run time as libcuda and NVRTC are:
/// what does not tune needs no libsqlite3, and libsinter.so stands alone.
struct SqliteLibrary {
  decltype(&sqlite3_open_v2) open = nullptr;
  decltype(&sqlite3_close_v2) close = nullptr;
  decltype(&sqlite3_busy_handler) busy_handler = nullptr;
  decltype(&sqlite3_errmsg) error_text = nullptr;
  decltype(&sqlite3_exec) exec = nullptr;
  decltype(&sqlite3_prepare_v2) prepare = nullptr;
  decltype(&sqlite3_step) step = nullptr;
  decltype(&sqlite3_finalize) finalize = nullptr;
  decltype(&sqlite3_bind_text) bind_text = nullptr;
  decltype(&sqlite3_bind_int64) bind_integer = nullptr;
  decltype(&sqlite3_bind_double) bind_real = nullptr;
  decltype(&sqlite3_column_text) text = nullptr;
  decltype(&sqlite3_column_bytes) bytes = nullptr;
  decltype(&sqlite3_column_int64) integer = nullptr;
  decltype(&sqlite3_column_double) real = nullptr;
  decltype(&sqlite3_changes) changes = nullptr;
};

/// Opens SINTER_SQLITE, or libsqlite3.so.0; once for the process. Errors: kUnsupported, with the
/// loader's words, when there is none.
Result<const SqliteLibrary*> sqlite_library();

}  // namespace sinter
