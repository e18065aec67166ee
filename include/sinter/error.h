#pragma once

// What functions answer instead of throwing: Result, Error, and how errors print.

#include "fusion_ir/error.h"
#include "fusion_ir/result.h"
