// HostWatch: finds hosts that are silent, declares them lost, and ends everything that uses them.
//
//   heard of ── silent for 2 s ──> suspect ── silent for --host-timeout ──> lost
//      ^─────────── heard of ─────────┘
//
// A suspect host is shown as such and logged, and keeps all that it has. A lost host stays lost:
// plans that use it are broken, host transfers and runs under way on it fail, waits for its answers
// end, and its connection is closed from this side, so that an executor whose process was only
// stopped notices the loss when it continues. It then registers as a new host of its old name. A
// host whose connection ends is lost at once. A host that ends in order is treated alike, but is
// not counted as lost.
//
// Time in which the controller itself stands still (its process was stopped, its machine slept or
// was overloaded) does not count as silence of hosts: the delay of a tick is subtracted, and logged
// from one second on. Frames that a host has sent are read before the host is judged: a tick that
// finds a silent host asks for another tick, before which the reactor reads its sockets, and only
// the second one judges.
//
// Threads: the reactor's thread; nothing suspends.
// Cost: tick() O(hosts), at least every half second; a loss O(plans + runs).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "controller/scheduler/host_transfers.h"
#include "controller/scheduler/stuck_board.h"

namespace gangway {

// How a host ends. kInOrder: its executor was asked to end, and reported that first.
enum class HostEnd : uint8_t { kLost, kInOrder };

class HostWatch {
 public:
  struct Options {
    int64_t suspect_after_ms = 2000;
    int64_t lost_after_ms = 10'000;
    Logger log;
    // Called for each lost host, before anything that uses it ends. Must not suspend.
    std::function<void(const HostRecord&, const Error&)> on_lost = {};
  };
  HostWatch(HostTable& hosts, PlanTable& plans, HostTransfers& transfers, RunTable& runs,
            StuckBoard& stuck, Metrics& metrics, Options options);

  // Notes a sign of life. Null if the host is not there, or lost: its messages are ignored then.
  HostRecord* heard_of(HostId host, int64_t now_ns);
  // Declares a host lost. Does nothing if it is lost already.
  void lose(HostId host, const Error& why, HostEnd end = HostEnd::kLost);
  // How late the next tick would be if it came now.
  int64_t late_ns(int64_t now_ns) const;
  // Looks for silent hosts. Returns when to look again.
  int64_t tick(int64_t now_ns);

 private:
  void forgive_standstill(int64_t now_ns);
  void suspect(HostRecord& host, int64_t silent_ns);
  void clear_suspicion(HostRecord& host);

  HostTable& hosts_;
  PlanTable& plans_;
  HostTransfers& transfers_;
  RunTable& runs_;
  StuckBoard& stuck_;
  const Options options_;
  Counter lost_total_;
  int64_t asked_ns_ = 0;             // Time for which the next tick was asked; 0: any time.
  std::optional<int64_t> judge_ns_;  // Set when a host is silent: ticks from then on judge it.
};

}  // namespace gangway
