#include "runtime/tuning/tuning_database.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>
#include <tuple>

#include "runtime/tuning/database_copy.h"
#include "runtime/tuning/sqlite_library.h"
#include "runtime/tuning/tuning_json.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

/// "SNTR": by which SQLite files of Sinter are told from others (PRAGMA application_id).
constexpr int64_t kApplicationId = 0x534E5452;
/// Raise when the table changes (PRAGMA user_version).
constexpr int64_t kDatabaseVersion = 1;

constexpr const char* kMakeTable =
    "CREATE TABLE tuned(graph TEXT NOT NULL, extents TEXT NOT NULL, device TEXT NOT NULL, "
    "toolkit TEXT NOT NULL, grammar INTEGER NOT NULL, segment TEXT NOT NULL, "
    "schedule TEXT NOT NULL, tuned_us REAL NOT NULL, untuned_us REAL NOT NULL, "
    "samples INTEGER NOT NULL, fusion TEXT NOT NULL, measured_at TEXT NOT NULL, "
    "PRIMARY KEY(graph, extents, device, toolkit, grammar, segment))";
constexpr const char* kColumns =
    "graph, extents, device, toolkit, grammar, segment, schedule, tuned_us, untuned_us, samples, "
    "fusion, measured_at";
constexpr const char* kAbout =
    "graph = ?1 AND extents = ?2 AND device = ?3 AND toolkit = ?4 AND grammar = ?5";

Error unusable(const fs::path& path, std::string_view what, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("the tuning database {} {}", path.string(), what),
          .remedy = std::move(remedy)};
}

constexpr const char* kOtherFile = "name another file, or move this one away; it was left as it is";

/// What a record is about.
auto subject_of(const TuningRecord& record) { return std::tie(record.key, record.tuned.segment); }

}  // namespace

