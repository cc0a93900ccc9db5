// SimNetwork: streams in memory between named endpoints, with seeded delay and injected faults.
//
// Works on any reactor: on a real one it joins the parts of an in-process cluster. Like TCP, a
// stream never loses or reorders bytes: a partition holds them until it heals, a broken connection
// ends both sides, a process that is stopped neither reads nor writes, and one whose machine has
// vanished never says that it is gone. Single frames of frame streams can be lost, repeated,
// swapped and delayed all the same. Addresses are "sim:<name>"; every part of the simulated cluster
// has an endpoint of its own to connect from, whose user is who runs this process unless said
// otherwise.
//
// Threads: the reactor's thread.
// Ownership: must outlive its endpoints' listeners and streams.
// Errors: connect(): kUnavailable when nobody listens there within the time limit, or the two are
// partitioned.
//
// Example:
//   SimNetwork network(reactor, {.delay = 50us, .jitter = 20us});
//   Network& here = network.endpoint("controller");
//   auto listener = here.listen("sim:controller", [](Stream stream) { serve(std::move(stream)); });
//   Stream stream = network.endpoint("host-3").connect("sim:controller");
//   network.partition("host-3", "controller");
//   network.set_frame_fault([&rng](const std::string& from, const std::string& to) {
//     return FrameFault{rng.chance(0.01) ? FrameFault::Kind::kDrop : FrameFault::Kind::kNothing};
//   });
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/replay_hash.h"
#include "runtime/net/sim_faults.h"
#include "runtime/net/transport.h"

namespace gangway {

struct SimNetworkOptions {
  Duration delay{0};   // One way, for each write.
  Duration jitter{0};  // Added, uniform in [0, jitter), from the reactor's seed.
  // Gets every write, by its connection and time of arrival; null: nothing does. It outlives the
  // network.
  ReplayHash* replay = nullptr;
};

// Between two endpoints.
struct SimSpeed {
  Duration delay{0};       // As SimNetworkOptions.
  Duration jitter{0};      // As SimNetworkOptions.
  double bytes_per_s = 0;  // Of each stream; 0: no limit.
};

class SimNetwork {
 public:
  explicit SimNetwork(Reactor& reactor, SimNetworkOptions options = {});
  ~SimNetwork();

  // The network as seen by the part of the cluster with this name.
  Network& endpoint(const std::string& name);

  // Who connects from the endpoint, from now on. Empty: not known, as over TCP.
  void set_user(const std::string& endpoint, std::string user);

  // How fast the two reach each other from now on; at first as SimNetworkOptions says.
  SimSpeed speed(const std::string& a, const std::string& b) const;
  void set_speed(const std::string& a, const std::string& b, SimSpeed speed);

  // Bytes between the two wait until heal(); new connections too.
  void partition(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  // Ends every open connection between the two.
  void break_connections(const std::string& a, const std::string& b);
  // Ends every open connection of an endpoint, as when its process dies.
  void break_connections(const std::string& name);

  // From stop() to resume() the process at an endpoint reads and writes nothing, as after SIGSTOP:
  // its connections stay, and what is sent to it waits.
  void stop(const std::string& name);
  void resume(const std::string& name);
  // The machine of an endpoint is gone without a goodbye: for its peers the connections stay open
  // and silent, whatever its process still does.
  void vanish(const std::string& name);

  // Asked for each frame that is written from now on, a prefix alone included, what happens to it
  // on its way from one endpoint to the other. Null: nothing does.
  using DrawFrameFault = std::function<FrameFault(const std::string& from, const std::string& to)>;
  void set_frame_fault(DrawFrameFault draw);

  struct Core;

 private:
  std::shared_ptr<Core> core_;
  std::map<std::string, std::unique_ptr<Network>> endpoints_;
};

}  // namespace gangway
