#pragma once

#include <span>
#include <vector>

#include "runtime/check/device_run.h"
#include "runtime/driver/device_buffer.h"

namespace sinter {

/// A reference's tensors on the device, and what plans wrote there held against the oracle. The
/// reference must outlive it; a context is current throughout.
class ReferenceTensors {
 public:
  /// Uploads the inputs and poisons the outputs, on the legacy default stream.
  static Result<ReferenceTensors> make(const DeviceReference& reference, DeviceDriver& driver);

  /// Poisons the outputs again, and uploads the inputs again whose memory they took over.
  [[nodiscard]] Result<void> reset();

  [[nodiscard]] std::span<const Tensor> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const Tensor> outputs() const { return outputs_; }

  /// Compares all outputs, which are written.
  [[nodiscard]] Result<DeviceCheck> compare() const;

 private:
  ReferenceTensors(const DeviceReference& reference, DeviceDriver& driver)
      : reference_(&reference), driver_(&driver) {}

  [[nodiscard]] const Fusion& fusion() const { return reference_->fusion; }
  /// Slices of a tensor that the oracle evaluated, and all; both 0 where it does not repeat.
  struct Repetition {
    int64_t period = 0;
    int64_t slices = 0;
    [[nodiscard]] int64_t added() const { return slices - period; }
  };
  [[nodiscard]] Repetition repetition_of(ValueId value) const;
  /// Bytes from one slice of an input to the next; 0 where it has none.
  [[nodiscard]] int64_t pitch_of(size_t index) const;

  Result<void> make_input(size_t index);
  /// Uploads one period and repeats it on the device.
  Result<void> fill_input(size_t index);
  Result<void> make_output(ValueId output);
  /// Downloads and compares an output period by period, so that the host never holds more than
  /// three of them. A period whose bytes are those of the first is judged as that was.
  Result<void> compare_output(size_t index, DeviceCheck& out) const;

  const DeviceReference* reference_;
  DeviceDriver* driver_;
  std::vector<DeviceBuffer> buffers_;  ///< Of the inputs, then of outputs with memory of their own.
  std::vector<size_t> memory_;         ///< By output: its buffer.
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

}  // namespace sinter
