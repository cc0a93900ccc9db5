// A client that trains step by step on a simulated cluster that keeps a checkpoint every 6 steps,
// for tests of events at one moment while its program loses a host.
//
// Threads: the reactor's; all but the getters suspend.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gangway.h"
#include "runtime/os/temp_dir.h"
#include "sim/sim_cluster.h"
#include "tests/sim/recovery/trained_program.h"

namespace gangway::sim {

class Trainer {
 public:
  static constexpr int kSteps = 30, kEvery = 6;

  // The program lies on hosts 0 and 1, of two devices each.
  Trainer(Reactor& reactor, int hosts);
  // Closes the client if it is still open. EXPECTs that nothing is left behind.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Runs `steps` steps, at most `ahead` of them under way at once, and waits for the last ones.
  void train(int steps, size_t ahead = 3);
  void enqueue();
  // Waits for the oldest run under way.
  void look();
  // Waits until its user got a warning that contains this text.
  void wait_told(const std::string& text) const;
  bool was_told(const std::string& text) const;
  void close();

  Reactor& reactor;
  TempDir root;
  SimCluster cluster;
  std::vector<std::string> told;
  std::optional<Client> client;
  std::optional<Slice> slice;
  std::optional<Executable> step;
  int enqueued = 0;
  std::deque<Run> open;
  std::vector<double> losses;
};

// The losses of all steps of a Trainer when no host dies.
const std::vector<double>& alone();

// Calls `body` with a Trainer, on a simulated reactor.
void with_trainer(int hosts, const std::function<void(Trainer&)>& body);

}  // namespace gangway::sim
