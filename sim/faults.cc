#include "sim/faults.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/units.h"

namespace gangway {
namespace {

std::string duration(int64_t ns) { return format_duration_ns(ns); }

bool lasts(FaultKind kind) {
  return kind != FaultKind::kBreak && kind != FaultKind::kKill && kind != FaultKind::kVanish &&
         kind != FaultKind::kBreakLink;
}

bool is_of_frames(FaultKind kind) {
  return kind == FaultKind::kLoseFrames || kind == FaultKind::kRepeatFrames ||
         kind == FaultKind::kSwapFrames;
}

bool may_hit_a_client(FaultKind kind) {
  return kind <= FaultKind::kBreak || kind == FaultKind::kHang;
}

// Name in the network of the host or client that suffers the fault.
std::string sufferer(const Fault& fault) {
  return fault.client ? SimCluster::client_name(*fault.client) : SimCluster::host_name(fault.host);
}

FrameFault::Kind frame_fault_of(FaultKind kind) {
  if (kind == FaultKind::kLoseFrames) return FrameFault::Kind::kDrop;
  return kind == FaultKind::kRepeatFrames ? FrameFault::Kind::kDuplicate : FrameFault::Kind::kSwap;
}

// Draws from `least` to `most`: first a doubling of `least`, then a number within it, both evenly.
// Computes with integers only, since powers differ by processor in their last bits.
int64_t draw_magnitude(Rng& rng, int64_t least, int64_t most) {
  uint64_t doublings = 1;
  while ((least << doublings) < most) ++doublings;
  const int64_t from = least << rng.below(doublings);
  return std::min(from + static_cast<int64_t>(rng.below(static_cast<uint64_t>(from))), most);
}

Fault draw_fault(Rng& rng, const FaultLimits& limits) {
  Fault fault{.kind = static_cast<FaultKind>(rng.below(kFaultKinds)),
              .at_ns = static_cast<int64_t>(rng.below(static_cast<uint64_t>(limits.within_ns)))};
  if (fault.kind != FaultKind::kStopController)
    fault.host = static_cast<int>(rng.below(static_cast<uint64_t>(limits.hosts)));
  if (lasts(fault.kind)) {
    // From a thousandth of the host timeout to twice as long, evenly by magnitude. Faults of frames
    // last a quarter of the timeout at most: where the first frames of several connections in a row
    // are lost, the pause before the next try doubles.
    const int64_t timeout_ns = limits.host_timeout_ns;
    fault.for_ns = draw_magnitude(rng, std::max<int64_t>(timeout_ns / 1000, 1),
                                  is_of_frames(fault.kind) ? timeout_ns / 4 : 2 * timeout_ns);
  }
  if (fault.kind == FaultKind::kSlow || fault.kind == FaultKind::kDelay)
    fault.factor = static_cast<double>(2 + rng.below(30));
  if (is_of_frames(fault.kind)) fault.factor = static_cast<double>(1 + rng.below(20)) / 100;
  if (limits.clients > 0 && may_hit_a_client(fault.kind) && rng.chance(0.3)) {
    fault.client = static_cast<int>(rng.below(static_cast<uint64_t>(limits.clients)));
    fault.host = 0;
  }
  return fault;
}

SimSpeed slower(SimSpeed speed, double factor) {
  speed.delay = Duration(std::llround(static_cast<double>(speed.delay.count()) * factor));
  return speed;
}

}  // namespace

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kLoseFrames: return "lose frames";
    case FaultKind::kRepeatFrames: return "repeat frames";
    case FaultKind::kSwapFrames: return "swap frames";
    case FaultKind::kPartition: return "partition";
    case FaultKind::kDelay: return "delay";
    case FaultKind::kBreak: return "break";
    case FaultKind::kKill: return "kill";
    case FaultKind::kVanish: return "vanish";
    case FaultKind::kHang: return "hang";
    case FaultKind::kSlow: return "slow";
    case FaultKind::kStopController: return "stop controller";
    case FaultKind::kNoMemory: return "no memory";
    case FaultKind::kBreakLink: return "break link";
  }
  return "?";
}

