// SimNetwork: streams in memory between named endpoints, with seeded delay and injected faults.
//
// Works on any reactor: on a real one it joins the parts of an in-process cluster. Like TCP, a
// stream never loses or reorders bytes: a partition holds them until it heals, a broken connection
// ends both sides, a process that is stopped neither reads nor writes, and a process whose machine
// has vanished never closes its connections. Single frames of frame streams can be lost, repeated,
// swapped and delayed all the same. Addresses are "sim:<name>"; every part of the simulated cluster
// has an endpoint of its own to connect from. An endpoint's user is the user who runs this process,
// unless set_user() names another.
//
// Threads: the reactor's thread.
// Ownership: the network must outlive its endpoints' listeners and streams.
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
#include <vector>

#include "runtime/base/replay_hash.h"
#include "runtime/net/sim_faults.h"
#include "runtime/net/transport.h"

namespace gangway {

struct SimNetworkOptions {
  Duration delay{0};   // One way, for each write.
  Duration jitter{0};  // Added, uniform in [0, jitter), from the reactor's seed.
  // Hash to which every write is added, with its connection and time of arrival. Null: none. It
  // outlives the network.
  ReplayHash* replay = nullptr;
};

// Speed of the connections between two endpoints.
struct SimSpeed {
  Duration delay{0};       // See SimNetworkOptions.
  Duration jitter{0};      // See SimNetworkOptions.
  double bytes_per_s = 0;  // For each stream; 0: no limit.
};

class SimNetwork {
 public:
  explicit SimNetwork(Reactor& reactor, SimNetworkOptions options = {});
  ~SimNetwork();

  // The network as seen by the part of the cluster with this name.
  Network& endpoint(const std::string& name);

  // Sets the user who connects from the endpoint, from now on. Empty: not known, as over TCP.
  void set_user(const std::string& endpoint, std::string user);

  // Speed of the connections between the two, from now on. It begins as in SimNetworkOptions.
  SimSpeed speed(const std::string& a, const std::string& b) const;
  void set_speed(const std::string& a, const std::string& b, SimSpeed speed);

  // Bytes and new connections between the two wait until heal().
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
  // The machine of an endpoint disappears: for its peers its connections stay open and silent,
  // whatever its process still does.
  void vanish(const std::string& name);

  // Called for each frame that is written from now on (a prefix alone counts too); returns the
  // frame's fault on its way from one endpoint to the other. Null: no faults.
  using DrawFrameFault = std::function<FrameFault(const std::string& from, const std::string& to)>;
  void set_frame_fault(DrawFrameFault draw);
  // Called with the frames of each write from now on, before their faults; returns the frames that
  // go on their way instead. A test stands between two peers by it, and changes what they say
  // (tests/support/net/frame_meddler.h). Null: nobody does.
  using Meddle = std::function<std::vector<kj::byte>(const std::string& from, const std::string& to,
                                                     kj::ArrayPtr<const kj::byte> frames)>;
  void set_meddle(Meddle meddle);

  struct Core;

 private:
  std::shared_ptr<Core> core_;
  std::map<std::string, std::unique_ptr<Network>> endpoints_;
};

}  // namespace gangway
