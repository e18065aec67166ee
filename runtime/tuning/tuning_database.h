#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tuning/tune.h"
#include "runtime/tuning/tuning_key.h"

namespace sinter {

/// What was measured of one segment.
struct TuningRecord {
  TuningKey key{};
  TunedSchedule tuned{};
  std::string fusion{};       ///< Its name, for people.
  std::string measured_at{};  ///< UTC, "2026-11-23T20:15:00Z": texts compare as times do.
  friend bool operator==(const TuningRecord&, const TuningRecord&) = default;
};

/// True if `other` replaces `kept`, which is about the same, where databases meet: it is faster by
/// more than kSameTimeShare, or as fast and newer. Of equals the lesser text stays, so that merging
/// in any order gives the same.
bool replaces(const TuningRecord& other, const TuningRecord& kept);

/// Share within which two measured times count as the same where databases meet: the floor below
/// which tune() calls a difference noise.
inline constexpr double kSameTimeShare = kNoiseFloor;

struct MergeReport {
  int64_t added = 0;
  int64_t replaced = 0;
  int64_t kept = 0;  ///< Those of this database stayed.
  friend bool operator==(const MergeReport&, const MergeReport&) = default;
};

/// Measured schedules in an SQLite file. Several processes and threads may use one file at once,
/// each with an object of its own: a change is one transaction, and who finds the file locked asks
/// again every few milliseconds, for kBusyMilliseconds at most. A file that is damaged, or is
/// something else, is an error with its path, and stays as it is. An object is used by one thread
/// at a time.
///
/// A process killed while it writes leaves a journal, with which SQLite takes the change back. A
/// writer does so in place; a reader, who may have no permission to write, in a copy of its own
/// below the temporary directory. Either sees what was stored before.
class TuningDatabase {
 public:
  enum class Mode : uint8_t {
    kRead,    ///< There must be such a file; it is never written.
    kWrite,   ///< There must be such a file.
    kCreate,  ///< Made if it is not there, with its directory.
  };

  /// Errors: InvalidArgument (no path, no such file, damaged, foreign, of a later version, no
  /// permission); ResourceExhausted (no room, locked for too long); Unsupported without SQLite.
  static Result<TuningDatabase> open(const std::filesystem::path& path, Mode mode);

  TuningDatabase(TuningDatabase&& other) noexcept;
  TuningDatabase& operator=(TuningDatabase&&) = delete;
  ~TuningDatabase();

  /// The schedules measured for a key, for PlanOptions::tuned; empty if there are none.
  [[nodiscard]] Result<TunedChoices> find(const TuningKey& key) const;
  /// Everything, ascending by key and segment.
  [[nodiscard]] Result<std::vector<TuningRecord>> list() const;

  /// Keeps records, in the place of those about the same: a new measurement is worth more than an
  /// old one.
  [[nodiscard]] Result<void> store(const std::vector<TuningRecord>& records);
  /// Takes over what another database has more, or better (replaces()).
  [[nodiscard]] Result<MergeReport> merge(const TuningDatabase& other);
  /// The same from records that come from elsewhere.
  [[nodiscard]] Result<MergeReport> merge(const std::vector<TuningRecord>& records);
  /// The same from what export_json() wrote. Errors: InvalidArgument for other text; nothing is
  /// taken over then.
  [[nodiscard]] Result<MergeReport> import_json(std::string_view text);
  /// Drops what `graph` begins the graph's hash of, or that is about a fusion of this name; returns
  /// how many. Empty text: everything.
  [[nodiscard]] Result<int64_t> forget(std::string_view graph_or_fusion);

  /// Everything as JSON text, in a fixed order.
  [[nodiscard]] Result<std::string> export_json() const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  class Connection;
  TuningDatabase(std::filesystem::path path, std::unique_ptr<Connection> connection);
  /// Asks the file, or a copy where a killed writer's journal stands before it.
  template <class Question>
  auto ask(Question question) const -> decltype(question(std::declval<const Connection&>()));

  std::filesystem::path path_;
  std::unique_ptr<Connection> connection_;
};

/// The records of a result, measured at a time (utc_now()).
std::vector<TuningRecord> records_of(const TuneResult& result, const TuningKey& key,
                                     const std::string& measured_at);

/// "2026-11-23T20:15:00Z"
std::string utc_now();

/// How long a call waits for a database that others write.
inline constexpr int kBusyMilliseconds = 10'000;

}  // namespace sinter
