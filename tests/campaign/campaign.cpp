#include "tests/campaign/campaign.h"

#include <cstdio>
#include <deque>
#include <fstream>
#include <span>
#include <stdexcept>
#include <vector>

#include "tests/campaign/campaign_report.h"
#include "tests/campaign/minimise.h"
#include "tests/campaign/outcome_json.h"

namespace sinter {
namespace {

/// What a process of its own says about a case: the outcome, or that it did not get there.
Outcome outcome_of(const WorkResult& result) {
  if (result.failure.empty()) return outcome_from(nlohmann::json::parse(result.text));
  return {.findings = {{.what = "process", .where = "", .text = result.failure}}};
}

std::string text_of_outcome(const Outcome& outcome) {
  return to_json(outcome).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string check_seed(uint64_t seed) {
  Case drawn;
  try {
    drawn = draw_case(seed);
  } catch (const std::exception& error) {
    return text_of_outcome(
        {.findings = {{.what = "drawing throws", .where = "", .text = error.what()}}});
  }
  return text_of_outcome(check_case(drawn));
}

/// Writes beside the place and renames, so that a file is there as a whole or not at all.
void write_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path beside = path.string() + ".new";
  {
    std::ofstream file(beside);
    file << text;
    if (!file.flush()) throw std::runtime_error(path.string() + " cannot be written");
  }
  std::filesystem::rename(beside, path);
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options)
      : options_(options), state_(options.state, options.commit), started_(steady_seconds()) {
    for (uint64_t seed = options.first; seed < options.last; ++seed) {
      if (!state_.results().contains(seed)) pending_.push_back(seed);
    }
    to_do_ = pending_.size();
  }

  int64_t run() {
    check_seeds();
    std::map<uint64_t, SeedResult> results;
    for (const auto& [seed, result] : state_.results()) {
      if (seed >= options_.first && seed < options_.last) results.emplace(seed, result);
    }
    int64_t with_findings = 0;
    for (const auto& [seed, result] : results) {
      if (!result.outcome.findings.empty()) ++with_findings;
    }
    report(results);
    if (!options_.findings.empty()) minimise_findings(results);
    return with_findings;
  }

 private:
  void check_seeds() {
    std::vector<Worker> workers;
    for (int i = 0; i < std::max(options_.jobs, 1); ++i)
      workers.emplace_back(check_seed, options_.limits);
    while (done_ < to_do_) {
      for (Worker& worker : workers) {
        if (worker.is_busy()) {
          const uint64_t seed = worker.piece();
          const auto result = worker.poll();
          if (!result) continue;
          finish(seed, outcome_of(*result), result->cpu_seconds);
        }
        if (pending_.empty()) continue;
        worker.start(pending_.front());
        pending_.pop_front();
      }
      constexpr int kPatience = 200;  // Milliseconds between looks at the clock.
      wait_for_any(workers, kPatience);
    }
    progress(true);
  }

  void finish(uint64_t seed, Outcome outcome, double seconds) {
    ++done_;
    if (!outcome.findings.empty()) {
      const CaseFinding& first = outcome.findings.front();
      say("seed {}, {} findings: {}, {}: {}", seed, outcome.findings.size(), first.what,
          first.where, wording_of(first.text));
    }
    if (!outcome.findings.empty()) ++found_;
    state_.add(seed, {.outcome = std::move(outcome), .seconds = seconds});
    progress(false);
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (options_.is_quiet) return;
    fmt::print(stderr, "campaign: {}\n", fmt::format(format, std::forward<Args>(args)...));
  }

  void progress(bool is_last) {
    constexpr double kSecondsBetween = 10.0;
    const double now = steady_seconds();
    if (!is_last && now - spoken_ < kSecondsBetween) return;
    spoken_ = now;
    const double rate = static_cast<double>(done_) / std::max(now - started_, 1e-3);
    const double left = static_cast<double>(to_do_ - done_) / std::max(rate, 1e-9);
    say("{} of {} seeds done, {} of this run, {} of them with findings; {:.1f} a second, {:.0f} "
        "min "
        "left",
        options_.last - options_.first - (to_do_ - done_), options_.last - options_.first, done_,
        found_, rate, left / 60.0);
  }

  void report(const std::map<uint64_t, SeedResult>& results) const {
    if (options_.report.empty()) return;
    nlohmann::json json = report_of(results);
    json["first_seed"] = options_.first;
    json["last_seed"] = options_.last - 1;
    json["commit"] = options_.commit;
    json["jobs"] = options_.jobs;
    json["wall_seconds_of_last_run"] = steady_seconds() - started_;
    write_file(options_.report,
               json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  /// A small case of every group of findings, as a .fir file with its schedules beside it.
  void minimise_findings(const std::map<uint64_t, SeedResult>& results) const {
    for (const auto& [name, group] : group_findings(results)) {
      if (group.example.what == "drawing throws") continue;  // There is no graph.
      const size_t few = std::min(group.seeds.size(), options_.minimised_of_group);
      for (const uint64_t seed : std::span(group.seeds).first(few)) {
        std::string stem;
        for (const char c : group.example.what.substr(0, 40))
          stem += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c : '_';
        const std::filesystem::path base =
            options_.findings / fmt::format("seed_{}_{}", seed, stem);
        const std::filesystem::path fir = base.string() + ".fir";
        if (std::filesystem::exists(fir)) continue;
        std::filesystem::create_directories(options_.findings);
        say("making seed {} smaller: {}", seed, name);
        write_minimised(draw_case(seed), group.example.what, base);
      }
    }
  }

  void write_minimised(const Case& drawn, const std::string& what,
                       const std::filesystem::path& base) const {
    const double end = steady_seconds() + options_.minimise_seconds;
    WorkLimits limits = options_.limits;
    // A case that hangs is to be tried more than once.
    limits.cpu_seconds = std::min(limits.cpu_seconds, options_.minimise_seconds / 6);
    limits.wall_seconds = std::min(limits.wall_seconds, options_.minimise_seconds / 2);
    const auto check = [&](const Case& candidate) {
      return outcome_of(
          run_isolated([&] { return text_of_outcome(check_case(candidate)); }, limits));
    };
    const auto fails = [&](const Case& candidate) {
      const Outcome outcome = check(candidate);
      return std::ranges::any_of(outcome.findings,
                                 [&](const CaseFinding& finding) { return finding.what == what; });
    };
    const Case small = minimise(drawn, fails, [&] { return steady_seconds() > end; });
    std::string comment;
    std::string schedules;
    for (const CaseFinding& finding : check(small).findings) {
      comment += fmt::format("; {}", finding.what);
      if (!finding.where.empty()) comment += fmt::format(", {}", finding.where);
      comment += fmt::format(": {}\n", finding.text.substr(0, finding.text.find('\n')));
      if (schedules.empty()) schedules = finding.schedules;
    }
    write_file(base.string() + ".fir", comment + print_case(small));
    if (!schedules.empty()) write_file(base.string() + ".sched", schedules);
  }

  const CampaignOptions& options_;
  CampaignState state_;
  std::deque<uint64_t> pending_;
  size_t to_do_ = 0;
  size_t done_ = 0;
  size_t found_ = 0;
  double started_;
  double spoken_ = 0.0;
};

}  // namespace

int64_t run_campaign(const CampaignOptions& options) { return Campaign(options).run(); }

}  // namespace sinter
