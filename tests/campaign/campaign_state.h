#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/campaign/case.h"

namespace sinter {

/// What one seed came to.
struct SeedResult {
  Outcome outcome;
  double seconds = 0.0;  ///< Of CPU time.
};

/// The seeds that are done, in a file to which every result is appended as one line by one write.
/// Whenever the process ends, the file has all results but those in flight; half a line at its end
/// is dropped.
class CampaignState {
 public:
  /// Reads the file if there is one; an empty path keeps everything in memory. Throws
  /// std::runtime_error for the file of another commit.
  CampaignState(const std::filesystem::path& path, const std::string& commit);
  ~CampaignState();
  CampaignState(const CampaignState&) = delete;
  CampaignState& operator=(const CampaignState&) = delete;

  [[nodiscard]] const std::map<uint64_t, SeedResult>& results() const { return results_; }
  void add(uint64_t seed, SeedResult result);

 private:
  void append(const std::string& line);

  std::map<uint64_t, SeedResult> results_;
  int file_ = -1;
};

}  // namespace sinter
