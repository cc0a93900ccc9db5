// A program that keeps checkpoints, whose hosts die while it trains: what it comes to.
//
// Threads: makes reactors of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway::sim {

struct RecoveryCase {
  uint64_t seed = 0;  // Draws when hosts die, and which.
  int hosts = 3;      // Of two devices each; the program lies on four.
  int deaths = 1;
  int64_t within_ms = 12;  // Of which each comes after the one before.
  bool come_back = true;   // Every other host that dies does.
  int steps = 30;
  uint64_t every = 6;  // Versions between two checkpoints.
  std::vector<std::string> elastic = {};
  bool in_double = false;  // Else in f32.
  int executables = 1;     // Of the same program; they take turns.
  bool evaluates = false;  // Another client reads a version now and then, and the latest.
  bool detached = false;   // The controller enqueues the steps.
  // Its client writes a state before the first step, and no checkpoint comes before a host dies.
  bool writes_states = false;
};

struct Recovered {
  std::vector<double> losses;
  int brought_back = 0;           // Times.
  std::vector<std::string> told;  // Its user.
  std::string failed;             // Why there are no losses; empty: there are.
  std::string wrong;  // With what others read of it, or with what is left behind; empty: nothing.
};

// Of the same program when nobody dies.
std::vector<double> undisturbed_losses(const RecoveryCase& of);
Recovered recover(const RecoveryCase& of);

}  // namespace gangway::sim
