// The sequential model that a history is checked against: the runs of a program commit one after
// another in the order in which its clients enqueued them, and nothing else changes its states.
//
//   count <- count + 1      trace <- 31 trace + x      own <- 3 own + x      (mod 2^20)
//
// A run with a result is one step; a run reported as not done is none. For a run of unknown outcome
// both are tried, as Wing and Gong do ("Testing and Verifying Concurrent Objects", 1993), and later
// results decide. A read sees the states of one version, at the place where the read was enqueued.
// Under one controller, no operation sees an older version than another operation had seen before
// the first one began. Another controller may go back, but not behind a checkpoint that was
// reported (except for the checkpoint of a repetition's last step: nobody would know its outputs).
//
// Threads: pure.
// Cost: O(operations x operations of unknown outcome).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/sim/history/history.h"

namespace gangway::history {

// States are taken modulo this number, so that they are exact in f64.
inline constexpr int64_t kModulus = int64_t{1} << 20;

// The executable whose states all others of a program share: it has none of its own.
inline constexpr char kStep[] = "step";
// Name of the own state of any other executable.
inline std::string own_state(const std::string& executable) { return executable + ".own"; }

// An operation that does not fit, and why.
struct Misfit {
  std::string program;
  size_t op = 0;
  std::string why;
};
// The first misfit of the first program that has one; none if the history fits.
std::optional<Misfit> find_misfit(const History& history);
// Text for a failed test: the misfit, and the operations that led to it.
std::string explain(const History& history, const Misfit& misfit);

}  // namespace gangway::history
