// Ranges of seeds, so that several processes can share a test of many: the number of the range is a
// parameter of the test.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>

namespace gangway::history {

inline constexpr uint64_t kSeedsOfRange = 20;

// Plays each seed of the range that begins with `first`. Expects that all histories fit and that
// hosts or controllers were lost. Stops at the first seed whose history does not fit.
void expect_range_fits(uint64_t first);

}  // namespace gangway::history
