// Policy: chooses the gang that takes the next tickets on a group of devices.
//
// A *program* is what one client runs; it has a weight and a priority. A *gang* is one slice of one
// of its runs: it takes its turn on all its devices at once. A *share group* is a set of devices
// with the same contenders (gangs/share_groups.h), so that nothing here grows with devices.
//
// A policy only chooses an order. The gang scheduler (gangs/gang_scheduler.h) adds a gang when its
// next section could be granted, asks for the next one where devices run out of granted work, and
// charges device time: an estimate with the grant, and later the difference to the measured time.
// Whatever a policy answers, nothing can deadlock.
//
// A policy that decides by more than a GangTurn tells adds it there: GangScheduler::submit() gets
// it from the run table (../runs.cc), and gang_turns.cc hands it on.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: O(log waiting gangs) for each group of the gang, and for each gang that next() passes over.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/share.h"
#include "runtime/base/ids.h"

namespace gangway {

// Devices that are shared by the same programs.
using GroupId = Id<struct GroupTag>;

// One slice of one run.
struct GangId {
  RunId run;
  uint32_t slice = 0;
  friend auto operator<=>(const GangId&, const GangId&) = default;
};

// A gang that waits for its turn.
struct GangTurn {
  GangId gang;
  SessionId program;
  std::span<const GroupId> groups;  // Groups where others compete with it; at least one.
  int64_t waits_since_ns = 0;       // Time of its last turn, or when it came.
  bool idled = false;               // Its program had nothing to run before this.
};

class Policy {
 public:
  using May = std::function<bool(GangId)>;

  virtual ~Policy() = default;
  virtual void set_share(SessionId program, const Share& share) = 0;
  virtual void forget(SessionId program) = 0;  // The program has no gangs left.

  virtual void add(const GangTurn& turn) = 0;
  virtual void remove(GangId gang) = 0;  // It waits no longer; ignored if it does not wait.
  // Takes out the gang that goes next on `group` among those that may; nullopt if there is none.
  virtual std::optional<GangId> next(GroupId group, const May& may) = 0;
  // The program used this much time of each device of the groups; less than zero: it was charged
  // too much before.
  virtual void charge(SessionId program, std::span<const GroupId> groups, int64_t device_ns) = 0;

  // Some devices of a group are a group of their own from now on, with the same past.
  virtual void split(GroupId from, GroupId to) = 0;
  virtual void erase(GroupId group) = 0;  // The group has no devices any more.
};

// "fair", "fifo" and "priority". A new one is a row of the table in policy.cc: command lines,
// errors and the tests of all policies take its name from there.
std::vector<std::string> policy_names();
// Throws kInvalid for a name that none has.
std::unique_ptr<Policy> make_policy(const std::string& name);

}  // namespace gangway
