// Faults of a simulated cluster and their times. They are drawn from a seed, printed as a list, and
// carried out by a FaultInjector.
//
//   by frame     lose, repeat, swap: each frame of a host's stream, with some chance, for a while
//   by link      partition: bytes wait until it heals; delay: each write takes longer;
//                break: open connections end (a client then attaches again, a host is lost)
//   by process   kill: a host's process ends; vanish: its machine ends without a goodbye;
//                hang: it stands still for a while, connections stay; slow: its kernels take
//                longer; stop the controller: it stands still for a while
//   by memory    no memory: all free memory of a host's devices is taken for a while
//   by peers     break link: what a host writes to another's memory is lost, one way or both ways,
//                while both reach the controller; not drawn from seeds
//
// Faults of frames and links, and hangs, happen to a host or to a client: to its connection with
// the controller, and to its process.
//
// Threads: drawing is pure; an injector is the reactor's thread's.
// Ownership: the cluster outlives its injector, whose destructor suspends and finishes.
//
// Example:
//   FaultInjector faults(*reactor, cluster, draw_faults(7, {.hosts = 8}));
//   ... run programs ...
//   for (const auto& [fault, at_ns] : faults.happened()) print(to_string(fault));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/fibers/fiber_group.h"
#include "sim/sim_cluster.h"

namespace gangway {

enum class FaultKind : uint8_t {
  kLoseFrames,
  kRepeatFrames,
  kSwapFrames,
  kPartition,
  kDelay,
  kBreak,
  kKill,
  kVanish,
  kHang,
  kSlow,
  kStopController,
  kNoMemory,
  kBreakLink,
};
inline constexpr int kFaultKinds = 12;  // All that are drawn: those before kBreakLink.
const char* to_string(FaultKind kind);

enum class LinkWays : uint8_t { kThere, kBoth };

struct Fault {
  FaultKind kind = FaultKind::kKill;
  int64_t at_ns = 0;          // After the injector's beginning.
  int64_t for_ns = 0;         // kKill, kVanish, kBreak, kBreakLink: 0.
  int host = 0;               // kStopController: 0.
  std::optional<int> client;  // It happens to this client (SimCluster::client_name()), to no host.
  // kSlow: how many times slower; kDelay: how many times the delay; faults of frames: the chance of
  // each frame.
  double factor = 1;
  int peer = 0;                     // kBreakLink: the other host.
  LinkWays ways = LinkWays::kBoth;  // kBreakLink: kThere: what `host` writes to `peer`.

  friend bool operator==(const Fault&, const Fault&) = default;
};
// "at 12.0 ms: host-3 hangs for 2.0 s".
std::string to_string(const Fault& fault);
std::string to_string(const std::vector<Fault>& faults);  // One a line.
// Whether the controller loses the host by it: at once, or after a silence of `host_timeout_ns`.
bool ends_host(const Fault& fault, int64_t host_timeout_ns);
// Whether it may fail runs at all. A broken link fails runs, or the controller drops a host for it.
bool may_fail_runs(const Fault& fault, int64_t host_timeout_ns);

struct FaultLimits {
  int hosts = 2;
  int clients = 0;                    // 0: all faults happen to hosts.
  int64_t within_ns = 1'000'000'000;  // Faults begin within this time.
  int64_t host_timeout_ns = 10'000'000'000;
  int count_max = 3;  // One to this many faults are drawn.
};
// In the order of their times.
std::vector<Fault> draw_faults(uint64_t seed, const FaultLimits& limits);

class FaultInjector {
 public:
  FaultInjector(Reactor& reactor, SimCluster& cluster, const std::vector<Fault>& faults);
  ~FaultInjector() { finish(); }
  FaultInjector(const FaultInjector&) = delete;

  // Faults that have begun; a fault of a host that was gone already does not happen.
  struct Happened {
    Fault fault;
    int64_t at_ns = 0;  // Time of the reactor's clock.
  };
  const std::vector<Happened>& happened() const { return happened_; }
  // Ends the faults that last, and begins no more. Suspends.
  void finish();

 private:
  bool is_there(const Fault& fault) const;
  void run(const Fault& fault);
  void begin(const Fault& fault);
  void end(const Fault& fault);
  void wait(int64_t ns);
  FrameFault draw_frame_fault(const std::string& from, const std::string& to);

  Reactor& reactor_;
  SimCluster& cluster_;
  Rng rng_;
  std::vector<Happened> happened_;
  std::vector<Fault> under_way_;  // Only faults that last.
  FiberGroup fibers_;
};

}  // namespace gangway
