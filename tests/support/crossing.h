// Programs that cross one another on shared devices: eight clients, half of which go from one slice
// to another and back, and half the other way round, meeting in an all-reduce at each hop. Where
// devices begin collectives as they come, and each is held until all members came, they wait for
// one another for ever.
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
// Gang launches: one for each hop of each run.
constexpr int crossing_runs(int gang_launches) {
  return gang_launches / (kCrossingClients * kCrossingHops) + 1;
}

struct Crossing {
  int runs = 0;                     // Of each client.
  int64_t time_limit_ms = 0;        // Of a run; 0: none.
  int64_t first_microseconds = 20;  // What a hop of the first client keeps its devices busy,
  int64_t more_microseconds = 7;    // and how much more each client's after it.
};

// Of all clients.
struct Crossed {
  int done = 0;
  std::vector<std::string> errors;
  std::vector<std::string> stuck;  // What the controller says of its hosts once a run failed.
};

// Each client, in a cluster that is connected to so, runs its program, at most four runs at a time,
// until one of all clients' runs fails. Suspends until all have ended and are closed.
void cross(const std::function<Client(const std::string& name)>& connect, const Crossing& what,
           Crossed& all);

}  // namespace gangway
