#pragma once

// Kernels compiled by NVRTC, without a GPU, and the cache that keeps them.

#include "codegen/lower/interruptible_lowering.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/cublaslt/cublaslt.h"
