// Turns: the gangs that wait, in each share group by a key of the policy; the least goes first.
//
// Threads: the reactor's thread.
// Cost: O(log waiting gangs) for each group of a gang.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "controller/scheduler/policies/policy.h"

namespace gangway {

class Turns {
 public:
  // Position of a gang in one group.
  struct Place {
    GroupId group;
    int64_t key = 0;
  };
  // Adds the gang, or moves it to other places.
  void put(GangId gang, std::vector<Place> places);
  void remove(GangId gang);
  // The first gang in this group that may go. Equal keys: the older run first.
  std::optional<GangId> first(GroupId group, const Policy::May& may) const;
  // The least key in this group.
  std::optional<int64_t> lowest(GroupId group) const;

 private:
  void leave(GangId gang, const std::vector<Place>& places);

  std::map<GangId, std::vector<Place>> places_;
  std::map<GroupId, std::set<std::pair<int64_t, GangId>>> by_group_;
};

}  // namespace gangway
