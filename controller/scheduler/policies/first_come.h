// FirstCome: the gang of the run that was submitted first goes first, whatever its program.
//
// It keeps to no shares: a program that submits much at once delays all others by that much.
#pragma once

#include "controller/scheduler/policies/turns.h"

namespace gangway {

class FirstCome final : public Policy {
 public:
  void set_share(SessionId, const Share&) override {}
  void forget(SessionId) override {}
  void add(const GangTurn& turn) override;
  void remove(GangId gang) override { turns_.remove(gang); }
  std::optional<GangId> next(GroupId group, const May& may) override;
  void charge(SessionId, std::span<const GroupId>, int64_t) override {}
  void split(GroupId, GroupId) override {}
  void erase(GroupId) override {}

 private:
  Turns turns_;
};

}  // namespace gangway
