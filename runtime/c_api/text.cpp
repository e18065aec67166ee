#include "runtime/c_api/text.h"

#include "runtime/c_api/errors.h"

namespace sinter::c_api {

extern "C" {

const char* sinter_version(void) { return SINTER_VERSION; }

uint32_t sinter_abi_version(void) { return SINTER_ABI_VERSION; }

sinter_status sinter_text_view(const sinter_text* text, const char** data, size_t* size,
                               sinter_error** error) {
  return guarded(error, [&] {
    require(data, "data");
    *data = nullptr;
    const auto object = object_of<TextObject>(text);
    *data = object->text.c_str();
    if (size != nullptr) *size = object->text.size();
  });
}

sinter_status sinter_text_release(sinter_text* text, sinter_error** error) {
  return guarded(error, [&] { release<TextObject>(text); });
}

}  // extern "C"

}  // namespace sinter::c_api
