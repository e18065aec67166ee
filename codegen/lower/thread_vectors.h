#pragma once

#include <string>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Shared memory in which each of `threads` threads keeps `groups` vectors of `lanes` elements. A
/// thread that reads and writes only its own vectors needs no barrier; one that reads those of
/// another thread does.
///
/// A vector is split into pieces of 16 bytes, or fewer if it is shorter. The same piece of all
/// threads is contiguous: [group][piece][thread][element of the piece]. So the lanes of a warp
/// access consecutive bytes, without bank conflicts.
class ThreadVectors {
 public:
  ThreadVectors(kir::KernelBuilder& builder, std::string name, DType type, int64_t groups,
                int64_t threads, int64_t lanes);

  /// Loads the vector that `thread` (i32) keeps in `group` into group 0 of a tile of one group.
  void load(kir::VarId tile, kir::ExprId group, kir::ExprId thread) const;
  /// Stores that vector from group 0 of the tile.
  void store(kir::VarId tile, kir::ExprId group, kir::ExprId thread) const;

 private:
  /// Buffer index of the piece that starts at `lane`.
  [[nodiscard]] kir::ExprId index(kir::ExprId group, int64_t lane, kir::ExprId thread) const;

  kir::KernelBuilder* builder_;
  kir::BufferId buffer_;
  int64_t threads_;
  int64_t lanes_;
  int64_t piece_;  ///< Elements of one piece, which is one access.
};

}  // namespace sinter
