#include "scheduler/program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion_ir/match.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/shared_layout.h"

namespace sinter::program {

std::string_view text_of(Place place) {
  switch (place) {
    case Place::kShared:
      return "shared";
    case Place::kFragment:
      return "fragment";
    case Place::kGroupFragment:
      return "group_fragment";
    case Place::kLines:
      return "lines";
    case Place::kSlice:
      return "slice";
  }
  unreachable();
}

int64_t threads_of(Place place) {
  switch (place) {
    case Place::kFragment:
    case Place::kLines:
    case Place::kSlice:
      return kWarp;
    case Place::kGroupFragment:
      return kWarpGroup;
    case Place::kShared:
      break;
  }
  unreachable();
}

std::string_view text_of(Binding binding) {
  switch (binding) {
    case Binding::kBlock:
      return "block";
    case Binding::kWarp:
      return "warp";
    case Binding::kWarpGroup:
      return "warp group";
    case Binding::kEpilogueWarp:
      return "epilogue warp";
  }
  unreachable();
}

std::string_view text_of(CopyKind kind) {
  switch (kind) {
    case CopyKind::kAsync:
      return "async";
    case CopyKind::kPlain:
      return "plain";
    case CopyKind::kTensor:
      return "tensor";
    case CopyKind::kDirect:
      return "direct";
  }
  unreachable();
}

MatrixShape matrix_shape(const Program& program, const Contract& contract) {
  constexpr int64_t kBytesOfK = 32;
  const Tile& accumulator = program.tiles[contract.accumulator];
  const int64_t element_bytes = bytes_of(program.tiles[contract.left].type);
  if (contract.unit == Unit::kLane) return {.m = 16, .n = 8, .k = kChunkBytes / element_bytes};
  const int64_t k = kBytesOfK / element_bytes;
  if (accumulator.place == Place::kGroupFragment)
    return {.m = 64, .n = accumulator.line_columns(), .k = k};
  if (accumulator.place == Place::kSlice) return {.m = 8, .n = 4, .k = 2 * k};
  return {.m = 16, .n = 8, .k = k};
}

namespace {

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string run() {
    line(fmt::format("program {} threads {} {{", program_.name, program_.threads));
    ++depth_;
    if (const auto& producer = program_.producer) {
      line(fmt::format(
          "producer threads {} registers {} leaves {}{}{}", producer->threads, producer->registers,
          producer->consumer_registers,
          producer->epilogue_warps > 0 ? fmt::format(" epilogue warps {}", producer->epilogue_warps)
                                       : "",
          producer->split_warps > 0 ? fmt::format(" split warps {}", producer->split_warps) : ""));
    }
    for (const Axis& axis : program_.axes)
      line(
          fmt::format("axis {} {}{}", axis.name, axis.extent, axis.is_launched ? " launched" : ""));
    for (const Tile& tile : program_.tiles) {
      line(fmt::format("tile %{} : {} {} [{}, {}]{}{}{}", tile.name, tile.type, text_of(tile.place),
                       text(tile.rows), text(tile.columns), tile.in_order ? " in order" : "",
                       tile.line > 0 ? fmt::format(" line {}", tile.line) : "",
                       tile.stages > 1 ? fmt::format(" stages {}", tile.stages) : ""));
    }
    steps(program_.body);
    --depth_;
    line("}");
    return std::move(out_);
  }

 private:
  void line(std::string_view text) { out_ += fmt::format("{:{}}{}\n", "", 2 * depth_, text); }
  std::string text(const Span& span) {
    return fmt::format("{} {}", program_.axes[span.axis].name, span.extent);
  }
  std::string text(const Loop& loop) {
    return fmt::format("{} by {}", program_.axes[loop.axis].name, loop.step);
  }
  std::string_view name(TileId tile) { return program_.tiles[tile].name; }

  void steps(const Steps& body) {
    for (const StepId step : body)
      std::visit([&](const auto& kind) { print(kind); }, program_.steps[step]);
  }
  void block(const Steps& body) {
    ++depth_;
    steps(body);
    --depth_;
  }

