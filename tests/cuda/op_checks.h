// Compares an op's results on a card with references.
//
// Errors: gtest failures, with the function.
#pragma once

#include "tests/cuda/op_devices.h"
#include "tests/op_table/cases.h"

namespace gangway {

// Compares with the reference interpreter, in double precision. An op over a mesh runs on two
// devices.
void expect_the_reference(OpDevices& devices, const op_table::OpCase& test, DType dtype, Rng& rng);

// Compares with the ops that a fused kernel stands for, on the same card: a composite's
// decomposition, or the chain of a fusion. Does nothing for any other op.
void expect_its_parts(OpDevices& devices, const op_table::OpCase& test, DType dtype, Rng& rng);

}  // namespace gangway
