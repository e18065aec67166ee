#pragma once

#include <memory>
#include <string>

#include "runtime/cublaslt/matmul_library.h"

namespace sinter {

/// Opens cuBLASLt 12 or later. `library` is a path or name for the loader; empty: the value of
/// SINTER_CUBLASLT, or else libcublasLt.so.13 or .12 where the loader finds them, in $CUDA_HOME or
/// /usr/local/cuda. Needs no device. Errors: Unsupported where it is missing, too old or lacks a
/// function.
Result<std::unique_ptr<MatmulLibrary>> open_cublaslt(const std::string& library = {});

/// The library of this process: open_cublaslt() done once, by whichever thread asks first. It lives
/// as long as the process.
Result<MatmulLibrary*> cublaslt();

}  // namespace sinter
