#include "fusion_ir/parser.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/text.h"

namespace sinter::c_api {
namespace {

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

const Value& value_of(const Fusion& fusion, sinter_value value) {
  require_index(value, fusion.values.size(), "value");
  return fusion.values[ValueId{value}];
}

}  // namespace

extern "C" {

sinter_status sinter_builder_create(const char* name, sinter_builder** builder,
                                    sinter_error** error) {
  return guarded(error, [&] {
    require(builder, "builder");
    *builder = nullptr;
    require(name, "name");
    *builder = handle_of(std::make_shared<BuilderObject>(name));
  });
}

sinter_status sinter_builder_symbol(sinter_builder* builder, const char* name, int64_t hint,
                                    int64_t divisible_by, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    require(name, "name");
    const std::lock_guard lock(object->mutex);
    object->builder.symbol(name, hint, divisible_by == 0 ? 1 : divisible_by);
  });
}

sinter_status sinter_builder_op(sinter_builder* builder, const char* op, const char* types,
                                const sinter_value* operands, size_t operand_count,
                                const char* name, sinter_value* results, size_t result_count,
                                sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    require(op, "op");
    require(operands, operand_count, "operands");
    require(results, "results");
    if (result_count == 0) bad_argument("there is no room for results", "every op has one");
    std::vector<ValueId> values;
    for (size_t i = 0; i < operand_count; ++i) values.push_back(ValueId{operands[i]});
    std::vector<std::string> names(result_count);
    names[0] = text_or_empty(name);
    const std::lock_guard lock(object->mutex);
    for (const ValueId id : values) value_of(object->builder.fusion(), id.index);
    const auto made = taken(
        append_op(object->builder, op, std::move(values), text_or_empty(types), std::move(names)));
    for (size_t i = 0; i < result_count; ++i) results[i] = made[i].index;
  });
}

sinter_status sinter_builder_output(sinter_builder* builder, sinter_value value, const char* name,
                                    const char* layout, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    const std::lock_guard lock(object->mutex);
    value_of(object->builder.fusion(), value);
    auto options = taken(parse_layout(object->builder, text_or_empty(layout)));
    object->builder.output(ValueId{value}, text_or_empty(name), std::move(options));
  });
}

sinter_status sinter_builder_name(sinter_builder* builder, sinter_value value, const char* name,
                                  sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    require(name, "name");
    const std::lock_guard lock(object->mutex);
    value_of(object->builder.fusion(), value);
    object->builder.named(ValueId{value}, name);
  });
}

sinter_status sinter_builder_type(const sinter_builder* builder, sinter_value value,
                                  sinter_text** type, sinter_error** error) {
  return guarded(error, [&] {
    require(type, "type");
    *type = nullptr;
    const auto object = object_of<BuilderObject>(builder);
    const std::lock_guard lock(object->mutex);
    const Fusion& fusion = object->builder.fusion();
    const Value& info = value_of(fusion, value);
    *type = text_handle(text_of(fusion, info.type, info.shape));
  });
}

sinter_status sinter_builder_finish(const sinter_builder* builder, sinter_fusion** fusion,
                                    sinter_error** error) {
  return guarded(error, [&] {
    require(fusion, "fusion");
    *fusion = nullptr;
    const auto object = object_of<BuilderObject>(builder);
    const std::lock_guard lock(object->mutex);
    *fusion = make_handle(FusionObject{object->builder.build()});
  });
}

sinter_status sinter_builder_release(sinter_builder* builder, sinter_error** error) {
  return guarded(error, [&] { release<BuilderObject>(builder); });
}

}  // extern "C"

}  // namespace sinter::c_api
