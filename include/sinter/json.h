#pragma once

// Plans, errors and reports as JSON text.

#include "runtime/json/json_text.h"
