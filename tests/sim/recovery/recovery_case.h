// Trains a program that keeps checkpoints and whose hosts die meanwhile, and returns its losses.
//
// Threads: makes reactors of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gangway::sim {

struct RecoveryCase {
  uint64_t seed = 0;  // Draws when hosts die, and which.
  int hosts = 3;      // Hosts of two devices; the program has four.
  int deaths = 1;
  int64_t within_ms = 12;  // The longest time from one death to the next.
  bool come_back = true;   // Every other dead host comes back.
  // Hosts that die vanish without a goodbye, for good, and their peers report broken links.
  bool vanish = false;
  int steps = 30;
  uint64_t every = 6;  // Versions between two checkpoints.
  std::vector<std::string> elastic = {};
  bool in_double = false;  // Compute in f64, otherwise in f32.
  int executables = 1;     // Executables of the program; they take turns.
  bool evaluates = false;  // Another client reads a version now and then, and the latest.
  bool detached = false;   // The controller enqueues the steps.
  // Its client writes a state before the first step, and no checkpoint comes before a host dies.
  bool writes_states = false;
};

struct Recovered {
  std::vector<double> losses;
  int brought_back = 0;           // Number of times that the program was brought back.
  std::vector<std::string> told;  // Warnings to its user.
  std::string failed;             // The error if there are no losses; else empty.
  std::string wrong;              // Wrong reads by others, or resources left behind; empty if none.
};

// Losses of the same program when no host dies.
std::vector<double> undisturbed_losses(const RecoveryCase& of);
Recovered recover(const RecoveryCase& of);

}  // namespace gangway::sim
