#pragma once

#include <functional>
#include <span>

#include "fusion_ir/fusion.h"
#include "runtime/driver/device_driver.h"

namespace sinter {

/// A tensor as an external call sees it.
struct ExternalTensor {
  /// Of element [0, ..., 0]; a multiple of 16, but for inputs and outputs that promise less.
  DevicePointer address = 0;
  DType type = DType::kF32;
  std::span<const int64_t> sizes{};
  std::span<const int64_t>
      strides{};  ///< In elements. Dense, but of inputs and outputs that declare others.
};

/// What an execution asks of the embedder. All of it is valid until the callback returns.
struct ExternalRequest {
  const ExternalOp* op = nullptr;  ///< Its name and declared results, with constant extents.
  OpId id{};                       ///< In the plan's graph.
  std::span<const ExternalTensor> inputs{};
  std::span<const ExternalTensor> outputs{};  ///< To be written, all of each.
  StreamHandle stream = nullptr;
};

/// Enqueues an external call on the request's stream, behind what the execution has enqueued
/// before. May be called by any thread that executes, by several at once, and while the stream is
/// captured: it then must not allocate or synchronise. An error it returns ends the execution.
using ExternalCallback = std::function<Result<void>(const ExternalRequest&)>;

}  // namespace sinter
