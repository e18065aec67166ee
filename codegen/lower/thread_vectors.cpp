#include "codegen/lower/thread_vectors.h"

#include <algorithm>

namespace sinter {

using kir::ExprId;
using kir::VarId;

namespace {
constexpr int64_t kAccessBytes = 16;  // The widest access to shared memory.
}

ThreadVectors::ThreadVectors(kir::KernelBuilder& builder, std::string name, DType type,
                             int64_t groups, int64_t threads, int64_t lanes)
    : builder_(&builder),
      buffer_(builder.add_buffer({.name = std::move(name),
                                  .type = type,
                                  .space = kir::Space::kShared,
                                  .access = kir::Access::kReadWrite,
                                  .alignment = kAccessBytes,
                                  .value = {},
                                  .count = groups * threads * lanes})),
      threads_(threads),
      lanes_(lanes),
      piece_(std::min(lanes, kAccessBytes / bytes_of(type))) {}

ExprId ThreadVectors::index(ExprId group, int64_t lane, ExprId thread) const {
  kir::KernelBuilder& b = *builder_;
  const ExprId own = b.mul(thread, b.integer(piece_));
  const ExprId before =
      b.add(b.mul(group, b.integer(threads_ * lanes_)), b.integer(threads_ * lane));
  return b.add(before, own);
}

void ThreadVectors::load(VarId tile, ExprId group, ExprId thread) const {
  for (int64_t lane = 0; lane < lanes_; lane += piece_) {
    builder_->append(kir::Load{tile, builder_->integer(0), builder_->integer(lane), piece_, buffer_,
                               index(group, lane, thread), kir::CacheHint::kDefault});
  }
}

void ThreadVectors::store(VarId tile, ExprId group, ExprId thread) const {
  for (int64_t lane = 0; lane < lanes_; lane += piece_) {
    builder_->append(kir::Store{buffer_, index(group, lane, thread), piece_, tile,
                                builder_->integer(0), builder_->integer(lane)});
  }
}

}  // namespace sinter
