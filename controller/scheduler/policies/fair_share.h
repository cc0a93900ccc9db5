// FairShare: device time in proportion to the programs' weights, by stride scheduling.
//
// In each group a program has a *pass*: the device time that it used there, divided by its weight.
// The least pass goes first, so passes stay together, and time is shared by the weights. The
// *front* of a group is the value of its least pass now. A gang over several groups is placed by
// the group in which its program is furthest ahead of the front, so that it is not served beyond
// its share in any of them.
//
// No share is saved up: a program that is new or had nothing to run starts at the front, and one
// that could not go for a while (its input was late) falls behind by 2 ms of device time at most. A
// program that used more than its share before it stopped keeps that debt.
#pragma once

#include <map>

#include "controller/scheduler/policies/turns.h"

namespace gangway {

class FairShare final : public Policy {
 public:
  static constexpr int64_t kCreditMaxNs = 2'000'000;  // For a program that does not idle.

  void set_share(SessionId program, const Share& share) override;
  void forget(SessionId program) override { programs_.erase(program); }
  void add(const GangTurn& turn) override;
  void remove(GangId gang) override;
  std::optional<GangId> next(GroupId group, const May& may) override;
  void charge(SessionId program, std::span<const GroupId> groups, int64_t device_ns) override;
  void split(GroupId from, GroupId to) override;
  void erase(GroupId group) override;

 private:
  struct Program {
    double weight = 1;
    std::map<GroupId, int64_t> passes;
    std::map<GangId, std::vector<GroupId>> waiting;
  };
  void place(const Program& program, GangId gang, const std::vector<GroupId>& groups);
  int64_t front(GroupId group) const;
  void advance(GroupId group, int64_t pass);

  std::map<SessionId, Program> programs_;
  std::map<GangId, SessionId> owners_;  // For the gangs that wait.
  std::map<GroupId, int64_t> fronts_;
  Turns turns_;
};

}  // namespace gangway