  static std::string_view together_text(const Nest& nest) {
    return nest.exchange == ExchangeKind::kMessages ? "team" : "cluster";
  }

  void print(const Nest& nest) {
    std::vector<std::string> loops;
    for (const Loop& loop : nest.loops) loops.push_back(text(loop));
    line(fmt::format(
        "for {} {}{}{}{}{} {{", text_of(nest.binding), fmt::join(loops, ", "),
        nest.group > 1 ? fmt::format(" group {}", nest.group) : "",
        nest.persistent_blocks > 0 ? fmt::format(" persistent {}", nest.persistent_blocks) : "",
        nest.at_once > 1 ? fmt::format(" at once {}", nest.at_once) : "",
        nest.cluster > 1 ? fmt::format(" {} {}", together_text(nest), nest.cluster) : ""));
    block(nest.body);
    line("}");
  }
  void print(const Pipeline& pipeline) {
    line(fmt::format("pipeline {} stages {}{} {{", text(pipeline.loop), pipeline.stages,
                     pipeline.slice_warps > 0
                         ? fmt::format(" in turns of {} warps{}", pipeline.slice_warps,
                                       pipeline.loads_before_wait ? " columns before waiting" : "")
                         : ""));
    block(pipeline.copies);
    line("} do {");
    block(pipeline.body);
    line("}");
  }
  void print(const Copy& copy) {
    line(fmt::format("copy {} %{} = {} width {}{}", text_of(copy.kind), name(copy.tile),
                     copy.of_rows ? "rows" : "columns", copy.width,
                     copy.evict_first ? " evict_first" : ""));
  }
  void print(const Split& split) {
    line(fmt::format("split %{} into it and %{}", name(split.tile), name(split.second)));
  }
  void print(const Contract& contract) {
    const std::string seconds =
        contract.right_second.valid() ? fmt::format(" with %{}", name(contract.right_second)) : "";
    line(fmt::format("contract {}{}{} %{} += %{} * %{}{}", sinter::text_of(contract.fn),
                     contract.unit == Unit::kLane ? " by lanes" : "",
                     contract.precision == ContractPrecision::kIeee
                         ? ""
                         : fmt::format(" {}", sinter::text_of(contract.precision)),
                     name(contract.accumulator), name(contract.left), name(contract.right),
                     seconds));
  }
  void print(const Merge& merge) {
    line(fmt::format("merge %{} = %{} through %{}", name(merge.fragment), name(merge.slice),
                     name(merge.through)));
  }
  void print(const Handover& handover) {
    line(fmt::format("hand over {} of %{} in %{}", handover.value, name(handover.fragment),
                     name(handover.tile)));
  }
  void print(const Region& region) {
    std::string staged;
    for (const Staging& staging : region.staged) {
      staged += fmt::format(" output {} through %{} width {}", staging.output, name(staging.tile),
                            staging.width);
    }
    const std::string kept =
        region.kept.empty() ? "" : fmt::format(" keep {}", fmt::join(region.kept, ", "));
    const std::string partials =
        region.partial_rows > 0 ? fmt::format(" partials {}", region.partial_rows) : "";
    line(fmt::format("region {} = %{} width {}{}{}{}{}", region.value, name(region.tile),
                     region.width, region.holds_rows ? " rows" : "", kept, partials, staged));
  }
  void print(const Fold& fold) {
    line(fmt::format("fold {} of {} width {} across {} slots {} ahead {}{}{}{}",
                     program_.axes[fold.rows].name, program_.axes[fold.columns].name, fold.width,
                     fold.across, fold.slots, fold.ahead,
                     fold.cluster > 1 ? fmt::format(" cluster {}", fold.cluster) : "",
                     fold.shares > 0 ? fmt::format(" shares {}", fold.shares) : "",
                     fold.by_last_block ? " last block" : ""));
  }
  void print(const Elements& elements) {
    line(fmt::format("elements of {} width {} vectors {}", program_.axes[elements.axis].name,
                     elements.width, elements.vectors));
  }

  const Program& program_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print(const Program& program) { return Printer(program).run(); }

}  // namespace sinter::program
