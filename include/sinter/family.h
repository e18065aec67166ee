#pragma once

// Kinds of schedules as plug-ins, for callers who add their own.

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/lowered_kernel.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/families/family.h"
