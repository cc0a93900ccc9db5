// The sequential model that a history is held against: one program, whose runs commit one after
// another in the order in which its clients enqueued them, and nothing else changes its states.
//
//   count <- count + 1      trace <- 31 trace + x      own <- 3 own + x      (mod 2^20)
//
// A run that was told is one step; one that was told not to have been done is none. Where nobody
// was told, both are tried, as Wing and Gong do ("Testing and Verifying Concurrent Objects", 1993),
// and what was told later says which it was. Whoever reads sees the states of one version, of the
// place where the read was enqueued. Of one controller nobody sees an older version than somebody
// had seen before they asked; another controller may go back, but not behind a checkpoint that was
// told (that of a repetition's last step apart: nobody would know what it gave).
//
// Threads: pure.
// Cost: O(operations x places where nobody was told).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/history/history.h"

namespace gangway::history {

// All numbers are exact in f64 and stay below it.
inline constexpr int64_t kModulus = int64_t{1} << 20;

// The executable whose states all others of a program share: it has none of its own.
inline constexpr char kStep[] = "step";
// The state of its own that any other executable has.
inline std::string own_state(const std::string& executable) { return executable + ".own"; }

// An operation that does not fit, and why.
struct Misfit {
  std::string program;
  size_t op = 0;
  std::string why;
};
// The first one of the first program that has one; none: the history fits.
std::optional<Misfit> find_misfit(const History& history);
// What a failed test prints: the misfit, and what led to it.
std::string explain(const History& history, const Misfit& misfit);

}  // namespace gangway::history