/// An open file and what is asked of it.
class TuningDatabase::Connection {
 public:
  Connection(const SqliteLibrary& sqlite, fs::path path)
      : sqlite_(sqlite), path_(std::move(path)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { (void)sqlite_.close(handle_); }

  Result<void> open(int flags) { return open_file(path_, flags); }

  /// True if the last failure was a killed writer's journal, which a reader may not roll back.
  [[nodiscard]] bool met_a_journal() const {
    return is_reader_ && (last_failure_ & 0xff) == SQLITE_READONLY;
  }

  /// The same as it was before the killed writer's change, in a copy that only this one has.
  Result<std::unique_ptr<Connection>> recovered() const {
    auto folder = copy_database(path_, std::chrono::milliseconds(kBusyMilliseconds));
    if (!folder) return fail(std::move(folder.error()));
    auto out = std::make_unique<Connection>(sqlite_, path_);
    if (auto opened = out->open_file(folder->path() / kCopiedDatabase, SQLITE_OPEN_READWRITE);
        !opened)
      return fail(std::move(opened.error()));
    // Rolls back; afterwards the open file needs its names no more, and the folder goes.
    if (auto rolled_back = out->number("SELECT count(*) FROM sqlite_master"); !rolled_back)
      return fail(std::move(rolled_back.error()));
    return out;
  }

  /// Runs statements without parameters or rows.
  Result<void> run(const char* statements) const {
    const int status = sqlite_.exec(handle_, statements, nullptr, nullptr, nullptr);
    if (status != SQLITE_OK) return fail(error(status, "cannot be used"));
    return {};
  }

  /// A statement with its parameters.
  class Statement {
   public:
    Statement(const Connection& connection, sqlite3_stmt* handle)
        : connection_(connection), handle_(handle) {}
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    ~Statement() { (void)connection_.sqlite_.finalize(handle_); }

    // Texts are copied (SQLITE_TRANSIENT, which is a cast of -1 that warns).
    void bind(int at, const std::string& text) {
      const auto copied = reinterpret_cast<sqlite3_destructor_type>(intptr_t{-1});
      (void)connection_.sqlite_.bind_text(handle_, at, text.data(), static_cast<int>(text.size()),
                                          copied);
    }
    void bind(int at, int64_t value) { (void)connection_.sqlite_.bind_integer(handle_, at, value); }
    void bind(int at, double value) { (void)connection_.sqlite_.bind_real(handle_, at, value); }

    /// True: there is a row.
    Result<bool> step() {
      const int status = connection_.sqlite_.step(handle_);
      if (status == SQLITE_ROW) return true;
      if (status == SQLITE_DONE) return false;
      return fail(connection_.error(status, "cannot be used"));
    }
    [[nodiscard]] std::string text(int column) const {
      const auto* begin = reinterpret_cast<const char*>(connection_.sqlite_.text(handle_, column));
      const auto bytes = static_cast<size_t>(connection_.sqlite_.bytes(handle_, column));
      return begin == nullptr ? std::string() : std::string(begin, bytes);
    }
    [[nodiscard]] int64_t integer(int column) const {
      return connection_.sqlite_.integer(handle_, column);
    }
    [[nodiscard]] double real(int column) const {
      return connection_.sqlite_.real(handle_, column);
    }

   private:
    const Connection& connection_;
    sqlite3_stmt* handle_;
  };

  Result<std::unique_ptr<Statement>> prepare(const std::string& text) const {
    sqlite3_stmt* handle = nullptr;
    const int status = sqlite_.prepare(handle_, text.c_str(), -1, &handle, nullptr);
    if (status != SQLITE_OK) return fail(error(status, "cannot be used"));
    return std::make_unique<Statement>(*this, handle);
  }

  /// The number that a statement, a PRAGMA say, gives.
  Result<int64_t> number(const std::string& text) const {
    auto statement = prepare(text);
    if (!statement) return fail(std::move(statement.error()));
    auto row = (*statement)->step();
    if (!row) return fail(std::move(row.error()));
    return *row ? (*statement)->integer(0) : 0;
  }
  Result<std::string> text(const std::string& query) const {
    auto statement = prepare(query);
    if (!statement) return fail(std::move(statement.error()));
    auto row = (*statement)->step();
    if (!row) return fail(std::move(row.error()));
    return *row ? (*statement)->text(0) : std::string();
  }

  /// Runs `change` in a transaction that begins with the lock for writing, and so waits for others
  /// rather than fail half-way.
  template <class Change>
  auto transact(Change change) const -> decltype(change()) {
    if (auto begun = run("BEGIN IMMEDIATE"); !begun) return fail(std::move(begun.error()));
    auto changed = change();
    if (!changed) {
      (void)run("ROLLBACK");
      return changed;
    }
    if (auto done = run("COMMIT"); !done) {
      (void)run("ROLLBACK");
      return fail(std::move(done.error()));
    }
    return changed;
  }

  [[nodiscard]] int64_t changes() const { return sqlite_.changes(handle_); }

  Result<std::vector<TuningRecord>> records(const std::string& condition,
                                            const TuningKey* key) const {
    auto nothing = is_new();
    if (!nothing) return fail(std::move(nothing.error()));
    if (*nothing) return std::vector<TuningRecord>{};
    auto statement = prepare(fmt::format(
        "SELECT {} FROM tuned{} ORDER BY graph, extents, device, toolkit, grammar, segment",
        kColumns, condition));
    if (!statement) return fail(std::move(statement.error()));
    if (key != nullptr) bind_key(**statement, *key);
    std::vector<TuningRecord> out;
    while (true) {
      auto row = (*statement)->step();
      if (!row) return fail(std::move(row.error()));
      if (!*row) return out;
      const Statement& at = **statement;
      out.push_back({.key = {.graph = at.text(0),
                             .extents = at.text(1),
                             .device = at.text(2),
                             .toolkit = at.text(3),
                             .grammar = at.integer(4)},
                     .tuned = {.segment = segment_of(at.text(5)),
                               .schedule = at.text(6),
                               .tuned_us = at.real(7),
                               .untuned_us = at.real(8),
                               .samples = at.integer(9)},
                     .fusion = at.text(10),
                     .measured_at = at.text(11)});
    }
  }

  Result<void> put(const TuningRecord& record) const {
    auto statement = prepare(fmt::format(
        "INSERT OR REPLACE INTO tuned({}) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
        "?12)",
        kColumns));
    if (!statement) return fail(std::move(statement.error()));
    Statement& to = **statement;
    bind_key(to, record.key);
    to.bind(6, segment_text(record.tuned.segment));
    to.bind(7, record.tuned.schedule);
    to.bind(8, record.tuned.tuned_us);
    to.bind(9, record.tuned.untuned_us);
    to.bind(10, record.tuned.samples);
    to.bind(11, record.fusion);
    to.bind(12, record.measured_at);
    return to.step().map([](bool) {});
  }

  /// Says that a file is not one of ours, or damaged, where it is. One in which nothing is yet is
  /// ours: who made it was killed before it had a table.
  Result<void> check_contents() const {
    auto nothing = is_new();
    if (!nothing) return fail(std::move(nothing.error()));
    if (*nothing) return {};
    auto id = number("PRAGMA application_id");
    if (!id) return fail(std::move(id.error()));
    auto version = number("PRAGMA user_version");
    if (!version) return fail(std::move(version.error()));
    if (*id != kApplicationId)
      return fail(unusable(path_, "is an SQLite file of something else", kOtherFile));
    if (*version != kDatabaseVersion)
      return fail(unusable(
          path_,
          fmt::format("has version {}, this Sinter reads version {}", *version, kDatabaseVersion),
          "use the Sinter that wrote it, or name another file"));
    auto damage = text("PRAGMA quick_check(1)");
    if (!damage) return fail(std::move(damage.error()));
    if (*damage != "ok")
      return fail(unusable(path_, fmt::format("is damaged: {}", *damage), kOtherFile));
    return run("SELECT measured_at FROM tuned LIMIT 0");
  }

  /// True if nothing is in the file yet.
  Result<bool> is_new() const {
    auto tables = number("SELECT count(*) FROM sqlite_master");
    if (!tables) return fail(std::move(tables.error()));
    auto id = number("PRAGMA application_id");
    if (!id) return fail(std::move(id.error()));
    return *tables == 0 && *id == 0;
  }

  Result<void> make_table() const {
    return transact([&]() -> Result<void> {
      // Another process may have made it since.
      auto still_new = is_new();
      if (!still_new) return fail(std::move(still_new.error()));
      if (!*still_new) return {};
      return run(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; {}",
                             kApplicationId, kDatabaseVersion, kMakeTable)
                     .c_str());
    });
  }

