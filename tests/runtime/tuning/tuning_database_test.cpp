#include "runtime/tuning/tuning_database.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/runtime/scratch_directory.h"
#include "tests/support/canned_fusions.h"

namespace sinter::tuning_database_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Mode = TuningDatabase::Mode;

TuningRecord record(uint64_t segment, double tuned_us, std::string measured_at,
                    std::string graph = "00000000000000aa") {
  return {.key = {.graph = std::move(graph),
                  .extents = "cols=4096 rows=8192",
                  .device = "H200 sm_90 132 SMs",
                  .toolkit = "NVRTC 13.0 abc",
                  .grammar = kScheduleGrammar},
          .tuned = {.segment = segment,
                    .schedule = fmt::format("schedule looped {{ vector_width {} }}", segment),
                    .tuned_us = tuned_us,
                    .untuned_us = 20.0,
                    .samples = 15},
          .fusion = "rms_norm",
          .measured_at = std::move(measured_at)};
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class TuningDatabaseTest : public ::testing::Test {
 protected:
  [[nodiscard]] TuningDatabase make(const std::string& name) const {
    auto made = TuningDatabase::open(scratch_.path() / name, Mode::kCreate);
    if (!made) throw SinterException(made.error());
    return std::move(*made);
  }
  ScratchDirectory scratch_;
};

TEST_F(TuningDatabaseTest, KeepsWhatIsStored) {
  const TuningRecord first = record(1, 10.0, "2026-11-23T10:00:00Z");
  const TuningRecord second = record(2, 5.5, "2026-11-23T10:00:00Z");
  const TuningRecord other = record(1, 7.0, "2026-11-23T10:00:00Z", "00000000000000bb");
  ASSERT_TRUE(make("t.db").store({second, first, other}));
  const auto again = TuningDatabase::open(scratch_.path() / "t.db", Mode::kRead);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_THAT(again->list().value(), ElementsAre(first, second, other));
  const auto found = again->find(first.key);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->schedules, ElementsAre(first.tuned, second.tuned));
  EXPECT_EQ(found->source, (scratch_.path() / "t.db").string());
}

TEST_F(TuningDatabaseTest, EveryPartOfTheKeyCounts) {
  TuningDatabase database = make("t.db");
  const TuningRecord one = record(1, 10.0, "2026-11-23T10:00:00Z");
  ASSERT_TRUE(database.store({one}));
  const auto misses = [&](auto change) {
    TuningKey key = one.key;
    change(key);
    return database.find(key).value().empty();
  };
  EXPECT_FALSE(misses([](TuningKey&) {}));
  EXPECT_TRUE(misses([](TuningKey& key) { key.graph = "00000000000000ab"; }));
  EXPECT_TRUE(misses([](TuningKey& key) { key.extents = "cols=4096 rows=8193"; }));
  EXPECT_TRUE(misses([](TuningKey& key) { key.device = "H100 sm_90 132 SMs"; }));
  EXPECT_TRUE(misses([](TuningKey& key) { key.toolkit = "NVRTC 13.0 abd"; }));
  EXPECT_TRUE(misses([](TuningKey& key) { ++key.grammar; }));
}

TEST_F(TuningDatabaseTest, ANewMeasurementReplacesAnOldOne) {
  TuningDatabase database = make("t.db");
  ASSERT_TRUE(database.store({record(1, 10.0, "2026-11-23T10:00:00Z")}));
  const TuningRecord slower = record(1, 12.0, "2026-11-24T10:00:00Z");
  ASSERT_TRUE(database.store({slower}));
  EXPECT_THAT(database.list().value(), ElementsAre(slower));
}

TEST_F(TuningDatabaseTest, MergingKeepsTheFasterAndOfEqualsTheNewer) {
  const TuningRecord old_and_fast = record(1, 10.0, "2026-11-20T10:00:00Z");
  const TuningRecord new_and_slow = record(1, 11.0, "2026-11-23T10:00:00Z");
  EXPECT_TRUE(replaces(old_and_fast, new_and_slow));
  EXPECT_FALSE(replaces(new_and_slow, old_and_fast));
  const TuningRecord new_and_same =
      record(1, 10.0 * (1.0 + 0.9 * kSameTimeShare), "2026-11-23T10:00:00Z");
  EXPECT_TRUE(replaces(new_and_same, old_and_fast));
  EXPECT_FALSE(replaces(old_and_fast, new_and_same));
  EXPECT_FALSE(replaces(old_and_fast, old_and_fast));
}

