#include "runtime/c_api/handles.h"

#include <mutex>

#include "fusion_ir/error.h"

namespace sinter::c_api {
namespace {

static_assert(sizeof(HandleBits) == 8, "handles are made of 64 bits");

constexpr HandleBits kMark = HandleBits{0x51e7} << 48;
constexpr unsigned kKindBits = 4;

}  // namespace

std::string_view name_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::kError:
      return "error";
    case HandleKind::kText:
      return "text";
    case HandleKind::kBuilder:
      return "builder";
    case HandleKind::kFusion:
      return "fusion";
    case HandleKind::kDevice:
      return "device";
    case HandleKind::kRuntime:
      return "runtime";
    case HandleKind::kPlan:
      return "plan";
    case HandleKind::kExecutable:
      return "executable";
    case HandleKind::kTuningDatabase:
      return "tuning database";
    case HandleKind::kCompiled:
      return "compiled plan";
    case HandleKind::kRanged:
      return "ranged executable";
  }
  unreachable();
}

HandleBits HandleRegistry::add(HandleKind kind, std::shared_ptr<void> object) {
  const std::unique_lock lock(mutex_);
  const HandleBits bits = kMark | (next_ << kKindBits) | static_cast<HandleBits>(kind);
  entries_.emplace(bits, Entry{kind, std::move(object)});
  ++next_;
  return bits;
}

std::shared_ptr<void> HandleRegistry::find(HandleBits bits, HandleKind kind) const {
  const std::shared_lock lock(mutex_);
  const auto found = entries_.find(bits);
  if (found == entries_.end() || found->second.kind != kind) throw InvalidHandle{kind, bits};
  return found->second.object;
}

std::shared_ptr<void> HandleRegistry::remove(HandleBits bits, HandleKind kind) {
  const std::unique_lock lock(mutex_);
  const auto found = entries_.find(bits);
  if (found == entries_.end() || found->second.kind != kind) throw InvalidHandle{kind, bits};
  std::shared_ptr<void> out = std::move(found->second.object);
  entries_.erase(found);
  return out;  // Its last share may go after the lock.
}

size_t HandleRegistry::size() const {
  const std::shared_lock lock(mutex_);
  return entries_.size();
}

HandleRegistry& handles() {
  static HandleRegistry& registry = *new HandleRegistry;
  return registry;
}

}  // namespace sinter::c_api
