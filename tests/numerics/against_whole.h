// Compares functions with random annotations, compiled and run on all devices in lockstep, with the
// same functions run whole.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "ir/graph/function.h"
#include "ir/transforms/pipeline.h"

namespace gangway::numerics {

// Makes a function from the generator, and may say in the context how its results are placed.
using RandomFunction = std::function<Function(std::mt19937_64& random, CallContext&)>;

// Compares functions 0 ... count - 1, each from a generator of its own (test_seed() + n). Some
// random annotations are in conflict; their functions are passed over.
// Errors: fails the test for a function that differs from the whole one or that the compiler
// refuses for any other reason, and if more than a tenth of the functions were passed over.
void expect_as_whole(uint64_t count, const RandomFunction& make);

}  // namespace gangway::numerics
