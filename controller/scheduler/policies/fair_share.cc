#include "controller/scheduler/policies/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gangway {
namespace {

int64_t by_weight(int64_t device_ns, double weight) {
  return std::llround(static_cast<double>(device_ns) / weight);
}

}  // namespace

void FairShare::set_share(SessionId program, const Share& share) {
  programs_[program].weight = share.weight;
}

int64_t FairShare::front(GroupId group) const {
  const auto found = fronts_.find(group);
  return found == fronts_.end() ? 0 : found->second;
}

void FairShare::add(const GangTurn& turn) {
  Program& program = programs_[turn.program];
  const int64_t credit = turn.idled ? 0 : by_weight(kCreditMaxNs, program.weight);
  for (GroupId group : turn.groups) {
    const int64_t least = front(group) - credit;
    const auto [pass, is_new] = program.passes.try_emplace(group, front(group));
    pass->second = std::max(pass->second, least);
  }
  owners_[turn.gang] = turn.program;
  std::vector<GroupId>& groups = program.waiting[turn.gang];
  groups.assign(turn.groups.begin(), turn.groups.end());
  place(program, turn.gang, groups);
}

void FairShare::place(const Program& program, GangId gang, const std::vector<GroupId>& groups) {
  int64_t ahead = std::numeric_limits<int64_t>::min();
  for (GroupId group : groups) ahead = std::max(ahead, program.passes.at(group) - front(group));
  std::vector<Turns::Place> places;
  places.reserve(groups.size());
  for (GroupId group : groups) places.push_back({group, front(group) + ahead});
  turns_.put(gang, std::move(places));
}

void FairShare::remove(GangId gang) {
  const auto owner = owners_.find(gang);
  if (owner == owners_.end()) return;
  programs_.at(owner->second).waiting.erase(gang);
  owners_.erase(owner);
  turns_.remove(gang);
}

std::optional<GangId> FairShare::next(GroupId group, const May& may) {
  const auto first = turns_.first(group, may);
  if (!first) return std::nullopt;
  const Program& program = programs_.at(owners_.at(*first));
  const std::vector<GroupId> groups = program.waiting.at(*first);
  remove(*first);
  for (GroupId each : groups) advance(each, program.passes.at(each));
  return first;
}

// A gang of this pass takes its turn. The front moves there, or to the least key that still waits.
void FairShare::advance(GroupId group, int64_t pass) {
  const int64_t least = std::min(pass, turns_.lowest(group).value_or(pass));
  fronts_[group] = std::max(front(group), least);
}

void FairShare::charge(SessionId id, std::span<const GroupId> groups, int64_t device_ns) {
  const auto found = programs_.find(id);
  if (found == programs_.end()) return;
  Program& program = found->second;
  for (GroupId group : groups) {
    const auto [pass, is_new] = program.passes.try_emplace(group, front(group));
    pass->second += by_weight(device_ns, program.weight);
  }
  for (const auto& [gang, waits_on] : program.waiting) place(program, gang, waits_on);
}

void FairShare::split(GroupId from, GroupId to) {
  if (const auto at = fronts_.find(from); at != fronts_.end()) fronts_[to] = at->second;
  for (auto& [id, program] : programs_) {
    if (const auto at = program.passes.find(from); at != program.passes.end()) {
      program.passes[to] = at->second;
    }
  }
}

void FairShare::erase(GroupId group) {
  fronts_.erase(group);
  for (auto& [id, program] : programs_) program.passes.erase(group);
}

}  // namespace gangway
