// Programs that cross one another on shared devices: half of eight clients go from one slice to
// another and back, the other half go the other way round, and each hop has an all-reduce. If
// devices began collectives in order of arrival, and each blocked until all its members arrived,
// the programs would wait for one another for ever.
//
// Threads: the reactor's, with a fiber for each client.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gangway.h"

namespace gangway {

inline constexpr int kCrossingClients = 8, kCrossingHops = 4;
// Number of runs of each client that make `gang_launches` launches, one for each hop of a run.
constexpr int crossing_runs(int gang_launches) {
  return gang_launches / (kCrossingClients * kCrossingHops) + 1;
}

// Sums and texts of all clients.
struct Crossed {
  int done = 0;
  std::vector<std::string> errors;
};

// Each client connects with `connect` and runs its program `runs` times, at most four at a time,
// until a run of any client fails. Suspends until all have ended and are closed.
void cross(const std::function<Client(const std::string& name)>& connect, int runs, Crossed& all);

}  // namespace gangway
