// Plays clients of a simulated cluster that lose their connections under load, and many clients
// that live for a short time, and notes violations.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway {

struct LeaseReport {
  std::vector<std::string> problems;  // Violations found; empty if there are none.
  int runs = 0;                       // Number of runs whose results were checked.
  int away = 0;                       // Number of reports of lost connections to clients.
};

// Three clients run, compile, put, get and read states while their connections are cut `cuts`
// times. After some of the cuts they can't connect for a while.
LeaseReport cut_under_load(uint64_t seed, int cuts);

// Plays `clients` clients, four at a time: each connects, runs a little, and then closes, is cut
// off for ever, or both.
LeaseReport soak(uint64_t seed, int clients);

}  // namespace gangway
