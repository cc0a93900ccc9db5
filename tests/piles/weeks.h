// Plays weeks of a cluster in seconds: lives of clients, programs, hosts and controllers, one after
// another. Counts by name the resources that they leave behind.
//
// Threads: the calling thread, which has no reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace gangway {

// Counts by name: fibers, entries of the controller's and the hosts' tables, series of metrics,
// memories of links between hosts, files, mapped segments and descriptors.
using Piles = std::map<std::string, size_t>;

struct Weeks {
  Piles before, after;
  std::string problems;  // Problems of the lives; empty if none.
};

// Counts resources before and after `lives` lives. A life is a client that runs a program of its
// own, keeps checkpoints now and then, and ends in one of four ways: it closes, vanishes for good,
// detaches and is stopped, or is stopped while it waits for devices. In every fourth life a host is
// lost too, in every tenth a host comes and goes under a new name. Names of hosts are forgotten at
// the end, which otherwise happens after a day.
Weeks live(uint64_t seed, int lives);

// Counts resources before and after `restarts` lives of controllers with one state folder. Each has
// a program that goes on under the next one.
Weeks restart(uint64_t seed, int restarts);

// Differences between the two counts, "fibers: 12, before 10; ..."; empty if there are none.
std::string grown(const Weeks& weeks);

}  // namespace gangway
