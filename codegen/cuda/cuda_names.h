#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace sinter {

/// Makes unique CUDA C++ identifiers from wished names. None is a keyword or a name that the
/// language, NVRTC or the device headers use.
class CudaNames {
 public:
  std::string take(std::string_view wish);

 private:
  std::unordered_set<std::string> taken_;
};

}  // namespace sinter
