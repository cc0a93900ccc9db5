// StrictPriority: the highest priority goes first, and among equals the gang that waited longest.
//
// Ageing: a gang that waits gains one level of priority every 100 ms, up to its next turn, so none
// waits for ever: behind programs that are ten levels higher, one turn a second is the least.
//
// Two gangs that wait age alike, so their order does not change while they wait: a gang's key is
// the time since which it waits, earlier by 100 ms for each level.
#pragma once

#include <map>

#include "controller/scheduler/policies/turns.h"

namespace gangway {

class StrictPriority final : public Policy {
 public:
  static constexpr int64_t kAgeNs = 100'000'000;  // For one level.

  void set_share(SessionId program, const Share& share) override;
  void forget(SessionId program) override { programs_.erase(program); }
  void add(const GangTurn& turn) override;
  void remove(GangId gang) override;
  std::optional<GangId> next(GroupId group, const May& may) override;
  void charge(SessionId, std::span<const GroupId>, int64_t) override {}
  void split(GroupId, GroupId) override {}
  void erase(GroupId) override {}

 private:
  struct Waiting {
    SessionId program;
    int64_t since_ns = 0;
    std::vector<GroupId> groups;
  };
  void place(GangId gang, const Waiting& waiting);

  std::map<SessionId, int32_t> programs_;  // Priorities of programs.
  std::map<GangId, Waiting> waiting_;
  Turns turns_;
};

}  // namespace gangway
