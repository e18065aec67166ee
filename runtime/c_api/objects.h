#pragma once

#include <bit>
#include <memory>
#include <mutex>
#include <string>

#include "fusion_ir/fusion_builder.h"
#include "runtime/c_api/handles.h"
#include "runtime/c_api/sinter_c.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/plan/plan.h"

namespace sinter::c_api {

// What handles stand for. All but builders are not changed once they have a handle.

struct ErrorObject {
  static constexpr HandleKind kKind = HandleKind::kError;
  using Handle = sinter_error;
  sinter_status status = SINTER_INTERNAL_ERROR;
  Error error;
  std::string text;
  std::string json;
};

struct TextObject {
  static constexpr HandleKind kKind = HandleKind::kText;
  using Handle = sinter_text;
  std::string text;
};

struct BuilderObject {
  static constexpr HandleKind kKind = HandleKind::kBuilder;
  using Handle = sinter_builder;
  explicit BuilderObject(std::string name) : builder(std::move(name)) {}
  std::mutex mutex;  ///< Guards `builder`.
  FusionBuilder builder;
};

struct FusionObject {
  static constexpr HandleKind kKind = HandleKind::kFusion;
  using Handle = sinter_fusion;
  Fusion fusion;
};

struct DeviceObject {
  static constexpr HandleKind kKind = HandleKind::kDevice;
  using Handle = sinter_device;
  DeviceLimits limits;
};

struct PlanObject {
  static constexpr HandleKind kKind = HandleKind::kPlan;
  using Handle = sinter_plan;
  Plan plan;
  std::shared_ptr<const FusionObject> graph;  ///< As the caller wrote it.
};

template <class Object>
typename Object::Handle* handle_of(std::shared_ptr<Object> object) {
  return std::bit_cast<typename Object::Handle*>(handles().add(Object::kKind, std::move(object)));
}

/// Makes an object and its handle.
template <class Object>
typename Object::Handle* make_handle(Object object) {
  return handle_of(std::make_shared<Object>(std::move(object)));
}

/// The object of a handle. Throws InvalidHandle.
template <class Object>
std::shared_ptr<Object> object_of(const typename Object::Handle* handle) {
  return std::static_pointer_cast<Object>(
      handles().find(std::bit_cast<HandleBits>(handle), Object::kKind));
}

/// Ends a handle; null is none. The object goes when the last call that uses it is over. Throws
/// InvalidHandle.
template <class Object>
void release(typename Object::Handle* handle) {
  if (handle != nullptr) handles().remove(std::bit_cast<HandleBits>(handle), Object::kKind);
}

}  // namespace sinter::c_api
