#pragma once

#include <string>

#include "runtime/c_api/objects.h"

namespace sinter::c_api {

inline sinter_text* text_handle(std::string text) {
  return make_handle(TextObject{std::move(text)});
}

}  // namespace sinter::c_api
