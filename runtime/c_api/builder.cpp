#include <fmt/format.h>

#include "fusion_ir/parser.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/text.h"

namespace sinter::c_api {
namespace {

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

// A sinter_value has the index in its lower half, and in its upper half the builder that gave it.
constexpr int kIndexBits = 32;

sinter_value value_of(ValueId made) {
  return uint64_t{made.owner.builder} << kIndexBits | made.index;
}

/// Throws for what is no value of the builder.
ValueId id_of(const FusionBuilder& builder, sinter_value value) {
  const ValueId id{.index = static_cast<uint32_t>(value),
                   .owner = {static_cast<uint32_t>(value >> kIndexBits)}};
  // Which a FusionBuilder takes for one of its own.
  if (id.owner.builder == 0)
    bad_argument(fmt::format("{} is not a value that a builder gave", value),
                 "pass values that sinter_builder_op gave");
  static_cast<void>(builder.value(id));
  return id;
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
    std::vector<std::string> names(result_count);
    names[0] = text_or_empty(name);
    const std::lock_guard lock(object->mutex);
    for (size_t i = 0; i < operand_count; ++i)
      values.push_back(id_of(object->builder, operands[i]));
    const auto made = taken(
        append_op(object->builder, op, std::move(values), text_or_empty(types), std::move(names)));
    for (size_t i = 0; i < result_count; ++i) results[i] = value_of(made[i]);
  });
}

sinter_status sinter_builder_output(sinter_builder* builder, sinter_value value, const char* name,
                                    const char* layout, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    const std::lock_guard lock(object->mutex);
    const ValueId id = id_of(object->builder, value);
    auto options = taken(parse_layout(object->builder, text_or_empty(layout)));
    object->builder.output(id, text_or_empty(name), std::move(options));
  });
}

sinter_status sinter_builder_name(sinter_builder* builder, sinter_value value, const char* name,
                                  sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<BuilderObject>(builder);
    require(name, "name");
    const std::lock_guard lock(object->mutex);
    object->builder.named(id_of(object->builder, value), name);
  });
}

sinter_status sinter_builder_type(const sinter_builder* builder, sinter_value value,
                                  sinter_text** type, sinter_error** error) {
  return guarded(error, [&] {
    require(type, "type");
    *type = nullptr;
    const auto object = object_of<BuilderObject>(builder);
    const std::lock_guard lock(object->mutex);
    const Value& info = object->builder.value(id_of(object->builder, value));
    *type = text_handle(text_of(object->builder.fusion(), info.type, info.shape));
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
