// Weeks of a cluster in seconds: lives of clients, programs, hosts and controllers, one after
// another, and what each of them leaves behind, by name.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace gangway {

// By name: fibers, entries of the controller's tables, series of metrics, files, mapped segments
// and descriptors.
using Piles = std::map<std::string, size_t>;

struct Weeks {
  Piles before, after;
  std::string problems;  // Of the lives; empty: there were none.
};

// What lies there before and after so many lives. A life is a client that runs a program of its
// own, keeps checkpoints now and then, and ends in one of four ways: it closes, vanishes for good,
// detaches and is stopped, or is stopped while it waits for devices. Every fourth takes a host with
// it, every tenth a host that comes under a new name. Names of hosts are forgotten at the end, as
// after a day.
Weeks live(uint64_t seed, int lives);

// The same of controllers with one state folder, each of which has a program that goes on with the
// next one.
Weeks restart(uint64_t seed, int restarts);

// "fibers: 12, before 10; ...": where the two differ; empty: nowhere.
std::string grown(const Weeks& weeks);

}  // namespace gangway
