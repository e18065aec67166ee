#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "runtime/check/sample_data.h"
#include "runtime/execute/outside_indices.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/oracle/comparison.h"
#include "runtime/oracle/host_tensor.h"
#include "runtime/oracle/oracle.h"

namespace sinter {

/// Random tensors that suit a fusion's inputs: types, sizes, declared strides and alignment;
/// ordinary integers that index a gather stay inside the gathered axis. Hard data everywhere is
/// that of the largest inputs; in places, of all. Equal arguments give equal tensors.
std::vector<HostTensor> sample_inputs(const Fusion& fusion, const Binding& binding, uint64_t seed,
                                      SampleData data = {});

/// Poisoned dense tensors for a fusion's outputs.
std::vector<HostTensor> poisoned_outputs(const Fusion& fusion, const Binding& binding);

/// Runs an external call on the CPU: fills `outputs`, which are dense and poisoned. Extents of `op`
/// are constants.
using HostCall = std::function<void(const ExternalOp& op, std::span<const HostTensor> inputs,
                                    std::span<HostTensor> outputs)>;

/// What stands in for the embedder where a graph has external calls.
struct HostCalls {
  HostCall run{};               ///< Between kernels.
  ExternalFunction evaluate{};  ///< In the oracle.
};

struct HostRun {
  std::vector<HostTensor> outputs;
  InterpreterReport report;  ///< Of the first kernel, with the findings of all.
  /// Of a plan that checks indices: what it keeps, dense, in the order of Plan::kept_indices(), and
  /// what of it is outside.
  std::vector<HostTensor> kept_indices{};
  std::vector<OutsideIndices> outside{};
};

/// Runs a lowered kernel of a segment in the interpreter: what execute() does, without a GPU.
/// `inputs` stand in the order of the segment's fusion. Errors: those of interpret();
/// InvalidArgument for tensors that do not fit.
Result<HostRun> execute_on_host(const SegmentFacts& facts, const LoweredKernel& kernel,
                                std::span<const HostTensor> inputs,
                                const InterpreterOptions& options = {});

/// Runs the kernels and external calls of a plan one after the other, kernels in the interpreter
/// and library calls in double, all of them in one workspace of the planned size. `inputs` stand in
/// the order of the plan's fusion. Errors: as above; InvalidArgument where there is no function for
/// a call.
Result<HostRun> execute_on_host(const Plan& plan, std::span<const HostTensor> inputs,
                                const FamilySet& families, const InterpreterOptions& options = {},
                                const HostCalls& calls = {});
/// The same with `schedule` in the place of the one chosen for the first segment.
Result<HostRun> execute_on_host(const Plan& plan, const Schedule& schedule,
                                std::span<const HostTensor> inputs, const FamilySet& families,
                                const InterpreterOptions& options = {});

/// Elements of all inputs and outputs.
int64_t tensor_elements(const Fusion& fusion, const Binding& binding);

/// Nothing if a plan of the graph can be checked on this host without functions for its calls.
/// Errors: Unsupported (external calls), ResourceExhausted (tensors, expected values and their
/// bounds beyond the memory of this machine).
Result<void> check_is_possible(const Fusion& fusion, const Plan& plan);

/// What the interpreter found when held against the oracle.
struct HostCheck {
  InterpreterReport report;
  std::vector<Mismatch> mismatches;  ///< One for every output that is wrong.
  double worst_ratio = 0.0;          ///< Largest error over its bound among all outputs.
  /// Of a plan that checks indices: those outside of their axis, which are the caller's mistake.
  /// The indices themselves are compared like outputs.
  std::vector<OutsideIndices> outside{};
  /// Of a check of several data sets: those that were looked at, and which of them showed what is
  /// wrong, as name_of(SampleData).
  size_t data_sets = 1;
  std::string data{};
  /// True: no finding, no mismatch.
  [[nodiscard]] bool passed() const;
  /// Everything that is wrong, a line each; empty if passed.
  [[nodiscard]] std::string text() const;
};

/// Evaluates `fusion`, the graph as the caller wrote it, in the oracle, runs the planned segment's
/// kernel in the interpreter on the same inputs, and compares.
///
/// The overloads below have more than six parameters, of which the last ones have defaults: what is
/// checked, on what, and how are objects of the caller that nothing else would hold together.
Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding,
                                const SegmentFacts& facts, const LoweredKernel& kernel,
                                std::span<const HostTensor> inputs,
                                const InterpreterOptions& options = {});
/// The same for all of a plan.
Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                std::span<const HostTensor> inputs, const FamilySet& families,
                                const InterpreterOptions& options = {},
                                const HostCalls& calls = {});
/// The same on sample inputs, one set after the other until something is wrong; the report is that
/// of the last one looked at, the worst error that of all.
Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                uint64_t seed, const FamilySet& families,
                                const InterpreterOptions& options = {}, const HostCalls& calls = {},
                                std::span<const SampleData> data = sample_data());
/// With `schedule` in the place of the one chosen for the first segment.
Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                const Schedule& schedule, std::span<const HostTensor> inputs,
                                const FamilySet& families, const InterpreterOptions& options = {});

}  // namespace sinter
