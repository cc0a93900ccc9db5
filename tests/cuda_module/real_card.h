// The card of this machine, for suites of tests.
//
// Compiled sources are kept under $XDG_CACHE_HOME where that is set, since each test opens the card
// anew.
#pragma once

#include "tests/cuda/card.h"

namespace gangway {

// `memory_bytes`: the driver's budget; 0: nine tenths of the free memory.
CardMaker real_card(int64_t memory_bytes);

}  // namespace gangway
