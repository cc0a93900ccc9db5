// SliceQueue: the clients that wait for a slice, in the order in which they came.
//
// Whenever devices or memory are given back, or a host comes, drains or is undrained, those who
// wait are served in order. The first of them that the cluster could serve if nobody held anything,
// but can't now, has devices kept for it: those of such a place that fewest slices lie on. Nobody
// else gets these, so they can only become free, and a large slice is not overtaken for ever by
// small ones; those behind it, and those who do not wait, get the other devices meanwhile. Who asks
// for more than hosts have that do not drain waits for hosts, and nothing is kept for it. Nor is
// anything for whoever waits until its owner holds less than its quota (quotas.h); who wants more
// than the quota is refused at once.
//
// Memory comes and goes with every run. Those who wait for some are served when a device has as
// much free as one of them wants, and had less before, and every kMemoryPauseNs at most.
//
// Threads: the reactor's thread. allocate() suspends where the shape says that the client waits.
// Ownership: the fiber that waits owns its place: where that fiber ends, in whatever way, the place
// is gone.
// Errors: allocate() throws SliceTable::refusal() when the time is over; kOverloaded, naming for
// whom devices are kept; the reason of `stop`; kUnavailable when the session is closed meanwhile.
// Cost: O(those who wait) placements whenever something is given back.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/resources/quotas.h"
#include "controller/resources/slices.h"
#include "runtime/fibers/clock.h"
#include "runtime/fibers/stop.h"

namespace gangway {

class SliceQueue {
 public:
  static constexpr size_t kWaitsMax = 16;  // Of one client.
  static constexpr int64_t kMemoryPauseNs = 10'000'000;

  // What a client wants beyond its owner's quota.
  using QuotaCheck = std::function<std::optional<OverQuota>(SessionId, const SliceShape&)>;
  SliceQueue(const Clock& clock, HostTable& hosts, SliceTable& slices, QuotaCheck over_quota = {})
      : clock_(clock), hosts_(hosts), slices_(slices), over_quota_(std::move(over_quota)) {}

  SliceRecord& allocate(SessionId session, const SliceShape& shape, const StopToken& stop = {});
  void session_closed(SessionId session);
  // "8 devices, for 12.00 s: client 3 of ada holds 8 devices"; empty: this client waits for none.
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
    return over_quota_ ? over_quota_(session, shape) : std::nullopt;
  }
  Error refusal(SessionId session, const SliceShape& shape) const;
  std::string in_the_way(const Wait& wait) const;

  const Clock& clock_;
  HostTable& hosts_;
  SliceTable& slices_;
  const QuotaCheck over_quota_;
  std::list<Wait> waits_;
  std::set<DeviceRef> kept_;  // For `first_`.
  const Wait* first_ = nullptr;
  std::optional<FreedMemory::Watch> memory_;  // For all who wait.
  bool has_memory_come_ = false;              // Nobody has looked since.
  int64_t may_look_ns_ = 0;                   // For memory.
};

}  // namespace gangway
