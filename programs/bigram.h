// An add-one-smoothed bigram model over bytes: the baseline that a trained model must beat.
//
// Threads: a pure function; safe anywhere.
// Errors: kInvalid for a held-out text of less than two bytes.
#pragma once

#include <string_view>

namespace gangway::programs {

// Mean negative log-probability, in nats, of each byte of `heldout` but the first given the byte
// before it, where p(b | a) = (count of "ab" in train + 1) / (count of "a?" in train + 256).
double bigram_nats_per_byte(std::string_view train, std::string_view heldout);

}  // namespace gangway::programs
