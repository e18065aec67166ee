#pragma once

#include <string>

#include "scheduler/plan/plan.h"

namespace sinter {

// The steps of a plan as a drawing: a box per kernel, with its schedule's family, its rows and
// columns and the predicted microseconds, and per external call; what the graph takes and gives as
// smaller ones; and the name and bytes of what passes from step to step. Equal plans give equal
// documents. Names may hold anything. The time of a kernel that finishes partial results is part of
// that of the kernel that leaves them.

/// Text for Graphviz, with an edge for each tensor and step that reads it. Edges have their exact
/// bytes as the attribute `bytes`.
std::string to_dot(const Plan& plan);

/// An SVG document, placed by `lay_out`. Elements of class "kernel", "call", "input", "output" and
/// "between" group what belongs to a box: its title, which browsers show as a tooltip, has shapes
/// and the ops of a kernel. A kernel's colour is the fuller the longer it takes. What a step leaves
/// for the same readers stands in one box, and an input is drawn beside each layer of steps that
/// reads it.
std::string to_svg(const Plan& plan);

}  // namespace sinter
