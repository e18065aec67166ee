#pragma once

#include <string>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Shared memory in which each of `threads` threads keeps `groups` vectors of `lanes` elements. A
/// thread reads and writes its own, so that nothing of this needs a barrier; who reads those of
/// another needs one.
///
/// A vector is cut into pieces of 16 bytes, or less if it is shorter, and a piece of all threads
/// lies together, thread by thread: [group][piece][thread][element of the piece]. So the lanes of a
/// warp access neighbouring bytes, and no bank twice where one access serves it once.
class ThreadVectors {
 public:
  ThreadVectors(kir::KernelBuilder& builder, std::string name, DType type, int64_t groups,
                int64_t threads, int64_t lanes);

  /// Loads the vector of a group that `thread` (i32) keeps into group 0 of a tile of one.
  void load(kir::VarId tile, kir::ExprId group, kir::ExprId thread) const;
  /// Stores it from there.
  void store(kir::VarId tile, kir::ExprId group, kir::ExprId thread) const;

 private:
  /// Element of the buffer at which the piece that starts at `lane` lies.
  [[nodiscard]] kir::ExprId index(kir::ExprId group, int64_t lane, kir::ExprId thread) const;

  kir::KernelBuilder* builder_;
  kir::BufferId buffer_;
  int64_t threads_;
  int64_t lanes_;
  int64_t piece_;  ///< Elements of one access.
};

}  // namespace sinter
