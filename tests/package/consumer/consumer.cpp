#include <cstdio>

#include "codegen/device_headers.h"

int main() {
  for (const sinter::EmbeddedHeader& header : sinter::embedded_device_headers()) {
    if (header.name.empty() || header.text.empty()) return 1;
    std::printf("%s: %zu bytes\n", header.name.data(), header.text.size());
  }
  return 0;
}