TEST_F(TuningDatabaseTest, MergingEitherWayGivesTheSame) {
  const std::vector<TuningRecord> mine = {record(1, 10.0, "2026-11-20T10:00:00Z"),
                                          record(2, 5.0, "2026-11-20T10:00:00Z"),
                                          record(3, 4.0, "2026-11-20T10:00:00Z")};
  const std::vector<TuningRecord> theirs = {record(1, 9.0, "2026-11-19T10:00:00Z"),
                                            record(2, 6.0, "2026-11-23T10:00:00Z"),
                                            record(4, 1.0, "2026-11-23T10:00:00Z")};
  TuningDatabase a = make("a.db");
  TuningDatabase b = make("b.db");
  ASSERT_TRUE(a.store(mine));
  ASSERT_TRUE(b.store(theirs));
  TuningDatabase untouched = make("c.db");
  ASSERT_TRUE(untouched.store(mine));
  EXPECT_EQ(a.merge(b).value(), (MergeReport{.added = 1, .replaced = 1, .kept = 1}));
  EXPECT_EQ(b.merge(untouched).value(), (MergeReport{.added = 1, .replaced = 1, .kept = 1}));
  EXPECT_EQ(a.list().value(), b.list().value());
  EXPECT_THAT(a.list().value(), ElementsAre(theirs[0], mine[1], mine[2], theirs[2]));
}

TEST_F(TuningDatabaseTest, WhatIsExportedIsImported) {
  TuningDatabase a = make("a.db");
  TuningRecord odd = record(~uint64_t{0}, 10.125, "2026-11-20T10:00:00Z");
  odd.fusion = "it's \"odd\"; DROP TABLE tuned";
  ASSERT_TRUE(a.store({odd, record(2, 1.0 / 3.0, "2026-11-20T10:00:00Z")}));
  const auto text = a.export_json();
  ASSERT_TRUE(text);
  TuningDatabase b = make("b.db");
  EXPECT_EQ(b.import_json(*text).value().added, 2);
  EXPECT_EQ(b.list().value(), a.list().value());
  EXPECT_EQ(b.export_json().value(), *text);
}

TEST_F(TuningDatabaseTest, OtherTextIsNotImported) {
  TuningDatabase database = make("a.db");
  ASSERT_TRUE(database.store({record(1, 10.0, "2026-11-20T10:00:00Z")}));
  const std::string text = database.export_json().value();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = text;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  for (const std::string& other :
       {std::string(), std::string("[]"), std::string("{}"), with("sinter tuning", "other"),
        with("\"version\": 1", "\"version\": 2"), with("\"tuned_us\": 10.0", "\"tuned_us\": -1.0"),
        with("\"tuned_us\"", "\"us\""),
        with(fmt::format("\"grammar\": {}", kScheduleGrammar), "\"grammar\": \"x\""),
        text.substr(0, text.size() / 2)}) {
    TuningDatabase target = make("b.db");
    const auto refused = target.import_json(other);
    ASSERT_FALSE(refused) << other;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(target.list().value(), IsEmpty());
  }
}

TEST_F(TuningDatabaseTest, ForgetsByGraphByNameAndAll) {
  TuningDatabase database = make("t.db");
  TuningRecord softmax = record(1, 1.0, "2026-11-20T10:00:00Z", "00000000000000bb");
  softmax.fusion = "softmax";
  ASSERT_TRUE(database.store({record(1, 1.0, "2026-11-20T10:00:00Z"), softmax}));
  EXPECT_EQ(database.forget("gelu").value(), 0);
  EXPECT_EQ(database.forget("softmax").value(), 1);
  EXPECT_EQ(database.forget("00000000000000a").value(), 1);
  ASSERT_TRUE(database.store({softmax, record(1, 1.0, "2026-11-20T10:00:00Z")}));
  EXPECT_EQ(database.forget("").value(), 2);
}

TEST_F(TuningDatabaseTest, AMissingFileIsAnError) {
  const auto missing = TuningDatabase::open(scratch_.path() / "none.db", Mode::kRead);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr("none.db does not exist"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "none.db"));
  EXPECT_FALSE(TuningDatabase::open(scratch_.path() / "none.db", Mode::kWrite));
  EXPECT_THAT(TuningDatabase::open(scratch_.path(), Mode::kCreate).error().message,
              HasSubstr("is a directory"));
}

/// Opens a file that is no database of ours in all modes and expects it as it was.
void expect_refused(const std::filesystem::path& path, const std::string& message) {
  const std::string before = contents(path);
  for (const Mode mode : {Mode::kRead, Mode::kWrite, Mode::kCreate}) {
    const auto refused = TuningDatabase::open(path, mode);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(path.string()));
    EXPECT_THAT(refused.error().message, HasSubstr(message));
    EXPECT_FALSE(refused.error().remedy.empty());
  }
  EXPECT_EQ(contents(path), before) << "it was left as it is";
}

