#include "runtime/tuning/sqlite_library.h"

#include <array>
#include <cstdlib>

#include "runtime/driver/shared_library.h"

namespace sinter {
namespace {

constexpr std::string_view kRemedy =
    "install libsqlite3-0, or set SINTER_SQLITE to the path of libsqlite3.so.0; everything but the "
    "tuning database works without it";

Result<SqliteLibrary> load() {
  const char* from_environment = std::getenv("SINTER_SQLITE");
  const bool is_set = from_environment != nullptr && *from_environment != '\0';
  const std::array<std::string, 1> candidates = {is_set ? from_environment : "libsqlite3.so.0"};
  auto opened = SharedLibrary::open(candidates, "SQLite", kRemedy);
  if (!opened) {
    opened.error().kind = ErrorKind::kUnsupported;  // No device has anything to do with it.
    return fail(std::move(opened.error()));
  }
  SqliteLibrary out;
  std::string missing;
  opened->resolve("sqlite3_open_v2", out.open, missing);
  opened->resolve("sqlite3_close_v2", out.close, missing);
  opened->resolve("sqlite3_busy_handler", out.busy_handler, missing);
  opened->resolve("sqlite3_errmsg", out.error_text, missing);
  opened->resolve("sqlite3_exec", out.exec, missing);
  opened->resolve("sqlite3_prepare_v2", out.prepare, missing);
  opened->resolve("sqlite3_step", out.step, missing);
  opened->resolve("sqlite3_finalize", out.finalize, missing);
  opened->resolve("sqlite3_bind_text", out.bind_text, missing);
  opened->resolve("sqlite3_bind_int64", out.bind_integer, missing);
  opened->resolve("sqlite3_bind_double", out.bind_real, missing);
  opened->resolve("sqlite3_column_text", out.text, missing);
  opened->resolve("sqlite3_column_bytes", out.bytes, missing);
  opened->resolve("sqlite3_column_int64", out.integer, missing);
  opened->resolve("sqlite3_column_double", out.real, missing);
  opened->resolve("sqlite3_changes", out.changes, missing);
  if (missing.empty()) return out;
  return fail({.kind = ErrorKind::kUnsupported,
               .message = fmt::format("{} lacks {}", opened->path(), missing),
               .remedy = std::string(kRemedy)});
}

}  // namespace

Result<const SqliteLibrary*> sqlite_library() {
  static const Result<SqliteLibrary> library = load();
  if (!library) return fail(library.error());
  return &*library;
}

}  // namespace sinter
