#pragma once

#include <span>
#include <string>
#include <string_view>

#include "fusion_ir/result.h"

namespace sinter {

/// A shared library opened at run time. It stays loaded until the process ends, because the
/// libraries Sinter opens keep threads and exit handlers of their own; so a SharedLibrary copies
/// freely and its symbols never dangle.
class SharedLibrary {
 public:
  /// Opens the first of `candidates` (paths, or names the loader searches for) that loads. Fails
  /// with kDeviceError, the loader's message for each candidate in the log.
  static Result<SharedLibrary> open(std::span<const std::string> candidates, std::string_view what,
                                    std::string_view remedy);

  /// Null if there is no such symbol.
  [[nodiscard]] void* symbol(const char* name) const;

  /// Points `slot` at a function; null if there is none.
  template <class Function>
  void resolve(const char* name, Function*& slot) const {
    slot = reinterpret_cast<Function*>(symbol(name));
  }
  /// The same; appends the name to the list `missing` if there is none.
  template <class Function>
  void resolve(const char* name, Function*& slot, std::string& missing) const {
    resolve(name, slot);
    if (slot == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }

  /// Path the loader found, with links resolved where possible.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// What identifies the library's contents: its GNU build id in hex where it has one, else its
  /// resolved path, size and time of modification.
  [[nodiscard]] std::string identity() const;

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace sinter
