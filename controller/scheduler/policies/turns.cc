#include "controller/scheduler/policies/turns.h"

namespace gangway {

void Turns::put(GangId gang, std::vector<Place> places) {
  std::vector<Place>& now = places_[gang];
  leave(gang, now);
  now = std::move(places);
  for (const Place& place : now) by_group_[place.group].emplace(place.key, gang);
}

void Turns::remove(GangId gang) {
  const auto found = places_.find(gang);
  if (found == places_.end()) return;
  leave(gang, found->second);
  places_.erase(found);
}

void Turns::leave(GangId gang, const std::vector<Place>& places) {
  for (const Place& place : places) {
    const auto group = by_group_.find(place.group);
    group->second.erase({place.key, gang});
    if (group->second.empty()) by_group_.erase(group);
  }
}

std::optional<GangId> Turns::first(GroupId group, const Policy::May& may) const {
  const auto found = by_group_.find(group);
  if (found == by_group_.end()) return std::nullopt;
  for (const auto& [key, gang] : found->second) {
    if (may(gang)) return gang;
  }
  return std::nullopt;
}

std::optional<int64_t> Turns::lowest(GroupId group) const {
  const auto found = by_group_.find(group);
  if (found == by_group_.end()) return std::nullopt;
  return found->second.begin()->first;
}

}  // namespace gangway
