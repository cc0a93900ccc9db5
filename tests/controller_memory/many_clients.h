// ManyClients: a controller with fake hosts and clients that keep nothing, so that all of the heap
// is the controller's.
//
// Every client has a slice of all devices, and a program on it that it runs one run after another;
// each run leaves one result, an array that the client keeps.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "controller/controller.h"

namespace gangway {

class ManyClients {
 public:
  ManyClients(uint32_t hosts, uint32_t devices_per_host);
  ~ManyClients();

  // Adds a client, with its slice and program.
  void add_client();
  // Removes the client that was added last.
  void remove_client();
  // Does `runs` runs of each client, which keeps their results.
  void run_all(int runs);
  ControllerCounts counts() const { return controller_.counts(); }

 private:
  class Host;
  class Owner;

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  Controller controller_{*reactor_};
  uint32_t devices_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Owner>> owners_;
  uint64_t last_run_ = 0;
};

}  // namespace gangway
