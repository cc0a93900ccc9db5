#include "controller/scheduler/policies/strict_priority.h"

namespace gangway {

void StrictPriority::set_share(SessionId program, const Share& share) {
  programs_[program] = share.priority;
  for (const auto& [gang, waiting] : waiting_) {
    if (waiting.program == program) place(gang, waiting);
  }
}

void StrictPriority::add(const GangTurn& turn) {
  Waiting& waiting = waiting_[turn.gang];
  waiting = {turn.program, turn.waits_since_ns, {turn.groups.begin(), turn.groups.end()}};
  place(turn.gang, waiting);
}

void StrictPriority::place(GangId gang, const Waiting& waiting) {
  const int64_t key = waiting.since_ns - programs_[waiting.program] * kAgeNs;
  std::vector<Turns::Place> places;
  places.reserve(waiting.groups.size());
  for (GroupId group : waiting.groups) places.push_back({group, key});
  turns_.put(gang, std::move(places));
}

void StrictPriority::remove(GangId gang) {
  waiting_.erase(gang);
  turns_.remove(gang);
}

std::optional<GangId> StrictPriority::next(GroupId group, const May& may) {
  const auto first = turns_.first(group, may);
  if (first) remove(*first);
  return first;
}

}  // namespace gangway
