/* Opens the shared library and finds it to be the one that the header describes. */
#include <string.h>

#include <sinter/c.h>

int main(void) {
  sinter_device* device = NULL;
  if (sinter_abi_version() != SINTER_ABI_VERSION) return 1;
  if (strcmp(sinter_version(), SINTER_VERSION) != 0) return 1;
  if (sinter_device_preset("H200", &device, NULL) != SINTER_OK) return 1;
  return sinter_device_release(device, NULL) != SINTER_OK;
}
