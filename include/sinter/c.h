#pragma once

/* The C interface. */

#include "runtime/c_api/sinter_c.h"
