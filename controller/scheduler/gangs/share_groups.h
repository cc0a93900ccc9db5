// Share groups: the devices on which the same slices lie.
//
// Programs compete group by group: all devices of a group have the same contenders, so the gang
// scheduler and its policies keep one account for each group, and nothing grows with devices. A new
// slice cuts the groups that it covers in part in two; when it goes, they become one again.
//
// Threads: a value on the reactor's thread.
// Cost: add() and remove() O(devices of the slice); devices() O(slices of all groups); the rest
// O(log slices).
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "controller/scheduler/policies/policy.h"
#include "controller/slices/slices.h"

namespace gangway {

// Effects of a change on the groups, in this order.
struct GroupChanges {
  std::vector<std::pair<GroupId, GroupId>> split;  // From, to: part of a group has become one.
  std::vector<GroupId> gone;                       // Groups that have no devices any more.
};

class ShareGroups {
 public:
  // The program may run on the slice from now on. One more add() of the same slice needs one more
  // remove().
  GroupChanges add(SliceId slice, SessionId program, const std::vector<DeviceRef>& devices);
  GroupChanges remove(SliceId slice);

  // Groups that the slice covers.
  const std::vector<GroupId>& of(SliceId slice) const { return slices_.at(slice).groups; }
  // Whether more than one program may run on the group's devices.
  bool is_contended(GroupId group) const { return groups_.at(group).programs > 1; }
  // Number of devices on which each program may run.
  std::map<SessionId, size_t> devices() const;
  size_t size() const { return groups_.size(); }

 private:
  using Key = std::vector<SliceId>;  // Ascending.
  struct Slice {
    SessionId program;
    int uses = 0;
    std::vector<DeviceRef> devices;
    std::vector<GroupId> groups;  // Ascending.
  };
  struct Group {
    Key slices;
    size_t devices = 0;
    size_t programs = 0;
  };
  // `with`: the slice lies on the device from now on; otherwise it does no longer.
  void move(DeviceRef device, SliceId slice, bool with, GroupChanges& changes);
  GroupId group_for(const Key& slices, const GroupId* from, GroupChanges& changes);
  void erase_empty(GroupChanges& changes);

  std::map<SliceId, Slice> slices_;
  std::map<GroupId, Group> groups_;
  std::map<Key, GroupId> by_slices_;
  std::map<DeviceRef, GroupId> by_device_;
  std::vector<GroupId> left_;  // Groups from which the change under way took devices.
  uint64_t last_ = 0;
};

}  // namespace gangway
