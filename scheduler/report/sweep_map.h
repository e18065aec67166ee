#pragma once

#include <string>

#include "scheduler/report/sweep.h"

namespace sinter {

/// A sweep for people. Two extents: a map with a letter per kind and, if lines are short enough,
/// the predicted share of speed of light in percent. One extent: a line per size, with the
/// predicted microseconds and the schedule.
std::string map_text(const Sweep& sweep);

/// The map as an SVG document: a rectangle of class "cell" per cell, coloured by kind, more
/// saturated the nearer to speed of light. Its title, which browsers show as a tooltip, has the
/// extents, the schedule and the predicted microseconds. Equal sweeps give equal documents.
std::string map_svg(const Sweep& sweep);

}  // namespace sinter
