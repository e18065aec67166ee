#pragma once

// Fusions: built op by op or from composites, read from .fir text, printed, verified, simplified.

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/training_composites.h"
#include "fusion_ir/verifier.h"
