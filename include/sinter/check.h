#pragma once

// Kernels run in the interpreter and on a GPU, beside the oracle.

#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/npy.h"
#include "runtime/oracle/oracle.h"
