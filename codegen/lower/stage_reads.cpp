#include "codegen/lower/stage_reads.h"

#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

ChunkReads StageReads::of_stage(size_t s, const Stage& stage) const {
  std::set<ValueId> needed(stage.loads.begin(), stage.loads.end());
  const auto root = [&](ValueId value) {
    // A computed value that is kept from this stage on already has registers, but is computed here.
    if (facts_.is_tile(value) && !facts_.is_read(value) && tiles_.has_tile(value) &&
        facts_.level[value] == static_cast<int>(s)) {
      for (const ValueId operand : facts_.fusion.def_of(value).operands) touch(operand, s, needed);
    }
    touch(value, s, needed);
  };
  for (const OpId op : stage.reductions) root(facts_.fusion.ops[op].operands[0]);
  for (const OpId op : stage.outer) root(facts_.fusion.ops[op].operands[0]);
  for (const size_t output : stage.outputs) root(facts_.fusion.outputs[output]);
  for (const ValueId value : stage.kept) root(value);
  return reads_of(s, needed);
}

ChunkReads StageReads::of_values(size_t s, const std::vector<ValueId>& values) const {
  std::set<ValueId> needed;
  for (const ValueId value : values) touch(value, s, needed);
  return reads_of(s, needed);
}

/// Adds all tile values that evaluating `from` in stage s touches, down to what is held or read.
void StageReads::touch(ValueId from, size_t s, std::set<ValueId>& needed) const {
  walk_operands(facts_.fusion, from, [&](ValueId value) {
    return facts_.is_tile(value) && needed.insert(value).second && !tiles_.has_tile(value) &&
           !facts_.is_read(value) && !residents_.is_held(value, s);
  });
}

ChunkReads StageReads::reads_of(size_t s, const std::set<ValueId>& needed) const {
  ChunkReads reads;
  for (const ValueId value : needed) {
    if (tiles_.has_tile(value)) continue;
    if (residents_.is_shared(value) && residents_.is_held(value, s)) {
      reads.shared.push_back(value);
    } else if (facts_.is_read(value)) {
      reads.inputs.push_back(value);
    }
  }
  return reads;
}

}  // namespace sinter
