#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace sinter {

struct Outcome {
  int exit_code = -1;  ///< -1: a signal ended it.
  std::string output;
};

/// Runs a command in a shell and reads its standard output.
inline Outcome run_in_shell(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  Outcome out;
  std::array<char, 4096> buffer;
  for (size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    out.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

}  // namespace sinter
