#pragma once

/* The C interface. */

#include "runtime/sinter_c.h"