std::string to_string(const Fault& fault) {
  const std::string host = sufferer(fault);
  const std::string when = cat("at ", duration(fault.at_ns), ": ");
  const std::string how_long = cat(" for ", duration(fault.for_ns));
  const std::string some =
      cat(100 * fault.factor, " % of the frames between ", host, " and the controller are ");
  switch (fault.kind) {
    case FaultKind::kLoseFrames: return cat(when, some, "lost", how_long);
    case FaultKind::kRepeatFrames: return cat(when, some, "repeated", how_long);
    case FaultKind::kSwapFrames: return cat(when, some, "overtaken by the next", how_long);
    case FaultKind::kPartition:
      return cat(when, host, " and the controller do not reach each other", how_long);
    case FaultKind::kDelay:
      return cat(when, "between ", host, " and the controller all takes ", fault.factor,
                 " times as long", how_long);
    case FaultKind::kBreak:
      return cat(when, "the connections between ", host, " and the controller break");
    case FaultKind::kKill: return cat(when, "the process of ", host, " is killed");
    case FaultKind::kVanish: return cat(when, host, " vanishes without a goodbye");
    case FaultKind::kHang: return cat(when, host, " hangs", how_long);
    case FaultKind::kSlow:
      return cat(when, host, " computes ", fault.factor, " times slower", how_long);
    case FaultKind::kStopController: return cat(when, "the controller stands still", how_long);
    case FaultKind::kNoMemory: return cat(when, host, " has no free device memory", how_long);
    case FaultKind::kBreakLink:
      return cat(when, "what ", host, " writes to ", SimCluster::host_name(fault.peer),
                 fault.ways == LinkWays::kBoth ? " is lost, and the other way" : " is lost");
  }
  return {};
}

std::string to_string(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += to_string(fault) + "\n";
  return text;
}

bool ends_host(const Fault& fault, int64_t host_timeout_ns) {
  if (fault.client) return false;
  switch (fault.kind) {
    case FaultKind::kBreak:
    case FaultKind::kKill:
    case FaultKind::kVanish: return true;
    case FaultKind::kPartition:
    case FaultKind::kHang: return fault.for_ns > host_timeout_ns;
    case FaultKind::kLoseFrames:
    case FaultKind::kRepeatFrames:
    case FaultKind::kSwapFrames:
    case FaultKind::kDelay:
    case FaultKind::kSlow:
    case FaultKind::kStopController:
    case FaultKind::kNoMemory:
    case FaultKind::kBreakLink: return false;
  }
  return false;
}

bool may_fail_runs(const Fault& fault, int64_t host_timeout_ns) {
  // A silence that is shorter than the timeout may also end a host, since it may begin up to one
  // heartbeat's pause after the last heartbeat.
  return fault.kind == FaultKind::kNoMemory || fault.kind == FaultKind::kBreakLink ||
         ends_host(fault, host_timeout_ns / 2);
}

std::vector<Fault> draw_faults(uint64_t seed, const FaultLimits& limits) {
  Rng rng(seed, 0xFA017);
  std::vector<Fault> faults(1 + rng.below(static_cast<uint64_t>(limits.count_max)));
  for (Fault& fault : faults) fault = draw_fault(rng, limits);
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_ns < b.at_ns; });
  return faults;
}

FaultInjector::FaultInjector(Reactor& reactor, SimCluster& cluster,
                             const std::vector<Fault>& faults)
    : reactor_(reactor), cluster_(cluster), rng_(reactor.rng().fork(0xFA017)), fibers_(reactor) {
  cluster_.network.set_frame_fault([this](const std::string& from, const std::string& to) {
    return draw_frame_fault(from, to);
  });
  for (const Fault& fault : faults) fibers_.spawn("a fault", [this, fault] { run(fault); });
}

void FaultInjector::finish() {
  fibers_.cancel();
  cluster_.network.set_frame_fault(nullptr);
  while (!under_way_.empty()) end(Fault(under_way_.back()));
}

