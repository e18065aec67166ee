#pragma once

#include <cstdint>
#include <cstdlib>

namespace sinter {

/// Whether a test takes all of its cases, which may take minutes: `ctest -C full` sets the variable
/// for the tests that sinter_add_test names under FULL. Other runs take a slice of them.
inline bool takes_all_cases() { return std::getenv("SINTER_ALL_CASES") != nullptr; }

/// Every `every`th case of nested loops, starting with case `first`; or all, see above. A slice has
/// every value of every loop if `every` shares no factor with the lengths of the inner ones.
class Slice {
 public:
  explicit Slice(int64_t every, int64_t first = 0)
      : every_(takes_all_cases() ? 1 : every), next_(every_ - first % every_) {}

  /// Asked once a case.
  bool takes() { return next_++ % every_ == 0; }

 private:
  int64_t every_;
  int64_t next_;
};

}  // namespace sinter
