// The seed of a randomised test: GW_TEST_SEED if it is set, else a fixed number. It is printed, so
// that a failure can be run again.
#pragma once

#include <cstdint>

namespace gangway::tests {

// Errors: kInvalid if GW_TEST_SEED is not a number.
uint64_t test_seed();

}  // namespace gangway::tests
