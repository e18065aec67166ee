#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/driver/event_timer.h"
#include "runtime/tuning/device_measurer.h"
#include "runtime/tuning/tune.h"
#include "tools/problem.h"

namespace sinter::tool {

/// What a command has to say, in both forms; main prints one of them.
struct Report {
  std::string text{};
  nlohmann::ordered_json json{};
  bool passed = true;         ///< False: the command worked and found something wrong.
  bool device_hangs = false;  ///< End the process without waiting for it.
};

struct PlanArguments {
  ProblemOptions problem{};
  std::string form = "text";  ///< text, sched, fir or candidates.
  std::string save_file{};    ///< Where the plan is saved; empty: nowhere.
};

struct ExplainArguments {
  ProblemOptions problem{};
  std::vector<std::string> sweeps{};  ///< "cols=1024..65536:x2"; none: one plan is explained.
  std::string
      svg_file{};  ///< Where the drawing of the plan, or the map, goes; "-": it is the text.
  std::string dot_file{};  ///< The same for the plan's drawing for Graphviz.
};

struct DiffArguments {
  ProblemOptions problem{};  ///< Of a; b has the same options but for those below.
  std::string source_b{};
  std::vector<std::string> extents_b{};
  std::string device_b{};  ///< Empty: that of a.
  std::string schedule_file_b{};
};

struct EmitArguments {
  ProblemOptions problem{};
  std::string form = "cuda";  ///< cuda or kir.
};

struct CompileArguments {
  ProblemOptions problem{};
  std::string output{};  ///< The folder that gets the cubins; empty: none are written.
  int threads = 1;
};

struct DevicesArguments {
  bool constants = false;  ///< Those of the cost model instead of the limits.
  std::string device{};    ///< The one to show: a preset, "live" or a file; empty: all.
};

struct CheckArguments {
  ProblemOptions problem{};
  uint64_t seed = 1;
  std::vector<std::string> data{};     ///< Names of sample data; empty: as many as are affordable.
  std::vector<std::string> inputs{};   ///< "x=file.npy": replace sample data.
  std::vector<std::string> outputs{};  ///< "y=file.npy": where the interpreter's results go.
};

struct RunArguments {
  ProblemOptions problem{.device = "live"};
  uint64_t seed = 1;
  int samples = TimingOptions{}.samples;
};

struct TuneArguments {
  ProblemOptions problem{.device = "live"};
  uint64_t seed = 1;
  double budget_seconds = TuneOptions{}.budget_seconds;
  size_t top = TuneOptions{}.top;
  int samples = TuneOptions{}.samples;
  double launch_limit_seconds = DeviceMeasurerOptions{}.launch_limit_seconds;
  std::string database{};  ///< Where the result is kept; empty: nowhere.
};

struct TuningArguments {
  std::string action{};  ///< list, export, import, merge or forget.
  std::string database{};
  std::string other{};  ///< Another database, exported text, or what to forget.
  bool all = false;     ///< Forget everything.
};

struct CacheArguments {
  std::string action{};     ///< list, verify, clear or stats.
  std::string directory{};  ///< Empty: as the environment says.
};

// The commands, each in a file of its own. main reads their arguments from the command line:
// parsing is slow to compile, and nothing else needs it.
Result<Report> list_command();
Result<Report> plan_command(const PlanArguments& arguments);
Result<Report> explain_command(const ExplainArguments& arguments);
Result<Report> diff_command(const DiffArguments& arguments);
Result<Report> emit_command(const EmitArguments& arguments);
Result<Report> check_command(const CheckArguments& arguments);
Result<Report> run_command(const RunArguments& arguments);
Result<Report> compile_command(const CompileArguments& arguments);
Result<Report> devices_command(const DevicesArguments& arguments);
Result<Report> cache_command(const CacheArguments& arguments);
Result<Report> tune_command(const TuneArguments& arguments);
Result<Report> tuning_command(const TuningArguments& arguments);

}  // namespace sinter::tool