TEST_F(TuningDatabaseTest, AFileOfSomethingElseIsLeftAsItIs) {
  const auto path = scratch_.path() / "notes.txt";
  std::ofstream(path) << std::string(5000, 'x');
  expect_refused(path, "is no SQLite file");
}

TEST_F(TuningDatabaseTest, ADamagedFileIsLeftAsItIs) {
  const auto path = scratch_.path() / "t.db";
  {
    TuningDatabase database = make("t.db");
    std::vector<TuningRecord> records;
    for (uint64_t i = 1; i <= 400; ++i) records.push_back(record(i, 1.0, "2026-11-20T10:00:00Z"));
    ASSERT_TRUE(database.store(records));
  }
  const std::string whole = contents(path);
  ASSERT_GT(whole.size(), 16384U);
  std::string damaged = whole;
  std::fill(damaged.begin() + 8192, damaged.begin() + 12288, '\x5a');
  std::ofstream(path, std::ios::binary) << damaged;
  expect_refused(path, "is damaged");
  std::ofstream(path, std::ios::binary) << whole.substr(0, 4096 + 100);
  expect_refused(path, "is damaged");
}

TEST_F(TuningDatabaseTest, ADatabaseOfALaterVersionIsLeftAsItIs) {
  (void)make("t.db");
  const auto path = scratch_.path() / "t.db";
  std::string text = contents(path);
  ASSERT_EQ(text[63], '\x01');  // user_version, bytes 60 to 63 of the header, big-endian.
  text[63] = '\x02';
  std::ofstream(path, std::ios::binary) << text;
  expect_refused(path, "has version 2, this Sinter reads version 1");
  text[63] = '\x01';
  text[68] = 'X';  // application_id, bytes 68 to 71.
  std::ofstream(path, std::ios::binary) << text;
  expect_refused(path, "is an SQLite file of something else");
}

TEST_F(TuningDatabaseTest, AnEmptyPathIsRefused) {
  for (const Mode mode : {Mode::kRead, Mode::kWrite, Mode::kCreate}) {
    const auto refused = TuningDatabase::open("", mode);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("path of the tuning database is empty"));
  }
}

TEST_F(TuningDatabaseTest, AFifoIsNotWaitedFor) {
  const auto path = scratch_.path() / "t.db";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const Mode mode : {Mode::kRead, Mode::kWrite, Mode::kCreate}) {
    const auto refused = TuningDatabase::open(path, mode);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("is no regular file"));
  }
}

// A process that is killed right after it made the file leaves nothing in it.
TEST_F(TuningDatabaseTest, AFileInWhichNothingIsYetIsAnEmptyDatabase) {
  const auto path = scratch_.path() / "t.db";
  std::ofstream(path).flush();
  const auto reader = TuningDatabase::open(path, Mode::kRead);
  ASSERT_TRUE(reader) << reader.error().text();
  EXPECT_THAT(reader->list().value(), IsEmpty());
  auto writer = TuningDatabase::open(path, Mode::kWrite);
  ASSERT_TRUE(writer) << writer.error().text();
  ASSERT_TRUE(writer->store({record(1, 1.0, "2026-11-20T10:00:00Z")}));
  EXPECT_EQ(reader->list().value().size(), 1U);
}

/// A database in the state that a writer leaves who is killed while it commits: half of the pages
/// new, the journal with the old ones beside it.
class KilledWriterTest : public TuningDatabaseTest {
 protected:
  KilledWriterTest() {
    TuningDatabase database = make("t.db");
    std::vector<TuningRecord> records;
    for (uint64_t i = 1; i <= 100; ++i) records.push_back(record(i, 1.0, "2026-11-20T10:00:00Z"));
    if (!database.store(records)) throw std::runtime_error("not stored");
    stored_ = database.list().value();
  }
  /// Kills writers until one leaves a journal that has to be rolled back.
  void kill_writers() const {
    for (int attempt = 0; attempt < 200; ++attempt) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        for (double us = 2.0;; us += 1.0) {
          TuningDatabase database = make("t.db");
          std::vector<TuningRecord> records = stored_;
          for (TuningRecord& changed : records) changed.tuned.tuned_us = us;
          if (!database.store(records)) ::_exit(1);
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(3000 + 137 * attempt));
      ::kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status));
      if (std::filesystem::exists(journal_) && contents(journal_).substr(0, 8) == kJournalMagic)
        return;
    }
    FAIL() << "no writer was killed while it wrote";
  }
  /// All records of one change, whichever it was.
  static void expect_one_change(const Result<std::vector<TuningRecord>>& records) {
    ASSERT_TRUE(records) << records.error().text();
    ASSERT_EQ(records->size(), 100U);
    for (const TuningRecord& one : *records)
      EXPECT_EQ(one.tuned.tuned_us, records->front().tuned.tuned_us);
  }

  const std::string kJournalMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::filesystem::path path_ = scratch_.path() / "t.db";
  std::filesystem::path journal_ = scratch_.path() / "t.db-journal";
  std::vector<TuningRecord> stored_;
};

