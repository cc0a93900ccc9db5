// Policy: which of the runs that could start now takes the next tickets.
//
// RunQueue keeps the one ticket sequence, and with it freedom from deadlock, whatever a policy
// answers: a policy only chooses an order among clients. Fifo is the default.
//
// Threads: the reactor's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "runtime/base/ids.h"

namespace gangway {

// A run that waits, as a policy sees it.
struct Waiting {
  RunId run;
  SessionId session;
  PlanId plan;
  uint64_t positions = 0;  // How many tickets it takes.
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual void add(const Waiting& run) = 0;
  virtual void remove(RunId run) = 0;
  // The run to grant next among those that may start; none: nullopt. It stays until remove().
  virtual std::optional<RunId> next(const std::function<bool(RunId)>& may_start) = 0;
};

// First come, first served; a run that may not start is passed over.
class Fifo final : public Policy {
 public:
  void add(const Waiting& run) override { waiting_.push_back(run.run); }
  void remove(RunId run) override { std::erase(waiting_, run); }
  std::optional<RunId> next(const std::function<bool(RunId)>& may_start) override {
    for (RunId run : waiting_) {
      if (may_start(run)) return run;
    }
    return std::nullopt;
  }

 private:
  std::deque<RunId> waiting_;
};

}  // namespace gangway
