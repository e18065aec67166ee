#include "tests/campaign/campaign_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "tests/campaign/outcome_json.h"

namespace sinter {

CampaignState::CampaignState(const std::filesystem::path& path, const std::string& commit) {
  if (path.empty()) return;
  const nlohmann::json header = {{"campaign", 1}, {"commit", commit}};
  size_t whole = 0;  // Bytes of whole lines.
  {
    std::ifstream file(path);
    bool is_first = true;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded()) throw std::runtime_error(path.string() + " is no campaign's state");
      if (is_first && json != header) {
        throw std::runtime_error(
            fmt::format("{} is the state of another campaign, {}; this one is "
                        "of commit {}: remove it or name another file",
                        path.string(), line, commit));
      }
      if (!is_first) {
        results_[json.at("seed")] = {.outcome = outcome_from(json.at("outcome")),
                                     .seconds = json.at("seconds")};
      }
      is_first = false;
      whole += line.size() + 1;
    }
  }
  constexpr mode_t kMode = 0644;
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, kMode);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(whole)) != 0)
    throw std::runtime_error(path.string() + " cannot be written");
  if (whole == 0) append(header.dump());
}

CampaignState::~CampaignState() {
  if (file_ >= 0) close(file_);
}

void CampaignState::append(const std::string& line) {
  const std::string text = line + "\n";
  if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the campaign's state cannot be written");
}

void CampaignState::add(uint64_t seed, SeedResult result) {
  if (file_ >= 0) {
    append(nlohmann::json{
        {"seed", seed}, {"seconds", result.seconds}, {"outcome", to_json(result.outcome)}}
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  results_[seed] = std::move(result);
}

}  // namespace sinter
