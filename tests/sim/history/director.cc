#include "tests/sim/history/director.h"

#include "runtime/base/units.h"
#include "tests/sim/sim_time.h"

namespace gangway::history {

void Director::direct() {
  while (!stage_.is_over()) {
    stage_.pass_up_to(rng_, 6 * kMillisecond);
    bring_hosts_back(false);
    if (losses_ > 0 && rng_.chance(0.4) && stage_.may_lose_a_host()) lose_a_host();
    if (restarts_ > 0 && rng_.chance(0.3) && stage_.may_lose_its_controller()) restart_controller();
  }
  bring_hosts_back(true);
}

void Director::note(const std::string& what) {
  events_.push_back(cat("at ", format_duration_ns(stage_.reactor.clock().now_ns()), ": ", what));
}

bool Director::is_gone(int host) const {
  const auto& executor = stage_.cluster.executors[static_cast<size_t>(host)];
  return executor == nullptr || executor->disconnected().ready();
}

void Director::lose_a_host() {
  const int host = static_cast<int>(rng_.below(static_cast<uint64_t>(stage_.drawn.hosts)));
  if (is_gone(host) || away_until_ns_.contains(host)) return;
  --losses_;
  // Often the host is back so soon that the program finds its devices again; otherwise the program
  // has to wait or to shrink.
  int64_t away_ns = static_cast<int64_t>(rng_.below((rng_.chance(0.5) ? 3 : 60) * kMillisecond));
  const std::string name = SimCluster::host_name(host);
  if (stage_.drawn.hosts_stand_still && rng_.chance(0.5)) {
    note(cat(name, " stands still"));
    stage_.cluster.stop(host);
    away_ns += host_timeout_ns_ + host_timeout_ns_ / 2;
  } else if (rng_.chance(0.3)) {
    note(cat(name, " loses its connections"));
    stage_.cluster.network.break_connections(name, SimCluster::kController);
  } else {
    note(cat(name, " is killed"));
    stage_.cluster.kill(host);
  }
  away_until_ns_[host] = stage_.reactor.clock().now_ns() + away_ns;
}

void Director::restart_controller() {
  --restarts_;
  note("the controller ends");
  stage_.history.controller_ended();
  stage_.cluster.end_controller();
  stage_.pass_up_to(rng_, 50 * kMillisecond);
  note("another controller starts");
  stage_.cluster.start_controller();
}

void Director::bring_hosts_back(bool all) {
  for (int host = 0; host < stage_.drawn.hosts; ++host) {
    const auto away = away_until_ns_.find(host);
    if (!all && away != away_until_ns_.end() && away->second > stage_.reactor.clock().now_ns())
      continue;
    if (away != away_until_ns_.end()) {
      stage_.cluster.resume(host);
      away_until_ns_.erase(away);
    }
    if (is_gone(host)) start(host);
  }
}

// Tries again for as long as the host's greeting is cut off.
void Director::start(int host) {
  while (true) {
    try {
      if (stage_.cluster.alive(host)) stage_.cluster.kill(host);
      stage_.cluster.start_again(host);
      note(cat(SimCluster::host_name(host), " is there again"));
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnavailable) throw;
    }
    pass(stage_.reactor, 2 * kMillisecond);
  }
}

}  // namespace gangway::history