  [[nodiscard]] Error error(int status, std::string_view otherwise) const {
    last_failure_ = status;
    const std::string said = handle_ != nullptr ? sqlite_.error_text(handle_) : "out of memory";
    switch (status & 0xff) {
      case SQLITE_NOTADB:
        return unusable(path_, "is no SQLite file", kOtherFile);
      case SQLITE_CORRUPT:
        return unusable(path_, fmt::format("is damaged: {}", said), kOtherFile);
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return {.kind = ErrorKind::kResourceExhausted,
                .message = fmt::format(
                    "the tuning database {} was locked by other processes for {} seconds",
                    path_.string(), kBusyMilliseconds / 1000),
                .remedy = "try again when they have finished; none of this change was stored",
                .limit = kBusyMilliseconds};
      case SQLITE_READONLY:
      case SQLITE_CANTOPEN:
      case SQLITE_PERM:
        return unusable(path_, fmt::format("{}: {}", otherwise, said),
                        "check that the file and its directory may be read and written");
      case SQLITE_FULL:
        return {
            .kind = ErrorKind::kResourceExhausted,
            .message = fmt::format("there is no room for the tuning database {}", path_.string()),
            .remedy = "free disk space"};
      default:
        return unusable(path_, fmt::format("{}: {}", otherwise, said),
                        "name another file if this one is no tuning database of Sinter");
    }
  }

 private:
  static void bind_key(Statement& statement, const TuningKey& key) {
    statement.bind(1, key.graph);
    statement.bind(2, key.extents);
    statement.bind(3, key.device);
    statement.bind(4, key.toolkit);
    statement.bind(5, key.grammar);
  }

