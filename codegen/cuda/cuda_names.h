#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace sinter {

/// Hands out CUDA C++ identifiers: each is made from a wish, is no keyword and no name that the
/// language, NVRTC or the device headers use, and is given out once.
class CudaNames {
 public:
  std::string take(std::string_view wish);

 private:
  std::unordered_set<std::string> taken_;
};

}  // namespace sinter
