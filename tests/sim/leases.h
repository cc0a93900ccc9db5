// Clients of a simulated cluster that lose their connections, under load, and many that live for a
// short time: what must not be is noted.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway {

struct LeaseReport {
  std::vector<std::string> problems;  // Empty: all is well.
  int runs = 0;                       // Whose results were looked at.
  int away = 0;                       // How often a client was told that its connection was lost.
};

// Three clients run, compile, put, get and read states while their connections are cut so many
// times; some of the cuts are followed by a time in which they can't connect.
LeaseReport cut_under_load(uint64_t seed, int cuts);

// So many clients, four at a time: each connects, runs a little and ends, by closing, by being cut
// off for ever, or by both.
LeaseReport soak(uint64_t seed, int clients);

}  // namespace gangway
