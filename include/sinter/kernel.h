#pragma once

// Kernels: lowered, passed through passes, as .kir text and as CUDA C++.

#include "codegen/cuda/emit.h"
#include "codegen/device/device_headers.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
