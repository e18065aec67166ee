#pragma once

#include <cstdint>

#include "fusion_ir/fusion.h"
#include "runtime/check/host_execution.h"

namespace sinter {

struct RandomGraphOptions {
  int ops = 20;  ///< Steps; a step adds one op, and the casts and broadcasts that it needs.
  int64_t batch = 2;
  int64_t rows = 6;
  int64_t columns = 40;
  bool joins = false;  ///< Concatenates and pads among the ops, and outputs with strides.
  bool calls = false;  ///< External calls among the ops: "swap", of two tensors of any shapes.
};

/// A valid graph that depends on the arguments alone and is in general no single kernel: tensors of
/// up to three axes, pointwise functions between them, reductions over any of their axes,
/// permutations, reshapes and slices of inputs and of computed values. What nothing reads is an
/// output. Values stay within 64, inputs being within kRandomInputBound.
Fusion random_graph(uint64_t seed, const RandomGraphOptions& options = {});

/// What runs those calls: results are the operands, swapped and negated.
HostCalls random_graph_calls();

/// The same graph with its ops inserted in another order, which depends on the seed.
Fusion shuffled(const Fusion& fusion, uint64_t seed);

}  // namespace sinter
