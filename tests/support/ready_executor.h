// A host that has installed every plan at once, and drops the frames that it is sent: for tests
// that look at the controller. A test that wants the frames overrides send().
//
// Threads: the reactor's.
#pragma once

#include <utility>
#include <vector>

#include "controller/hosts/peers.h"

namespace gangway {

class ReadyExecutor : public ExecutorPeer {
 public:
  // `need`: the need of each plan on each of its devices.
  explicit ReadyExecutor(uint32_t devices, const DeviceNeed& need = {})
      : devices_(devices), need_(need) {}
  Future<Installed> install(PlanId, const std::vector<std::byte>&, uint32_t, StateScope,
                            const PlanOwner&, const std::vector<SourceText>&) override {
    Installed reply;
    reply.needs.assign(devices_, need_);
    for (uint32_t d = 0; d < devices_; ++d) reply.needs[d].device = d;
    return Future<Installed>(Result<Installed>(std::move(reply)));
  }
  Future<void> link(PlanId, const std::vector<LinkOffer>&) override { return ready_future(); }
  Future<void> commit_install(PlanId) override { return ready_future(); }
  Future<int64_t> move_states(const MoveRequest&) override {
    return Future<int64_t>(Result<int64_t>(0));
  }
  void send(const Frame&) override {}
  void hang_up() override {}

 private:
  const uint32_t devices_;
  const DeviceNeed need_;
};

}  // namespace gangway