  Result<void> open_file(const fs::path& file, int flags) {
    is_reader_ = (flags & SQLITE_OPEN_READONLY) != 0;
    // As an absolute path, since SQLite has meanings of its own for some names (":memory:").
    std::error_code code;
    const fs::path absolute = fs::absolute(file, code);
    const int status = sqlite_.open(absolute.c_str(), &handle_, flags, nullptr);
    if (status != SQLITE_OK) return fail(error(status, "cannot be opened"));
    (void)sqlite_.busy_handler(handle_, &Connection::wait, this);
    return {};
  }

  // Called by SQLite where others have locked the file; 0 gives up. Pauses stay short however long
  // it has waited: with growing ones, as sqlite3_busy_timeout() has them, those who came last would
  // mostly find the gaps between two changes.
  static int wait(void* self, int asked_before) {
    auto& connection = *static_cast<Connection*>(self);
    const auto now = std::chrono::steady_clock::now();
    if (asked_before == 0) connection.wait_began_ = now;
    if (now - connection.wait_began_ >= std::chrono::milliseconds(kBusyMilliseconds)) return 0;
    std::this_thread::sleep_for(kPauses[static_cast<size_t>(asked_before) % kPauses.size()]);
    return 1;
  }

  // Of different lengths, so that processes that wait do not keep step with one that writes.
  static constexpr std::array<std::chrono::microseconds, 5> kPauses = {
      std::chrono::microseconds(500), std::chrono::microseconds(1100),
      std::chrono::microseconds(2300), std::chrono::microseconds(3700),
      std::chrono::microseconds(5300)};

  const SqliteLibrary& sqlite_;
  fs::path path_;
  sqlite3* handle_ = nullptr;
  bool is_reader_ = false;
  mutable int last_failure_ = SQLITE_OK;
  std::chrono::steady_clock::time_point wait_began_{};
};

bool replaces(const TuningRecord& other, const TuningRecord& kept) {
  const double a = other.tuned.tuned_us;
  const double b = kept.tuned.tuned_us;
  if (std::max(a, b) > std::min(a, b) * (1.0 + kSameTimeShare)) return a < b;
  if (other.measured_at != kept.measured_at) return other.measured_at > kept.measured_at;
  if (a != b) return a < b;
  return other.tuned.schedule < kept.tuned.schedule;
}

Result<TuningDatabase> TuningDatabase::open(const fs::path& path, Mode mode) {
  auto sqlite = sqlite_library();
  if (!sqlite) return fail(std::move(sqlite.error()));
  if (path.empty()) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "the path of the tuning database is empty",
                 .remedy = "name a file"});
  }
  std::error_code code;
  if (fs::is_directory(path, code)) return fail(unusable(path, "is a directory", "name a file"));
  const bool exists = fs::exists(path, code);
  if (!exists && code)
    return fail(unusable(path, fmt::format("cannot be looked up: {}", code.message()),
                         "check the permissions of its directories"));
  if (exists && !fs::is_regular_file(path, code))
    return fail(unusable(path, "is no regular file", kOtherFile));
  if (!exists && mode != Mode::kCreate)
    return fail(unusable(path, "does not exist",
                         "make it with `sinter tune --database`, or name "
                         "another file"));
  if (!exists && path.has_parent_path()) {
    fs::create_directories(path.parent_path(), code);
    if (code)
      return fail(unusable(path, fmt::format("cannot be made: {}", code.message()),
                           "name a file in a directory that may be written"));
  }
  auto connection = std::make_unique<Connection>(**sqlite, path);
  const int flags = mode == Mode::kRead    ? SQLITE_OPEN_READONLY
                    : mode == Mode::kWrite ? SQLITE_OPEN_READWRITE
                                           : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (auto opened = connection->open(flags); !opened) return fail(std::move(opened.error()));
  if (mode != Mode::kRead) {
    auto is_new = connection->is_new();
    if (!is_new) return fail(std::move(is_new.error()));
    if (*is_new) {
      if (auto made = connection->make_table(); !made) return fail(std::move(made.error()));
    }
  }
  TuningDatabase out(path, std::move(connection));
  auto right = out.ask([](const Connection& from) { return from.check_contents(); });
  if (!right) return fail(std::move(right.error()));
  return out;
}

