#include "fusion_ir/text_position.h"
#include "runtime/tuning/tuning_database.h"
#include "runtime/tuning/tuning_json.h"
#include "tools/command.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

using Mode = TuningDatabase::Mode;

Error misused(std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

Result<Report> list(const TuningDatabase& database) {
  auto records = database.list();
  if (!records) return fail(records.error());
  Report report{.json = to_json(*records)};
  for (const TuningRecord& record : *records) {
    report.text +=
        fmt::format("{} {:24} {:28} {:9.2f} us, untuned {:9.2f} us  {}  {}\n", record.key.graph,
                    record.fusion, record.key.extents, record.tuned.tuned_us,
                    record.tuned.untuned_us, record.key.device, record.measured_at);
  }
  report.text += fmt::format("{} measured schedule(s)\n", records->size());
  return report;
}

Result<std::vector<TuningRecord>> records_of_database(const std::string& path) {
  const auto database = TuningDatabase::open(path, Mode::kRead);
  if (!database) return fail(database.error());
  return database->list();
}

Result<std::vector<TuningRecord>> records_of_json(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  auto records = records_from_json(*text);
  if (!records) return fail(in_file(records.error(), shown(path)));
  return records;
}

/// Reads what is taken over before the database is made that takes it.
Result<Report> take_over(const TuningArguments& arguments) {
  if (arguments.other.empty())
    return fail(misused(fmt::format("{} needs a second file", arguments.action),
                        "name what to take over from behind the database"));
  const auto records = arguments.action == "merge" ? records_of_database(arguments.other)
                                                   : records_of_json(arguments.other);
  if (!records) return fail(records.error());
  auto database = TuningDatabase::open(arguments.database, Mode::kCreate);
  if (!database) return fail(database.error());
  const auto done = database->merge(*records);
  if (!done) return fail(done.error());
  return Report{
      .text = fmt::format("{} added, {} replaced, {} kept as they were\n", done->added,
                          done->replaced, done->kept),
      .json = {{"added", done->added}, {"replaced", done->replaced}, {"kept", done->kept}}};
}

Result<Report> forget(TuningDatabase& database, const TuningArguments& arguments) {
  if (arguments.other.empty() != arguments.all)
    return fail(misused("it is not said what to forget",
                        "name a fusion or how a graph's hash begins, or give --all alone"));
  auto forgotten = database.forget(arguments.other);
  if (!forgotten) return fail(forgotten.error());
  return Report{.text = fmt::format("{} forgotten\n", *forgotten),
                .json = {{"forgotten", *forgotten}}};
}

}  // namespace

Result<Report> tuning_command(const TuningArguments& arguments) {
  if (arguments.action == "merge" || arguments.action == "import") return take_over(arguments);
  const bool forgets = arguments.action == "forget";
  auto database = TuningDatabase::open(arguments.database, forgets ? Mode::kWrite : Mode::kRead);
  if (!database) return fail(database.error());
  if (forgets) return forget(*database, arguments);
  if (arguments.action == "list") return list(*database);
  auto text = database->export_json();
  if (!text) return fail(text.error());
  return Report{.text = *text, .json = nlohmann::ordered_json::parse(*text)};
}

}  // namespace sinter::tool
