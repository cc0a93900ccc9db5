// Ranges of seeds, so that several processes can share a test of many: a test with a parameter, the
// number of its range.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>

namespace gangway::history {

inline constexpr uint64_t kSeedsOfRange = 20;

// Plays each seed of a range, the first of which is `first`: what clients are told fits, and
// something has happened to the clusters. The first seed whose history does not fit ends it.
void expect_range_fits(uint64_t first);

}  // namespace gangway::history