template <class Question>
auto TuningDatabase::ask(Question question) const
    -> decltype(question(std::declval<const Connection&>())) {
  auto out = question(*connection_);
  if (out || !connection_->met_a_journal()) return out;
  auto copy = connection_->recovered();
  if (!copy) return fail(std::move(copy.error()));
  return question(**copy);
}

TuningDatabase::TuningDatabase(fs::path path, std::unique_ptr<Connection> connection)
    : path_(std::move(path)), connection_(std::move(connection)) {}
TuningDatabase::TuningDatabase(TuningDatabase&& other) noexcept = default;
TuningDatabase::~TuningDatabase() = default;

Result<TunedChoices> TuningDatabase::find(const TuningKey& key) const {
  auto records = ask(
      [&](const Connection& from) { return from.records(fmt::format(" WHERE {}", kAbout), &key); });
  if (!records) return fail(std::move(records.error()));
  TunedChoices out{.source = path_.string()};
  for (TuningRecord& record : *records) out.schedules.push_back(std::move(record.tuned));
  return out;
}

Result<std::vector<TuningRecord>> TuningDatabase::list() const {
  return ask([](const Connection& from) { return from.records("", nullptr); });
}

Result<void> TuningDatabase::store(const std::vector<TuningRecord>& records) {
  return connection_->transact([&]() -> Result<void> {
    for (const TuningRecord& record : records) {
      if (auto put = connection_->put(record); !put) return put;
    }
    return {};
  });
}

Result<MergeReport> TuningDatabase::merge(const TuningDatabase& other) {
  auto records = other.list();
  if (!records) return fail(std::move(records.error()));
  return merge(*records);
}

Result<MergeReport> TuningDatabase::import_json(std::string_view text) {
  auto records = records_from_json(text);
  if (!records) return fail(std::move(records.error()));
  return merge(*records);
}

Result<MergeReport> TuningDatabase::merge(const std::vector<TuningRecord>& records) {
  return connection_->transact([&]() -> Result<MergeReport> {
    auto mine = list();
    if (!mine) return fail(std::move(mine.error()));
    MergeReport report;
    for (const TuningRecord& record : records) {
      const auto known = std::ranges::find_if(*mine, [&](const TuningRecord& other) {
        return subject_of(other) == subject_of(record);
      });
      if (known != mine->end() && !replaces(record, *known)) {
        ++report.kept;
        continue;
      }
      ++(known != mine->end() ? report.replaced : report.added);
      if (auto put = connection_->put(record); !put) return fail(std::move(put.error()));
      // Text from elsewhere may speak of one thing twice.
      if (known != mine->end()) {
        *known = record;
      } else {
        mine->push_back(record);
      }
    }
    return report;
  });
}

Result<int64_t> TuningDatabase::forget(std::string_view graph_or_fusion) {
  return connection_->transact([&]() -> Result<int64_t> {
    auto statement = connection_->prepare(
        "DELETE FROM tuned WHERE substr(graph, 1, length(?1)) = ?1 "
        "OR fusion = ?1");
    if (!statement) return fail(std::move(statement.error()));
    (*statement)->bind(1, std::string(graph_or_fusion));
    return (*statement)->step().map([&](bool) { return connection_->changes(); });
  });
}

Result<std::string> TuningDatabase::export_json() const {
  auto records = list();
  if (!records) return fail(std::move(records.error()));
  // A record's fields a line each, so that versions of a file can be compared.
  return to_json(*records).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<TuningRecord> records_of(const TuneResult& result, const TuningKey& key,
                                     const std::string& measured_at) {
  std::vector<TuningRecord> out;
  for (TunedSchedule& tuned : result.choices().schedules) {
    out.push_back({.key = key,
                   .tuned = std::move(tuned),
                   .fusion = result.plan.fusion.name,
                   .measured_at = measured_at});
  }
  return out;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  (void)gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace sinter