void FaultInjector::wait(int64_t ns) {
  WaitQueue().wait_until_ns("for the time of a fault", reactor_.clock().now_ns() + ns);
}

bool FaultInjector::is_there(const Fault& fault) const {
  return fault.client || fault.kind == FaultKind::kStopController || cluster_.alive(fault.host);
}

void FaultInjector::run(const Fault& fault) {
  wait(fault.at_ns);
  if (!is_there(fault)) return;
  happened_.push_back({fault, reactor_.clock().now_ns()});
  if (lasts(fault.kind)) under_way_.push_back(fault);
  begin(fault);
  if (!lasts(fault.kind)) return;
  wait(fault.for_ns);
  end(fault);
}

FrameFault FaultInjector::draw_frame_fault(const std::string& from, const std::string& to) {
  for (const Fault& fault : under_way_) {
    if (!is_of_frames(fault.kind)) continue;
    const std::string host = sufferer(fault);
    if ((from == host || to == host) && rng_.chance(fault.factor))
      return {.kind = frame_fault_of(fault.kind)};
  }
  return {};
}

void FaultInjector::begin(const Fault& fault) {
  const std::string host = sufferer(fault);
  const std::string controller = SimCluster::kController;
  SimNetwork& network = cluster_.network;
  switch (fault.kind) {
    // draw_frame_fault() does these while the fault is under way.
    case FaultKind::kLoseFrames:
    case FaultKind::kRepeatFrames:
    case FaultKind::kSwapFrames: return;
    case FaultKind::kPartition: return network.partition(host, controller);
    case FaultKind::kDelay:
      return network.set_speed(host, controller,
                               slower(network.speed(host, controller), fault.factor));
    case FaultKind::kBreak: return network.break_connections(host, controller);
    case FaultKind::kKill: return cluster_.kill(fault.host);
    case FaultKind::kVanish: return cluster_.vanish(fault.host);
    case FaultKind::kHang:
      return fault.client ? cluster_.stop_client(host) : cluster_.stop(fault.host);
    case FaultKind::kSlow: return cluster_.slow_down(fault.host, fault.factor);
    case FaultKind::kStopController: return cluster_.stop_controller();
    case FaultKind::kNoMemory: return cluster_.exhaust_memory(fault.host);
    case FaultKind::kBreakLink:
      if (fault.ways == LinkWays::kBoth) cluster_.break_link(fault.peer, fault.host);
      return cluster_.break_link(fault.host, fault.peer);
  }
}

void FaultInjector::end(const Fault& fault) {
  // The fault ends also where its host has gone meanwhile: another host of that name may have come,
  // or will.
  under_way_.erase(std::ranges::find(under_way_, fault));
  // The effect lasts until the last fault of its kind has ended; a delay is taken off by its own
  // factor.
  const bool lasts = std::ranges::any_of(under_way_, [&](const Fault& other) {
    return other.kind == fault.kind && sufferer(other) == sufferer(fault);
  });
  if (lasts && fault.kind != FaultKind::kDelay) return;
  const std::string host = sufferer(fault);
  const std::string controller = SimCluster::kController;
  SimNetwork& network = cluster_.network;
  switch (fault.kind) {
    case FaultKind::kPartition: return network.heal(host, controller);
    case FaultKind::kDelay:
      return network.set_speed(host, controller,
                               slower(network.speed(host, controller), 1 / fault.factor));
    case FaultKind::kHang:
      return fault.client ? cluster_.resume_client(host) : cluster_.resume(fault.host);
    case FaultKind::kSlow: return cluster_.slow_down(fault.host, 1);
    case FaultKind::kStopController: return cluster_.resume_controller();
    case FaultKind::kNoMemory: return cluster_.free_memory(fault.host);
    case FaultKind::kLoseFrames:
    case FaultKind::kRepeatFrames:
    case FaultKind::kSwapFrames:
    case FaultKind::kBreak:
    case FaultKind::kKill:
    case FaultKind::kVanish:
    case FaultKind::kBreakLink: return;
  }
}

}  // namespace gangway
