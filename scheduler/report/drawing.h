#pragma once

#include <string>

#include "scheduler/plan/plan.h"

namespace sinter {

// The steps of a plan as a drawing. Each kernel is a box with its schedule's family, its rows and
// columns and the predicted microseconds; each external call is a box. Inputs and outputs of the
// graph are smaller boxes. Edges have the name and bytes of the tensors that pass from step to
// step. Equal plans give equal documents. Names may contain any bytes. The time of a kernel that
// finishes partial results is included in that of the kernel that leaves them.

/// Graphviz text, with an edge for each tensor and step that reads it. Edges have their exact bytes
/// as the attribute `bytes`.
std::string to_dot(const Plan& plan);

/// An SVG document, placed by `lay_out`. Elements of class "kernel", "call", "input", "output" and
/// "between" group the parts of a box: its title, which browsers show as a tooltip, has shapes and
/// the ops of a kernel. The longer a kernel takes, the more saturated its colour. Tensors that a
/// step leaves for the same readers stand in one box. An input is drawn next to each layer of steps
/// that reads it.
std::string to_svg(const Plan& plan);

}  // namespace sinter
