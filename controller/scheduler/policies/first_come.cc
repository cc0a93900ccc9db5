#include "controller/scheduler/policies/first_come.h"

namespace gangway {

void FirstCome::add(const GangTurn& turn) {
  std::vector<Turns::Place> places;
  places.reserve(turn.groups.size());
  for (GroupId group : turn.groups) {
    places.push_back({group, static_cast<int64_t>(turn.gang.run.value)});
  }
  turns_.put(turn.gang, std::move(places));
}

std::optional<GangId> FirstCome::next(GroupId group, const May& may) {
  const auto first = turns_.first(group, may);
  if (first) turns_.remove(*first);
  return first;
}

}  // namespace gangway
