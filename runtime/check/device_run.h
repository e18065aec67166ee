#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/check/sample_data.h"
#include "runtime/driver/event_timer.h"
#include "runtime/execute/executable.h"
#include "runtime/oracle/comparison.h"
#include "runtime/oracle/oracle.h"

namespace sinter {

struct DeviceRunOptions {
  DeviceOrdinal device = 0;  ///< The one the plan was prepared for.
  uint64_t seed = 1;         ///< Of the random inputs.
  bool time = true;          ///< False: check only.
  TimingOptions timing{};
  /// Input and output elements the oracle evaluates at most, where the fusion can be cut into
  /// slices (runtime/check/row_repetition.h). The inputs then repeat, and every element of the
  /// outputs is still compared.
  int64_t oracle_elements = int64_t{1} << 21;
  /// The same where there are totals of all slices, whose bound grows with the number of repeats.
  int64_t total_elements = int64_t{1} << 25;
  /// Device-to-device copy rate to hold the time against, from measure_copy_rate() in the same
  /// session; absent: measured.
  std::optional<double> copy_bytes_per_us{};
  ExternalFunction external{};  ///< What the oracle takes for external calls.
  /// References of make_reference() have narrow bounds (OracleOptions::narrow): for large products.
  /// A run that makes its own begins with them in any case.
  bool narrow = false;
  /// Sample data that is checked besides the ordinary, until something is wrong, where the call
  /// draws the inputs itself: a launch of its own for each, so none unless asked for.
  /// sample_data() has all there is.
  std::span<const SampleData> hard_data{};
  /// As oracle_elements, of each such set.
  int64_t hard_elements = int64_t{1} << 16;
};

/// What a device computed, held against the oracle.
struct DeviceCheck {
  std::vector<Mismatch> mismatches{};  ///< One for every output that is wrong.
  double worst_ratio = 0.0;            ///< Largest error over its bound among all outputs.
  int64_t elements = 0;                ///< Output elements compared: all there are.
  /// Slices the oracle evaluated, and of how many; both 0 where the fusion has no such slices.
  int64_t slices_evaluated = 0;
  int64_t slices = 0;
  size_t data_sets = 1;  ///< Looked at.
  std::string data{};    ///< Which of them showed what is wrong, as name_of(SampleData).
  [[nodiscard]] bool passed() const { return mismatches.empty(); }
  /// Everything that is wrong, a line each; empty if passed.
  [[nodiscard]] std::string text() const;
};

/// One run of a plan on a device: checked, then timed beside the copy floor.
struct DeviceRun {
  DeviceCheck check{};
  Timing timing{};                 ///< Empty unless timed; nothing wrong is timed.
  int64_t minimum_bytes = 0;       ///< Every input read once, every output written once.
  double copy_bytes_per_us = 0.0;  ///< Bytes read plus bytes written.
  double floor_us = 0.0;           ///< minimum_bytes at the copy rate.
  /// Share of the copy floor: floor over time, 1 is the speed of a plain copy.
  [[nodiscard]] double speed_of_light() const {
    return timing.median_us > 0.0 ? floor_us / timing.median_us : 0.0;
  }
};

/// Random inputs of a problem and the oracle's outputs for them. The oracle takes far longer than a
/// kernel, so one reference serves every plan of the problem; making it needs no device.
struct DeviceReference {
  /// With the caller's ids; where it computes slice by slice, its only symbols are outermost axes.
  Fusion fusion;
  Binding binding;    ///< Of all elements.
  Binding evaluated;  ///< Of those the oracle evaluated: inputs repeat with this period.
  /// Extents of axes that repeat, which are outermost; none: nothing does.
  std::vector<SymbolId> repeated;
  std::vector<HostTensor> inputs;  ///< One period.
  OracleResult expected;           ///< Likewise.
};

/// Evaluates the oracle for `fusion` at `binding`, with the options' seed and element budget.
DeviceReference make_reference(const Fusion& fusion, const Binding& binding,
                               const DeviceRunOptions& options = {}, SampleData data = {});

/// The same for inputs of the caller's, in the fusion's order; nothing repeats. Throws
/// SinterException (InvalidArgument) for inputs that do not fit.
DeviceReference make_reference(const Fusion& fusion, const Binding& binding,
                               std::vector<HostTensor> inputs,
                               const DeviceRunOptions& options = {});

/// Allocates tensors on the device, fills the inputs with the reference's and the outputs with
/// poison, executes once, compares with the oracle, and times with a cold L2.
///
/// `executable` is a plan of the reference's fusion at its binding, prepared with `driver`. Wrong
/// results are data in the check. Errors: those of execute() and of the driver.
Result<DeviceRun> run_on_device(const DeviceReference& reference, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options = {});

/// The same with references of its own, of ordinary and of hard data; `fusion` is the graph as the
/// caller wrote it.
Result<DeviceRun> run_on_device(const Fusion& fusion, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options = {});

/// Bytes read plus bytes written per microsecond by a long copy within device memory: median of 15
/// copies of `bytes`, which should be many times the L2.
Result<double> measure_copy_rate(DeviceDriver& driver, DeviceOrdinal device,
                                 int64_t bytes = int64_t{1} << 30);

/// Bytes a plan has to move: each input of its graph read once and each output written once.
int64_t minimum_bytes(const Plan& plan);

}  // namespace sinter
