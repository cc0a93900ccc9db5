// SliceQueue: the clients that wait for a slice, in the order in which they came.
//
// Whenever devices or memory are given back, or a host comes, drains or is undrained, waiting
// clients are served in order. For the first of them that the cluster could serve if nobody held
// anything, but can't now, devices are kept: of all places for its slice, one that few slices lie
// on. Nobody else gets these devices, so they can only become free, and small slices do not
// overtake a large one for ever. Clients after it, and those that do not wait, get the other
// devices meanwhile. A client that asks for more than the hosts have that do not drain waits for
// hosts, and nothing is kept for it. Nor is anything kept for a client that waits until its owner
// holds less than its quota (quotas.h). A client that wants more than the quota is refused at once.
//
// Memory comes and goes with every run. Clients that wait for memory are served when a device has
// as much free as one of them wants, and had less before, and every kMemoryPauseNs at most.
//
// Threads: the reactor's thread. allocate() suspends if the shape lets the client wait.
// Ownership: the fiber that waits owns its place in the queue, which goes when that fiber ends, in
// whatever way.
// Errors: allocate() throws SliceTable::refusal() when the time is over; kOverloaded, naming for
// which client devices are kept; the reason of `stop`; kUnavailable if the session is closed
// meanwhile.
// Cost: O(waiting clients) placements whenever something is given back.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/slices/owner_quotas.h"
#include "controller/slices/slices.h"
#include "runtime/fibers/clock.h"
#include "runtime/fibers/stop.h"

namespace gangway {

class SliceQueue {
 public:
  static constexpr size_t kWaitsMax = 16;  // Waits of one client.
  static constexpr int64_t kMemoryPauseNs = 10'000'000;

  // Without quotas, owners may have all.
  SliceQueue(const Clock& clock, HostTable& hosts, SliceTable& slices,
             const OwnerQuotas* quotas = nullptr)
      : clock_(clock), hosts_(hosts), slices_(slices), quotas_(quotas) {}

  SliceRecord& allocate(SessionId session, const SliceShape& shape, const StopToken& stop = {});
  // Whether the hosts have no place for the slice now, its owner's quota apart. False for a slice
  // that was refused for another reason.
  bool lacks_devices(SessionId session, const SliceShape& shape) const {
    return !over_quota(session, shape) && slices_.find_place(shape, kept_).empty();
  }
  // SliceTable::leave_hosts(), which takes no devices that are kept for a client that waits.
  SliceTable::Elsewhere leave_hosts(SliceId slice, const std::set<HostId>& hosts) {
    serve();
    return slices_.leave_hosts(slice, hosts, kept_);
  }
  void session_closed(SessionId session);
  // "8 devices, for 12.00 s: client 3 of ada holds 8 devices". Empty: this client waits for none.
  std::string waits_for(SessionId session) const;
  size_t size() const { return waits_.size(); }

 private:
  struct Wait {
    SessionId session;
    SliceShape shape;
    int64_t since_ns = 0;
    std::optional<SliceId> got;
    std::optional<Error> ended;
  };
  class Place;
  SliceRecord& wait_in_line(Wait& wait, const StopToken& stop);
  void serve();
  void watch_memory();
  std::optional<OverQuota> over_quota(SessionId session, const SliceShape& shape) const {
    return quotas_ != nullptr ? quotas_->over(session, shape) : std::nullopt;
  }
  Error refusal(SessionId session, const SliceShape& shape) const;
  std::string in_the_way(const Wait& wait) const;

  const Clock& clock_;
  HostTable& hosts_;
  SliceTable& slices_;
  const OwnerQuotas* const quotas_;
  std::list<Wait> waits_;
  std::set<DeviceRef> kept_;  // Devices that are kept for `first_`.
  const Wait* first_ = nullptr;
  std::optional<FreedMemory::Watch> memory_;  // Watches for all waits.
  bool has_memory_come_ = false;              // Cleared by the next look.
  int64_t may_look_ns_ = 0;                   // Time of the next look for memory.
};

}  // namespace gangway
