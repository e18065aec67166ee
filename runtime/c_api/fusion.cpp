#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"

namespace sinter::c_api {

extern "C" {

sinter_status sinter_fusion_parse(const char* text, size_t size, sinter_fusion** fusion,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(fusion, "fusion");
    *fusion = nullptr;
    require(text, size, "text");
    *fusion = make_handle(FusionObject{taken(parse_fusion({text, size}))});
  });
}

sinter_status sinter_fusion_print(const sinter_fusion* fusion, sinter_text** text,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(text, "text");
    *text = nullptr;
    *text = text_handle(print(object_of<FusionObject>(fusion)->fusion));
  });
}

sinter_status sinter_fusion_describe(const sinter_fusion* fusion, sinter_fusion_info* info,
                                     sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<FusionObject>(fusion);
    const Fusion& graph = object->fusion;
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_fusion_info),
                 .input_count = graph.inputs.size(),
                 .output_count = graph.outputs.size(),
                 .symbol_count = graph.symbols.size(),
                 .op_count = graph.ops.size(),
                 .value_count = graph.values.size(),
                 .name = graph.name.c_str()});
  });
}

sinter_status sinter_fusion_symbol(const sinter_fusion* fusion, size_t index,
                                   sinter_symbol_info* info, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<FusionObject>(fusion);
    const auto& symbols = object->fusion.symbols;
    require_index(index, symbols.size(), "symbol");
    const Symbol& symbol = symbols[SymbolId{static_cast<uint32_t>(index)}];
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_symbol_info),
                 .name = symbol.name.c_str(),
                 .hint = symbol.hint,
                 .divisible_by = symbol.divisible_by});
  });
}

sinter_status sinter_fusion_release(sinter_fusion* fusion, sinter_error** error) {
  return guarded(error, [&] { release<FusionObject>(fusion); });
}

}  // extern "C"

}  // namespace sinter::c_api
