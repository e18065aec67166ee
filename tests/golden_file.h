#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace sinter {

/// Expects a reviewed file to have this text, or with SINTER_UPDATE_GOLDEN set (and not 0) writes
/// it there.
inline void expect_golden(const char* path, const std::string& text) {
  const char* update = std::getenv("SINTER_UPDATE_GOLDEN");
  if (update != nullptr && *update != '\0' && std::string_view(update) != "0") {
    std::ofstream(path) << text;
    return;
  }
  std::ostringstream reviewed;
  reviewed << std::ifstream(path).rdbuf();
  EXPECT_EQ(reviewed.str(), text) << "if this is meant, rewrite the file as it says at its top";
}

}  // namespace sinter
