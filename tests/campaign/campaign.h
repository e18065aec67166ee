#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/campaign/worker.h"

namespace sinter {

struct CampaignOptions {
  uint64_t first = 0;   ///< Of the seeds,
  uint64_t last = 200;  ///< up to but without this one.
  int jobs = 1;
  std::filesystem::path state{};     ///< What is done; empty: nothing is kept.
  std::filesystem::path report{};    ///< JSON; empty: none.
  std::filesystem::path findings{};  ///< Folder for minimised cases; empty: none are written.
  std::string commit = "unknown";    ///< Of the sources, for state and report.
  WorkLimits limits{};               ///< For each seed.
  /// Cases that are made smaller of each group of findings: one wording may have several causes.
  size_t minimised_of_group = 6;
  double minimise_seconds = 60.0;  ///< For each of them.
  bool is_quiet = false;           ///< Prints no progress.
};

/// Checks the case of every seed, each in a process that may crash or hang, and goes on where an
/// earlier run with the same state ended. Returns the number of seeds with findings. Throws
/// std::runtime_error where a file cannot be read or written, or is that of another campaign.
int64_t run_campaign(const CampaignOptions& options);

}  // namespace sinter
