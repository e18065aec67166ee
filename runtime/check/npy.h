#pragma once

#include <string>

#include "fusion_ir/result.h"
#include "runtime/oracle/host_tensor.h"

namespace sinter {

/// Reads a NumPy .npy file, of format 1.0, 2.0 or 3.0, into a dense tensor of a type and sizes.
/// Elements are taken as they are: nothing is converted but the order of bytes and of axes
/// (fortran_order).
///
///   type        descr, little or big endian
///   f64 f32 f16 f8, f4, f2
///   i64 i32 i8  i8, i4, i1
///   u8, bool    u1, b1
///   bf16        NumPy has no such type: its bits as u2 or V2
///   f8e4m3 ...  likewise its bits as u1 or V1
///
/// The file has the same sizes; a scalar may be stored with no axis or with one of one element.
///
/// Errors name the file. InvalidArgument: it cannot be read, is no regular file, no .npy, ends
/// early or goes on behind the last element, or holds another type or other sizes, which are named
/// beside those wanted. No more memory is taken than the header's limit and the tensor.
Result<HostTensor> read_npy(const std::string& path, DType type, const Sizes& sizes);

/// Writes a tensor, dense, as read_npy() takes it. InvalidArgument where that fails.
Result<void> write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace sinter