TEST_F(KilledWriterTest, AReaderSeesOneChangeAndLeavesTheFiles) {
  const auto early = TuningDatabase::open(path_, Mode::kRead);
  ASSERT_TRUE(early);
  kill_writers();
  const std::string before = contents(path_);
  const std::string journal = contents(journal_);
  const auto reader = TuningDatabase::open(path_, Mode::kRead);
  ASSERT_TRUE(reader) << reader.error().text();
  expect_one_change(reader->list());
  expect_one_change(early->list());
  EXPECT_EQ(contents(path_), before);
  EXPECT_EQ(contents(journal_), journal);
  const auto writer = TuningDatabase::open(path_, Mode::kWrite);
  ASSERT_TRUE(writer) << writer.error().text();
  EXPECT_EQ(writer->list().value(), reader->list().value());
  EXPECT_FALSE(std::filesystem::exists(journal_));
}

TEST_F(KilledWriterTest, AReaderNeedsNoPermissionToWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  kill_writers();
  namespace fs = std::filesystem;
  const auto readable = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  fs::permissions(scratch_.path(), readable | fs::perms::owner_exec | fs::perms::group_exec |
                                       fs::perms::others_exec);
  for (const fs::path& file : {path_, journal_}) fs::permissions(file, readable);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    const auto reader = TuningDatabase::open(path_, Mode::kRead);
    if (!reader) {
      std::fputs((reader.error().text() + "\n").c_str(), stderr);
      ::_exit(3);
    }
    const auto records = reader->list();
    ::_exit(records && records->size() == 100 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(TuningDatabaseTest, ThreadsWriteOneFileAtOnce) {
  constexpr uint64_t kEach = 8;
  const auto path = scratch_.path() / "t.db";
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto database = TuningDatabase::open(path, Mode::kCreate);
      ASSERT_TRUE(database) << database.error().text();
      for (uint64_t i = 1; i <= kEach; ++i) {
        const auto stored = database->store({record(t * 100 + i, 1.0, "2026-11-20T10:00:00Z")});
        EXPECT_TRUE(stored) << stored.error().text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(make("t.db").list().value().size(), 4 * kEach);
}

TEST_F(TuningDatabaseTest, ProcessesWriteOneFileAtOnce) {
  constexpr uint64_t kEach = 8;
  const auto path = scratch_.path() / "t.db";
  std::vector<pid_t> children;
  for (uint64_t p = 0; p < 2; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    auto database = TuningDatabase::open(path, Mode::kCreate);
    bool right = database.has_value();
    for (uint64_t i = 1; right && i <= kEach; ++i)
      right = database->store({record(p * 100 + i, 1.0, "2026-11-20T10:00:00Z")}).has_value();
    _exit(right ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(make("t.db").list().value().size(), 2 * kEach);
}

TEST(TuningKeyTest, NamesOfValuesAreNoMatterAndSizesAre) {
  const DeviceLimits limits = *find_device("H200");
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  const ExtentValues sizes = {{"rows", 4096}, {"cols", 8192}};
  const auto key = tuning_key(fusion, sizes, limits, "NVRTC 13.0 abc");
  ASSERT_TRUE(key) << key.error().text();
  EXPECT_EQ(key->extents, "cols=8192 rows=4096");
  EXPECT_THAT(key->device, HasSubstr("H200 sm_90 132 SMs"));
  Fusion renamed = fusion;
  renamed.name = "other";
  EXPECT_EQ(tuning_key(renamed, sizes, limits, "NVRTC 13.0 abc"), key);
  EXPECT_NE(tuning_key(fusion, {{"rows", 4096}, {"cols", 4096}}, limits, "NVRTC 13.0 abc"), key);
  EXPECT_NE(tuning_key(fusion, sizes, *find_device("H100"), "NVRTC 13.0 abc"), key);
  EXPECT_NE(tuning_key(fusion, sizes, limits, "NVRTC 13.0 abd"), key);
  EXPECT_FALSE(tuning_key(fusion, {{"rows", 4096}}, limits, ""));
  // A slice of a device is another device.
  DeviceLimits slice = limits;
  slice.sm_count = 60;
  EXPECT_NE(device_identity(slice), device_identity(limits));
}

}  // namespace sinter::tuning_database_test
