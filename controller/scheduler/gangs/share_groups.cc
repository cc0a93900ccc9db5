#include "controller/scheduler/gangs/share_groups.h"

#include <algorithm>
#include <set>

namespace gangway {

GroupChanges ShareGroups::add(SliceId id, SessionId program,
                              const std::vector<DeviceRef>& devices) {
  GroupChanges changes;
  Slice& slice = slices_[id];
  if (++slice.uses > 1) return changes;
  slice.program = program;
  slice.devices = devices;
  for (DeviceRef device : devices) move(device, id, true, changes);
  erase_empty(changes);
  return changes;
}

GroupChanges ShareGroups::remove(SliceId id) {
  GroupChanges changes;
  Slice& slice = slices_.at(id);
  if (--slice.uses > 0) return changes;
  for (DeviceRef device : slice.devices) move(device, id, false, changes);
  erase_empty(changes);
  slices_.erase(id);
  return changes;
}

void ShareGroups::move(DeviceRef device, SliceId slice, bool with, GroupChanges& changes) {
  const auto at = by_device_.find(device);
  const bool is_known = at != by_device_.end();
  const GroupId from = is_known ? at->second : GroupId();
  Key key = is_known ? groups_.at(from).slices : Key();
  const auto place = std::lower_bound(key.begin(), key.end(), slice);
  const bool is_there = place != key.end() && *place == slice;
  if (is_there == with) return;  // Several ranks of the slice lie on the device.
  if (with) {
    key.insert(place, slice);
  } else {
    key.erase(place);
  }
  if (is_known && --groups_.at(from).devices == 0) left_.push_back(from);
  if (key.empty()) {
    by_device_.erase(at);
    return;
  }
  const GroupId to = group_for(key, is_known ? &from : nullptr, changes);
  ++groups_.at(to).devices;
  by_device_[device] = to;
}

GroupId ShareGroups::group_for(const Key& slices, const GroupId* from, GroupChanges& changes) {
  const auto [at, is_new] = by_slices_.try_emplace(slices, GroupId(last_ + 1));
  if (!is_new) return at->second;
  const GroupId id(++last_);
  std::set<SessionId> programs;
  for (SliceId slice : slices) {
    slices_.at(slice).groups.push_back(id);  // The largest id so far.
    programs.insert(slices_.at(slice).program);
  }
  groups_[id] = {.slices = slices, .programs = programs.size()};
  if (from != nullptr) changes.split.emplace_back(*from, id);
  return id;
}

void ShareGroups::erase_empty(GroupChanges& changes) {
  for (GroupId id : std::exchange(left_, {})) {
    const Group& group = groups_.at(id);
    for (SliceId slice : group.slices) std::erase(slices_.at(slice).groups, id);
    by_slices_.erase(group.slices);
    groups_.erase(id);
    changes.gone.push_back(id);
  }
}

std::map<SessionId, size_t> ShareGroups::devices() const {
  std::map<SessionId, size_t> devices;
  for (const auto& [id, group] : groups_) {
    std::set<SessionId> programs;
    for (SliceId slice : group.slices) programs.insert(slices_.at(slice).program);
    for (SessionId program : programs) devices[program] += group.devices;
  }
  return devices;
}

}  // namespace gangway
