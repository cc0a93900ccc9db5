// HostWatch: finds the hosts that are silent, declares them lost, and tells everybody who has to do
// with them.
//
//   heard of ── silent for 2 s ──> suspect ── silent for --host-timeout ──> lost
//      ^─────────── heard of ─────────┘
//
// A suspect host is shown as such and logged, and keeps all that it has. A lost one stays lost:
// plans that use it are broken, copies and runs under way on it fail, whoever awaits an answer of
// it stops waiting, and its connection is closed from this side, so that an executor that was only
// suspended notices it when it resumes. It registers again as a new host of its old name. A host
// whose connection ends is lost at once. One that ends in order is gone for all of them alike, and
// is not counted as lost.
//
// The controller's own standstill (its process was stopped, its machine slept or was overloaded) is
// nobody's silence: what a tick comes later than it was asked for does not count, and is logged
// from a second on. And what a host sent is read before the host is judged: a tick that finds one
// silent asks for another one, before which the reactor reads its sockets, and only that one
// judges.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: tick() O(hosts), at least every half second; a loss O(plans + runs).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "controller/copies/copies.h"
#include "controller/recovery/stuck_board.h"

namespace gangway {

// In order: its executor was told to end, and said so first.
enum class HostEnd : uint8_t { kLost, kInOrder };

class HostWatch {
 public:
  struct Options {
    int64_t suspect_after_ms = 2000;
    int64_t lost_after_ms = 10'000;
    Logger log;
    // Of each one, before anything of it ends. Must not suspend.
    std::function<void(const HostRecord&, const Error&)> on_lost = {};
  };
  HostWatch(HostTable& hosts, PlanTable& plans, CopyTable& copies, RunTable& runs,
            StuckBoard& stuck, Metrics& metrics, Options options);

  // Null: the host is not there, or lost: what still comes of it is ignored.
  HostRecord* heard_of(HostId host, int64_t now_ns);
  // Once more is ignored.
  void lose(HostId host, const Error& why, HostEnd end = HostEnd::kLost);
  // How much later than it was asked for the next tick would come now.
  int64_t late_ns(int64_t now_ns) const;
  // Looks for silent hosts; says when to look again.
  int64_t tick(int64_t now_ns);

 private:
  void forgive_standstill(int64_t now_ns);
  void suspect(HostRecord& host, int64_t silent_ns);
  void clear_suspicion(HostRecord& host);

  HostTable& hosts_;
  PlanTable& plans_;
  CopyTable& copies_;
  RunTable& runs_;
  StuckBoard& stuck_;
  const Options options_;
  Counter lost_total_;
  int64_t asked_ns_ = 0;             // When the next tick is to come; 0: at any time.
  std::optional<int64_t> judge_ns_;  // A silent host was found: judged from then on.
};

}  // namespace gangway
