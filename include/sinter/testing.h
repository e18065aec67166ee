#pragma once

// The test kit: canned fusions, random graphs, fakes and matchers.

#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_fusion.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_calls.h"
#include "tests/support/stand_in_calls.h"
#include "tests/support/stand_in_kernel.h"
#include "tests/support/training_layers.h"
#include "tests/support/uncompiled_plan.h"
