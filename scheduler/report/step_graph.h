#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// A tensor in memory that steps of a plan read or write: an input, an output, or a tensor that one
/// step leaves for later ones.
struct PassedTensor {
  enum class Holds : uint8_t {
    kValue,
    kPartials,  ///< Partial results of a reduction, or of rows in parts; `value` is the
                ///< reduction's.
  };
  ValueId value;  ///< In the plan's graph.
  Holds holds = Holds::kValue;
  int64_t bytes = 0;
  bool is_input = false;   ///< Of the graph.
  bool is_output = false;  ///< Of the graph; steps may read it too.
  /// Steps, ascending: none for inputs, several if each writes a part of a concatenate's result.
  std::vector<StepId> writers{};
  std::vector<StepId> readers{};  ///< Ascending.
  friend bool operator==(const PassedTensor&, const PassedTensor&) = default;
};

/// A plan as a graph: its kernels and calls, and the tensors between them.
struct StepGraph {
  IdVector<StepId, PlanStep> steps;   ///< As Plan::steps.
  std::vector<PassedTensor> tensors;  ///< Inputs, then outputs, then those of the workspace.
  friend bool operator==(const StepGraph&, const StepGraph&) = default;
};

/// The tensors that the steps of a plan read and write. Scratch tensors of a single kernel are
/// omitted.
StepGraph step_graph(const Plan& plan);

/// "h", or "%v3" for a value without a name; "partials of h".
std::string name_of(const Plan& plan, const PassedTensor& tensor);

/// Ops that a kernel runs, by name with their count: "cast x2, mul, reduce.sum". Inputs, constants
/// and broadcasts are omitted.
std::string ops_text(const KernelPlan& segment);

}  // namespace sinter
