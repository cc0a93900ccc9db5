// SimLink: a HostLink between simulated hosts, over ordinary memory of their one process. A host
// writes into mirrors of the areas that it writes at a peer, and the fabric carries the writes
// there, if it has a network (sim_fabric.h).
// Simulated devices have no thread that parks on a doorbell, so a ring is a call.
//
// Threads: the reactor's. Errors: see host_link.h.
// Ownership: memory goes with the last host that holds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/links/host_link.h"
#include "executor/links/sim_fabric.h"

namespace gangway {

class SimLink final : public HostLink {
 public:
  // `bells`: those of this host's devices. `name`: the host's, by which a simulation breaks links.
  SimLink(std::shared_ptr<SimFabric> fabric, std::vector<Bell> bells, std::string name = {});

  std::shared_ptr<OwnMemory> offer(const AreaList& areas) override;
  std::shared_ptr<PeerMemory> open(std::span<const std::byte> offer) override;

 private:
  const std::shared_ptr<SimFabric> fabric_;
  const std::vector<Bell> bells_;
  const std::string name_;
};

}  // namespace gangway
